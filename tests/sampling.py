"""Long tables of drills, and long stories that others tell too: an ordinary run takes a part, always the same one.

``@pytest.mark.one_in(N)`` takes every N-th row of a test's table, from the first one on; ``@pytest.mark.weekly`` takes
none. ``KILLCHECK_WHOLE=yes`` takes all (``make exhaustive``), and so does whoever names a test (``file::test``).
"""

from __future__ import annotations

import os
from collections import Counter

import pytest


def thin(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Take out of the items what this run leaves out, and count it as deselected."""
    if os.environ.get("KILLCHECK_WHOLE") or any("::" in named for named in config.args):
        return
    seen: Counter[str] = Counter()
    left_out = [item for item in items if _left_out(item, seen)]
    if left_out:
        config.hook.pytest_deselected(items=left_out)
        gone = set(left_out)
        items[:] = [item for item in items if item not in gone]


def _left_out(item: pytest.Item, seen: Counter[str]) -> bool:
    if item.get_closest_marker("weekly"):
        return True
    sampled = item.get_closest_marker("one_in")
    if sampled is None:
        return False
    test = item.nodeid.partition("[")[0]
    seen[test] += 1
    return bool((seen[test] - 1) % sampled.args[0])
