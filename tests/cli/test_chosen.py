"""Which kill path a command is about: the spec that lies here or above, never an example that nobody named."""

import os
from pathlib import Path

import pytest
from click.testing import CliRunner

from killcheck import fixtures
from killcheck.cli import main
from killcheck.run import chosen
from killcheck.run.session import SessionError

#: Commands that judge a kill path, as quick as they can be made.
JUDGING = [
    ("lint",),
    ("fence",),
    ("drill", "--dry-run"),
    ("gate", "--skip", "drills"),
    ("explore", "--under", "image-gone", "--max-faults", "1", "-q"),
]

SPEC = """\
apiVersion: killcheck/v1
kind: KillPath
name: render-farm
targets:
  - {name: render, kind: Deployment, namespace: studio, object: render}
layers:
  - {name: evening, type: dead-man, covers: [render], cronJob: {namespace: studio, name: evening-off}}
consent: {namespaces: [studio]}
"""


@pytest.fixture
def killcheck(tmp_path, monkeypatch):
    """Run a command in ``tmp_path/below``; the folder above it may have a spec."""
    (tmp_path / "below").mkdir()
    monkeypatch.chdir(tmp_path / "below")
    return lambda *argv: CliRunner().invoke(main, list(argv))


@pytest.mark.parametrize("argv", JUDGING, ids=" ".join)
def test_without_a_kill_path_a_command_says_so_and_how_to_go_on(killcheck, argv):
    done = killcheck(*argv)
    assert (done.exit_code, done.stdout) == (2, "")
    assert "there is no killcheck.yaml here or above" in done.stderr
    for way in ("killcheck init", "--manifests", "killcheck demo"):
        assert way in done.stderr


@pytest.mark.parametrize("argv", JUDGING, ids=" ".join)
def test_a_spec_of_ones_own_is_what_is_judged(killcheck, argv, tmp_path):
    """It has no manifests beside it: nothing is judged rather than somebody else's."""
    (tmp_path / "below" / "killcheck.yaml").write_text(SPEC)
    done = killcheck(*argv)
    assert done.exit_code == 2
    assert done.output.splitlines()[0].startswith(
        "killcheck: render-farm: killcheck.yaml, on embedded (Kubernetes v1.36.2); policy: "
    )
    assert "the example" not in done.output


def test_the_nearest_spec_above_is_taken_with_the_manifests_beside_it(killcheck, tmp_path):
    (tmp_path / "killcheck.yaml").write_text(fixtures.spec("dead-man").read_text())
    (tmp_path / "deploy").mkdir()
    for file in fixtures.path("dead-man").glob("*.yaml"):
        if file.name != "killcheck.yaml":
            (tmp_path / "deploy" / file.name).write_text(file.read_text())
    done = killcheck("drill", "--exec", "host", "--no-color")
    assert done.exit_code == 0, done.output
    assert done.stdout.splitlines()[0].startswith(
        "killcheck: dead-man: ../killcheck.yaml, on embedded (Kubernetes v1.36.2); policy: "
    )


def test_manifests_that_are_named_go_before_a_spec_that_lies_here(killcheck, tmp_path):
    (tmp_path / "below" / "killcheck.yaml").write_text(SPEC)
    done = killcheck("lint", "--manifests", str(fixtures.path("dead-man")))
    assert "render" not in done.output.splitlines()[0]
    assert done.output.splitlines()[0].endswith("dead-man, no spec (Kubernetes v1.36.2)")


@pytest.mark.parametrize(
    ("argv", "says"),
    [
        (("--example", "dead-men"), "no reference kill path is named 'dead-men'"),
        (("--example", "dead-man", "--manifests", "."), "is a kill path by itself"),
        (("--example", "dead-man", "--on", "staging"), "--on staging needs a spec"),
        (("--on", "staging", "--manifests", "."), "--on and --manifests are two places: name one"),
    ],
)
def test_an_example_is_named_alone_and_by_a_name_that_there_is(killcheck, argv, says):
    done = killcheck("drill", *argv)
    assert done.exit_code == 2
    assert says in done.stderr


def test_a_spec_above_that_is_another_users_is_not_taken(tmp_path, monkeypatch):
    (tmp_path / "killcheck.yaml").write_text(SPEC)
    (tmp_path / "below").mkdir()
    asked = Path.stat

    def of_another(self, **how):
        found = asked(self, **how)
        return os.stat_result((*found[:4], os.getuid() + 4711, *found[5:10]))

    monkeypatch.setattr(Path, "stat", of_another)
    with pytest.raises(SessionError, match="belongs to another user"):
        chosen.find_spec(tmp_path / "below")


def test_a_copy_of_an_example_is_that_example_until_a_byte_differs(tmp_path):
    copy = tmp_path / "dead-man"
    copy.mkdir()
    for file in fixtures.path("dead-man").iterdir():
        (copy / file.name).write_bytes(file.read_bytes())
    assert fixtures.copied(copy / "killcheck.yaml") == "dead-man"
    with (copy / "gpu-nightly-off.yaml").open("a") as file:
        file.write("# ours\n")
    assert fixtures.copied(copy / "killcheck.yaml") == ""


@pytest.mark.parametrize("argv", JUDGING, ids=" ".join)
def test_the_folder_of_a_spec_names_that_spec(killcheck, argv, tmp_path):
    (tmp_path / "below/deploy").mkdir()
    (tmp_path / "below/deploy/killcheck.yaml").write_text(SPEC)
    first = killcheck(argv[0], "deploy", *argv[1:]).output.splitlines()[0]
    assert first.startswith("killcheck: render-farm: deploy/killcheck.yaml, on embedded")
