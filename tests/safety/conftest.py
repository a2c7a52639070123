"""``cluster``: a small embedded cluster, with a namespace that consented."""

from __future__ import annotations

import pytest
from safety_world import forget_finished, small_cluster


@pytest.fixture(autouse=True)
def _no_run_has_come_to_its_end():
    """Tests call their runs by the same names; of no real run there are two."""
    forget_finished()


@pytest.fixture
def cluster():
    cluster = small_cluster()
    yield cluster
    cluster.close()
