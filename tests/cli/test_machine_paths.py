"""A kill path without any part in Kubernetes can be asked and fenced; what its folder schedules is told as not read."""

import pytest
from click.testing import CliRunner

from killcheck.cli import main

SPEC = """\
apiVersion: killcheck/v1
kind: KillPath
name: box
targets:
  - {name: a100-box, count: {argv: [./count.sh]}, start: {argv: [./start.sh]}, instanceType: a2-highgpu-1g}
layers:
  - {name: nightly, type: command, covers: [a100-box], command: {argv: [./nightly.sh]}, schedule: "30 22 * * *"}
consent: {contexts: [host]}
"""


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "killcheck.yaml").write_text(SPEC)
    return tmp_path


def killcheck(*words):
    return CliRunner().invoke(main, list(words))


def test_it_is_asked_about_although_there_is_no_manifest(folder):
    result = killcheck("lint", "killcheck.yaml")
    assert result.exit_code == 0, result.output
    assert "1 target(s), 1 layer(s)" in result.output


def test_a_timer_beside_it_that_may_start_the_machine_is_not_proven(folder):
    (folder / "refill.timer").write_text("[Timer]\nOnCalendar=*:0/15\n")
    (folder / "refill.service").write_text("[Service]\nExecStart=/bin/true\n")
    result = killcheck("lint", "killcheck.yaml")
    assert "Not proven" in result.output
    assert "refill.timer" in result.output


def test_its_fence_has_no_pool_and_is_not_refused(folder):
    (folder / "refill.timer").write_text("[Timer]\nOnCalendar=*:0/15\n")
    result = killcheck("fence", "killcheck.yaml")
    assert result.exit_code == 3, result.output
    assert "no ceiling is stated" in result.output
