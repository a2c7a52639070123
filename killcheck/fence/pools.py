"""A pool as every kind of it is judged: which types it can launch, how many of them, and what is not known of it."""

from __future__ import annotations

import math
from collections.abc import Mapping

from msgspec import Struct, field

from killcheck.instances.catalogue import InstanceType
from killcheck.instances.launchable import Launchable
from killcheck.kube.objects import Obj

__all__ = ["Pool"]


class Pool(Struct, frozen=True):
    """``certain`` and ``possible`` are masks over ``types``: what surely can be launched, and what cannot be excluded.

    ``limits`` bound what its nodes add up to (an empty mapping: nothing does), ``max_nodes`` how many there are;
    ``floor`` nodes stand whatever pods want. ``unknown`` says what keeps it from being proven, ``requirement`` which of
    its words let the worst type through, ``unpriced`` types without a price count as unknown.
    ``obj`` is the manifest it came from, where a patch could close it.
    """

    name: str
    types: Launchable
    certain: int
    possible: int
    limits: Mapping[str, float] = field(default_factory=dict)
    used: Mapping[str, float] = field(default_factory=dict)
    max_nodes: float = math.inf
    floor: int = 0
    door: str = ""
    remedy: str = "take the types above the ceiling out of it"
    requirement: str = ""
    unknown: tuple[str, ...] = ()
    #: Reasons that concern only the types in ``possible`` and not in ``certain``.
    undecided: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    overrun: float = 1.0
    #: Limits that count some types for what they have not (``raised``: for more than they have).
    loose: frozenset[str] = frozenset()
    raised: bool = False
    obj: Obj | None = None

    @property
    def blind(self) -> bool:
        """Whether nothing is known of what it can launch: zero is no figure of it then."""
        return bool(self.unknown) and not self.possible

    def all_limits(self) -> dict[str, float]:
        """The limits and the number of nodes, as one mapping."""
        found = dict(self.limits)
        if not math.isinf(self.max_nodes):
            found["nodes"] = min(self.max_nodes, found.get("nodes", math.inf))
        return found

    def worst(self, mask: int) -> InstanceType | None:
        """The type with the most devices of a mask."""
        return self.types.first(mask, "devices")
