"""The layer's own next firing, which this drill did not make: that it comes, and that it turns off what is on by then.

A drill pulls the trigger once. What an executor leaves behind - a lock that nobody takes away, a mark on what it turned
off, rights that it took from itself, a schedule that it deleted - is met by its next firing alone. So where the clock
is virtual everything is put on again before that, and the schedule is left to itself. Not here: verdicts.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from typing import ClassVar

from msgspec import Struct

from killcheck.layers.base import LayerRun, Stage
from killcheck.spec.killpath import Target
from killcheck.watch import wholeness

__all__ = ["FIRED_S", "LEAD_S", "Missed", "NextFiring", "NotTried", "WorksOnce"]

#: How long a firing of the layer's own may take until nothing of it is under way, in seconds.
FIRED_S = 900.0
#: How long before it everything is put on again, in seconds: pods have to start, and nodes to come.
LEAD_S = 600.0


class Missed(Struct, frozen=True):
    """The layer's own next firing, at ``at``, which did not come after a night in which everything went off."""

    at: datetime
    why: str

    remedy: ClassVar[str] = "let nothing suspend or hold up the schedule; give its Job an activeDeadlineSeconds"
    evidence: ClassVar[tuple[str, ...]] = ()
    stuck_at: ClassVar[str] = "triggered"
    failures: ClassVar[tuple[int, ...]] = (7,)

    @property
    def cause(self) -> str:
        """As a diagnosis says it."""
        return f"its next firing, at {self.at:%Y-%m-%d %H:%M} UTC, did not come: {self.why}"


class WorksOnce(Struct, frozen=True):
    """The layer's own next firing, at ``at``, came and left on what was on again; ``evidence``: what it said."""

    at: datetime
    left: str
    evidence: tuple[str, ...]

    remedy: ClassVar[str] = (
        "let every firing do the whole work: release locks whatever happens, and turn off what is on, not what is "
        "unmarked"
    )
    stuck_at: ClassVar[str] = "scale_written"
    failures: ClassVar[tuple[int, ...]] = (14,)

    @property
    def cause(self) -> str:
        """As a diagnosis says it."""
        return f"its next firing, at {self.at:%Y-%m-%d %H:%M} UTC, came and left on what was put on again: {self.left}"


class NotTried(Struct, frozen=True):
    """The layer's own next firing, at ``at`` (None: it has none), which says nothing of the layer."""

    at: datetime | None
    why: str
    #: Pods of what was put on were refused by then: what refuses them may refuse those of the switch.
    refused: bool = False

    settles: ClassVar[str] = (
        "let nothing refuse pods in the night (a quota, a policy), or say under assume: why the switch's are let in"
    )

    @property
    def told(self) -> str:
        """As a note says it."""
        when = f" at {self.at:%Y-%m-%d %H:%M} UTC" if self.at else ""
        return f"its next firing{when} was not tried: {self.why}"


class NextFiring:
    """What the schedule of ``runner`` does by itself after the drill; ``put_on`` puts its targets on again."""

    def __init__(self, stage: Stage, runner: LayerRun, targets: Sequence[Target], put_on: Callable[[], None]) -> None:
        self.stage, self.runner, self.targets, self.put_on = stage, runner, targets, put_on
        self.scene, self.loop = stage.scene, stage.cluster.loop
        self._was_on = False

    def missed(self, due: datetime | None) -> Missed | None:
        """Why the firing at ``due`` did not come, though its time did; None: it came, or was not waited for."""
        if due is None or due + timedelta(seconds=FIRED_S) > self.loop.now() or self.runner.layer.cron_job is None:
            return None
        why = self.runner.missed(due)
        return None if why is None else Missed(due, str(why))

    def prepare(self) -> None:
        """Put everything on, and let it idle for as long as the layer waits."""
        self.put_on()
        self._was_on = self._run(self._on, self.loop.now() + timedelta(seconds=LEAD_S))
        self._run(lambda: False, self.loop.now() + timedelta(seconds=self.runner.idles_s() or 0.0))

    def on_within(self, seconds: float) -> bool:
        """Whether everything that was put on is wholly on within so many seconds."""
        return self._run(self._on, self.loop.now() + timedelta(seconds=seconds))

    def again(self) -> Missed | WorksOnce | NotTried | None:
        """Let the schedule fire; None: that turned everything off."""
        due = self.runner.comes_again(self.loop.now())
        if due is None:
            return NotTried(None, "its schedule names no time to come")
        if self._off():
            if self._was_on and self.runner.goes_on:
                return None
            return self.missed(due) or NotTried(due, "nothing could be put on again before it")
        self._run(self._off, due)
        tried = self._on() or (self._was_on and self.runner.goes_on)  # it may act a moment before its time
        late_s = self.runner.late_by_s()
        off = self._run(self._off, due + timedelta(seconds=late_s))
        self._run(lambda: False, due + timedelta(seconds=FIRED_S))
        missed = self.missed(due)
        if missed is not None:
            return missed
        if not tried:
            refused = [target for target in self.targets if wholeness.is_refused(self.scene, target)]
            why = next(filter(None, (wholeness.lack(self.scene, target) for target in refused)), None)
            return NotTried(due, f"not everything was on by then{f': {why}' if why else ''}", why is not None)
        if off or self._empty():
            return None
        left = [str(target) for target in self.targets if self.scene.replicas(target) or self.scene.pods_of(target)]
        return WorksOnce(due, ", ".join(left), tuple(self.runner.own_firing(due)))

    def _run(self, done: Callable[[], bool], end: datetime) -> bool:
        return self.loop.run_until(done, max(0.0, (end - self.loop.now()).total_seconds()))

    def _on(self) -> bool:
        """Whether every target is wholly on again."""
        return all(not wholeness.lack(self.scene, target, why=False) for target in self.targets)

    def _empty(self) -> bool:
        """Whether no pods are left, though replicas may be asked for: a quota, or a gate, keeps others from coming."""
        return not any(self.scene.pods_of(target) for target in self.targets)

    def _off(self) -> bool:
        return not any(self.scene.replicas(target) or self.scene.pods_of(target) for target in self.targets)
