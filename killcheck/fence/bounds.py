"""How much a pool can grow to within its limits: the most devices, or dollars an hour, that its nodes can add up to.

An exact answer is a knapsack over every type; what is given here is what surely can be reached, and what surely cannot
be exceeded. They are mostly the same.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Literal

from msgspec import Struct

from killcheck.instances.catalogue import InstanceType
from killcheck.instances.launchable import Launchable, Ranking

__all__ = ["Bound", "Measure", "most", "value"]

Measure = Literal["devices", "usd"]

#: Types looked at for each limited resource, the best first; how many of the counts of each, the largest first; and the
#: steps of the search before the bound is taken as it is.
CANDIDATES = 6
COUNTS = 4
STEPS = 250


class Bound(Struct, frozen=True):
    """``reached`` can be launched; more than ``ceiling`` cannot. Infinite: nothing bounds it."""

    reached: float
    ceiling: float


def value(one: InstanceType, measure: Measure) -> float:
    """What one node of a type counts."""
    return float(one.devices) if measure == "devices" else one.usd_per_hour or 0.0


def _held(one: InstanceType, resource: str) -> float:
    return 1.0 if resource == "nodes" else float(one.capacity.get(resource, 0))


def most(types: Launchable, mask: int, limits: Mapping[str, float], measure: Measure) -> Bound:
    """The most of ``measure`` that types of ``mask`` can add up to within ``limits``."""
    key = (mask, tuple(limits.items()), measure)
    return types.kept(key, lambda: _most(types, mask, limits, measure))


def _most(types: Launchable, mask: int, limits: Mapping[str, float], measure: Measure) -> Bound:
    largest = types.first(mask, measure)
    if largest is None or not value(largest, measure):
        return Bound(0.0, 0.0)
    ceiling, found = math.inf, {largest.name: largest}
    for resource, limit in limits.items():
        ranking, rates = _rated(types, resource, measure)
        ceiling = min(ceiling, limit * rates[ranking.position(mask)])
        found |= {one.name: one for one in ranking.top(mask, CANDIDATES)}
    if math.isinf(ceiling):
        return Bound(math.inf, math.inf)
    items = sorted(found.values(), key=lambda one: (-value(one, measure), one.name))
    reached, complete = _search(items, limits, measure)
    if complete and len(items) == mask.bit_count():
        ceiling = min(ceiling, reached)
    if measure == "devices":
        ceiling = math.floor(ceiling + 1e-9)
    return Bound(reached, max(ceiling, reached))


def _rated(types: Launchable, resource: str, measure: Measure) -> tuple[Ranking, list[float]]:
    """Types of value by their rate for a resource (infinite: they take none of it), best first; kept on the index."""
    key = f"{measure} for {resource}"
    if key not in types.rates:
        rated = []
        for one in types.types:
            worth, held = value(one, measure), _held(one, resource)
            if worth > 0:
                rated.append((worth / held if held else math.inf, one))
        rated.sort(key=lambda entry: (-entry[0], entry[1].name))
        types.rates[key] = types.ranking(one for _, one in rated), [rate for rate, _ in rated]
    return types.rates[key]


def _search(items: list[InstanceType], limits: Mapping[str, float], measure: Measure) -> tuple[float, bool]:
    """(the best sum found, whether every combination of ``items`` was ruled in or out)."""
    names = list(limits)
    needs = [[_held(one, name) for name in names] for one in items]
    worth = [value(one, measure) for one in items]
    rates = [
        [
            max((worth[j] / needs[j][k] if needs[j][k] else math.inf for j in range(i, len(items))), default=0.0)
            for k in range(len(names))
        ]
        for i in range(len(items) + 1)
    ]
    best, steps, complete = 0.0, 0, True
    stack = [(0, [limits[name] for name in names], 0.0)]
    while stack:
        index, left, so_far = stack.pop()
        best = max(best, so_far)
        steps += 1
        if steps > STEPS:
            return best, False
        if index == len(items):
            continue
        finite = [left[k] * rate for k, rate in enumerate(rates[index]) if not math.isinf(rate)]
        if so_far + min(finite, default=math.inf) <= best + 1e-9:
            continue
        most_of = min((int(left[k] / need + 1e-9) for k, need in enumerate(needs[index]) if need), default=0)
        complete &= most_of < COUNTS
        # The last pushed is looked at first: the largest count.
        for count in sorted({0, *range(max(0, most_of - COUNTS + 2), most_of + 1)}):
            rest = [left[k] - count * need for k, need in enumerate(needs[index])]
            stack.append((index + 1, rest, so_far + count * worth[index]))
    return best, complete
