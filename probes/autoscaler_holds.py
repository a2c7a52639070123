"""Settings that keep cluster-autoscaler from taking nodes away."""

from __future__ import annotations

from collections.abc import Iterable

from killcheck.probes.base import Finding, Probe
from killcheck.probes.world import World

from killcheck.discover.deadlines import go_duration_s
from killcheck.kube.objects import Obj, dig

__all__ = ["AutoscalerHolds"]


class AutoscalerHolds(Probe):
    """scale-down-disabled on a node, scale-down switched off, a long unneeded time."""

    id = "autoscaler-holds"
    claim = "cluster-autoscaler takes empty GPU nodes away, soon."
    remedy = "Take the annotation or flag away; --scale-down-unneeded-time=5m."
    failures = (46,)
    sources = ("cluster-autoscaler FAQ", "2i2c-org/infrastructure#3287")

    def ask(self, world: World) -> Iterable[Finding]:
        """GPU nodes' annotations and the autoscaler's flags."""
        for node in world.gpu_nodes:
            path = ("metadata", "annotations", "cluster-autoscaler.kubernetes.io/scale-down-disabled")
            if dig(node, *path) == "true":
                yield self.finding(world, node, path, "cluster-autoscaler never takes this node away")
        for obj in world.of("Deployment"):
            for index, container in enumerate(dig(obj, "spec", "template", "spec", "containers", default=[])):
                if "cluster-autoscaler" in str(container.get("image", "")):
                    yield from self._flags(world, obj, index, container)

    def _flags(self, world: World, obj: Obj, index: int, container: Obj) -> Iterable[Finding]:
        for part in ("command", "args"):
            for number, word in enumerate(container.get(part) or ()):
                name, _, value = str(word).lstrip("-").partition("=")
                path = ("spec", "template", "spec", "containers", index, part, number)
                if name == "scale-down-enabled" and value == "false":
                    yield self.finding(world, obj, path, "scale-down is switched off: nodes only ever come")
                seconds = go_duration_s(value) if name == "scale-down-unneeded-time" else None
                if seconds is not None and seconds > _LONGEST_S:
                    yield self.finding(world, obj, path, f"an empty node stays for {value}", severity="warning")


#: Seconds: three times the default.
_LONGEST_S = 1800.0
