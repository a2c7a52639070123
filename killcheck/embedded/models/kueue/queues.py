"""The status of ClusterQueues and LocalQueues: whether they admit, what is used, how many wait.

Source: kubernetes-sigs/kueue pkg/controller/core/{clusterqueue,localqueue,resourceflavor,admissioncheck}_controller.go.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from typing import ClassVar

from killcheck.embedded.models.karpenter.conditions import is_true, put
from killcheck.embedded.models.kueue import names as n
from killcheck.embedded.models.kueue.assignment import quantity
from killcheck.embedded.models.kueue.checks import named_by
from killcheck.embedded.models.kueue.preemption import Holder
from killcheck.embedded.models.kueue.quota import Quotas, flavors_of
from killcheck.embedded.models.kueue.shelf import Part, has_reservation, is_pending, stop_policy
from killcheck.kube.errors import Conflict, NotFound
from killcheck.kube.informer import Change
from killcheck.kube.objects import Obj, condition, copy, dig, format_time, name_of, namespace_of
from killcheck.kube.resources import Resource

__all__ = ["Queues"]

#: Kueue writes counts of what changed together (pkg/constants: UpdatesBatchPeriod), seconds.
BATCH_S = 1.0


class Queues(Part):
    """One pass writes every status that changed."""

    name: ClassVar[str] = "kueue-queues"

    def setup(self) -> None:
        """Follow queues, flavors and Workloads."""
        self.follow(n.CLUSTERQUEUES, self._all, optional=True)
        self.follow(n.LOCALQUEUES, self._all, optional=True)
        for resource in (n.FLAVORS, n.COHORTS, n.CHECKS):
            self.follow(resource, self._all, optional=True)
        self.follow(n.WORKLOADS, self._all, optional=True)

    def _all(self, _change: Change, _old: Obj | None, _new: Obj) -> list[tuple[str, str]]:
        self.queue.add(("", ""), BATCH_S)
        return []

    def reconcile(self, key: tuple[str, str]) -> None:
        """Bring every queue's status up to date."""
        holders = self.shelf.holders()
        books = self.shelf.quotas(holders)
        waiting = [one for one in self.shelf.workloads() if is_pending(one) or _waits_for_its_queue(one)]
        for queue in self.shelf.queues.values():
            mine = [one for one in holders if one.queue == name_of(queue)]
            pending = sum(1 for one in waiting if self.shelf.queue_of(one) is queue)
            status = _counts(queue, mine, pending, books)
            inactive = self.shelf.inactive(queue)
            told = inactive or ("Ready", "Can admit new workloads")
            self._write(n.CLUSTERQUEUES, queue, status, told, active=inactive is None)
        for local in self.shelf.local_queues.values():
            self._local(local, holders, waiting, books)
        self._let_go({one.queue for one in holders})

    def _let_go(self, holding: set[str]) -> None:
        """What is to go and nobody uses loses its finalizer: a queue without reservations, what no queue names."""
        queues = self.shelf.queues.values()
        for resource, objects, used in (
            (n.CLUSTERQUEUES, queues, holding),
            (n.FLAVORS, self.shelf.flavors.values(), {name for one in queues for name in flavors_of(one)}),
            (n.CHECKS, self.shelf.checks.values(), {name for one in queues for name in named_by(one)}),
        ):
            for obj in objects:
                ends, kept = "deletionTimestamp" in obj["metadata"], list(obj["metadata"].get("finalizers") or ())
                if ends and n.IN_USE in kept and name_of(obj) not in used:
                    kept.remove(n.IN_USE)
                elif not ends and n.IN_USE not in kept:  # made while no webhook answered, or an AdmissionCheck
                    kept.append(n.IN_USE)
                else:
                    continue
                meta = {"finalizers": kept or None, "resourceVersion": obj["metadata"]["resourceVersion"]}
                with suppress(NotFound, Conflict):
                    self.kube.patch(resource, name_of(obj), {"metadata": meta})

    def _local(self, local: Obj, holders: list[Holder], waiting: list[Obj], books: Quotas) -> None:
        queue = self.shelf.queues.get(str(dig(local, "spec", "clusterQueue", default="")))

        def ours(workload: Obj) -> bool:
            return namespace_of(workload) == namespace_of(local) and dig(workload, "spec", "queueName") == name_of(
                local
            )

        inactive = "Can't submit new workloads to clusterQueue"
        told = ("Ready", "Can submit new workloads to localQueue")
        if stop_policy(local) != "None":
            told = ("Stopped", "LocalQueue is stopped")
        elif queue is None:
            told = ("ClusterQueueDoesNotExist", inactive)
        elif self.shelf.inactive(queue):
            told = ("ClusterQueueIsInactive", inactive)
        mine = [one for one in holders if ours(one.workload)]
        pending = sum(1 for one in waiting if ours(one)) if stop_policy(local) == "None" else 0
        status = _counts(queue, mine, pending, books)
        self._write(n.LOCALQUEUES, local, status, told, active=told[0] == "Ready")

    def _write(self, resource: Resource, queue: Obj, status: Obj, told: tuple[str, str], *, active: bool) -> None:
        obj = {"metadata": queue["metadata"], "status": copy(queue.get("status") or {}) | status}
        put(obj, "Active", "True" if active else "False", format_time(self.loop.now()), reason=told[0], message=told[1])
        if obj["status"] == (queue.get("status") or {}):
            return
        try:
            self.kube.patch(
                resource, name_of(queue), {"status": obj["status"]}, namespace_of(queue) or None, subresource="status"
            )
        except NotFound:
            return


def _waits_for_its_queue(workload: Obj) -> bool:
    """Put aside because its ClusterQueue was stopped: Kueue counts it as pending all the same (recorded)."""
    requeued = condition(workload, "Requeued")
    aside = requeued is not None and (requeued["status"], requeued["reason"]) == ("False", "ClusterQueueStopped")
    return aside and not has_reservation(workload) and "deletionTimestamp" not in workload["metadata"]


def _counts(queue: Obj | None, holders: list[Holder], pending: int, books: Quotas) -> Obj:
    admitted = [one for one in holders if is_true(one.workload, "Admitted")]
    return {
        "pendingWorkloads": pending,
        "reservingWorkloads": len(holders),
        "admittedWorkloads": len(admitted),
        "flavorsReservation": list(_used(queue, holders, books)),
        "flavorsUsage": list(_used(queue, admitted, books)),
    }


def _used(queue: Obj | None, holders: list[Holder], books: Quotas) -> Iterable[Obj]:
    for group in dig(queue, "spec", "resourceGroups", default=[]):
        for flavor in group.get("flavors") or ():
            rows = []
            for entry in flavor.get("resources") or ():
                key = (str(flavor["name"]), str(entry["name"]))
                total = sum(one.usage.get(key, 0.0) for one in holders)
                nominal = books.limit(name_of(queue), key).nominal if queue is not None else 0.0
                rows.append(
                    {
                        "name": key[1],
                        "total": quantity(key[1], total),
                        "borrowed": quantity(key[1], max(0.0, total - nominal)),
                    }
                )
            yield {"name": str(flavor["name"]), "resources": rows}
