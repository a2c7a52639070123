"""Whose turn it is: of many drills those done longest ago, so that a few a night prove everything in turn."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

from killcheck.history.nights import Night

__all__ = ["Cell", "oldest"]

#: A layer and the faults that it is drilled under.
Cell = tuple[str, tuple[str, ...]]
_Key = tuple[str, frozenset[str]]
#: What did not prove itself the last time ages as much faster; everything has its turn all the same. An exposure that
#: the policy accepts is known: to see it again is no more urgent than a proof.
UNPROVEN_AGES = 2.0


def oldest(cells: Sequence[Cell], nights: Iterable[Night], *, now: float, count: int) -> list[int]:
    """The numbers of ``count`` cells whose last night is longest ago, in the order of the cells.

    A cell that was never drilled comes before all others. ``nights``: oldest first, of this kill path and cluster.
    Those that nobody known here has sealed only say whose turn it is among cells that were never drilled else.
    """
    told = list(nights)
    sealed = _last(night for night in told if night.sealed)
    others = _last(night for night in told if not night.sealed and night.at <= now)

    def age(number: int, last: dict[_Key, Night]) -> float:
        layer, faults = cells[number]
        night = last.get((layer, frozenset(faults)))
        if night is None:
            return math.inf
        settled = night.proven or (night.standing == "accepted" and not night.dirty)
        return max(0.0, now - night.at) * (1.0 if settled else UNPROVEN_AGES)

    by_age = sorted(range(len(cells)), key=lambda number: (-age(number, sealed), -age(number, others), number))
    return sorted(by_age[:count])


def _last(nights: Iterable[Night]) -> dict[_Key, Night]:
    return {(night.layer, frozenset(night.faults)): night for night in nights}
