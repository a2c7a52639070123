"""Deadlines that cannot be kept."""

from __future__ import annotations

from collections.abc import Iterable

from killcheck.probes.base import Finding, Probe, merge_patch
from killcheck.probes.world import World

from killcheck.discover.deadlines import go_duration_s
from killcheck.kube.objects import dig

__all__ = ["TightDeadline"]


class TightDeadline(Probe):
    """Sums that do not come out: an executor ended before its image is there, nodes that stay longer than allowed."""

    id = "tight-deadline"
    claim = "The deadlines leave the time that the manifests themselves say is needed."
    remedy = "Allow more time in killcheck.yaml, or shorten what takes it."
    failures = (8, 36, 47)
    sources = ("recordings 20 and 20b", "sigs.k8s.io/karpenter pkg/controllers/disruption")

    def ask(self, world: World) -> Iterable[Finding]:
        """activeDeadlineSeconds against a pull; consolidateAfter against the spec's own deadlines."""
        for _, obj in world.schedules:
            path = ("spec", "jobTemplate", "spec", "activeDeadlineSeconds")
            limit = dig(obj, *path)
            if limit is not None and limit < _SHORTEST_S:
                message = f"ends the Job after {limit} s: scheduling and one slow pull take longer"
                yield self.finding(
                    world,
                    obj,
                    path,
                    message,
                    remedy="Set activeDeadlineSeconds: 900.",
                    patch=merge_patch(obj, {"spec": {"jobTemplate": {"spec": {"activeDeadlineSeconds": 900}}}}),
                )
        limits = world.kill_path.deadlines
        for pool in world.gpu_pools:
            after = go_duration_s(str(dig(pool, "spec", "disruption", "consolidateAfter", default="0s")))
            spare = limits.node_drained_s - limits.pods_gone_s
            if after is not None and spare < after < 3600.0:
                message = f"waits {after:.0f} s, and from podsGone to nodeDrained the spec allows {spare:.0f} s"
                yield self.finding(world, pool, ("spec", "disruption", "consolidateAfter"), message)


#: Seconds: schedule, pull of two minutes, start.
_SHORTEST_S = 120
