"""Queues that are held but not drained."""

from __future__ import annotations

from collections.abc import Iterable

from killcheck.probes.base import Finding, Probe
from killcheck.probes.where import command_path
from killcheck.probes.world import World

from killcheck.text import lazy_re

__all__ = ["QueueNotDrained"]


class QueueNotDrained(Probe):
    """Kueue's Hold admits nothing new and leaves what runs running; only HoldAndDrain turns GPUs off."""

    id = "queue-not-drained"
    claim = "A layer that stops a queue drains it too."
    remedy = "Set stopPolicy: HoldAndDrain."
    failures = (32,)
    sources = ("kueue.sigs.k8s.io/docs: ClusterQueue stopPolicy",)

    def ask(self, world: World) -> Iterable[Finding]:
        """What executors write into stopPolicy."""
        for one in world.executors:
            queues = any(call.resource in ("clusterqueues", "localqueues") for call in one.reading.writes)
            if queues and _HOLD.search(one.text) and "HoldAndDrain" not in one.text:
                message = "sets stopPolicy: Hold: no new workload is admitted, and those that run keep their GPUs"
                yield self.finding(world, one.owner, command_path(one), message)


_HOLD = lazy_re.compile(r"stopPolicy[\"'\\]*\s*[:=]\s*[\"'\\]*Hold\b")
