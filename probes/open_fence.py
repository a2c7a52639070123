"""Pools that may buy more than anyone wants to pay for."""

from __future__ import annotations

from collections.abc import Iterable

from killcheck.probes.base import Finding, Probe
from killcheck.probes.world import World

from killcheck.kube.objects import dig

__all__ = ["OpenFence"]


class OpenFence(Probe):
    """The fence that is left when every layer fails: without limits a misfire buys whatever the cloud has."""

    id = "open-fence"
    claim = "Every GPU pool is bounded by limits, and its requirements name labels that Karpenter knows."
    remedy = "Set spec.limits (devices of every vendor, cpu), name instance types, and see 'killcheck fence'."
    severity = "warning"
    failures = (58,)
    sources = ("KP#3093", "KP#745", "KA#6098", "karpenter.sh/docs: scheduling, well-known labels")

    def ask(self, world: World) -> Iterable[Finding]:
        """The kill path's NodePools."""
        for pool in world.gpu_pools:
            if not dig(pool, "spec", "limits"):
                yield self.finding(world, pool, ("spec",), "no limits: nothing bounds how many GPU nodes it may launch")
            for index, requirement in enumerate(dig(pool, "spec", "template", "spec", "requirements", default=[])):
                key = str(requirement.get("key", ""))
                if key.rpartition("/")[2] in _KEYS and not key.startswith(("karpenter.k8s.", "eks.amazonaws.com/")):
                    path = ("spec", "template", "spec", "requirements", index, "key")
                    message = f"{key} is no label that Karpenter knows: the requirement restricts nothing"
                    yield self.finding(
                        world, pool, path, message, severity="error",
                        remedy=f"Write karpenter.k8s.aws/{key.rpartition('/')[2]}.")


_KEYS = frozenset("""
    instance-category instance-family instance-generation instance-size instance-cpu instance-memory instance-gpu-name
    instance-gpu-manufacturer instance-gpu-count instance-gpu-memory instance-accelerator-name
    instance-accelerator-manufacturer instance-accelerator-count instance-hypervisor instance-local-nvme
""".split())  # noqa: SIM905
