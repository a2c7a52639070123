"""How many accelerator instances are on outside Kubernetes, asked again and again of the command that the spec names.

A count is an answer: an integer, or JSON that holds one. Everything else - an error, a time-out, silence, half an
answer - is *unknown*, and unknown is never zero.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import datetime

from killcheck.capabilities.programs import Programs, Ran
from killcheck.clock import Timer
from killcheck.machine.counting import Count, CountUnknown, counted, rented
from killcheck.machine.peaks import Peaks
from killcheck.spec.killpath import Target

__all__ = ["Census", "Count"]

#: Between the end of one count and the next, in seconds: while something may change, and while it only has to hold.
EVERY_S = 10.0
HOLDING_S = 60.0
#: On a machine that is modelled nothing changes but by its own programs, so that counts may become rarer and rarer: by
#: this factor from one to the next, up to so many seconds.
SLOWER = 1.2
RARELY_S = 300.0


def _count(target: Target, ran: Ran) -> Count:
    """What an answer says of a target. Raises CountUnknown."""
    if target.machines is None:
        return Count(counted(ran), ran.begun, ran.ended, str(ran.command))
    found = rented(ran, target.machines)
    return Count(len(found), ran.begun, ran.ended, str(ran.command), found)


class Census:
    """Counts some targets over and over; ``on_change`` is called whenever an answer differs from the one before."""

    def __init__(self, programs: Programs | None, targets: Iterable[Target], on_change: Callable[[], None]) -> None:
        self.programs = programs
        self.targets = [target for target in targets if target.outside]
        self._on_change = on_change
        self.counts: dict[str, Count] = {}
        self._wrong: dict[str, CountUnknown] = {}
        #: The last answer above zero, by target: whatever turned it off did so after that.
        self.last_on: dict[str, Count] = {}
        #: The last answer of zero, by target.
        self.last_off: dict[str, Count] = {}
        #: Since when every answer has been one.
        self.sound_since: datetime | None = None
        self._timers: dict[str, Timer] = {}
        self._asked: dict[str, datetime] = {}
        self._quiet = 0
        self._open = False
        #: How far each fleet went for as long as it is watched.
        self.peaks = Peaks()
        #: How many were on before a fault had more of them started: what is put back is no more than that.
        self.meant: dict[str, int] = {}

    def open(self) -> None:
        """Begin to count. Raises CountUnknown where nothing here may run programs."""
        if self.targets and self.programs is None:
            raise CountUnknown(f"{self.targets[0]}: its count command cannot be run here")
        self._open = True
        if self.programs is not None:
            self.programs.on_firing(self.look)
        for target in self.targets:
            self._ask(target)

    def close(self) -> None:
        """Stop counting; idempotent."""
        self._open = False
        for timer in self._timers.values():
            timer.cancel()

    def again(self) -> None:
        """Ask now, and often from now on: something was done that may have changed it."""
        self._quiet = 0
        self.look()

    def look(self) -> None:
        """Ask now, unless it is being asked already."""
        for target in self.targets:
            timer = self._timers.pop(target.name, None)
            if timer is not None:
                timer.cancel()
                self._ask(target)

    def broken(self) -> CountUnknown | None:
        """Why a count is not known right now; None: all are."""
        for target in self.targets:
            if target.name in self._wrong:
                return self._wrong[target.name]
            if target.name not in self.counts:
                return CountUnknown(f"{target} has not been counted yet")
        return None

    def asked_since(self, moment: datetime) -> bool:
        """Whether every count that is known was asked for at or after a moment."""
        return all(t.name in self.counts and self.counts[t.name].asked >= moment for t in self.targets)

    def on(self, target: Target) -> int:
        """How many are on. Raises CountUnknown."""
        error = self.broken()
        if error is not None:
            raise error
        return self.counts[target.name].number

    def all_on(self) -> int:
        """Over all targets. Raises CountUnknown."""
        return sum(self.on(target) for target in self.targets)

    def _ask(self, target: Target) -> None:
        assert target.count is not None
        assert self.programs is not None
        self.programs.start(target.count, lambda ran: self._heard(target, ran))

    def _heard(self, target: Target, ran: Ran) -> None:
        if not self._open:
            return
        before = (self.counts.get(target.name), self._wrong.get(target.name))
        try:
            count = _count(target, ran)
            self.counts[target.name] = count
            self.peaks.notice(target, count)
            self._wrong.pop(target.name, None)
            (self.last_on if count.number else self.last_off)[target.name] = count
            if self.sound_since is None and self.broken() is None:
                self.sound_since = ran.begun
        except CountUnknown as error:
            self._wrong[target.name] = error
            self.sound_since = None
        assert self.programs is not None
        delay = HOLDING_S if target.name not in self._wrong and not self.counts[target.name].number else EVERY_S
        if not self.programs.real:
            delay = min(delay * SLOWER**self._quiet, RARELY_S)
            self._quiet += 1
        self._timers[target.name] = self.programs.loop.call_later(delay, self._ask_again, target)
        was = (before[0].number, before[0].machines) if before[0] else None
        now = self.counts.get(target.name)
        if target.name in self._wrong or before[1] is not None or now is None or (now.number, now.machines) != was:
            self._on_change()

    def _ask_again(self, target: Target) -> None:
        self._timers.pop(target.name, None)
        if self._open:
            self._ask(target)
