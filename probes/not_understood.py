"""What could not be read."""

from __future__ import annotations

from collections.abc import Iterable

from killcheck.probes.base import Finding, Probe
from killcheck.probes.world import World

__all__ = ["NotUnderstood"]


class NotUnderstood(Probe):
    """An executor that acts by means which cannot be read may do anything, also nothing."""

    id = "not-understood"
    claim = "What every layer's executor does could be read, and stays within Kubernetes."
    remedy = "Keep the script in the manifest or in a ConfigMap; a drill tells what it really does."
    severity = "note"
    failures = (2, 14)
    sources = ("killcheck.executor: what is read and what is not",)

    def ask(self, world: World) -> Iterable[Finding]:
        """What of the layers' executors is not understood."""
        for one in world.layer_executors:
            if one.seen is not None and one.seen.ran:
                continue
            for what in one.reading.not_understood:
                yield self.unproven(world, one.owner, f"what it does could not be read: {what}")
            for what in one.reading.outside:
                yield self.unproven(world, one.owner, f"it acts outside Kubernetes: {what}")
            why = world.why_not_rehearsed(one.owner)
            if why is not None:
                yield self.unproven(world, one.owner, f"it could not be rehearsed: {why}")
