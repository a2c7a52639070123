"""No spot machine is to be had when one is wanted: work waits, or goes on at the on-demand price."""

from __future__ import annotations

from collections.abc import Sequence

from killcheck.capabilities.offered import Capability, present
from killcheck.entries import Becomes, leaves
from killcheck.faults.base import Evidence, Fault, Plan, none_rented
from killcheck.layers.base import LayerRun, Stage
from killcheck.spec.killpath import KillPath, Layer, LayerType

__all__ = ["NoSpot"]


@leaves("spot", "how often a type is reclaimed, and when spot is to be had again", Becomes.UNSEEN)
class NoSpot(Fault):
    """Reproduces row 52: what a reclaim takes is scarce, so that its place is not taken by the next spot machine.

    A pool of spot alone leaves the pod Pending, which costs nothing, and the work does not go on. One that may fall
    back launches on demand, and nothing moves back by itself.
    """

    name = "no-spot"
    simulates = "no spot machine of any type is to be had (InsufficientInstanceCapacity)"
    family = "spot"
    failures = (52,)
    needs = (Capability.CLOUD,)
    rank = 2
    shows = Evidence.OTHERS

    def __init__(self) -> None:
        self._before = 0

    def unsuited_layer(self, layer: Layer) -> str | None:
        """Only where a machine is to take the place of one that went."""
        return None if layer.type is LayerType.SPOT_HANDLER else "no machine is bought after it"

    def unsuited_targets(self, kill_path: KillPath, layer: Layer) -> str | None:
        """Only where machines come and go."""
        return none_rented(kill_path)

    def plan(self, stage: Stage, layer: LayerRun) -> Plan:
        """The modelled cloud's spot capacity."""
        return Plan((self.simulates,), edits=("the cloud's spot capacity",))

    def inject(self, stage: Stage, layer: LayerRun) -> Sequence[str]:
        """From now on; what runs goes on running."""
        stage.journal.set_attribute(Capability.CLOUD, self.simulates, "no_spot", True)
        self._before = len(present(stage.cluster.capabilities.cloud).spot_refused)
        return [self.simulates]

    def bitten(self, stage: Stage, layer: LayerRun) -> str | None:
        """Somebody asked for one with GPUs, and was refused."""
        asked = present(stage.cluster.capabilities.cloud).spot_refused[self._before :]
        one = next((one for one in asked if one.devices), None)
        if one is None:
            return None
        return f"{one.by} asked for a {one.type} on spot at {one.at:%H:%M:%S}: InsufficientInstanceCapacity"
