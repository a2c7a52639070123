"""``cluster``: a small embedded cluster, with a namespace that consented."""

from __future__ import annotations

import pytest
from safety_world import small_cluster


@pytest.fixture
def cluster():
    cluster = small_cluster()
    yield cluster
    cluster.close()
