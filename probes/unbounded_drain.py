"""Karpenter pools whose drains have no end."""

from __future__ import annotations

from collections.abc import Iterable

from killcheck.probes.base import Finding, Probe, merge_patch
from killcheck.probes.world import World

from killcheck.kube.objects import dig

__all__ = ["UnboundedDrain"]


class UnboundedDrain(Probe):
    """Without terminationGracePeriod a drain waits for ever: for a budget, an annotation, a finalizer."""

    id = "unbounded-drain"
    claim = "Every drain of a GPU node ends, whatever is in its way."
    remedy = "Set spec.template.spec.terminationGracePeriod (10m) on the NodePool."
    severity = "warning"
    failures = (43, 47)
    sources = ("KP#1789", "karpenter.sh/docs: terminationGracePeriod")

    def ask(self, world: World) -> Iterable[Finding]:
        """The kill path's NodePools."""
        for pool in world.gpu_pools:
            if not dig(pool, "spec", "template", "spec", "terminationGracePeriod"):
                patch = {"spec": {"template": {"spec": {"terminationGracePeriod": "10m"}}}}
                yield self.finding(
                    world,
                    pool,
                    ("spec", "template", "spec"),
                    "no terminationGracePeriod: a drain may wait for ever",
                    patch=merge_patch(pool, patch),
                )
