"""Which types had no capacity lately, in which zone and at which capacity type.

Source: karpenter-provider-aws pkg/cache/unavailableofferings.go: an offering is a type, a zone and a capacity type; an
interruption and a launch that was refused mark the one that they speak of.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from msgspec import Struct, field

from killcheck.instances.requirements import Requirement

__all__ = ["Shortage"]


class Shortage(Struct, frozen=True):
    """Masks of types by (capacity type, zone), and the zones that there are where nobody names any."""

    zones: tuple[str, ...]
    lacking: dict[tuple[str, str], int] = field(default_factory=dict)

    def __bool__(self) -> bool:
        return bool(self.lacking)

    @classmethod
    def of(cls, zones: Sequence[str], marked: Iterable[tuple[int, str, str]]) -> Shortage:
        """Of marks: (the type's bit, capacity type, zone)."""
        found = cls(tuple(zones))
        for bit, kind, zone in marked:
            found.lacking[kind, zone] = found.lacking.get((kind, zone), 0) | bit
        return found

    def allowed(self, wanted: Requirement | None) -> list[str]:
        """The zones that a requirement lets be used, in the order in which they are tried; never none."""
        named = sorted(wanted.values) if wanted is not None and not wanted.complement else []
        found = [zone for zone in dict.fromkeys([*self.zones, *named]) if wanted is None or wanted.has(zone)]
        return found or [self.zones[0]]

    def everywhere(self, kind: str, wanted: Requirement | None) -> int:
        """The types that are to be had in none of the zones that a requirement allows."""
        mask = -1
        for zone in self.allowed(wanted) if self.lacking else ():
            mask &= self.lacking.get((kind, zone), 0)
        return mask if self.lacking else 0

    def zone_for(self, bit: int, kind: str, wanted: Requirement | None) -> str | None:
        """The first zone that has a type; None: none of those that are allowed."""
        return next((zone for zone in self.allowed(wanted) if not self.lacking.get((kind, zone), 0) & bit), None)
