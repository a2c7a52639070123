"""Plugins that have nothing to do with killcheck are left out of the runs in these tests: half of what they take."""

import pytest


@pytest.fixture(autouse=True)
def without_others(pytester, monkeypatch):  # pytester clears what is set before it
    monkeypatch.setenv("PYTEST_ADDOPTS", "-p no:anyio -p no:hypothesispytest")
    monkeypatch.setenv("KILLCHECK_FIXTURE", "dead-man")  # what a test does not name otherwise
