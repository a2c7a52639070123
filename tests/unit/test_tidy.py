"""Style as a test: what reviewers would otherwise say again and again."""

from __future__ import annotations

import ast
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
CLOCKS = {"time", "sleep", "monotonic", "perf_counter"}


def test_no_two_test_modules_share_a_name():
    names = Counter(p.name for p in (ROOT / "tests").rglob("*.py") if p.name not in ("conftest.py", "__init__.py"))
    assert [name for name, count in names.items() if count > 1] == []


@pytest.mark.parametrize("path", PRODUCT, ids=lambda p: str(p.relative_to(ROOT)))
def test_only_the_clock_reads_a_clock_or_sleeps(path):
    if path.name == "clock.py" or path.name in INSIDE:
        return
    calls = [
        f"{path.name}:{node.lineno}"
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and isinstance(node.func.value, ast.Name)
        and node.func.value.id == "time"
        and node.func.attr in CLOCKS
    ]
    assert calls == []


def test_no_module_outgrows_its_name():
    long = {str(p.relative_to(ROOT)): n for p in PRODUCT if (n := p.read_text().count("\n")) > 600}
    assert long == {}
