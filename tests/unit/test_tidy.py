"""Style as a test: what reviewers would otherwise say again and again."""

from __future__ import annotations

import ast
import re
import subprocess
from collections import Counter
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PRODUCT = [p for room in ("killcheck", "probes", "suites", "fixtures") for p in (ROOT / room).rglob("*.py")]
#: What runs inside an executor's container, not in killcheck.
INSIDE = {
    "shim_agent.py",
    "shim_curl.py",
    "shim_kubectl.py",
    "shim_site.py",
    "spawner.py",
    "agent.py",
    "standin_curl.py",
}
#: Requests and answers of a real API server, of which the text would be some megabytes.
DRAWN = "drawn.json.xz"
#: What reads what killcheck wrote itself, or what came with it.
OWN_FILES = {"commands/cluster.py", "commands/demo.py", "commands/fence.py", "fleet/drilling.py"}
CLOCKS = {"time", "sleep", "monotonic", "perf_counter"}


def test_no_two_test_modules_share_a_name():
    names = Counter(p.name for p in (ROOT / "tests").rglob("*.py") if p.name not in ("conftest.py", "__init__.py"))
    assert [name for name, count in names.items() if count > 1] == []


def test_only_the_clock_reads_a_clock_or_sleeps():
    calls = [
        f"{path.relative_to(ROOT)}:{node.lineno}"
        for path in PRODUCT
        # What example paths run is no part of the product: their programs have the clocks that machines have.
        if "paths" not in path.parts
        and path.name != "clock.py"
        and path.name not in INSIDE
        and "time." in (text := path.read_text())
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and isinstance(node.func.value, ast.Name)
        and node.func.value.id == "time"
        and node.func.attr in CLOCKS
    ]
    assert calls == []


def test_what_somebody_named_is_not_waited_for_without_an_end():
    """A path may lead to a pipe that nobody writes to: ``text.files`` reads what is not killcheck's own."""
    read = {
        str(path.relative_to(ROOT / "killcheck"))
        for path in PRODUCT
        if path.is_relative_to(ROOT / "killcheck") and not {"embedded", "cluster", "machine"} & set(path.parts)
        for line in path.read_text().splitlines()
        if re.search(r"\.read_(text|bytes)\(", line) and not re.search("__file__|resources|/proc/", line)
    }
    assert read - {"text/files.py"} == OWN_FILES


def test_no_module_outgrows_its_name():
    long = {str(p.relative_to(ROOT)): n for p in PRODUCT if (n := p.read_text().count("\n")) > 600}
    assert long == {}


def test_nothing_is_tracked_that_nobody_can_read():
    """What a download left in the folder - a wheel, an image, a program - is easily committed with the rest."""
    if not (ROOT / ".git").exists():
        pytest.skip("no checkout of git")
    tracked = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, check=True, capture_output=True).stdout
    files = [ROOT / name for name in tracked.decode().split("\0") if name]
    assert len(files) > 1000
    assert [file.name for file in files if file.exists() and b"\0" in file.read_bytes()] == [DRAWN]


def test_no_merge_was_left_half_done():
    marks = ("<" * 7 + " ", ">" * 7 + " ")
    texts = [p for pattern in ("*.md", "*.toml", "Makefile") for p in ROOT.glob(pattern)]
    rooms = ("killcheck", "probes", "suites", "fixtures", "docs", "ci", "tests", "benchmarks")
    texts += [p for room in rooms for p in (ROOT / room).rglob("*") if p.suffix in {".md", ".py", ".yaml", ".yml"}]
    assert len(texts) > 500
    assert [
        f"{path.relative_to(ROOT)}:{number}"
        for path in texts
        if any(mark in (text := path.read_text(errors="replace")) for mark in marks)
        for number, line in enumerate(text.splitlines(), 1)
        if line.startswith(marks)
    ] == []


def test_tests_mirror_the_rooms():
    """A folder of tests is named after the room it is about, or says in tests/README.md what else it is."""
    rooms = {path.name for room in (ROOT / "killcheck", ROOT / "killcheck/embedded") for path in room.iterdir()}
    rooms |= {"probes", "suites", "fixtures", "embedded", "docs", "ci"}
    told = (ROOT / "tests/README.md").read_text()
    folders = [path for path in (ROOT / "tests").rglob("*") if path.is_dir() and any(path.glob("test_*.py"))]
    assert len(folders) > 20
    strangers = [path.name for path in folders if path.name not in rooms]
    assert [name for name in strangers if f"`{name}/`" not in told] == []


def test_commands_print_sentences_by_say_and_else_only_documents():
    """What others wrote has one way to a terminal, on which it is bounded and obeyed by nothing."""
    documents = ("json.dumps", "nl=False")
    others = []
    for path in (ROOT / "killcheck" / "commands").glob("*.py"):
        if path.name in ("saying.py", "files.py"):
            continue
        text = path.read_text()
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.Call) and ast.unparse(node.func) == "click.echo":
                said = ast.unparse(node)
                others += [] if any(word in said for word in documents) else [f"{path.name}: {said}"]
    assert others == []
