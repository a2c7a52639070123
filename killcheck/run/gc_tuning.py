"""How often Python looks for cyclic garbage in killcheck's own processes: seldom.

What a drill makes is mostly objects that live as long as it does, and reference counts free the rest: with Python's
own thresholds a tenth of a night's processor time goes into looking for cycles that are not there. Only for processes
that are killcheck's own (the command, its workers): as a library or a plugin it leaves the host's thresholds alone.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager

__all__ = ["collect_seldom", "uncollected"]

#: Containers made since the last look at the youngest generation (700 by default; starting makes 120,000), and looks
#: between older ones.
THRESHOLDS = (500_000, 20, 20)


def collect_seldom() -> None:
    """For the rest of this process' life."""
    gc.set_threshold(*THRESHOLDS)


@contextmanager
def uncollected() -> Iterator[None]:
    """Look for no cycles inside the block: what reading a folder makes is kept, all of it, and is no rubbish."""
    was = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was:
            gc.freeze()  # what was read is no rubbish later either
            gc.enable()
