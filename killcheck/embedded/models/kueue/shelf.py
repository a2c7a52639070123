"""What Kueue's controllers look at together: queues, flavors and Workloads, these as they were last written."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import ClassVar

from killcheck.embedded.controllers.runtime import Controller, Informers
from killcheck.embedded.models.karpenter.conditions import is_true
from killcheck.embedded.models.kueue import names as n
from killcheck.embedded.models.kueue.assignment import reserved
from killcheck.embedded.models.kueue.checks import named_by
from killcheck.embedded.models.kueue.preemption import Holder
from killcheck.embedded.models.kueue.quota import Quotas, flavors_of
from killcheck.entries import Becomes, leaves
from killcheck.kube.client import Kube
from killcheck.kube.errors import NotFound
from killcheck.kube.objects import Obj, condition, copy, dig, key_of, name_of, namespace_of

__all__ = ["Part", "Shelf", "active", "has_reservation", "is_pending", "stop_policy"]


def stop_policy(queue: Obj | None) -> str:
    """``None``, ``Hold`` or ``HoldAndDrain``."""
    return str(dig(queue, "spec", "stopPolicy", default="") or "None")


def has_reservation(workload: Obj) -> bool:
    """Whether it holds quota."""
    return is_true(workload, "QuotaReserved")


def is_pending(workload: Obj) -> bool:
    """Whether it waits to be admitted and may be: not finished, not deactivated, not put aside when it was evicted."""
    requeued = condition(workload, "Requeued")
    return not (
        is_true(workload, "Finished")
        or has_reservation(workload)
        or "deletionTimestamp" in workload["metadata"]
        or dig(workload, "spec", "active", default=True) is False
        or (requeued is not None and requeued["status"] == "False")
    )


class Shelf:
    """The objects. Kueue assumes an admission as soon as it is written, before its watch shows it."""

    def __init__(self, kube: Kube, informers: Informers) -> None:
        self.kube = kube
        self.queues = informers.of(n.CLUSTERQUEUES, optional=True)
        self.local_queues = informers.of(n.LOCALQUEUES, optional=True)
        self.flavors = informers.of(n.FLAVORS, optional=True)
        self.cohorts = informers.of(n.COHORTS, optional=True)
        self.checks = informers.of(n.CHECKS, optional=True)
        self._workloads = informers.of(n.WORKLOADS, optional=True)
        #: Whether there has been a queue: without one Kueue is taken to live outside the manifests.
        self._used = False
        self._written: dict[tuple[str, str], Obj] = {}

    def in_use(self) -> bool:
        """Whether there is a ClusterQueue, or has been one; asked for, for the informer may be a moment late."""
        self._used = self._used or bool(self.queues.values() or self.kube.list(n.CLUSTERQUEUES).items)
        return self._used

    def workload(self, key: tuple[str, str]) -> Obj | None:
        """A Workload by (namespace, name)."""
        seen = self._workloads.objects.get(key)
        written = self._written.get(key)
        if seen is None or written is None or written["metadata"]["uid"] != seen["metadata"]["uid"]:
            self._written.pop(key, None)
            return seen
        if int(written["metadata"]["resourceVersion"]) > int(seen["metadata"]["resourceVersion"]):
            return written
        del self._written[key]
        return seen

    def workloads(self) -> list[Obj]:
        """All of them."""
        found = [self.workload(key) for key in list(self._workloads.objects)]
        return [one for one in found if one is not None]

    def write(self, workload: Obj, status: Obj) -> Obj:
        """Write a Workload's status where nobody changed it since. Raises Conflict; one that is gone stays gone."""
        meta = workload["metadata"]
        body = {"metadata": {"resourceVersion": meta["resourceVersion"]}, "status": status}
        try:
            answer = self.kube.patch(n.WORKLOADS, name_of(workload), body, namespace_of(workload), subresource="status")
        except NotFound:
            return workload
        self._written[key_of(answer)] = answer
        return answer

    def local_queue(self, workload: Obj) -> Obj | None:
        """The LocalQueue that it names."""
        return self.local_queues.get(str(dig(workload, "spec", "queueName", default="")), namespace_of(workload))

    def queue_of(self, workload: Obj) -> Obj | None:
        """The ClusterQueue behind it; of one that was admitted, the one that admitted it."""
        admitted = dig(workload, "status", "admission", "clusterQueue")
        local = self.local_queue(workload)
        name = admitted or dig(local, "spec", "clusterQueue", default="")
        return self.queues.get(str(name)) if name else None

    def holders(self) -> list[Holder]:
        """Who holds how much of what."""
        return [
            Holder(one, str(one["status"]["admission"]["clusterQueue"]), reserved(one))
            for one in self.workloads()
            if has_reservation(one) and dig(one, "status", "admission") and not is_true(one, "Finished")
        ]

    def quotas(self, holders: Iterable[Holder]) -> Quotas:
        """The books."""
        books = Quotas(self.queues.values(), self.cohorts.values())
        for holder in holders:
            books.add(holder.queue, holder.usage)
            books.limits.setdefault(holder.queue, {})
        return books

    @leaves("Kueue", "MultiKueue, and any other AdmissionCheck: nobody answers for its controller", Becomes.OPEN)
    def inactive(self, queue: Obj) -> tuple[str, str] | None:
        """Reason and message of a ClusterQueue that admits nothing; None where it does."""
        if "deletionTimestamp" in queue["metadata"]:
            return "Terminating", "Can't admit new workloads; clusterQueue is terminating"
        found: list[tuple[str, str]] = []
        if stop_policy(queue) != "None":
            found.append(("Stopped", "is stopped"))
        missing = [name for name in flavors_of(queue) if self.flavors.get(name) is None]
        if missing:
            found.append(("FlavorNotFound", f"references missing ResourceFlavor(s): {','.join(missing)}"))
        checks = {name: self.checks.get(name) for name in sorted(named_by(queue))}
        missing = [name for name, check in checks.items() if check is None]
        if missing:
            found.append(("AdmissionCheckNotFound", f"references missing AdmissionCheck(s): {','.join(missing)}"))
        idle = [name for name, check in checks.items() if check is not None and not is_true(check, "Active")]
        if idle:
            found.append(("AdmissionCheckInactive", f"references inactive AdmissionCheck(s): {','.join(idle)}"))
        if not found:
            return None
        return found[0][0], f"Can't admit new workloads: {', '.join(message for _, message in found)}."


@dataclass(eq=False, repr=False)
class Part(Controller):
    """One of Kueue's controllers."""

    shelf: Shelf

    component: ClassVar[str] = n.WORKLOAD_CONTROLLER

    def changed_status(self, workload: Obj) -> Obj:
        """The status of a Workload, ours to change, in an object as :func:`put` takes it."""
        return {"metadata": workload["metadata"], "status": copy(workload.get("status") or {})}


def active(job: Obj) -> bool:
    """Whether a Job has pods that are not terminating."""
    return bool(dig(job, "status", "active", default=0))
