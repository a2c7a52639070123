"""How long a process may work without a pause before the cluster's time moves on all the same."""

from __future__ import annotations

__all__ = ["LIMIT_S", "Patience"]

#: Wall seconds of uninterrupted work after which time moves on, so that no loop can hang the night.
LIMIT_S = 20.0
#: What one look can count for, in wall seconds: a host that stood still meanwhile has not let anybody work.
LOOK_S = 0.1
#: Wall seconds between one move of time and the next from then on, in which whoever waits for the loop has a turn.
BREATH_S = 0.002


class Patience:
    """Counts the work that looks at a process find."""

    def __init__(self) -> None:
        self._worked_s = 0.0
        self._looked_at: float | None = None

    def spent(self, now: float) -> bool:
        """A look at wall second ``now`` finds it at work: whether time moves on all the same."""
        if self._looked_at is not None:
            self._worked_s += min(now - self._looked_at, LOOK_S)
        self._looked_at = now
        if self._worked_s < LIMIT_S:
            return False
        self._worked_s = LIMIT_S - BREATH_S
        return True

    def renew(self) -> None:
        """It pauses."""
        self._worked_s = 0.0
        self._looked_at = None
