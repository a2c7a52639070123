"""KEDA triggers that are still active when a layer scales to zero."""

from __future__ import annotations

from collections.abc import Iterable

from killcheck.probes.base import Finding, Probe
from killcheck.probes.keda_floor import scales
from killcheck.probes.where import command_path
from killcheck.probes.world import World

from killcheck.kube.objects import name_of

__all__ = ["KedaRelight"]


class KedaRelight(Probe):
    """With work in the queue KEDA scales 0 to 1 at its next poll, whoever scaled to 0."""

    id = "keda-relight"
    claim = "A layer that scales what KEDA scales tells KEDA so."
    remedy = (
        'Let the layer annotate the ScaledObject (autoscaling.keda.sh/paused-replicas: "0") rather than scale what it '
        "scales."
    )
    severity = "warning"
    failures = (27,)
    sources = ("KE#5570", "keda.sh/docs: pausing autoscaling")

    def ask(self, world: World) -> Iterable[Finding]:
        """Dead-man's switches and monitors on targets that have a ScaledObject of their own."""
        for target, obj in world.targets:
            scalers = [s for s in world.of("ScaledObject") if scales(s, obj)]
            for one in world.layer_executors:
                if not scalers or one.layer is None or target.name not in one.layer.covers:
                    continue
                if not any(call.resource == "scaledobjects" for call in one.reading.writes):
                    message = f"scales {target} to zero while {name_of(scalers[0])} goes on watching its queue"
                    yield self.finding(
                        world, one.owner, command_path(one), message, also=[(scalers[0], ("spec", "triggers"))]
                    )
