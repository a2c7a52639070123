"""How far a fleet went while it was watched: the most machines at once, the dearest of them, and what the spec allows.

A ceiling in somebody's program is believed only as far as it was seen to hold.
"""

from __future__ import annotations

from msgspec import Struct, field

from killcheck.machine.counting import Count, Rented
from killcheck.spec.killpath import Target

__all__ = ["Passed", "Peaks"]


class Passed(Struct, frozen=True):
    """A bound of the spec that a fleet went past: what was seen, and what to do about it."""

    cause: str
    evidence: tuple[str, ...]
    remedy: str


class Peaks(Struct):
    """By target: the count with the most machines, and the dearest machine with the count that had it."""

    highest: dict[str, Count] = field(default_factory=dict)
    dearest: dict[str, tuple[Rented, Count]] = field(default_factory=dict)

    def notice(self, target: Target, count: Count) -> None:
        """One more count."""
        if target.name not in self.highest or count.number > self.highest[target.name].number:
            self.highest[target.name] = count
        priced = [one for one in count.machines if one.usd_per_hour is not None]
        top = max(priced, key=lambda one: one.usd_per_hour or 0.0, default=None)
        known = self.dearest.get(target.name)
        if top is not None and (known is None or (top.usd_per_hour or 0.0) > (known[0].usd_per_hour or 0.0)):
            self.dearest[target.name] = (top, count)

    def passed(self, target: Target) -> Passed | None:
        """The bound that a target was seen to go past; None: none, or the spec names none."""
        bounds = target.machines
        if bounds is None or target.name not in self.highest:
            return None
        high = self.highest[target.name]
        if bounds.most is not None and high.number > bounds.most:
            shown = ", ".join(f"{one.id} ({one.type or 'no type'})" for one in high.machines[:8])
            return Passed(
                f"{high.number} of {target.name} were on at {high.at:%H:%M:%S}, and the spec allows {bounds.most}",
                (f"{high.command} listed {shown}",),
                "let what starts machines count those that are there or coming before each start; let a quota of the "
                "account hold it too",
            )
        top = self.dearest.get(target.name)
        if bounds.max_usd_per_hour is not None and top and (top[0].usd_per_hour or 0.0) > bounds.max_usd_per_hour:
            one, count = top
            return Passed(
                f"{target.name} took a machine at ${one.usd_per_hour:.2f} an hour ({one.type or one.id}), and the spec "
                f"allows ${bounds.max_usd_per_hour:.2f}",
                (f"{count.command} listed {one.id} at {count.at:%H:%M:%S}",),
                "let the price be a condition of the search for offers, also of what it falls back to",
            )
        return None
