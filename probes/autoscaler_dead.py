"""What takes the nodes away is not running."""

from __future__ import annotations

from collections.abc import Iterable

from killcheck.probes.base import Finding, Probe
from killcheck.probes.world import World, namespace_or_default

from killcheck.kube.objects import dig, name_of
from killcheck.text import lazy_re

__all__ = ["AutoscalerDead"]


class AutoscalerDead(Probe):
    """Karpenter or cluster-autoscaler at zero: pods go, nodes stay."""

    id = "autoscaler-dead"
    claim = "What takes empty nodes away is running."
    remedy = "Scale it up and read its log; it needs at least one ready replica."
    failures = (48,)
    sources = ("KP#745", "berops/claudie#2023", "KA#4527")

    def ask(self, world: World) -> Iterable[Finding]:
        """Deployments of Karpenter and cluster-autoscaler, KEDA where a layer is a scaler."""
        for obj in world.of("Deployment"):
            images = [str(c.get("image", "")) for c in dig(obj, "spec", "template", "spec", "containers", default=[])]
            if not any(_AUTOSCALERS.search(image) for image in images):
                continue
            if dig(obj, "spec", "replicas") == 0:
                yield self.finding(
                    world,
                    obj,
                    ("spec", "replicas"),
                    "is scaled to 0: nothing takes empty GPU nodes away",
                    patch=f"kubectl -n {namespace_or_default(obj)} scale deployment {name_of(obj)} --replicas=1",
                )
            elif world.live and not dig(obj, "status", "readyReplicas", default=0):
                yield self.finding(world, obj, ("status", "readyReplicas"), "has no ready replica")


_AUTOSCALERS = lazy_re.compile(r"(^|/)(karpenter(/controller)?|cluster-autoscaler[\w-]*|keda(-operator)?)([:@]|$)")
