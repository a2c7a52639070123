"""HorizontalPodAutoscalers that may light again what a layer scaled to zero."""

from __future__ import annotations

from collections.abc import Iterable

from killcheck.probes.base import Finding, Probe, merge_patch
from killcheck.probes.world import World, namespace_or_default, owners_of

from killcheck.kube.objects import Obj, dig, name_of

__all__ = ["HpaRelight"]


class HpaRelight(Probe):
    """An HPA with a minimum of 1 stands still at 0 replicas; one with a minimum of 0 goes on scaling from there."""

    id = "hpa-relight"
    claim = "No autoscaler that may start from zero has a say over what a layer scales to zero."
    remedy = "Set minReplicas: 1 (the HPA then leaves 0 alone), or let the layer lower maxReplicas or remove the HPA."
    severity = "warning"
    failures = (29,)
    sources = ("KK#135118", "KK#139648", "recording 29: an HPA at 0 replicas says ScalingDisabled")
    needs = ("HorizontalPodAutoscaler",)

    def ask(self, world: World) -> Iterable[Finding]:
        """HPAs with minReplicas 0 on targets that a layer of another kind turns off; KEDA's own HPAs are KEDA's."""
        for target, obj in world.targets:
            for hpa in world.in_namespace("HorizontalPodAutoscaler", namespace_or_default(obj)):
                if not _scales(hpa, obj) or dig(hpa, "spec", "minReplicas", default=1) != 0:
                    continue
                owned = any(owner.get("kind") == "ScaledObject" for owner in owners_of(hpa))
                layers = [layer for layer in world.zeroes(target) if layer.name != f"{name_of(hpa)}-to-zero"]
                if layers and not owned:
                    message = f"may scale {target} up from 0 after {layers[0].name} turned it off"
                    yield self.finding(
                        world,
                        hpa,
                        ("spec", "minReplicas"),
                        message,
                        also=[(hpa, ("spec", "metrics"))],
                        patch=merge_patch(hpa, {"spec": {"minReplicas": 1}}),
                    )


def _scales(hpa: Obj, obj: Obj) -> bool:
    ref = dig(hpa, "spec", "scaleTargetRef", default={})
    return (ref.get("kind"), ref.get("name")) == (obj.get("kind"), name_of(obj))
