"""A spot machine outside Kubernetes that its cloud takes just when it is told to stop."""

from __future__ import annotations

from typing import ClassVar

from killcheck.faults.base import Plan
from killcheck.faults.machine.cli import CliNoEffect
from killcheck.faults.machine.cloud_answers import refusing_once
from killcheck.faults.machine.timers import SecondController
from killcheck.layers.base import LayerRun, Stage
from killcheck.spec.killpath import KillPath, Layer
from killcheck.text.values import replace

__all__ = ["ReclaimedWhileStopping"]


class _ComesBack(SecondController):
    """The cloud itself, when it has room again."""

    after_s: ClassVar[float] = 120.0


class ReclaimedWhileStopping(CliNoEffect):
    """Reproduces row 50: who reclaims it stops it, not the user; so a persistent request starts it again.

    The first call that would stop the machine is refused, as a cloud refuses it for one that is stopping already. It
    goes off all the same, and is started two minutes after. What EC2 has stopped it starts when there is capacity, and
    what its user has stopped it does not. Source: the EC2 User Guide's "Persistent Spot Instance requests" and
    "Behavior of Spot Instance interruptions".
    """

    name = "reclaimed-while-stopping"
    simulates = "the cloud reclaims the machine while it is told to stop, refuses that call, and starts it again later"
    family = "spot"
    failures = (50, 52)
    costs = SecondController.costs

    def __init__(self) -> None:
        super().__init__()
        self._back = _ComesBack()
        self._mark = ""

    def unsuited_targets(self, kill_path: KillPath, layer: Layer) -> str | None:
        """Only where it asks a cloud to stop it, and the spec says how it is started."""
        return super().unsuited_targets(kill_path, layer) or self._back.unsuited_targets(kill_path, layer)

    def plan(self, stage: Stage, layer: LayerRun) -> Plan:
        """The program before the cloud's, and the start."""
        own, back = super().plan(stage, layer), self._back.plan(stage, layer)
        self._mark = stage.run
        return replace(own, changes=own.changes + back.changes, edits=own.edits + back.edits)

    def text(self, name: str) -> str:
        """Refuses once, and lets it go off."""
        return refusing_once(name, self._mark)

    def bitten(self, stage: Stage, layer: LayerRun) -> str | None:
        """It was refused, and has started it again."""
        refused, again = super().bitten(stage, layer), self._back.bitten(stage, layer)
        return f"{refused}; started again: {again}" if refused and again else None

    def react(self, stage: Stage, layer: LayerRun) -> float | None:
        """Start it again, once it was reclaimed."""
        return self._back.react(stage, layer) if super().bitten(stage, layer) else None
