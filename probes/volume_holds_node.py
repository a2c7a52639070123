"""Volumes that must be detached before a node may go."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from killcheck.probes.base import Finding, Probe, merge_patch
from killcheck.probes.world import World, namespace_or_default

from killcheck.kube.objects import Obj, dig, name_of
from killcheck.kube.workloads import templates
from killcheck.text.yamlfile import Path

__all__ = ["VolumeHoldsNode"]


class VolumeHoldsNode(Probe):
    """Karpenter waits for a drained node's volumes (AwaitingVolumeDetachment), unless its drain has an end."""

    id = "volume-holds-node"
    claim = "No volume that cannot be detached keeps a GPU node."
    remedy = "Set terminationGracePeriod on the NodePool: it ends this wait too."
    severity = "warning"
    failures = (44,)
    sources = ("sigs.k8s.io/karpenter pkg/controllers/node/termination: VolumesDetached",)
    needs = ("PersistentVolumeClaim",)

    def ask(self, world: World) -> Iterable[Finding]:
        """Targets with volumes of one node at a time, where no pool of the kill path ends its drains."""
        pools = world.gpu_pools
        endless = [p for p in pools if not dig(p, "spec", "template", "spec", "terminationGracePeriod")]
        for _, obj in world.targets if endless else ():
            for path, name in _attached(world, obj):
                message = f"mounts {name}, and {name_of(endless[0])} waits for its detachment without an end"
                patch = {"spec": {"template": {"spec": {"terminationGracePeriod": "10m"}}}}
                yield self.finding(
                    world,
                    obj,
                    path,
                    message,
                    patch=merge_patch(endless[0], patch),
                    also=[(endless[0], ("spec", "template", "spec"))],
                )
                break


def _attached(world: World, obj: Obj) -> Iterator[tuple[Path, str]]:
    """(path, claim) of the volumes that are attached to one node: ReadWriteOnce, by template or by name."""
    for index, claim in enumerate(dig(obj, "spec", "volumeClaimTemplates", default=[])):
        if _one_node(claim):
            yield ("spec", "volumeClaimTemplates", index), f"a volume of {name_of(claim)} for each pod"
    for template in templates(obj):
        for index, volume in enumerate(template.spec.get("volumes") or ()):
            path = (*template.path, "volumes", index)
            name = str(dig(volume, "persistentVolumeClaim", "claimName", default=""))
            found = world.find("PersistentVolumeClaim", namespace_or_default(obj), name) if name else None
            made = dig(volume, "ephemeral", "volumeClaimTemplate")
            if (found and _one_node(found)) or (made and _one_node(made)):
                yield path, f"volume {name or volume.get('name')}"


def _one_node(claim: Obj) -> bool:
    modes = dig(claim, "spec", "accessModes", default=[])
    return bool({"ReadWriteOnce", "ReadWriteOncePod"} & set(modes))
