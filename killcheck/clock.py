"""Time, as a dependency: the only module that reads a clock or sleeps.

Everything in killcheck that waits does so on a :class:`Loop`: a small discrete-event loop with timers.
:class:`WallLoop` runs on the host's clock (a real cluster); :class:`VirtualLoop` jumps from timer to timer
(the embedded cluster), so that a night passes in a blink. The drill, the controllers of the embedded cluster
and its hollow nodes are the same code on either.

What may *not* live here: anything that knows of Kubernetes, HTTP or drills.
"""

from __future__ import annotations

import heapq
import itertools
import math
import threading
import time
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable
from contextlib import AbstractContextManager
from datetime import UTC, datetime, timedelta
from typing import Any, TypeVarTuple

__all__ = ["Hold", "Loop", "Timer", "VirtualLoop", "WallLoop", "wall_now", "wall_seconds"]

#: How long a virtual loop sleeps (wall seconds) between two looks at whether an outside process is waiting: at first,
#: by how much longer each time that it is not, and at the most. A look costs as much processor time as a millisecond's
#: work; what has worked for long works on, and whoever asks the cluster something wakes the loop by that.
HOLD_POLL_S, HOLD_POLL_GROWTH, HOLD_POLL_MOST_S = 0.001, 1.25, 0.006
#: What a callback is called with.
_Args = TypeVarTuple("_Args")


def wall_now() -> datetime:
    """The host's time, UTC."""
    return datetime.now(UTC)


def wall_seconds() -> float:
    """The host's monotonic clock in seconds, for measuring how long something took on the wall."""
    return time.monotonic()


class Timer:
    """One scheduled call. ``when`` is in the loop's monotonic seconds."""

    __slots__ = ("args", "cancelled", "fn", "seq", "when")

    def __init__(self, when: float, seq: int, fn: Callable[..., object], args: tuple[Any, ...]) -> None:
        self.when = when
        self.seq = seq
        self.fn = fn
        self.args = args
        self.cancelled = False

    def cancel(self) -> None:
        """Make sure the call never happens; safe at any time, more than once."""
        self.cancelled = True

    def __lt__(self, other: Timer) -> bool:
        return (self.when, self.seq) < (other.when, other.seq)


class Hold:
    """Something outside the loop is at work (a process, a request): virtual time stands still meanwhile.

    ``ahead`` answers by how many seconds time may move: 0 while that something works, more (``math.inf``: to whatever
    comes next) while it is itself only waiting for time to pass or for the loop to act.
    """

    __slots__ = ("_loop", "ahead")

    def __init__(self, loop: Loop, ahead: Callable[[], float]) -> None:
        self._loop = loop
        self.ahead = ahead

    def release(self) -> None:
        """Let time move again; idempotent."""
        self._loop.release(self)


class _Entrance(AbstractContextManager[None]):
    """What :meth:`Loop.entered` answers, to all alike: every request to an embedded cluster goes through it."""

    __slots__ = ("_loop",)

    def __init__(self, loop: Loop) -> None:
        self._loop = loop

    def __enter__(self) -> None:
        self._loop._enter()

    def __exit__(self, *_: object) -> None:
        self._loop._leave()


class Loop(ABC):
    """Timers, callbacks and one lock.

    Callbacks run one at a time, in order of (time, order of scheduling), with :attr:`lock` held by the
    thread that is in :meth:`run_until`. Another thread that wants to touch what callbacks touch does so
    inside ``with loop.entered():``, or hands a callback over with :meth:`post`.
    """

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self._wake = threading.Condition(self.lock)
        self._timers: list[Timer] = []
        self._ready: deque[Timer] = deque()
        self._seq = itertools.count()
        self._holds: list[Hold] = []
        self._contenders = 0
        self._entrance = _Entrance(self)
        self._running = False

    # -- the time ------------------------------------------------------------------------------------------
    @abstractmethod
    def now(self) -> datetime:
        """The time of day, UTC, timezone-aware."""

    @abstractmethod
    def monotonic(self) -> float:
        """Seconds since the loop was made; never goes back."""

    @abstractmethod
    def _pass_time(self, until: float | None) -> None:
        """Let time pass until ``until`` (monotonic seconds; None: for ever) or until woken; lock held."""

    # -- scheduling ----------------------------------------------------------------------------------------
    def call_soon(self, fn: Callable[[*_Args], object], *args: *_Args) -> Timer:
        """Run ``fn(*args)`` at this same moment, after what is already due."""
        with self.lock:
            timer = Timer(self.monotonic(), next(self._seq), fn, args)
            self._ready.append(timer)
            self._wake.notify_all()
            return timer

    #: Thread-safe by the same token: the name says that the caller is another thread.
    post = call_soon

    def call_at(self, when: float, fn: Callable[[*_Args], object], *args: *_Args) -> Timer:
        """Run ``fn(*args)`` at monotonic second ``when`` (at once if that has passed)."""
        with self.lock:
            timer = Timer(when, next(self._seq), fn, args)
            heapq.heappush(self._timers, timer)
            self._wake.notify_all()
            return timer

    def call_later(self, delay_s: float, fn: Callable[[*_Args], object], *args: *_Args) -> Timer:
        """Run ``fn(*args)`` in ``delay_s`` seconds."""
        return self.call_at(self.monotonic() + max(0.0, delay_s), fn, *args)

    def call_at_time(self, when: datetime, fn: Callable[[*_Args], object], *args: *_Args) -> Timer:
        """Run ``fn(*args)`` when :meth:`now` reaches ``when``."""
        return self.call_later((when - self.now()).total_seconds(), fn, *args)

    # -- other threads -------------------------------------------------------------------------------------
    def entered(self) -> AbstractContextManager[None]:
        """Hold the loop's lock from another thread; a running loop makes way between two callbacks."""
        return self._entrance

    def _enter(self) -> None:
        self._contenders += 1  # a hint only: a lost update costs one turn of patience
        try:
            self.lock.acquire()
        except BaseException:  # interrupted while it waited
            self._contenders -= 1
            raise

    def _leave(self) -> None:
        self._contenders -= 1
        self._wake.notify_all()
        self.lock.release()

    def hold(self, ahead: Callable[[], float] = lambda: 0.0) -> Hold:
        """Keep virtual time from moving by more than ``ahead()`` seconds at a time until the hold is released."""
        with self.lock:
            hold = Hold(self, ahead)
            self._holds.append(hold)
            return hold

    def release(self, hold: Hold) -> None:
        """Give a hold up; idempotent."""
        with self.lock:
            if hold in self._holds:
                self._holds.remove(hold)
            self._wake.notify_all()

    # -- running -------------------------------------------------------------------------------------------
    def run_until(self, done: Callable[[], bool], timeout_s: float | None = None) -> bool:
        """Run callbacks until ``done()`` or until ``timeout_s`` seconds of this loop's time have passed.

        Returns what ``done()`` said last. ``done`` is asked after every callback, so it must be cheap.
        A virtual loop with nothing left to do and no timeout returns too: nothing could ever change.
        """
        with self.lock:
            deadline = None if timeout_s is None else self.monotonic() + timeout_s
            while not done():
                if self._contenders:
                    self._wake.wait(0.0001)
                if self._run_one():
                    continue
                upcoming = self._next_due()
                if deadline is not None and (upcoming is None or upcoming > deadline):
                    self._pass_time(deadline)
                    if self.monotonic() >= deadline and not self._ready and not self._due():
                        return done()
                elif upcoming is None and self._exhausted():
                    return False
                else:
                    self._pass_time(upcoming)
            return True

    def sleep(self, seconds: float) -> None:
        """Let ``seconds`` of this loop's time pass, running what falls due."""
        self.run_until(lambda: False, seconds)

    def _exhausted(self) -> bool:
        return False

    def _due(self) -> bool:
        upcoming = self._next_due()
        return upcoming is not None and upcoming <= self.monotonic()

    def _next_due(self) -> float | None:
        while self._timers and self._timers[0].cancelled:
            heapq.heappop(self._timers)
        return self._timers[0].when if self._timers else None

    def _run_one(self) -> bool:
        """Run the next callback that is due; False if none is."""
        upcoming = self._next_due()
        # What was made ready at an earlier moment goes first.
        due = upcoming is not None and upcoming <= self.monotonic()
        if due and not (self._ready and upcoming is not None and self._ready[0].when <= upcoming):
            timer = heapq.heappop(self._timers)
        elif self._ready:
            timer = self._ready.popleft()
        else:
            return False
        if not timer.cancelled:
            timer.fn(*timer.args)
        return True


def _awake_or_asleep() -> float:
    """Seconds on a clock that nobody sets, and that goes on while the machine sleeps, where there is one."""
    read = getattr(time, "clock_gettime", None)
    if read is None:
        return time.monotonic()
    return float(read(getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)))  # macOS' monotonic clock never sleeps


class WallLoop(Loop):
    """The host's clock, set to a real cluster's: ``ahead`` is how far the cluster's own clock is ahead of it.

    The host's clock is read once. From then on time passes as it does: a clock that somebody sets back in the middle
    of a drill must not make what came too late look in time.
    """

    def __init__(self) -> None:
        super().__init__()
        self._start = time.monotonic()
        self._began, self._began_s = wall_now(), _awake_or_asleep()
        self.ahead = timedelta(0)

    def now(self) -> datetime:
        """The cluster's time, UTC."""
        return self._began + timedelta(seconds=_awake_or_asleep() - self._began_s) + self.ahead

    def monotonic(self) -> float:
        """Wall seconds since the loop was made."""
        return time.monotonic() - self._start

    def _pass_time(self, until: float | None) -> None:
        if not self._ready:
            self._wake.wait(None if until is None else max(0.0, until - self.monotonic()))


class VirtualLoop(Loop):
    """A clock that jumps to the next timer, unless something outside holds it.

    ``start`` is the time of day at which it begins; ``speed`` virtual seconds pass in a wall second
    (None: as fast as there is something to do; 0: frozen but for :meth:`advance`).
    """

    def __init__(self, start: datetime, speed: float | None = None) -> None:
        super().__init__()
        self._start = start.astimezone(UTC)
        self._elapsed = 0.0
        self._goal = 0.0
        self._poll_s = HOLD_POLL_S
        self.speed = speed
        #: The answer of :meth:`now`, which is asked far more often than time passes, and the second that it is for.
        self._last = (0.0, self._start)

    def now(self) -> datetime:
        """The virtual time of day, UTC."""
        elapsed = self._elapsed
        last, now = self._last
        if last != elapsed:
            now = self._start + timedelta(seconds=elapsed)
            self._last = (elapsed, now)
        return now

    def monotonic(self) -> float:
        """Virtual seconds since the loop was made."""
        return self._elapsed

    def advance(self, seconds: float) -> None:
        """From another thread: let ``seconds`` pass as fast as they go, whatever the speed, while the loop runs.

        Returns when they have passed.
        """
        with self.entered():
            goal = max(self._goal, self._elapsed) + seconds
            self._goal = goal
            while self._elapsed < goal:
                self._wake.notify_all()
                self._wake.wait(0.01)

    def _exhausted(self) -> bool:
        return not self._holds and self.speed is None and self._goal <= self._elapsed

    def _pass_time(self, until: float | None) -> None:
        if self._ready:
            return
        # Every hold is asked, also after one said that it is at work: each watches its own process.
        ahead = min([hold.ahead() for hold in self._holds], default=math.inf)
        if not ahead:
            self._wake.wait(self._poll_s)
            self._poll_s = min(self._poll_s * HOLD_POLL_GROWTH, HOLD_POLL_MOST_S)
            return
        self._poll_s = HOLD_POLL_S
        if self._goal > self._elapsed:
            self._elapsed = min(self._goal, self._elapsed + ahead, math.inf if until is None else until)
        elif self.speed is not None:
            self._pace(until)
        elif until is None:
            self._wake.wait(HOLD_POLL_S)
        else:
            self._elapsed = max(self._elapsed, min(until, self._elapsed + ahead))

    def _pace(self, until: float | None) -> None:
        if not self.speed:
            self._wake.wait(0.05)
            return
        before = time.monotonic()
        ahead = 0.05 if until is None else (until - self._elapsed) / self.speed
        self._wake.wait(min(0.05, max(0.0, ahead)))
        passed = self._elapsed + (time.monotonic() - before) * self.speed
        self._elapsed = passed if until is None else min(until, passed)
