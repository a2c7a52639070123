"""GPUs that are used without being asked for."""

from __future__ import annotations

from collections.abc import Iterable

from killcheck.probes.base import Finding, Probe
from killcheck.probes.world import World, owners_of

from killcheck.kube.gpus import unaccounted
from killcheck.kube.workloads import templates

__all__ = ["UnaskedGpu"]


class UnaskedGpu(Probe):
    """NVIDIA_VISIBLE_DEVICES or a device file from the host: no scheduler, quota or count of GPUs sees such a pod."""

    id = "unasked-gpu"
    claim = "Nothing uses a GPU without asking for it."
    remedy = "Ask for the device (resources.limits), so that it is counted, scheduled and turned off."
    severity = "warning"
    failures = (39,)
    sources = ("NVIDIA/nvidia-container-toolkit documentation: environment variables",)

    def ask(self, world: World) -> Iterable[Finding]:
        """Pod templates of every kind, those of nodes' own daemons left out."""
        for obj in world.objects:
            if obj.get("kind") == "DaemonSet" or owners_of(obj):
                continue
            for template in templates(obj):
                how = unaccounted(template.spec)
                if how:
                    yield self.finding(world, obj, template.path, f"may use GPUs that it does not ask for: {how}")
