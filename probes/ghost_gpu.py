"""Instances that bill without doing anything."""

from __future__ import annotations

from collections.abc import Iterable

from killcheck.probes.base import Finding, Probe
from killcheck.probes.world import World

from killcheck.kube.objects import condition, dig, parse_time

__all__ = ["GhostGpu"]


class GhostGpu(Probe):
    """A NodeClaim that never became a node, or one that cannot finish being deleted: its instance is on."""

    id = "ghost-gpu"
    claim = "Every NodeClaim is a node of the cluster, or is on its way out and getting there."
    remedy = "See its conditions and Karpenter's log; end the instance in the cloud, then let Karpenter do the rest."
    failures = (49,)
    sources = ("CA#803", "CA#6360", "KA#2734", "KP#2169", "karpenter.sh/docs: registration takes at most 15 minutes")
    needs = ("NodeClaim",)

    def ask(self, world: World) -> Iterable[Finding]:
        """NodeClaims with status, from a cluster or from a saved listing."""
        for claim in world.of("NodeClaim"):
            deleted, created = dig(claim, "metadata", "deletionTimestamp"), dig(claim, "metadata", "creationTimestamp")
            registered = (condition(claim, "Registered") or {}).get("status")
            if deleted and self._age(world, deleted) > _STUCK_S:
                message = f"is being deleted since {deleted}: its instance still runs"
                yield self.finding(world, claim, ("metadata", "deletionTimestamp"), message)
            elif created and registered != "True" and dig(claim, "status") and self._age(world, created) > _STUCK_S:
                message = f"launched at {created} and never registered as a node"
                yield self.finding(world, claim, ("status", "conditions"), message)
        for node in world.gpu_nodes:
            deleted = dig(node, "metadata", "deletionTimestamp")
            if deleted and self._age(world, deleted) > _STUCK_S:
                yield self.finding(
                    world, node, ("metadata", "deletionTimestamp"), f"is being deleted since {deleted} and still there"
                )

    @staticmethod
    def _age(world: World, stamp: str) -> float:
        return (world.now - parse_time(stamp)).total_seconds()


#: Seconds: Karpenter gives up on a registration after 15 minutes; a drain with a bound is over by then too.
_STUCK_S = 1200.0
