"""Work comes when the GPUs have just been turned off: whoever starts workers for work starts them again."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from killcheck.capabilities.offered import Capability
from killcheck.capabilities.programs import Ran
from killcheck.faults.base import Evidence, Fault, FaultError, Plan
from killcheck.layers.base import LayerRun, Stage
from killcheck.spec.killpath import Command, KillPath, Layer, LayerType

__all__ = ["WorkComes"]

#: What turns off whatever any work is doing, and is no part of what starts workers.
_SWITCHES = (LayerType.DEAD_MAN, LayerType.COMMAND)


class WorkComes(Fault):
    """Reproduces row 27 without KEDA: a fleet's own scaler looks at a queue, and knows nothing of a switch.

    What makes a target busy the spec says, at the layer beside the switch that waits for idleness.
    """

    name = "work-comes"
    simulates = "work comes half a minute after the GPUs are off"
    family = "rivals"
    failures = (27, 55)
    needs = (Capability.PROGRAMS,)
    costs = "whoever answers work starts the targets anew in the middle of the drill"
    shows = Evidence.TRIED
    outside = True
    #: How long after they are off, in seconds.
    after_s: ClassVar[float] = 30.0

    def __init__(self) -> None:
        self._off_since_s: float | None = None
        self._ran: Ran | None = None
        self._asked = False

    @staticmethod
    def _busy(kill_path: KillPath, layer: Layer) -> Command | None:
        """What makes a target of the layer busy, as another layer has it."""
        beside = (one for one in kill_path.layers if one.name != layer.name and set(one.covers) & set(layer.covers))
        return next((one.busy for one in beside if one.busy is not None), None)

    def unsuited_layer(self, layer: Layer) -> str | None:
        """Only where a switch turns off whatever is being done."""
        return None if layer.type in _SWITCHES else "the layer is no switch that fires whatever work there is"

    def unsuited_targets(self, kill_path: KillPath, layer: Layer) -> str | None:
        """Only where the spec says what work is."""
        busy = self._busy(kill_path, layer)
        return None if busy is not None else "no layer beside it has a busy command that makes a request"

    def plan(self, stage: Stage, layer: LayerRun) -> Plan:
        """The spec's own request, once."""
        busy = self._busy(stage.kill_path, layer.layer)
        if busy is None:
            raise FaultError(f"{self.name}: {self.unsuited_targets(stage.kill_path, layer.layer)}")
        return Plan((f"{busy} is run once, when the GPUs are off",), edits=("what the targets take for use",))

    def inject(self, stage: Stage, layer: LayerRun) -> Sequence[str]:
        """Wait until they are off."""
        return [f"{self._busy(stage.kill_path, layer.layer)} is run {self.after_s:.0f} s after the GPUs are off"]

    def react(self, stage: Stage, layer: LayerRun) -> float | None:
        """Make the request, once, a while after zero."""
        census, loop = stage.scene.census, stage.cluster.loop
        outside = bool(census.targets) and (census.broken() is not None or bool(census.all_on()))
        if self._asked or stage.timeline is None or outside or stage.scene.gpu_pods():
            return None
        if self._off_since_s is None:
            self._off_since_s = loop.monotonic()
        left = self._off_since_s + self.after_s - loop.monotonic()
        busy = self._busy(stage.kill_path, layer.layer)
        if left > 0 or busy is None:
            return left
        self._asked = True
        stage.programs.start(busy, lambda ran: self._heard(stage, ran))
        return None

    def _heard(self, stage: Stage, ran: Ran) -> None:
        self._ran = ran
        stage.scene.wake()

    def bitten(self, stage: Stage, layer: LayerRun) -> str | None:
        """The request was made, and the GPUs were off."""
        ran = self._ran
        return f"{ran.command} was run at {ran.ended:%H:%M:%S}, the GPUs being off" if ran and ran.ok else None

    def missed(self) -> str | None:
        """The request failed, or the GPUs were never off for as long as it waits."""
        if self._ran is None:
            return f"no {self.after_s:.0f} s passed in which the GPUs were off, and no work came"
        return None if self._ran.ok else f"the request failed, {self._ran.told}"

    def leaves(self, stage: Stage) -> str | None:
        """What the request left is the spec's own: a file, an item in a queue."""
        return None
