"""The page's own commands that measure, run as they are shown: against an embedded cluster in the place of a real one."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from wire_world import WireWorld

HERE = Path(__file__).parent


def run(tmp_path, *argv):
    argv = [sys.executable, HERE / argv[0], *argv[1:]]
    return subprocess.run(argv, cwd=tmp_path, check=False, capture_output=True, text=True, env={**os.environ})


@pytest.mark.weekly
def test_fresh_requests_are_drawn_played_and_counted(tmp_path):
    world = WireWorld(tmp_path, speed=1.0)
    try:
        done = run(
            tmp_path, "fresh.py", str(world.kubeconfig), *("--seed", "621", "--requests", "40", "--report", "d.md")
        )
    finally:
        world.close()
    found = re.search(r"\| all \| (\d+) \| (\d+) \| 0 \|", done.stdout)
    assert found, done.stdout + done.stderr
    assert found[1] == found[2] != "0"
    assert not (tmp_path / "d.md").read_text().strip(), "one and the same server"


@pytest.mark.weekly
def test_the_course_is_walked_with_the_kubectl_of_this_machine(tmp_path):
    if not shutil.which("kubectl"):
        pytest.skip("kubectl is not installed")
    done = run(tmp_path, "kubectl_course.py", shutil.which("kubectl"))
    found = re.search(r"(\d+) of (\d+) done", done.stdout)
    assert found, done.stdout + done.stderr
    assert int(found[2]) - int(found[1]) <= 1, done.stdout
