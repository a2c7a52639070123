"""Spot nodes without anyone who listens to the notice."""

from __future__ import annotations

from collections.abc import Iterable

from killcheck.probes.base import Finding, Probe
from killcheck.probes.world import World

from killcheck.kube.objects import Obj, dig, name_of
from killcheck.spec.killpath import LayerType

__all__ = ["SpotQueue"]


class SpotQueue(Probe):
    """Without an interruption queue nothing drains in the two minutes, and the fallback stays on demand."""

    id = "spot-queue"
    claim = "Where GPUs are bought on the spot market, somebody hears the interruption notice."
    remedy = "Set Karpenter's settings.interruptionQueue (INTERRUPTION_QUEUE), or run aws-node-termination-handler."
    severity = "warning"
    failures = (52,)
    sources = ("KA#3005", "KA#9226", "karpenter.sh/docs: interruption")

    def ask(self, world: World) -> Iterable[Finding]:
        """Karpenter's Deployment, where a GPU pool allows spot."""
        spot = [
            pool
            for pool in world.gpu_pools
            for entry in dig(pool, "spec", "template", "spec", "requirements", default=[])
            if entry.get("key") == "karpenter.sh/capacity-type" and "spot" in (entry.get("values") or ())
        ]
        handled = any(layer.type is LayerType.SPOT_HANDLER for layer in world.kill_path.layers)
        for obj in world.of("Deployment") if spot and not handled else ():
            for index, container in enumerate(dig(obj, "spec", "template", "spec", "containers", default=[])):
                if "karpenter" in str(container.get("image", "")) and not _listens(container):
                    path = ("spec", "template", "spec", "containers", index, "env")
                    message = f"has no interruption queue, and {name_of(spot[0])} buys on the spot market"
                    yield self.finding(world, obj, path, message)


def _listens(container: Obj) -> bool:
    named = any(e.get("name") == "INTERRUPTION_QUEUE" and e.get("value") for e in container.get("env") or ())
    flags = (*(container.get("args") or ()), *(container.get("command") or ()))
    return named or any(str(word).startswith("--interruption-queue") for word in flags)
