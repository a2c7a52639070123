"""The commands in the documentation, run: each ends with the exit code that is said, and prints what is said.

A ``console`` block is a shell session: lines that begin with ``$`` are run, in order, in one shell for the page; the
lines below one must be in what it prints, in that order. ``# exit N`` says that it fails.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
MARK = "@@killcheck-docs@@"
PAGES = [
    page
    for page in sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/*.md"), ROOT / "ci/README.md"])
    if "```console" in page.read_text(encoding="utf-8")
]


def steps(page):
    """(command, expected exit code, expected lines) of a page."""
    found = []
    for block in re.findall(r"^```console\n(.*?)^```", page.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE):
        for line in block.splitlines():
            if line.startswith("$ "):
                said = re.search(r"#\s*exit (\d+)$", line)
                found.append((line[2:], int(said[1]) if said else 0, []))
            elif line.strip():
                found[-1][2].append(line)
    return found


def in_order(expected, printed):
    """The first expected line that is not in what was printed after those before it; None: all are."""
    rest = " ".join(printed.split())
    for line in expected:
        _, found, rest = rest.partition(" ".join(line.split()))
        if not found:
            return line
    return None


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_the_page_can_be_followed(page, tmp_path):
    wanted = steps(page)
    if any("kubectl" in command for command, _, _ in wanted) and not shutil.which("kubectl"):
        pytest.skip("kubectl is not installed")
    script = "\n".join(f"{command}\nprintf '\\n{MARK} %s\\n' $?" for command, _, _ in wanted)
    environment = {
        **os.environ,
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        "COLUMNS": "160",
        "NO_COLOR": "1",
        "HOME": str(tmp_path),
        "CI": "1",
    }
    environment.pop("KUBECONFIG", None)
    done = subprocess.run(
        ["bash", "-c", script],
        check=False,
        cwd=tmp_path,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=240,
    )
    outputs = re.split(rf"\n{MARK} (\d+)\n", done.stdout)
    assert len(outputs) == 2 * len(wanted) + 1, done.stdout
    for (command, code, lines), printed, got in zip(wanted, outputs[0::2], outputs[1::2], strict=False):
        assert int(got) == code, f"$ {command}\n{printed}"
        missing = in_order(lines, printed)
        assert missing is None, f"$ {command}\nnot printed: {missing}\n{printed}"


def test_a_wrong_page_is_noticed():
    assert in_order(["a b", "d"], "x a  b c") == "d"
    assert in_order(["a b", "c"], "x a  b c") is None
