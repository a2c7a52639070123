"""The first hour of somebody who has cloned killcheck: the README's first command, on a machine that has little."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from poor_machine import HIDDEN, poorer

ROOT = Path(__file__).resolve().parents[2]
#: What pip would have put there, so that `make` finds the environment made: nothing is downloaded in a test.
COMMAND = """#!{python}
import sys
sys.path.insert(0, {package!r})
from killcheck.cli import run
run()
"""


@pytest.fixture
def clone(tmp_path):
    """What a clone holds, in a folder called killcheck."""
    home = tmp_path / "killcheck"
    asked = ["git", "ls-files", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.run(asked, cwd=ROOT, check=True, capture_output=True, text=True).stdout.splitlines()
    for name in listed:
        if not name.startswith(("tests/", "benchmarks/")) and (ROOT / name).is_file():
            (home / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, home / name)
    package = home / "build/whole/killcheck"
    package.mkdir(parents=True)
    for part in [*(home / "killcheck").iterdir(), *(home / name for name in ("probes", "suites", "fixtures"))]:
        (package / part.name).symlink_to(part)
    bin_ = home / ".venv/bin"
    bin_.mkdir(parents=True)
    (bin_ / "killcheck").write_text(COMMAND.format(python=sys.executable, package=str(package.parent)))
    (bin_ / "killcheck").chmod(0o755)
    (home / ".venv/.installed").touch()
    return home


def test_make_drill_needs_neither_curl_nor_kubectl_nor_docker_nor_root(clone):
    machine = poorer()
    if machine is None:
        pytest.skip("this machine lets nobody make a namespace in which its programs are hidden")
    script = f'test "$(id -u)" != 0 || exit 90; for p in {" ".join(HIDDEN)}; do ! "$p" --version || exit 91; done; make drill'
    outer = {key: value for key, value in os.environ.items() if not key.startswith("MAKE")}  # CI is a make's child
    environment = {**outer, "HOME": str(clone.parent), "CI": "1", "NO_COLOR": "1"}
    done = subprocess.run(
        [*machine, "sh", "-c", script], cwd=clone, env=environment, check=False, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "All four nights ended as they must: one proven, three exposed and explained." in done.stdout
    assert "this machine has no curl: killcheck's own stand-in" in done.stdout
    table = re.findall(r"^    (?:night|the) .*$", (ROOT / "README.md").read_text("utf-8"), re.MULTILINE)
    printed = " ".join(done.stdout.split())
    assert [line for line in table if " ".join(line.split()) not in printed] == []
    assert len(table) == 5
    assert done.stdout.splitlines()[-1].startswith("next: killcheck drill --manifests FOLDER --exec host ")
    [report] = (clone / ".killcheck/runs").glob("*/report.html")
    assert f"HTML report: {report.relative_to(clone)}" in done.stdout
    assert (clone / ".killcheck/.gitignore").exists()
