"""A fault of a part of the night: ``rolebinding-gone=2s..10m`` strikes 2 s after the trigger, and is lifted at 10 m.

A fault by itself is there from before the trigger to the end of the drill. Of one that exposes, this finds from when to
when it has to be there (:mod:`killcheck.run.times`). Only on a virtual clock: there a night with its faults is the same
each time, to the second.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from datetime import datetime, timedelta

from killcheck.capabilities.offered import Capability
from killcheck.faults.base import Evidence, Fault, FaultError, Plan, Unsuited
from killcheck.kube.objects import Obj
from killcheck.layers.base import LayerRun, Stage
from killcheck.spec.killpath import KillPath, Layer
from killcheck.text.durations import format_duration, parse_duration
from killcheck.text.values import replace

__all__ = ["SIGN", "Timed", "span", "spelled"]

#: What stands between a fault's name and its times.
SIGN = "="
_TO = ".."


def span(text: str) -> tuple[float | None, float | None]:
    """``2s..10m``, ``2s`` or ``..10m`` as seconds after the trigger: when it strikes (None: before the trigger), and
    when it is lifted (None: never). Raises ValueError with what was expected.
    """
    first, _, last = text.partition(_TO)
    if not first and not last:
        raise ValueError(f"expected times after the trigger such as 2s, 2s..10m or ..10m, found {text!r}")
    struck_s, lifted_s = (parse_duration(part) if part else None for part in (first, last))
    if lifted_s is not None and lifted_s <= (struck_s or 0.0):
        raise ValueError(f"expected a fault to be lifted after it struck, found {text!r}")
    return struck_s, lifted_s


def spelled(name: str, struck_s: float | None, lifted_s: float | None) -> str:
    """A fault with its times, as ``--under`` takes it; without any as it is."""
    first, last = ("" if at is None else format_duration(at) for at in (struck_s, lifted_s))
    if not first and not last:
        return name
    return f"{name}{SIGN}{first}{_TO if last else ''}{last}"


class Timed(Fault):
    """``inner`` from ``struck_s`` to ``lifted_s``, seconds after the trigger; None: from before it, to the end."""

    def __init__(self, inner: Fault, struck_s: float | None, lifted_s: float | None) -> None:
        self.inner = inner
        self.struck_s, self.lifted_s = struck_s, lifted_s
        self.name = spelled(inner.name, struck_s, lifted_s)  # type: ignore[misc]
        self.simulates = inner.simulates  # type: ignore[misc]
        self.family = inner.family  # type: ignore[misc]
        self.failures = inner.failures  # type: ignore[misc]
        self.needs = inner.needs  # type: ignore[misc]
        self.rank = inner.rank  # type: ignore[misc]
        self.lingers = inner.lingers
        self.bars = False  # it may end: nothing is foregone
        self._there = self._over = False

    @property
    def shows(self) -> Evidence:  # type: ignore[override]
        """As the fault's own."""
        return self.inner.shows

    @property
    def noticed(self) -> tuple[datetime, float] | None:  # type: ignore[override]
        """As the fault's own."""
        return self.inner.noticed

    def unsuited(
        self,
        kill_path: KillPath,
        layer: Layer,
        *,
        cron_job: Obj | None = None,
        offered: Collection[Capability] | None = None,
    ) -> Unsuited | None:
        """As the fault itself."""
        return self.inner.unsuited(kill_path, layer, cron_job=cron_job, offered=offered)

    def plan(self, stage: Stage, layer: LayerRun) -> Plan:
        """As the fault's own. Raises FaultError on a clock of the wall, and of what has no time of its own."""
        if stage.cluster.real:
            raise FaultError(
                f"{self.name}: times of faults are those of a virtual clock; {stage.cluster.name} has none"
            )
        own = self.inner.plan(stage, layer)
        if own.on_copy:
            raise FaultError(self._of_the_copy())
        return replace(own, changes=tuple(f"{change} ({self._when()})" for change in own.changes))

    def inject(self, stage: Stage, layer: LayerRun) -> Sequence[str]:
        """Now where it is there before the trigger; else nothing yet."""
        return self._strike(stage, layer) if self.struck_s is None else [f"{self.inner.name}: nothing yet"]

    def react(self, stage: Stage, layer: LayerRun) -> float | None:
        """Strike and lift at their times; in between as the fault itself."""
        assert stage.timeline is not None
        passed_s = (stage.cluster.loop.now() - stage.timeline.start) / timedelta(seconds=1)
        if not self._there:
            assert self.struck_s is not None
            if passed_s < self.struck_s:
                return self.struck_s - passed_s
            self._strike(stage, layer)
        if self._over:
            return None
        if self.lifted_s is not None and passed_s >= self.lifted_s:
            self._lift(stage)
            return None
        again_s = self.inner.react(stage, layer)
        left_s = None if self.lifted_s is None else self.lifted_s - passed_s
        return min((one for one in (again_s, left_s) if one is not None), default=None)

    def bitten(self, stage: Stage, layer: LayerRun) -> str | None:
        """As the fault's own, once it struck."""
        return self.inner.bitten(stage, layer) if self._there else None

    def belied(self, layer: LayerRun) -> str | None:
        """As the fault's own."""
        return self.inner.belied(layer)

    def missed(self) -> str | None:
        """That it had not struck, where that is so."""
        return self.inner.missed() if self._there else f"everything was over before it struck ({self._when()})"

    def spares(self, stage: Stage, layer: LayerRun) -> Sequence[str]:
        """As the fault's own."""
        return self.inner.spares(stage, layer)

    def leaves(self, stage: Stage) -> str | None:
        """As the fault's own."""
        return self.inner.leaves(stage)

    def _strike(self, stage: Stage, layer: LayerRun) -> Sequence[str]:
        """Raises FaultError for what only the Job as it is made could meet."""
        self._there = True  # its waiting lets others be asked, and this one too
        rewrites = len(stage.rewrites)
        done = self.inner.inject(stage, layer)
        if len(stage.rewrites) != rewrites and (self.struck_s is not None or self.lifted_s is not None):
            raise FaultError(self._of_the_copy())
        return done

    def _lift(self, stage: Stage) -> None:
        """Take it back before the end. Raises FaultError where that cannot be done."""
        self._over = True
        problems = stage.journal.undo_of(self.name)
        if problems:
            raise FaultError(f"{self.name} could not be lifted: {'; '.join(problems)}")

    def _of_the_copy(self) -> str:
        return f"{self.name}: {self.inner.name} is of the executor's Job as it is made, and has no time of its own"

    def _when(self) -> str:
        first = "before the trigger" if self.struck_s is None else f"{format_duration(self.struck_s)} after the trigger"
        return f"from {first} on" if self.lifted_s is None else f"from {first} to {format_duration(self.lifted_s)}"
