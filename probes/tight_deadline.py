"""Deadlines that cannot be kept."""

from __future__ import annotations

import math
from collections.abc import Iterable

from killcheck.probes.base import Finding, Probe, merge_patch
from killcheck.probes.firings import shortest_gap_s
from killcheck.probes.world import Executor, World

from killcheck.discover.deadlines import go_duration_s, grace
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
        for one in world.watched:
            yield from self._seen(world, one)
            yield from self._replaced(world, one)
        for _, obj in world.schedules:
            path = ("spec", "jobTemplate", "spec", "activeDeadlineSeconds")
            limit = dig(obj, *path)
            seen = world.seen_of(obj)
            took = seen is not None and seen.deadline_s is not None and seen.first.seconds > seen.deadline_s
            if limit is not None and limit < _SHORTEST_S and not took:
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
        for _, obj in world.targets:
            needed_s, why = grace(obj)
            allowed_s = limits.pods_gone_s - limits.scale_written_s
            if "one after the other" in why and needed_s > allowed_s:
                message = (
                    f"may take {needed_s:.0f} s to stop ({why}: OrderedReady), and from scaleWritten to "
                    f"podsGone the spec allows {allowed_s:.0f} s"
                )
                yield self.finding(
                    world,
                    obj,
                    ("spec", "replicas"),
                    message,
                    severity="warning",
                    remedy="Set podManagementPolicy: Parallel, or allow more time in killcheck.yaml.",
                )
        for pool in world.gpu_pools:
            after = go_duration_s(str(dig(pool, "spec", "disruption", "consolidateAfter", default="0s")))
            spare = limits.node_drained_s - limits.pods_gone_s
            if after is not None and spare < after < 3600.0:
                message = f"waits {after:.0f} s, and from podsGone to nodeDrained the spec allows {spare:.0f} s"
                yield self.finding(world, pool, ("spec", "disruption", "consolidateAfter"), message)

    def _replaced(self, world: World, one: Executor) -> Iterable[Finding]:
        """One whose next firing ends it (concurrencyPolicy: Replace) before it has turned anything off."""
        first = one.seen.first if one.seen else None
        off = [call.at_s for call in first.writes if not call.refused] if first and first.off else []
        gap_s = shortest_gap_s(one.owner, world.now)
        if dig(one.owner, "spec", "concurrencyPolicy") == "Replace" and off and gap_s and off[0] > gap_s:
            message = f"the next firing replaces it after {gap_s:.0f} s, and it takes {off[0]:.0f} s until it acts"
            remedy = "Use concurrencyPolicy: Forbid, or let the kill come first."
            yield self.finding(world, one.owner, ("spec", "concurrencyPolicy"), message, remedy=remedy, seen=True)

    def _seen(self, world: World, one: Executor) -> Iterable[Finding]:
        """A rehearsal that came to its end, later than the Job's own deadline."""
        seen = one.seen
        if seen is None or seen.deadline_s is None or seen.first.outcome.value != "ended":
            return
        took_s = math.ceil(seen.first.seconds)
        if took_s > seen.deadline_s:
            path = ("spec", "jobTemplate", "spec", "activeDeadlineSeconds")
            yield self.finding(
                world,
                one.owner,
                path,
                f"ends the Job after {seen.deadline_s:.0f} s, and it took {took_s} s",
                remedy=f"Set activeDeadlineSeconds to {2 * took_s} or more.",
                seen=True,
            )


#: Seconds: schedule, pull of two minutes, start.
_SHORTEST_S = 120
