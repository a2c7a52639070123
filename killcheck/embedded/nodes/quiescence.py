"""Does a tree of processes work, or does it only wait - and how far may the cluster's time move while it does?

What waits in a shim that asked to be woken, or on an open watch, is known to wait. Of the rest nothing is known but
that it sleeps: it may wait for an hour to pass, or for something that this host is slow to bring. So time moves on by a
little first, and further each time that nothing stirs.
"""

from __future__ import annotations

import math

from killcheck.clock import Loop, wall_seconds
from killcheck.embedded.nodes import proctree

__all__ = ["HURRIED_S", "LIMIT_S", "Patience", "Rest"]

#: Wall seconds: a tree that has been asleep so long waits for something; one of which nothing is known, for longer.
QUIET_S = 0.002
OPAQUE_S = 0.005
#: Seconds of the cluster's time by which it first moves where nothing is known, and by how much further each time.
STRIDE_S = 0.1
GROWTH = 4
#: Wall seconds of uninterrupted work after which time moves on, so that no loop can hang the night.
LIMIT_S = 20.0
#: The same for whom nobody waits any more: the drill was interrupted.
HURRIED_S = 0.2
#: What one look can count for, in wall seconds: a host that stood still meanwhile has not let anybody work.
LOOK_S = 0.1
#: Wall seconds between one move of time and the next from then on, in which whoever waits for the loop has a turn.
BREATH_S = 0.002


class Patience:
    """Counts the work that looks at a process find."""

    def __init__(self) -> None:
        self._worked_s = 0.0
        self._looked_at: float | None = None

    def spent(self, now: float, limit_s: float = LIMIT_S) -> bool:
        """A look at wall second ``now`` finds it at work: whether time moves on all the same, after ``limit_s``."""
        if self._looked_at is not None:
            self._worked_s += min(now - self._looked_at, LOOK_S)
        self._looked_at = now
        if self._worked_s < limit_s:
            return False
        self._worked_s = limit_s - BREATH_S
        return True

    def renew(self) -> None:
        """It pauses."""
        self._worked_s = 0.0
        self._looked_at = None


class Rest:
    """Looks at a tree of processes. ``ran``: it has run since the look before the last; ``spent``: it has worked for so
    long that time moves on all the same."""

    def __init__(self, loop: Loop) -> None:
        self._loop = loop
        self._patience = Patience()
        self._marks: object = None
        #: The thread that the last look found running.
        self._at_work: str | None = None
        #: The marks of which it is known that nobody is on the way to sleep.
        self._settled: object = None
        self._quiet_since = wall_seconds()
        self._moved_at = -1.0
        self._stride_s = self._trusted_s = STRIDE_S
        self._began_at: float | None = None
        self.ran = self.spent = False
        #: After how much uninterrupted work time moves on, in wall seconds.
        self.limit_s = LIMIT_S

    def ahead_s(self, pid: int, *, busy: bool, known: int) -> float:
        """By how many seconds time may move; 0 while it works.

        ``busy``: something is under way for it elsewhere; ``known``: how many of its processes are known to wait.
        """
        now = wall_seconds()
        self.ran = self.spent = False
        if busy:
            return self._works(now)
        if self._at_work is not None and proctree.runs(self._at_work):
            self.ran = True
            return self._works(now)
        running, marks, leaves = proctree.activity(pid)
        self._at_work = marks if running and isinstance(marks, str) else None
        self.ran = running or marks != self._marks
        self._marks = marks
        if running:
            return self._works(now)
        if self.ran:
            self._stirred(now)
        if leaves <= known:
            ahead = math.inf if now - self._quiet_since >= QUIET_S else 0.0
        else:
            ahead = self._unknown(now)
        if ahead and self._settled != marks:
            if not proctree.settled(pid) or proctree.activity(pid)[1] != marks:
                self._quiet_since = now
                return 0.0
            self._settled = marks
        if ahead:  # a look between a child's end and the next one's start finds nobody at work, and is no pause
            self._patience.renew()
        return ahead

    def _works(self, now: float) -> float:
        self._stirred(now)
        self.spent = self._patience.spent(now, self.limit_s)
        return math.inf if self.spent else 0.0

    def _stirred(self, now: float) -> None:
        """What has slept through an hour before will do so again: a server between two requests."""
        self._quiet_since = now
        if self._began_at is not None:
            self._trusted_s = max(STRIDE_S, (self._loop.monotonic() - self._began_at) / 2)
        self._began_at = None
        self._stride_s = self._trusted_s

    def _unknown(self, now: float) -> float:
        moment = self._loop.monotonic()
        if self._moved_at != moment:
            if self._began_at is not None:
                self._stride_s *= GROWTH
            self._moved_at, self._quiet_since = moment, now
        if now - self._quiet_since < OPAQUE_S:
            return 0.0
        if self._began_at is None:
            self._began_at = moment
        return self._stride_s
