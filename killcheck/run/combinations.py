"""Which combinations of faults there are, which are still to be tried, and what is known of those that were.

What may *not* live here: how one is tried; processes, clocks, terminals.
"""

from __future__ import annotations

import itertools
import math
import shlex
import zlib
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from functools import cache
from typing import Any

from msgspec import Struct, field, structs

from killcheck import faults
from killcheck.faults.other_layer import may_name_a_layer
from killcheck.faults.timed import spelled
from killcheck.text.durations import format_duration

__all__ = [
    "LIKELIHOOD",
    "Covered",
    "Explored",
    "Found",
    "LayerSearch",
    "Scenario",
    "Search",
    "When",
    "levels",
    "weight",
]

#: How likely a fault of each family is, relative to the others: a judgement, from how often each is told of in the
#: catalogue of failures that this project keeps. Only the order of the search depends on it.
LIKELIHOOD = {
    "image": 8.0,
    "credentials": 7.0,
    "schedule": 6.0,
    "rivals": 5.0,
    "drain": 5.0,
    "admission": 4.0,
    "network": 3.0,
    "orchestrator": 2.0,
    "spot": 2.0,
}


class Scenario(Struct, frozen=True, order=True):
    """One layer's trigger under some faults (names, sorted)."""

    layer: str
    faults: tuple[str, ...]

    def __str__(self) -> str:
        return f"{self.layer} under {' + '.join(self.faults)}" if self.faults else self.layer

    def part_of(self, parts: int) -> int:
        """Which of so many parts of a search tries it, from 1 on: the same on every machine."""
        return zlib.crc32(str(self).encode()) % parts + 1

    @property
    def replay(self) -> str:
        """What drills it again; the caller adds the spec."""
        faults = [word for name in self.faults for word in ("--under", name)]
        return shlex.join(["killcheck", "drill", "--layer", self.layer, *faults])


class When(Struct, frozen=True):
    """When one fault of a set has to be there. Seconds after the trigger.

    ``struck_s``: the latest at which it may strike (None: it has to be there before the trigger). ``lifted_s``: the
    earliest at which it may be lifted (None: it has to stay). ``again_s``: later moments of the grid at which it
    exposes again. ``whole``: it was not seen to expose for a part of a night, of none that was tried.
    """

    fault: str
    struck_s: float | None = None
    lifted_s: float | None = None
    again_s: tuple[float, ...] = ()
    whole: bool = False

    @property
    def name(self) -> str:
        """As ``--under`` takes it."""
        return spelled(self.fault, self.struck_s, self.lifted_s)

    def __str__(self) -> str:
        if self.whole:
            return f"{self.fault} is there all night: for no part of it was it seen to expose"
        if self.struck_s is None:
            first = "has to be there before the trigger"
        elif not self.struck_s:
            first = "has to be there at the trigger"
        else:
            first = f"has to strike within {format_duration(self.struck_s)} of the trigger"
        last = "to stay" if self.lifted_s is None else f"to last until {format_duration(self.lifted_s)} after it"
        again = f"; struck after {', '.join(map(format_duration, self.again_s))} it exposes again" * bool(self.again_s)
        return f"{self.fault} {first}, and {last}{again}"

    def to_json(self) -> dict[str, Any]:
        """As the JSON document has it."""
        return {
            "fault": self.fault,
            "struck_s": self.struck_s,
            "lifted_s": self.lifted_s,
            "again_s": list(self.again_s),
            "under": self.name,
        }


class Found(Struct, frozen=True):
    """What a scenario ended with. ``confirmed``: the same with real executors; None: not tried, or nothing proven.

    ``when``: of a set that exposes, when its faults have to be there (:mod:`killcheck.run.times`); None: nobody asked,
    or there was no room for it. ``when_confirmed``: the same for these times.
    ``died``: the machine ended it, and it may end otherwise another time.
    """

    scenario: Scenario
    verdict: str
    why: str
    off_by: str = ""
    confirmed: bool | None = None
    when: tuple[When, ...] | None = None
    when_confirmed: bool | None = None
    died: bool = False

    @property
    def replayed(self) -> Scenario:
        """What drills it again: at its times, where they were found and nothing refuted them."""
        if self.when is None or self.when_confirmed is False:
            return self.scenario
        names = {one.fault: one.name for one in self.when}
        return structs.replace(self.scenario, faults=tuple(names.get(name, name) for name in self.scenario.faults))

    def to_json(self, named: str = "") -> dict[str, Any]:
        """For the JSON document; ``named``: the arguments that name the kill path again, for ``replay``."""
        return {
            "layer": self.scenario.layer,
            "faults": list(self.scenario.faults),
            "verdict": self.verdict,
            "why": self.why,
            "off_by": self.off_by or None,
            "confirmed": self.confirmed,
            "replay": self.replayed.replay + named,
            **({} if self.when is None else {"when": [one.to_json() for one in self.when]}),
            **({} if self.when is None else {"when_confirmed": self.when_confirmed}),
        }


class Covered(Struct, frozen=True):
    """How many sets of a layer's faults there are of one size, and what became of them.

    ``hidden``: not tried, since of two faults that stop one executor one hides the other. ``hopeless``: not tried,
    since a part proves nothing alone. ``left``: the budget did not reach them, those across layers too. What is in none
    of these cannot be there together, or holds a set that exposes.
    """

    layer: str
    size: int
    sets: int
    tried: int
    hidden: int
    hopeless: int
    left: int

    @property
    def complete(self) -> bool:
        """Whether nothing of this size can expose but what was found."""
        return not (self.hidden or self.hopeless or self.left)

    def to_json(self) -> dict[str, Any]:
        """As the JSON document has it."""
        return structs.asdict(self)


class Explored(Struct, frozen=True):
    """What a search found. ``minimal``: exposing sets of which no part exposes; ``left``: sets of each size that the
    budget did not reach; ``unmodelled``: faults that were not tried; ``seconds``: of the wall. ``elsewhere``: sets of
    each size that other parts of the search try, and have not yet: larger ones wait for them."""

    tried: int
    minimal: tuple[Found, ...]
    inconclusive: tuple[Found, ...]
    left: dict[int, int]
    unmodelled: tuple[str, ...]
    seconds: float
    workers: int
    refused: int = 0
    #: How far the sets of each layer and size were tried, and how many scenarios were run now (others were known).
    covered: tuple[Covered, ...] = ()
    ran: int = 0
    #: Whether times were asked for: how many scenarios that took, and how many sets the budget did not reach.
    timed: int = 0
    timeless: int = 0
    elsewhere: dict[int, int] = {}
    #: Which part of a search it is, of how many: a part tells its own sets alone.
    part: tuple[int, int] = (1, 1)

    @property
    def rate(self) -> float:
        """Scenarios a second and worker."""
        return self.ran / self.seconds / self.workers if self.seconds and self.workers else 0.0

    @property
    def complete_up_to(self) -> int | None:
        """The most faults at once of which every set was tried, or is known to hold one that exposes; None: not even
        none. Faults that cannot be modelled count as not tried. A part alone knows none."""
        if self.unmodelled or self.part[1] > 1:
            return None
        doubtful = {len(one.scenario.faults) for one in self.inconclusive}
        found = None
        for size in sorted({one.size for one in self.covered}):
            if size in doubtful or not all(one.complete for one in self.covered if one.size == size):
                break
            found = size
        return found

    def to_json(self, named: str = "") -> dict[str, Any]:
        """The ``explored`` of the JSON document; ``named``: what a replay adds to name the kill path."""
        return {
            "scenarios": self.tried,
            "minimal": [one.to_json(named) for one in self.minimal],
            "inconclusive": [one.to_json(named) for one in self.inconclusive],
            "refused": self.refused,
            "left": {str(size): count for size, count in self.left.items() if count},
            "part": list(self.part),
            "elsewhere": {str(size): count for size, count in self.elsewhere.items()},
            "coverage": [one.to_json() for one in self.covered],
            "complete_up_to": self.complete_up_to,
            "timed": self.timed,
            "timeless": self.timeless,
            "unmodelled": list(self.unmodelled),
            "seconds": round(self.seconds, 2),
            "workers": self.workers,
            "scenarios_a_second_and_worker": round(self.rate, 1),
        }


def weight(names: Iterable[str]) -> float:
    """How likely a set is, as the logarithm of the product of its parts' likelihoods; the more parts, the less so."""
    return sum(map(_weight, names))


@cache
def _weight(name: str) -> float:
    return math.log(LIKELIHOOD.get(faults.named(name).family, 1.0) / sum(LIKELIHOOD.values()))


def levels(
    known: Sequence[str],
    exposing: Collection[frozenset[str]],
    size: int,
    tried: Collection[frozenset[str]] = (),
) -> Iterator[tuple[str, ...]]:
    """Sets of ``size`` faults, the likeliest first, none of which holds a set that exposes already, or was tried."""
    sets = sorted(itertools.combinations(sorted(known), size), key=lambda names: (-weight(names), names))
    for names in sets:
        held = frozenset(names)
        if held not in tried and not any(one <= held for one in exposing):
            yield names


class LayerSearch(Struct):
    """What is known so far of one layer's sets."""

    name: str
    names: list[str]
    exposing: list[frozenset[str]] = field(default_factory=list)
    #: Faults that prove nothing alone: they prove nothing beside others.
    hopeless: set[str] = field(default_factory=set)
    #: Faults of the layer's own executor that stop it, and that another layer covered for: of two of them one hides the
    #: other, and who covers meets neither.
    stopping: set[str] = field(default_factory=set)
    #: Sets that cannot be there together, in no larger set either: two of them set the same field.
    clashing: list[frozenset[str]] = field(default_factory=list)
    #: Sets across layers that are to be tried, by size.
    rescued: dict[int, set[tuple[str, ...]]] = field(default_factory=dict)
    tried: set[tuple[str, ...]] = field(default_factory=set)

    def wanted(self, size: int, across: Collection[frozenset[str]]) -> list[Scenario]:
        """Sets of that size to be tried, those across layers first: they are few, and each was nearly one."""
        if frozenset() in self.exposing:  # it does not work undisturbed: every set would hold the empty one
            return []
        usable = [name for name in self.names if name not in self.hopeless]
        alone = (one for one in levels(usable, self.exposing, size) if len(self.stopping & set(one)) < 2)
        near = sorted(self.rescued.get(size, ()), key=lambda names: (-weight(names), names))
        known = [*self.exposing, *across, *self.clashing]
        return [
            Scenario(self.name, one)
            for one in dict.fromkeys([*near, *alone])
            if one not in self.tried and not any(part <= frozenset(one) for part in known)
        ]

    def coverage(self, size: int, left: int) -> Covered:
        """How far the sets of that size of its own faults were tried; ``left``: those that nobody got to."""
        every = math.comb(len(self.names), size)
        tried = sum(len(one) == size and set(one) <= set(self.names) for one in self.tried)
        hidden = hopeless = 0
        for one in itertools.combinations(sorted(self.names), size):
            if one in self.tried or any(part <= frozenset(one) for part in (*self.exposing, *self.clashing)):
                continue
            hopeless += bool(self.hopeless & set(one))
            hidden += not self.hopeless & set(one) and len(self.stopping & set(one)) > 1
        return Covered(self.name, size, every, tried, hidden, hopeless, left)


class Search(Struct):
    """What is known so far. ``across``: exposing sets across layers, whichever was triggered."""

    layers: dict[str, LayerSearch]
    #: The names of faults of every layer, also of those that are not triggered.
    names: Mapping[str, Collection[str]]
    minimal: list[Found] = field(default_factory=list)
    doubtful: list[Found] = field(default_factory=list)
    tried: int = 0
    refused: int = 0
    across: list[frozenset[str]] = field(default_factory=list)

    def wanted(self, size: int) -> list[Scenario]:
        """Sets of that size of all layers, each layer's in turn: none has to wait until another's are through."""
        ranks = itertools.zip_longest(*(layer.wanted(size, self.across) for layer in self.layers.values()))
        found: list[Scenario] = []
        crossing: set[tuple[str, ...]] = set()  # the same set across layers is tried once, whoever is triggered
        for one in (one for rank in ranks for one in rank if one is not None):
            if all("@" in name for name in one.faults) and one.faults:
                if one.faults in crossing:
                    continue
                crossing.add(one.faults)
            found.append(one)
        return found

    def note(self, found: Found) -> None:
        """Remember what a scenario ended with."""
        self.tried += 1
        layer, faulty = self.layers[found.scenario.layer], frozenset(found.scenario.faults)
        layer.tried.add(found.scenario.faults)
        if found.verdict == "refused":
            self.refused += 1
            layer.clashing.append(faulty)
        elif found.verdict == "exposed":
            self.minimal.append(found)
            (self.across if any("@" in name for name in faulty) else layer.exposing).append(faulty)
        elif found.verdict == "covered":
            self._follow(found, layer)
        elif found.verdict == "inconclusive":
            self.doubtful.append(found)
            if len(faulty) == 1:
                layer.hopeless |= faulty

    def _follow(self, found: Found, layer: LayerSearch) -> None:
        """Take away what saved the night: first the layer's own later firings, then a part of who covered."""
        names = found.scenario.faults
        if len(names) == 1 and "@" not in names[0] and _movable(names[0]):
            layer.stopping.add(names[0])
        everywhere = tuple(
            sorted(f"{name}@{layer.name}" if "@" not in name and _movable(name) else name for name in names)
        )
        if everywhere != names:
            layer.rescued.setdefault(len(names), set()).add(everywhere)
            return
        for name in self.names.get(found.off_by, ()):
            if "@" not in name and _movable(name):
                grown = tuple(sorted({*names, f"{name}@{found.off_by}"}))
                layer.rescued.setdefault(len(grown), set()).add(grown)


def _movable(name: str) -> bool:
    return may_name_a_layer(type(faults.named(name)))
