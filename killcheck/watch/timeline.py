"""The timeline of a drill: which phase was reached when, against which deadline."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime

from msgspec import Struct, field

from killcheck.spec.phases import Phase

__all__ = ["Reached", "Timeline"]

#: What follows a spot notice, in order.
RECLAIM = (Phase.NODE_CORDONED, Phase.PODS_GONE, Phase.NODE_DRAINED, Phase.NODE_GONE, Phase.INSTANCE_GONE)


class Reached(Struct, frozen=True):
    """``at``: by the API server's own object where it says so; ``observed``: when killcheck saw it."""

    phase: str
    at: datetime
    observed: datetime
    evidence: str


class Timeline(Struct):
    """Phases against deadlines; ``start`` is the trigger, deadlines are seconds after it.

    ``notice_s``: where the trigger is a spot notice, how many seconds later the cloud takes the machine.
    """

    start: datetime
    phases: tuple[str, ...]
    deadlines: Mapping[str, float]
    reached: dict[str, Reached] = field(default_factory=dict)
    notice_s: float | None = None
    #: Seconds by which a phase's deadline is put off: what joined after the trigger has its own, from when it joined.
    put_off: dict[str, float] = field(default_factory=dict)
    #: Phases that held once and were taken back.
    lost: set[str] = field(default_factory=set)

    def deadline_s(self, phase: str) -> float | None:
        """Seconds after the trigger by which a phase is due; None: it has no deadline."""
        deadline = self.deadlines.get(phase)
        return None if deadline is None else deadline + self.put_off.get(phase, 0.0)

    def reach(self, phase: str, at: datetime, observed: datetime, evidence: str) -> Reached | None:
        """Record a phase the first time it is seen; None if it was known already, or is not one of this drill's."""
        if phase in self.reached or phase not in self.phases:
            return None
        # The API's times are whole seconds, rounded down: never before the trigger itself.
        entry = Reached(phase, min(max(at, self.start), observed), observed, evidence)
        self.reached[phase] = entry
        return entry

    def lose(self, phase: str) -> Reached | None:
        """Take a phase back that no longer holds."""
        entry = self.reached.pop(phase, None)
        if entry is not None:
            self.lost.add(phase)
        return entry

    def at_s(self, phase: str) -> float | None:
        """Seconds from the trigger to the phase; None if it was not reached."""
        entry = self.reached.get(phase)
        return None if entry is None else max(0.0, (entry.at - self.start).total_seconds())

    def margin_s(self, phase: str) -> float | None:
        """Seconds of a spot notice that were left at a phase, negative after the reclaim; None without either."""
        seconds = self.at_s(phase)
        return None if self.notice_s is None or seconds is None else round(self.notice_s - seconds, 3)

    def reclaim(self, noticed: datetime, notice_s: float) -> str | None:
        """The stages of a reclaim after a notice, each with its seconds and what was left; empty: none was reached."""
        told = []
        for phase in RECLAIM:
            entry = self.reached.get(phase)
            if entry is not None:
                after = max(0.0, (entry.at - noticed).total_seconds())
                left = notice_s - after
                margin = f"{left:.0f} s left" if left >= 0 else f"{-left:.0f} s after the reclaim"
                told.append(f"{phase.replace('_', ' ')} after {after:.0f} s ({margin})")
        return ", ".join(told)

    def zero_s(self) -> float | None:
        """Seconds to zero: no GPU pod left or, outside Kubernetes, no instance counted."""
        return self.at_s("pods_gone" if "pods_gone" in self.phases else "instance_gone")

    def in_time(self, phase: str) -> bool:
        """Whether the phase was reached, and by its deadline where it has one."""
        seconds = self.at_s(phase)
        deadline = self.deadline_s(phase)
        return seconds is not None and (deadline is None or seconds <= deadline)

    def first_missing(self, upto: str | None = None) -> str | None:
        """The first phase of this drill that was not reached, up to and including ``upto``; None: none is missing."""
        for phase in self.phases:
            if phase not in self.reached:
                return phase
            if phase == upto:
                break
        return None

    def rows(self) -> list[dict[str, object]]:
        """For the result document: every phase with the second it was reached at (None: not) and its deadline.

        Under a spot notice ``margin_s`` too: what was left of it then.
        """
        return [
            {
                "phase": str(phase),  # xdist carries rows between processes, and takes nothing but plain values
                "at_s": None if (at := self.at_s(phase)) is None else round(at, 3),
                "deadline_s": self.deadline_s(phase),
                **({} if self.notice_s is None or phase == "held" else {"margin_s": self.margin_s(phase)}),
            }
            for phase in self.phases
        ]
