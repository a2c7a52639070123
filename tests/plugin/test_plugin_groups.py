"""xdist's ``--dist loadgroup``: tests that drill one target on a cluster that is somebody's run on one worker."""

from __future__ import annotations

import xml.etree.ElementTree as ET

import pytest
from killcheck.fixtures import spec

from killcheck.pytest.groups import groups_of
from killcheck.spec import specfile

pytest_plugins = ["pytester"]

SPEC = """\
apiVersion: killcheck/v1
kind: KillPath
name: two-boxes
targets:
  - {name: left, count: {argv: [cat, left]}}
  - {name: right, count: {argv: [cat, right]}}
layers:
  - {name: stop-left, type: command, covers: [left], command: {argv: [./left.sh]}}
  - {name: stop-right, type: command, covers: [right], command: {argv: [./right.sh]}}
  - {name: late-right, type: command, covers: [right], command: {argv: [./late.sh]}}
proof: [P3]
consent: {contexts: [host]}
"""
TESTS = """
    import pytest

    @pytest.fixture(autouse=True)
    def seen(record_property, worker_id):
        record_property("worker", worker_id)

    @pytest.mark.parametrize("number", range(6))
    def test_left(drill, number):
        layer = "stop-left"
        assert drill is not None

    @pytest.mark.parametrize("layer", ["stop-right", "late-right"] * 3)
    def test_right(drill, layer):
        assert drill is not None

    def test_whatever_is_asked(drill):
        assert drill is not None

    @pytest.mark.xdist_group("mine")
    def test_their_own(drill):
        layer = "stop-left"

    @pytest.mark.parametrize("number", range(3))
    def test_that_drills_nothing(number):
        pass
"""


def run(pytester, *argv):
    """(the tests' ids, the workers of each test function)."""
    pytester.makefile(".yaml", killcheck=SPEC)
    pytester.makepyfile(TESTS)
    done = pytester.runpytest_subprocess(
        "-n", "2", "--killcheck-spec=killcheck.yaml", "--junitxml=junit.xml", "-v", *argv
    )
    done.assert_outcomes(passed=17)
    workers: dict[str, set] = {}
    for case in ET.parse("junit.xml").iter("testcase"):
        worker = case.find(".//property[@name='worker']")
        workers.setdefault(str(case.get("name")).partition("[")[0].partition("@")[0], set()).add(worker.get("value"))
    return "\n".join(done.outlines), workers


def test_a_targets_drills_keep_together_on_a_cluster_that_is_somebodys(pytester):
    ids, workers = run(pytester, "--dist", "loadgroup", "--killcheck-on=host")
    assert len(workers["test_left"]) == 1
    assert len(workers["test_right"]) == 1
    assert "test_left[3]@killcheck-left" in ids
    assert "@killcheck-right" in ids
    assert "test_whatever_is_asked@killcheck " in ids
    assert "test_their_own@mine" in ids
    assert "test_that_drills_nothing[0] " in ids


@pytest.mark.parametrize("argv", [("--dist", "loadgroup"), ("--killcheck-on=host",)])
@pytest.mark.one_in(2)
def test_elsewhere_nothing_is_kept_together(pytester, argv):
    """Each worker has an embedded cluster of its own; and only loadgroup knows groups."""
    ids, _ = run(pytester, *argv)
    assert "@killcheck" not in ids


def test_layers_that_share_a_target_however_far_round_are_one_group():
    path = specfile.loads(SPEC.replace("covers: [left]", "covers: [left, right]"))
    assert set(groups_of(path).values()) == {"killcheck-left"}
    apart = groups_of(specfile.loads(SPEC))
    assert apart["stop-right"] == apart["late-right"] == "killcheck-right"
    assert apart["stop-left"] == "killcheck-left"
    assert len(set(groups_of(specfile.load(spec("dead-man"))).values())) == 1
