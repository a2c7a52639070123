"""Queues that are held but not drained, and what else leaves what Kueue has admitted on its GPUs."""

from __future__ import annotations

from collections.abc import Iterable

from killcheck.probes.base import Finding, Probe
from killcheck.probes.where import command_path
from killcheck.probes.world import SCALED, Executor, World

from killcheck.executor import ApiCall
from killcheck.kube.objects import Obj, dig, labels_of, name_of, namespace_of
from killcheck.text import lazy_re

__all__ = ["QueueNotDrained"]

_QUEUE_OF = "kueue.x-k8s.io/queue-name"
_DRAINS = "HoldAndDrain"
_HOLD = lazy_re.compile(r"stopPolicy[\"'\\]*\s*[:=]\s*[\"'\\]*Hold\b")
_SUSPENDS = lazy_re.compile(r"suspend[\"'\\]*\s*[:=]\s*[\"'\\]*true\b")
_QUOTA = "nominalQuota"


class QueueNotDrained(Probe):
    """Kueue's Hold admits nothing new and leaves what runs running; only HoldAndDrain turns GPUs off."""

    id = "queue-not-drained"
    claim = "A layer that stops a queue drains it too."
    remedy = "Set stopPolicy: HoldAndDrain, on the queue of what runs."
    failures = (32,)
    sources = (
        "kueue.sigs.k8s.io/docs: ClusterQueue stopPolicy",
        "kubernetes-sigs/kueue pkg/controller/jobframework/reconciler.go (a suspended Job that is admitted is started)",
    )

    def ask(self, world: World) -> Iterable[Finding]:
        """What executors write of queues, and of the Jobs and Workloads behind them."""
        for one in world.executors:
            message = self._held(one) or self._left_on(world, one)
            if message and not (_queues(one) and _goes_off(one)):
                yield self.finding(world, one.owner, command_path(one), message)

    @staticmethod
    def _held(one: Executor) -> str | None:
        if _queues(one) and _HOLD.search(one.text) and _DRAINS not in one.text:
            return "sets stopPolicy: Hold: no new workload is admitted, and those that run keep their GPUs"
        return None

    def _left_on(self, world: World, one: Executor) -> str | None:
        """Why what it writes evicts nothing of what its targets' queues have admitted; None: it may."""
        covered = [obj for target, obj in world.targets if one.layer is None or target.name in one.layer.covers]
        queued = [obj for obj in covered if labels_of(obj).get(_QUEUE_OF)]
        if not queued:
            return None
        if _queues(one):
            return self._of_queues(world, one, queued)
        jobs = [call for call in one.reading.writes if call.resource == "jobs"]
        if any(call.verb.startswith("delete") for call in jobs):
            return None
        if jobs and any(obj.get("kind") == "Job" for obj in queued) and any(_SUSPENDS.search(c.body) for c in jobs):
            return "suspends a Job that Kueue has admitted: Kueue starts it again at once"
        if any(call.resource == "workloads" and call.verb.startswith("delete") for call in one.reading.writes):
            return "deletes Workloads: Kueue makes each anew for its Job, and admits it again"
        return None

    @staticmethod
    def _of_queues(world: World, one: Executor, queued: list[Obj]) -> str | None:
        calls = _queues(one)
        if _QUOTA in one.text and _DRAINS not in one.text:
            return "lowers a quota: Kueue evicts nothing that it has admitted, and what runs keeps its GPUs"
        if not all(call.name for call in calls):
            return None
        for obj in queued:
            local = world.find("LocalQueue", namespace_of(obj), labels_of(obj)[_QUEUE_OF])
            above = str(dig(local, "spec", "clusterQueue", default="")) if local else ""
            mine = {("localqueues", namespace_of(obj), labels_of(obj)[_QUEUE_OF]), ("clusterqueues", "", above)}
            if above and not any((call.resource, call.namespace, call.name) in mine for call in calls):
                stopped = ", ".join(dict.fromkeys(call.name for call in calls))
                where = f"LocalQueue {labels_of(obj)[_QUEUE_OF]} of ClusterQueue {above}"
                return f"stops {stopped}, and {obj.get('kind')} {name_of(obj)} is in {where}: it keeps its GPUs"
        return None


def _goes_off(one: Executor) -> bool:
    """Whether it also deletes what runs, or scales it to nothing: what it writes of the queue only keeps it off."""
    gone = ("jobs", "pods", "workloads", *SCALED)
    deletes = any(call.verb.startswith("delete") and call.resource in gone for call in one.reading.writes)
    return deletes or any(call.replicas == 0 and call.resource in SCALED for call in one.reading.writes)


def _queues(one: Executor) -> list[ApiCall]:
    """Its writes to queues."""
    return [call for call in one.reading.writes if call.resource in ("clusterqueues", "localqueues")]
