"""The action at the top: its gate step run as a runner runs it, on kill paths that work and that do not."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from killcheck import fixtures

ROOT = Path(__file__).resolve().parents[2]
ACTION = yaml.safe_load((ROOT / "action.yml").read_text())
[GATE] = [step for step in ACTION["runs"]["steps"] if step.get("id") == "gate"]


def ran(folder, **inputs):
    """The gate step's exit code, and what it says to the steps that follow."""
    output = folder / "output"
    done = subprocess.run(
        ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", GATE["run"]],
        check=False,
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=300,
        env={
            "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
            "HOME": str(folder),
            "LANG": "C.UTF-8",
            "RUNNER_TEMP": str(folder),
            "GITHUB_OUTPUT": str(output),
            "GITHUB_STEP_SUMMARY": str(folder / "summary"),
            **{name.upper(): inputs.get(name, ACTION["inputs"][name]["default"]) for name in ("spec", "exec", "args")},
            "MANIFESTS": inputs["manifests"],
        },
    )
    said = dict(line.split("=", 1) for line in output.read_text().splitlines())
    assert said["exit-code"] == str(done.returncode), done.stdout + done.stderr
    return done, said


def test_every_input_reaches_the_gate_by_the_environment_alone():
    assert set(GATE["env"]) == {"SPEC", "MANIFESTS", "EXEC", "ARGS"}
    for step in ACTION["runs"]["steps"]:
        assert "${{" not in step.get("run", "")


@pytest.mark.parametrize(("name", "code"), [("dead-man", 0), ("missing", 2)])
def test_the_gate_ends_with_the_documented_code_and_leaves_its_reports(tmp_path, name, code):
    if name == "dead-man":
        shutil.copytree(fixtures.path(name), tmp_path / "deploy dir")
    pasted = yaml.safe_load(re.search(r"(?m)^# +(with: .*)", (ROOT / "action.yml").read_text())[1])["with"]
    done, said = ran(tmp_path, **pasted | {"manifests": "deploy dir\n"}, exec="none" if code else "auto")
    assert done.returncode == code, done.stdout + done.stderr
    if code == 0:
        assert Path(said["html"]).read_text().startswith("<!doctype html>")
        assert (tmp_path / said["record"]).is_file()
        assert "survived" in (tmp_path / "summary").read_text()
