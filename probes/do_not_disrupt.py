"""Annotations that keep a node from being taken away."""

from __future__ import annotations

from collections.abc import Iterable

from killcheck.probes.base import Finding, Probe
from killcheck.probes.world import World, owners_of

from killcheck.kube.objects import Obj, dig
from killcheck.kube.workloads import templates

__all__ = ["DoNotDisrupt"]


class DoNotDisrupt(Probe):
    """One pod with karpenter.sh/do-not-disrupt or safe-to-evict=false holds its node, a DaemonSet's pod too."""

    id = "do-not-disrupt"
    claim = "Nothing that stays on a GPU node forbids taking the node away, without a bound."
    remedy = "Drop the annotation, or bound the drain: spec.template.spec.terminationGracePeriod on the NodePool."
    failures = (43, 46)
    sources = ("KP#1789", "karpenter.sh/docs: disruption controls", "cluster-autoscaler FAQ")

    def ask(self, world: World) -> Iterable[Finding]:
        """Workloads that may share a GPU node: a target's own pods go with it, what stays beside them does not."""
        targets = {id(obj) for _, obj in world.targets}
        bounded = bool(world.gpu_pools) and all(
            dig(pool, "spec", "template", "spec", "terminationGracePeriod") for pool in world.gpu_pools
        )
        for obj in world.of("Deployment", "StatefulSet", "DaemonSet", "Pod"):
            if owners_of(obj):
                continue
            for template in templates(obj):
                held = [key for key, value in _HOLDS.items() if dig(template.metadata, "annotations", key) == value]
                if not held or not (id(obj) in targets or _on_gpu_nodes(template.spec)):
                    continue
                path = (*template.path[:-1], "metadata", "annotations", held[0])
                stays = id(obj) not in targets
                message = f"{held[0]} on pods {'that stay on' if stays else 'of'} the GPU node" + (
                    ": it is never taken away" if stays else ": no drain, no consolidation while they run"
                )
                yield self.finding(
                    world,
                    obj,
                    path if dig(obj, *path) else path[-3:],
                    message,
                    severity="error" if stays and not bounded else "warning",
                )


_HOLDS = {"karpenter.sh/do-not-disrupt": "true", "cluster-autoscaler.kubernetes.io/safe-to-evict": "false"}


def _on_gpu_nodes(spec: Obj) -> bool:
    """Whether a pod tolerates the taint of GPU nodes, and so may stay on one."""
    return any(
        entry.get("key") in (None, "", "nvidia.com/gpu", "amd.com/gpu", "google.com/tpu", "aws.amazon.com/neuron")
        for entry in spec.get("tolerations") or ()
    )
