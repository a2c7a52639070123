"""Plugins that have nothing to do with killcheck are left out of the runs in these tests: half of what they take.

Each run is forked from a process that has imported everything, unless a test asks for ``own_process``.
"""

import forked
import pytest


@pytest.fixture(autouse=True)
def without_others(pytester, monkeypatch):  # pytester clears what is set before it
    monkeypatch.setenv("PYTEST_ADDOPTS", "-p no:anyio -p no:hypothesispytest")
    monkeypatch.setenv("KILLCHECK_FIXTURE", "dead-man")  # what a test does not name otherwise


@pytest.fixture
def own_process():
    """For a test of what pytest imports, or warns of at an import."""


@pytest.fixture(autouse=True)
def at_once(request, monkeypatch):
    """``runpytest_subprocess`` without the start of a Python."""

    def run(pytester, *argv):
        base = pytester.path / f"runpytest-{len(list(pytester.path.glob('runpytest-*')))}"
        done = forked.pytest(pytester.path, f"--basetemp={base}", *map(str, argv))
        print(done.stdout, done.stderr)
        return pytest.RunResult(done.returncode, done.stdout.splitlines(), done.stderr.splitlines(), 0.0)

    if "own_process" not in request.fixturenames:
        monkeypatch.setattr(pytest.Pytester, "runpytest_subprocess", run)
