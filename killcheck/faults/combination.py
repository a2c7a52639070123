"""Several faults at once: in which order they are injected, and which cannot be there together.

Healing needs no order of its own: the journal takes back the newest change first.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import combinations

from killcheck.faults.base import Fault, FaultError, Plan

__all__ = ["Clash", "apart", "in_order", "refuse_clashes"]


class Clash(FaultError):
    """Two faults set the same field: they cannot be there together."""


def apart(words: Sequence[str]) -> tuple[str, ...]:
    """The names in ``a``, ``b+c``, in the order in which they were said. Raises ValueError for one that is said twice.

    Whether there are such faults is another question.
    """
    names = [name.strip() for word in words for name in word.split("+")]
    if not all(names):
        raise ValueError(f"{' '.join(words)}: the name of a fault is missing beside a +")
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise ValueError(f"{', '.join(twice)} is named twice")
    return tuple(names)


def in_order(faults: Sequence[Fault]) -> list[Fault]:
    """By rank, those of one rank as they were named."""
    return sorted(faults, key=lambda fault: fault.rank)


def refuse_clashes(plans: Mapping[str, Plan]) -> None:
    """Raise Clash where two faults set the same field: what is seen then says nothing of either.

    ``plans``: by the faults' names.
    """
    clashes = [
        f"{one} and {other} both set {max(mine, theirs, key=len)}"
        for (one, first), (other, second) in combinations(plans.items(), 2)
        for mine in first.edits
        for theirs in second.edits
        if _overlap(mine, theirs)
    ]
    if clashes:
        raise Clash("these faults cannot be there together: " + "; ".join(dict.fromkeys(clashes)))


def _overlap(one: str, other: str) -> bool:
    return one == other or one.startswith(f"{other}.") or other.startswith(f"{one}.")
