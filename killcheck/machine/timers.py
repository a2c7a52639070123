"""The timers of a machine outside Kubernetes: when they go off, what keeps them from it, and what they catch up on.

Source: systemd.timer(5). ``Persistent=true`` makes up for slots during which the machine was off, as soon as it is on
again; a calendar timer that elapsed while the machine was suspended goes off when it resumes, persistent or not. What
is known by no unit is taken for a line of a crontab, which makes up for nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from msgspec import Struct

from killcheck.clock import Loop, Timer
from killcheck.kube.schedule import Schedule
from killcheck.text.durations import format_duration

__all__ = ["Kept", "Timers"]

#: A slot that the machine's clock is within so many seconds of counts as its moment.
NEAR_S = 5.0
#: What is made up for starts so many seconds apart (all of it at once, really): so that it can be told who did what.
APART_S = 30.0


@dataclass
class Kept:
    """One timer. ``persistent``: what its unit says; None: no unit is known of it. ``late_s``: how many seconds after a
    slot it may go off (``RandomizedDelaySec=``): the latest moment is played."""

    name: str
    when: Schedule
    persistent: bool | None
    fire: Callable[[Callable[[], None]], None]
    late_s: float = 0.0
    stopped: bool = False
    #: Slots that came while the machine was away.
    missed: int = 0
    _due: Timer | None = field(default=None, repr=False)


class Timers(Struct):
    """``behind_s``: how far the machine's clock is behind the world's. ``away_s``: for how long the machine is away
    from the next slot that a drill stands for on (0: it is there); ``suspended``: asleep then, not off.
    """

    loop: Loop
    behind_s: float = 0.0
    away_s: float = 0.0
    suspended: bool = False
    kept: dict[str, Kept] = {}
    _back_at: datetime | None = None
    _stands_for: str = ""
    _late_ones: list[Timer] = []
    _closed: bool = False

    def keep(self, timer: Kept) -> None:
        """Let it go off at its slots from now on."""
        self.kept[timer.name] = timer
        self._wait(timer)

    def close(self) -> None:
        """Nothing goes off any more."""
        self._closed = True

    # -- what is done to them --------------------------------------------------------------------------------
    def stop(self, name: str) -> None:
        """As ``systemctl stop``: it goes off no more. Raises LookupError."""
        self.kept[name].stopped = True

    def start(self, name: str) -> None:
        """As ``systemctl start``. Raises LookupError."""
        self.kept[name].stopped = False

    def set_clock(self, behind_s: float) -> None:
        """Set the machine's clock that far behind the world's; what was late because of it no longer comes."""
        self.behind_s = behind_s
        for late in self._late_ones:
            late.cancel()
        self._late_ones.clear()
        for timer in self.kept.values():
            self._wait(timer)

    def leave_at_slot(self, away_s: float, suspended: bool) -> None:
        """Be off, or asleep, for so long from the slot that the drill stands for."""
        self.away_s, self.suspended = away_s, suspended

    def come_back(self) -> None:
        """Be there as if it had never been away: nothing is made up for."""
        self.away_s, self.suspended, self._back_at = 0.0, False, None
        for late in self._late_ones:
            late.cancel()
        for timer in self.kept.values():
            timer.missed = 0

    def slot(self, name: str) -> str | None:
        """A drill stands for the slot of a timer right now: why nothing goes off, or not yet; None: it would."""
        timer = self.kept.get(name)
        self._stands_for = name
        if self.away_s and self._back_at is None:
            self._leave()
        if self._back_at is not None:
            how = "asleep" if self.suspended else "off"
            if timer is not None:
                timer.missed += 1
            return f"the machine is {how} when the slot comes, until {self._back_at:%H:%M:%S}"
        if timer is None:
            return None
        if timer.stopped:
            return f"the timer of {name} is stopped: nothing starts its program"
        return self._late(timer)

    def _late(self, timer: Kept) -> str | None:
        if timer.late_s:
            wait_s = self.behind_s + timer.late_s
            # Where the drill stands at the timer's own slot, that comes as late already.
            if timer._due is None or timer._due.when > self.loop.monotonic() + wait_s + NEAR_S:
                self._late_ones.append(self.loop.call_later(wait_s, self._go_off, timer))
            return f"its timer may go off up to {format_duration(timer.late_s)} after its slot (RandomizedDelaySec)"
        if not self.behind_s:
            return None
        own = self.loop.now() - timedelta(seconds=self.behind_s)
        due = timer.when.next(own - timedelta(seconds=NEAR_S))
        if due is not None and abs((due - own).total_seconds()) <= NEAR_S:
            return None
        self._late_ones.append(self.loop.call_later(self.behind_s, self._go_off, timer))
        return f"the machine's clock says {own:%H:%M:%S}: its slot comes {self.behind_s / 60:.0f} min late"

    # -- inside --------------------------------------------------------------------------------------------
    def _wait(self, timer: Kept) -> None:
        if timer._due is not None:
            timer._due.cancel()
        late = timedelta(seconds=self.behind_s)
        due = timer.when.next(self.loop.now() - late)
        later = late + timedelta(seconds=timer.late_s)
        timer._due = None if due is None else self.loop.call_at_time(due + later, self._elapse, timer)

    def _elapse(self, timer: Kept) -> None:
        if self._closed:
            return
        if self._back_at is not None:
            timer.missed += 1
            self._wait(timer)
        elif timer.stopped:
            self._wait(timer)
        else:
            timer.fire(lambda: None if self._closed else self._wait(timer))

    def _go_off(self, timer: Kept) -> None:
        if not self._closed and not timer.stopped:
            timer.fire(lambda: None)

    def _leave(self) -> None:
        self._back_at = self.loop.now() + timedelta(seconds=self.away_s)
        self.loop.call_later(self.away_s, self._return, self._back_at)

    def _return(self, back_at: datetime) -> None:
        if self._back_at != back_at:
            return
        self._back_at = None
        self.away_s = 0.0
        late = 0.0
        for timer in sorted(self.kept.values(), key=lambda timer: timer.name != self._stands_for):
            missed, timer.missed = timer.missed, 0
            if missed and (timer.persistent or (self.suspended and timer.persistent is not None)):
                self._late_ones.append(self.loop.call_later(late, self._go_off, timer))
                late += APART_S
