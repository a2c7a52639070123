"""The pytest plugin as a team meets it: options, ids, failures, summaries, JUnit, xdist, Allure, and staying away."""

from __future__ import annotations

import json
import shutil
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest
from killcheck.fixtures import path

from killcheck.pytest.drills import session_for

pytest_plugins = ["pytester"]

DRILL = """
def test_it(drill, timeline):
    result = drill("nightly-off", under={under!r}{more})
    assert {claim}, f"the GPUs must go off: {{result.verdict}}"
    assert timeline()
"""


@pytest.fixture
def team(pytester):
    """A team's own test file."""

    def write(claim="result.replicas_zero_within('5m')", under=(), more=""):
        pytester.makepyfile(test_off=DRILL.format(claim=claim, under=list(under), more=more))
        return pytester

    return write


def test_a_teams_own_test_passes_and_the_summary_tells_the_drill(team):
    done = team().runpytest_subprocess()
    done.assert_outcomes(passed=1)
    done.stdout.fnmatch_lines(
        ["*= killcheck =*", "under *nightly-off", "(undisturbed) *survived  zero *, drained *, $*"]
    )


def test_a_failure_shows_diagnosis_and_timeline_and_no_traceback(team):
    done = team(under=["image-gone"]).runpytest_subprocess("--junitxml=junit.xml")
    done.assert_outcomes(failed=1)
    done.stdout.fnmatch_lines(
        [
            "*the GPUs must go off: exposed*",
            "*stuck before image pulled*",
            "*cause:*not found*",
            "*remedy:*",
            "*pods gone*never (deadline 5 min)*",
        ]
    )
    done.stdout.no_fnmatch_line("*Traceback*")
    done.stdout.no_fnmatch_line("*def test_it*")
    done.stdout.fnmatch_lines(["*= killcheck =*", "image-gone *accepted  $*"])
    case = ET.parse("junit.xml").find(".//failure")
    assert case is not None
    assert "not found" in (case.text or "")


@pytest.mark.parametrize(
    ("call", "says"),
    [
        ('drill("nightly-of")', "the spec has no layer 'nightly-of'; did you mean nightly-off?"),
        ('drill("nightly-off", under="image-goen")', "no fault is called image-goen; did you mean image-gone?*"),
        ('drill("nightly-off", under=["suspended", "suspended"])', "suspended is named twice"),
        (
            'assert drill("nightly-off", under="suspended").replicas_zero_within("5m")',
            "nightly-off under suspended: exposed, not replicas_zero_within('5m')",
        ),
    ],
)
def test_what_is_wrong_is_one_sentence_and_no_traceback(pytester, call, says):
    pytester.makepyfile(f"def test_it(drill):\n    {call}\n")
    done = pytester.runpytest_subprocess()
    done.assert_outcomes(failed=1)
    done.stdout.fnmatch_lines([says])
    done.stdout.no_fnmatch_line("*Traceback*")
    done.stdout.no_fnmatch_line(">*drill(*")


@pytest.mark.parametrize(("allowed", "outcome"), [((), "failed"), (("--killcheck-allow-inconclusive",), "skipped")])
def test_what_is_not_run_proves_nothing(team, allowed, outcome):
    done = team().runpytest_subprocess("--killcheck-exec=none", "-rs", *allowed)
    done.assert_outcomes(**{outcome: 1})
    done.stdout.fnmatch_lines(["*inconclusive: *"])


def test_the_suites_have_readable_ids(pytester):
    done = pytester.runpytest_subprocess(
        "--pyargs",
        "killcheck.suites",
        "--collect-only",
        "-q",
        "--killcheck-under=image-gone,suspended,machine-off,dns-denied+suspended",
    )
    done.stdout.fnmatch_lines(
        [
            "*test_install.py::test_layer_turns_the_gpus_off?nightly-off]",
            "*test_staging.py::test_gpus_go_off?nightly-off under image-gone]",
            "*test_staging.py::test_gpus_go_off?nightly-off under suspended]",
            "*test_staging.py::test_gpus_go_off?nightly-off under dns-denied+suspended]",
            "*test_staging.py::test_gpus_go_off?nightly-off under machine-off]",
        ]
    )  # says that it means nothing there


def test_settings_come_from_options_then_environment_then_ini(pytester, monkeypatch):
    pytester.makeini("[pytest]\nkillcheck_fixture = scale-to-zero\n")
    pytester.makepyfile("def test_it(kill_path): assert kill_path.name == 'two-switches'")
    monkeypatch.setenv("KILLCHECK_FIXTURE", "two-switches")
    pytester.runpytest_subprocess().assert_outcomes(passed=1)
    pytester.runpytest_subprocess("--killcheck-fixture=dead-man").assert_outcomes(failed=1)
    monkeypatch.delenv("KILLCHECK_FIXTURE")
    done = pytester.runpytest_subprocess()
    done.stdout.fnmatch_lines(["*scale-to-zero*"])


def test_under_xdist_every_worker_has_its_own_cluster(pytester):
    pytester.makepyfile("""
        import pytest

        @pytest.mark.parametrize("number", range(3))
        def test_it(drill, number):
            assert drill("nightly-off").proven
    """)
    pytester.runpytest_subprocess("-n", "2").assert_outcomes(passed=3)


def test_allure_has_steps_and_attachments(team):
    pytester = team()
    pytester.runpytest_subprocess("--alluredir=allure").assert_outcomes(passed=1)
    (found,) = [json.loads(path.read_text()) for path in (pytester.path / "allure").glob("*-result.json")]
    assert any(step["name"].startswith("GPU pods gone: ") for step in found["steps"])
    kept = {one["name"]: (pytester.path / "allure" / one["source"]).read_text() for one in found["attachments"]}
    assert "GPU pods gone" in kept["nightly-off: timeline"]
    assert json.loads(kept["nightly-off: result"])["verdict"] == "survived"
    assert "SuccessfulCreate" in kept["nightly-off: events"]
    assert "kind: CronJob" in kept["nightly-off: manifest"]
    assert any(
        name.startswith("nightly-off: log of inference/") or name.startswith("nightly-off: log of gpu-nightly")
        for name in kept
    )
    assert "kill_path=dead-man\n" in (pytester.path / "allure" / "environment.properties").read_text()
    assert json.loads((pytester.path / "allure" / "categories.json").read_text())


def suites(pytester, *argv):
    return pytester.runpytest_subprocess("--pyargs", "killcheck.suites", *argv)


@pytest.mark.parametrize(
    ("chosen", "tests"),
    [
        (["--killcheck-suite=install"], 2),
        (["--killcheck-suite=staging"], 3),
        (["--killcheck-suite=release"], 6),
        (["-m", "killcheck(suite='release')"], 3),
    ],
)
def test_each_suite_holds_those_before_it(pytester, chosen, tests):
    done = suites(pytester, *chosen, "--killcheck-under=suspended", "--collect-only", "-q")
    assert len([line for line in done.outlines if "::" in line]) == tests


def test_release_asserts_fences_and_findings(pytester, tmp_path):
    shutil.copytree(path("dead-man"), tmp_path / "deploy")
    spec = tmp_path / "deploy" / "killcheck.yaml"
    spec.write_text(spec.read_text().replace("maxDevicesPerNode: 8", "maxDevicesPerNode: 4"))
    done = suites(pytester, f"--killcheck-spec={spec}", f"--killcheck-manifests={tmp_path / 'deploy'}", "-k", "release")
    done.assert_outcomes(passed=1, failed=2)
    done.stdout.fnmatch_lines(
        ["*NodePool/gpu is exposed: worst is g6e.48xlarge*", "*door: NodePool/gpu can launch*", "*remedy: *"]
    )
    done.stdout.no_fnmatch_line("*Traceback*")


@pytest.mark.parametrize(
    ("argv", "says"),
    [
        (("--killcheck-layer=nightly",), "*the spec has no layer 'nightly'*did you mean nightly-off?*"),
        (("--killcheck-under=image-goen",), "*no fault is called image-goen; did you mean image-gone?*"),
        (("--killcheck-spec=absent.yaml",), "*absent.yaml: no such file or directory*"),
        (("--killcheck-suite=night",), "*--killcheck-suite is install, staging, release, not 'night'*"),
    ],
)
@pytest.mark.one_in(2)
def test_bad_settings_are_one_sentence(pytester, argv, says):
    done = suites(pytester, *argv)
    assert done.ret != 0
    lines = done.outlines + done.errlines
    pytest.LineMatcher(lines).fnmatch_lines([says])
    pytest.LineMatcher(lines).no_fnmatch_line("*Traceback*")


def test_without_the_plugin_pytest_is_as_it_was(pytester, own_process):
    pytester.makepyfile("def test_it(): pass")
    # By its fixtures' names and its own file: "killcheck" alone may be a folder above.
    done = pytester.runpytest_subprocess("--fixtures", "-q")
    done.stdout.re_match_lines([r"drill\b.* -- .*killcheck/pytest/plugin\.py:\d+"])
    done = pytester.runpytest_subprocess("-p", "no:killcheck", "--fixtures", "-q")
    done.stdout.no_re_match_line(r"drill\b.*")
    done.stdout.no_fnmatch_line("*killcheck/pytest/plugin.py*")
    done = pytester.runpytest_subprocess("-p", "no:killcheck", "--help")
    done.stdout.no_fnmatch_line("*--killcheck*")


def test_having_it_installed_imports_nothing_of_it(pytester, monkeypatch, own_process):
    monkeypatch.delenv("KILLCHECK_FIXTURE")  # an unrelated project: nothing is named
    pytester.makepyfile("""
        import sys

        def test_it():
            heavy = {"killcheck.drill.sequence", "killcheck.run.session", "killcheck.embedded", "kubernetes", "rich", "yaml"}
            assert "killcheck.pytest.plugin" in sys.modules
            assert not heavy & set(sys.modules)
    """)
    pytester.runpytest_subprocess().assert_outcomes(passed=1)


def test_manifests_are_read_as_options_or_the_ini_file_say(pytester):
    pytester.makeini("[pytest]\nkillcheck_exclude =\n    drafts/\n    *.bak.yaml\nkillcheck_set = a=1\n")
    (pytester.path / "deploy").mkdir()
    said = session_for(pytester.parseconfig("--killcheck-manifests=deploy", "--killcheck-values=v.yaml"))
    assert (said.exclude, said.sets) == (["drafts/", "*.bak.yaml"], ["a=1"])
    assert (said.manifests, said.values, said.strict) == ([Path("deploy")], [Path("v.yaml")], False)
    other = session_for(pytester.parseconfig("--killcheck-exclude=x", "--killcheck-set=b=2", "--killcheck-strict"))
    assert (other.exclude, other.sets, other.strict) == (["x"], ["b=2"], True)
