"""Workloads without a GPU that live on GPU nodes."""

from __future__ import annotations

from collections.abc import Iterable

from killcheck.probes.base import Finding, Probe
from killcheck.probes.world import World, owners_of

from killcheck.kube import gpus
from killcheck.kube.objects import dig
from killcheck.kube.workloads import devices_of, templates

__all__ = ["GpuNodeGuest"]


class GpuNodeGuest(Probe):
    """A node with one pod left is not empty: what needs no GPU and is pinned to GPU nodes keeps them on, all night."""

    id = "gpu-node-guest"
    claim = "Nothing but GPU work, and daemons, is pinned to GPU nodes."
    remedy = "Take the node selector and the GPU toleration away: it runs on any CPU node."
    failures = (46,)
    sources = ("CA FAQ", "sigs.k8s.io/karpenter pkg/controllers/disruption/emptiness.go", "seen in a drill of the zoo")

    def ask(self, world: World) -> Iterable[Finding]:
        """Workloads that select what the targets' pods select, and ask for no device."""
        chosen = {
            (key, value)
            for _, template in world.target_templates
            for key, value in dig(template.spec, "nodeSelector", default={}).items()
            if not key.startswith("kubernetes.io/")
        }
        claims = gpus.claims_of(world.objects)
        executors = {id(one.owner) for one in world.layer_executors}
        for obj in world.of("Deployment", "StatefulSet", "Pod", "ReplicaSet"):
            if owners_of(obj) or id(obj) in executors or devices_of(obj, claims, wanted=True):
                continue
            for template in templates(obj):
                selector = dig(template.spec, "nodeSelector", default={})
                shared = next((key for key, value in selector.items() if (key, value) in chosen), None)
                if shared is not None and template.count:
                    message = f"needs no GPU and is pinned to its nodes ({shared}={selector[shared]}): none empties"
                    yield self.finding(world, obj, (*template.path, "nodeSelector", shared), message)
