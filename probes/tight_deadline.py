"""Deadlines that cannot be kept."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from killcheck.probes.base import Finding, Probe, merge_patch
from killcheck.probes.schedules import shortest_gap_s
from killcheck.probes.world import Executor, World

from killcheck.discover.deadlines import go_duration_s, grace
from killcheck.kube.objects import Obj, dig
from killcheck.kube.workloads import templates
from killcheck.text import lazy_re

if TYPE_CHECKING:
    from killcheck.rehearsal.record import Firing

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
        for one in world.executors:
            yield from self._asleep(world, one)
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
                    unmeasured="an image takes as long to be pulled here as the model says",
                    patch=merge_patch(obj, {"spec": {"jobTemplate": {"spec": {"activeDeadlineSeconds": 900}}}}),
                )
        limits = world.kill_path.deadlines
        for _, obj in world.targets:
            needed_s, why, in_turn = grace(obj)
            allowed_s = limits.pods_gone_s - limits.scale_written_s
            if in_turn > 1 and needed_s > allowed_s:
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

    def _asleep(self, world: World, one: Executor) -> Iterable[Finding]:
        """A script that was read, and that sleeps for longer than its Job may take."""
        path, what = _limit(one.owner)
        limit_s, slept_s = dig(one.owner, *path, default=math.inf), one.reading.waits_s
        if slept_s > limit_s and not (one.seen is not None and one.seen.ran):
            message = f"ends {what} after {limit_s} s, and its script sleeps {slept_s:.0f} s before it changes anything"
            yield self.finding(world, one.owner, path, message, remedy=_longer(slept_s))

    def _seen(self, world: World, one: Executor) -> Iterable[Finding]:
        """A rehearsal that came to its end, later than the Job's own deadline."""
        seen = one.seen
        path, what = _limit(one.owner)
        if seen is None or seen.deadline_s is None or seen.first.outcome.value != "ended":
            return
        took_s = math.ceil(seen.first.seconds)
        if took_s <= seen.deadline_s:
            yield from self._graces(world, one, seen.first, seen.deadline_s)
        else:
            yield self.finding(
                world,
                one.owner,
                path,
                f"ends {what} after {seen.deadline_s:.0f} s, and it took {took_s} s",
                remedy=_longer(took_s),
                seen=True,
            )

    def _graces(self, world: World, one: Executor, first: Firing, deadline_s: float) -> Iterable[Finding]:
        """One that waits for pods to be gone. In a rehearsal nothing is served by them, and they end as they are told
        to; who answers requests until the end takes the whole of its grace."""
        longest_s = _longest_s(one)
        waits = [(names, min(grace_s, longest_s), last) for names, grace_s, last in _waits(world, first)]
        more_s = sum(grace_s for _, grace_s, _ in waits)
        if not waits or first.seconds + more_s <= deadline_s:
            return
        names = ", ".join(name for found, _, _ in waits for name in found)
        took_s = math.ceil(first.seconds + more_s)
        path, what = _limit(one.owner)
        yield self.finding(
            world,
            one.owner,
            path,
            f"ends {what} after {deadline_s:.0f} s, and it waits for the pods of {names} to be gone: with all of "
            f"their grace ({more_s:.0f} s) it takes {took_s} s",
            severity="warning" if waits[-1][2] and len(waits) == 1 else "error",
            remedy=f"Set activeDeadlineSeconds to {2 * took_s} or more, or let every kill come before the first wait.",
            seen=True,
        )


def _longer(took_s: float) -> str:
    return f"Set activeDeadlineSeconds to {max(2 * math.ceil(took_s), _SHORTEST_S)} or more."


def _limit(owner: Obj) -> tuple[tuple[str, ...], str]:
    """(where an executor's deadline stands that ends it first, what it ends)."""
    path = ("spec", "jobTemplate", "spec", "activeDeadlineSeconds")
    of_pod = ("spec", "jobTemplate", "spec", "template", "spec", "activeDeadlineSeconds")
    limits = [dig(owner, *where, default=math.inf) for where in (path, of_pod)]
    return (of_pod, "its pod") if limits[1] < limits[0] else (path, "the Job")


def _waits(world: World, first: Firing) -> Iterator[tuple[list[str], float, bool]]:
    """Each wait for pods of what it had turned off by then: (whose, how long their graces are in seconds, whether it
    wrote nothing more after it)."""
    told: dict[tuple[str, str], float] = {}
    for number, call in enumerate(first.calls):
        if call.writes and not call.refused:
            told |= {
                (change.namespace, change.name): _grace_s(world.find(change.kind, change.namespace, change.name))
                for change in first.off
                if (change.name, change.namespace) == (call.name, call.namespace)
            }
        here = {key: grace_s for key, grace_s in told.items() if call.namespace in ("", key[0])}
        if call.resource == "pods" and call.verb == "watch" and not call.refused and here:
            for key in here:
                del told[key]
            yield (
                [name for _, name in here],
                max(here.values()),
                not any(later.writes for later in first.calls[number + 1 :]),
            )


def _grace_s(obj: Obj | None) -> float:
    """How long the pods of a workload may take to stop; those of an ordered StatefulSet stop one after the other."""
    if obj is None:
        return 0.0
    found = templates(obj)
    longest = max((int(dig(t.spec, "terminationGracePeriodSeconds", default=30)) for t in found), default=30)
    ordered = obj.get("kind") == "StatefulSet" and dig(obj, "spec", "podManagementPolicy") != "Parallel"
    return float(longest * (max(1, int(dig(obj, "spec", "replicas", default=1))) if ordered else 1))


def _longest_s(one: Executor) -> float:
    """The longest ``--timeout`` that its command line names: no wait of its takes longer."""
    text = " ".join(str(word) for _, container in one.containers for word in container.get("command") or ())
    text += " ".join(str(word) for _, container in one.containers for word in container.get("args") or ())
    found = [go_duration_s(said) for said in _TIMEOUT.findall(text)]
    return max((s for s in found if s), default=math.inf)


#: Seconds: schedule, pull of two minutes, start.
_SHORTEST_S = 120
_TIMEOUT = lazy_re.compile(r"--timeout[= ]\s*[\"']?(\d[\w.]*)")
