"""Executors that delete Node objects and leave the instances."""

from __future__ import annotations

from collections.abc import Iterable

from killcheck.probes.base import Finding, Probe
from killcheck.probes.where import command_path
from killcheck.probes.world import World

from killcheck.text import lazy_re

__all__ = ["NodeObjectDeleted"]


class NodeObjectDeleted(Probe):
    """Without Karpenter's finalizer a deleted Node is only a forgotten one: the instance bills and nobody sees it."""

    id = "node-object-deleted"
    claim = "No executor deletes a Node whose instance nothing else will end."
    remedy = "Scale the node group (or end the instance) in the cloud; delete Nodes only where Karpenter made them."
    failures = (49,)
    sources = ("CA#803", "KA#2734")

    def ask(self, world: World) -> Iterable[Finding]:
        """Calls that delete nodes, where no Karpenter pool is part of the kill path; finalizers that are stripped."""
        for one in world.executors:
            for call in one.reading.writes:
                if (
                    (call.group, call.resource) == ("", "nodes")
                    and call.verb.startswith("delete")
                    and not world.gpu_pools
                ):
                    message = f"{call}: the object goes, the instance stays on"
                    yield self.finding(world, one.owner, command_path(one), message)
            if _STRIPS.search(one.text):
                message = "strips finalizers from nodes: Karpenter then forgets the instance, which bills on"
                yield self.finding(
                    world,
                    one.owner,
                    command_path(one),
                    message,
                    remedy="Leave karpenter.sh/termination alone; find out what the drain waits for.",
                )


_STRIPS = lazy_re.compile(r"(?s)(nodes?|nodeclaims?)\b.{0,300}finalizers[\"']*\s*[:=]\s*(null|\[\s*\])")
