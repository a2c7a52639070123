"""A real Docker Engine for these tests: the one that KILLCHECK_TEST_DOCKER names (``.ci/engine start`` makes one).

One test at a time has it, whatever the number of workers: what it runs is in every drill's scope.
"""

from __future__ import annotations

import os

import pytest
from docker_host import VARIABLE, Spec, engine


@pytest.fixture(scope="session")
def address() -> str:
    found = os.environ.get(VARIABLE, "")
    if not found:
        pytest.skip(f"no Docker Engine: start one with .ci/engine start FOLDER and name it in {VARIABLE}")
    return found


@pytest.fixture
def host(address):
    with engine(address) as made:
        yield made


@pytest.fixture(scope="module")
def kept_host(address):
    """The engine for a whole module whose tests leave it as they found it; none of them may ask for ``host``."""
    with engine(address) as made:
        yield made


@pytest.fixture
def path(tmp_path):
    """Writes a spec for ``--on docker:...``; deadlines that also a busy engine keeps."""
    return Spec(tmp_path)
