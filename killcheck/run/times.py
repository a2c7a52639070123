"""From when to when in the night the faults of a set have to be there to expose: the shortest times, to the second.

A set that exposes does so with its faults there from before the trigger to the end. Here each fault in turn strikes as
late as it still exposes, and is then lifted as early as it still does. Both ends are tried, not reckoned: what is told
exposes, and a second later (or less long) does not. In between, a grid of moments is tried, so that a fault that
exposes early and late, and not in the middle, is not told as one stretch.

What may *not* live here: how a scenario is tried; processes, clocks, terminals.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Generator, Iterator, Mapping, Sequence
from typing import Any

from killcheck import faults
from killcheck.faults.timed import SIGN
from killcheck.run.combinations import Found, Scenario, When

__all__ = ["AT_ONCE", "Asked", "shrink"]

#: So many sets are shrunk at once, whatever the number of processors: what is found must not depend on that.
AT_ONCE = 4
#: How much later each moment of the grid is than the one before.
_STEP = 4

#: Answers what scenarios end with, of each whether it exposes; None: there is no room for all of them.
Asked = Callable[[Collection[Scenario]], Mapping[Scenario, bool] | None]
#: Asks, and is told.
_Shrinking = Generator[list[Scenario], Mapping[Scenario, bool], "tuple[When, ...]"]


def shrink(sets: Sequence[Scenario], horizon_s: Mapping[str, float], ask: Asked) -> dict[Scenario, tuple[When, ...]]:
    """The times of sets that expose; left out are those without a fault, and those that there was no room for.

    ``horizon_s``: by layer, for how long a night is watched after its trigger.
    """
    found: dict[Scenario, tuple[When, ...]] = {}
    own = [one for one in sets if one.faults and not any(SIGN in name for name in one.faults)]
    for at in range(0, len(own), AT_ONCE):
        going = {one: _shrunk(one, horizon_s[one.layer]) for one in own[at : at + AT_ONCE]}
        said: Any = None
        while going:
            wanted: dict[Scenario, None] = {}
            for one in list(going):
                try:
                    wanted |= dict.fromkeys(going[one].send(said))
                except StopIteration as end:
                    found[one] = end.value
                    del going[one]
            if wanted and (said := ask(wanted)) is None:
                return found
    return found


def _shrunk(scenario: Scenario, horizon_s: float) -> _Shrinking:
    when: list[When] = []
    for name in scenario.faults:

        def under(struck_s: float | None, lifted_s: float | None, name: str = name) -> Scenario:
            whens = (*when, When(name, struck_s, lifted_s))
            return Found(scenario, "exposed", "", when=whens).replayed

        when.append((yield from _one(name, under, horizon_s)))
    return tuple(when)


def _one(
    name: str, under: Callable[[float | None, float | None], Scenario], horizon_s: float
) -> Generator[list[Scenario], Mapping[Scenario, bool], When]:
    if type(faults.named(name)).night is not faults.Fault.night:
        return When(name, whole=True)
    late, soon = under(0.0, None), under(None, horizon_s)
    first = yield [late, soon]
    if not first[late] and not first[soon]:
        return When(name, whole=True)
    struck_s: float | None = None
    again_s: tuple[float, ...] = ()
    if first[late]:
        struck_s, again_s = yield from _latest(lambda at_s: under(at_s, None), horizon_s)
    lifted_s = yield from _earliest(lambda at_s: under(struck_s, at_s), struck_s or 0.0, horizon_s)
    return When(name, struck_s, lifted_s, again_s)


def _latest(
    under: Callable[[float], Scenario], horizon_s: float
) -> Generator[list[Scenario], Mapping[Scenario, bool], tuple[float, tuple[float, ...]]]:
    """The last second of the first stretch in which striking exposes, and the moments of the grid that do again."""
    grid = list(_grid(horizon_s))
    said = yield [under(at_s) for at_s in grid]
    exposes = [said[under(at_s)] for at_s in grid]
    if all(exposes):
        return grid[-1], ()
    off = exposes.index(False)  # the first exposes: it was asked
    again_s = tuple(at_s for at_s, does in zip(grid[off:], exposes[off:], strict=True) if does)
    at_s = yield from _edge(under, grid[off - 1], grid[off])
    return at_s, again_s


def _earliest(
    under: Callable[[float], Scenario], struck_s: float, horizon_s: float
) -> Generator[list[Scenario], Mapping[Scenario, bool], float | None]:
    """The first second from which on lifting leaves it exposed; None: it has to stay."""
    grid = [struck_s + at_s for at_s in _grid(horizon_s - struck_s) if at_s]
    if not grid:
        return None
    said = yield [under(at_s) for at_s in grid]
    exposes = [said[under(at_s)] for at_s in grid]
    if not exposes[-1]:
        return None
    if all(exposes):
        return grid[0]
    off = len(grid) - 1 - exposes[::-1].index(False)
    return (yield from _edge(under, grid[off + 1], grid[off]))


def _edge(
    under: Callable[[float], Scenario], does_s: float, does_not_s: float
) -> Generator[list[Scenario], Mapping[Scenario, bool], float]:
    """Of two moments, of which one exposes, the last (or first) whole second that does."""
    while abs(does_s - does_not_s) > 1.0:
        middle_s = float((does_s + does_not_s) // 2)
        one = under(middle_s)
        said = yield [one]
        does_s, does_not_s = (middle_s, does_not_s) if said[one] else (does_s, middle_s)
    return does_s


def _grid(length_s: float) -> Iterator[float]:
    """Moments of a stretch: its beginning and end, and in between ever farther apart."""
    yield 0.0
    at_s = 1.0
    while at_s < length_s:
        yield at_s
        at_s *= _STEP
    if length_s > 0.0:
        yield float(int(length_s))
