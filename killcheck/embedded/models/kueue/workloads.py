"""Workloads: admitted where quota is left, evicted when their queue is drained, and taken back when it is opened.

Source: kubernetes-sigs/kueue pkg/controller/core/workload_controller.go, pkg/scheduler/scheduler.go,
pkg/workload/{workload,evict}; conditions, reasons and messages are theirs (August 2026). Lowering a quota evicts
nothing: what was admitted stays, and nothing more is (``available`` is negative then).
"""

from __future__ import annotations

from typing import ClassVar

from killcheck.embedded.controllers.events import EventRecorder
from killcheck.embedded.models.karpenter.conditions import is_true, put
from killcheck.embedded.models.kueue import checks
from killcheck.embedded.models.kueue import names as n
from killcheck.embedded.models.kueue.assignment import Assignment, assign
from killcheck.embedded.models.kueue.preemption import REASONS, Holder, targets
from killcheck.embedded.models.kueue.quota import Quotas
from killcheck.embedded.models.kueue.shelf import Part, has_reservation, is_pending, stop_policy
from killcheck.kube import resources as r
from killcheck.kube import selectors
from killcheck.kube.errors import Conflict
from killcheck.kube.informer import Change
from killcheck.kube.objects import (
    Obj,
    condition,
    copy,
    dig,
    format_time,
    key_of,
    labels_of,
    name_of,
    namespace_of,
    parse_time,
    uid_of,
)

__all__ = ["Workloads", "release"]

_CYCLE = ("", "cycle")
#: The one that the scheduler says: what the others say it never sees.
_NOT_OF_IT = "workload namespace doesn't match ClusterQueue selector"
#: Why a Workload that was put aside queues again: reason and message.
_BACK = {
    "WorkloadReactivated": ("Reactivated", "The workload was reactivated"),
    "BackoffFinished": ("BackoffFinished", "The workload backoff was finished"),
}


def release(obj: Obj, reason: str, message: str, now: str) -> None:
    """Take a reservation back in ``obj``'s status, which is ours to change."""
    put(obj, "QuotaReserved", "False", now, reason=reason, message=message)
    obj["status"]["admission"] = None
    put(obj, "Admitted", "False", now, reason="NoReservation", message="The workload has no reservation")


class Workloads(Part):
    """kueue's workload controller and its scheduler."""

    name: ClassVar[str] = "kueue-workload"

    def setup(self) -> None:
        """Follow Workloads, queues, flavors and namespaces."""
        self.admission = EventRecorder(self.kube, self.loop, n.ADMISSION)
        self.namespaces = self.informers.of(r.NAMESPACES)
        self.follow(n.WORKLOADS, self._workload, optional=True)
        self.follow(n.LOCALQUEUES, self._queue, optional=True)
        self.follow(n.CLUSTERQUEUES, self._queue, optional=True)
        for resource in (n.FLAVORS, n.COHORTS, n.CHECKS):
            self.follow(resource, self._cycle, optional=True)

    def _workload(self, _change: Change, _old: Obj | None, new: Obj) -> list[tuple[str, str]]:
        return [key_of(new), _CYCLE]

    def _queue(self, _change: Change, old: Obj | None, new: Obj) -> list[tuple[str, str]]:
        if old is not None and old.get("spec") == new.get("spec"):
            return []
        return [*(key_of(one) for one in self.shelf.workloads()), _CYCLE]

    def _cycle(self, _change: Change, _old: Obj | None, _new: Obj) -> list[tuple[str, str]]:
        return [_CYCLE]

    def reconcile(self, key: tuple[str, str]) -> None:
        """One Workload against its queues, or one scheduling cycle."""
        if key == _CYCLE:
            self._schedule()
            return
        workload = self.shelf.workload(key)
        if workload is None or is_true(workload, "Finished") or "deletionTimestamp" in workload["metadata"]:
            return
        if dig(workload, "spec", "active", default=True) is False:
            self._deactivated(workload)
        elif has_reservation(workload):
            self._drain(workload)
            self._check(workload)
            self._limit(workload)
        else:
            self._requeue(self._asked(workload))

    def _asked(self, workload: Obj) -> Obj:
        """With the AdmissionChecks that hold for whatever flavor it will be given (AdmissionChecksForWorkload)."""
        queue = self.shelf.queue_of(workload)
        if queue is None:
            return workload
        states = checks.states_of(workload)
        wanted = checks.synced(states, checks.of_any(queue), format_time(self.loop.now()))
        if wanted == states:
            return workload
        obj = self.changed_status(workload)
        obj["status"]["admissionChecks"] = wanted
        return self.shelf.write(workload, obj["status"])

    # -- out -----------------------------------------------------------------------------------------------
    def _deactivated(self, workload: Obj) -> None:
        if has_reservation(workload) and not is_true(workload, "Evicted"):
            target = condition(workload, "DeactivationTarget")
            due = target is not None and target["status"] == "True"
            by, why = (f"DueTo{target['reason']}", f" due to {target['message']}") if target and due else ("", "")
            self._evict(workload, f"Deactivated{by}", f"The workload is deactivated{why}")
        elif not has_reservation(workload):
            self._blocked(workload, "Deactivated", "The workload is deactivated")

    def _drain(self, workload: Obj) -> None:
        """Evict what a HoldAndDrain finds admitted."""
        if is_true(workload, "Evicted"):
            return
        if stop_policy(self.shelf.local_queue(workload)) == "HoldAndDrain":
            self._evict(workload, "LocalQueueStopped", "The LocalQueue is stopped")
        elif stop_policy(self.shelf.queue_of(workload)) == "HoldAndDrain":
            self._evict(workload, "ClusterQueueStopped", "The ClusterQueue is stopped")

    def _check(self, workload: Obj) -> None:
        """Ask the AdmissionChecks, and act on what they answer."""
        queue = self.shelf.queue_of(workload)
        if queue is None or is_true(workload, "Evicted"):
            return
        states, now = checks.states_of(workload), format_time(self.loop.now())
        wanted = checks.synced(states, checks.required(workload, queue), now)
        if wanted != states:
            obj = self.changed_status(workload)
            obj["status"]["admissionChecks"] = wanted
            workload = self.shelf.write(workload, obj["status"])
        rejected, retry = checks.in_state(workload, "Rejected"), checks.in_state(workload, "Retry")
        if rejected:
            self._reject(workload, checks.told(rejected, "Rejected"))
        elif retry:
            self._evict(workload, "AdmissionCheck", f"Evicted due to {checks.told(retry, 'Retry')}")
        elif not is_true(workload, "Admitted"):
            self._admit_if_ready(workload)

    def _reject(self, workload: Obj, told: str) -> None:
        obj = self.changed_status(workload)
        put(obj, "DeactivationTarget", "True", format_time(self.loop.now()), reason="AdmissionCheck", message=told)
        self.shelf.write(workload, obj["status"])
        self.events.emit(workload, "Warning", "AdmissionCheckRejected", f"Deactivated due to {told}")
        self.kube.patch(n.WORKLOADS, name_of(workload), {"spec": {"active": False}}, namespace_of(workload))

    def _admit_if_ready(self, workload: Obj) -> None:
        obj, now = self.changed_status(workload), format_time(self.loop.now())
        if not checks.all_ready(workload):
            before = copy(obj["status"])
            put(
                obj,
                "Admitted",
                "False",
                now,
                reason="UnsatisfiedAdmissionChecks",
                message="The workload has not all checks ready",
            )
            if obj["status"] != before:
                self.shelf.write(workload, obj["status"])
            return
        put(obj, "Admitted", "True", now, reason="Admitted", message="The workload is admitted")
        self.shelf.write(workload, obj["status"])
        self._tell_admitted(workload)

    def _tell_admitted(self, workload: Obj) -> None:
        since = dig(condition(workload, "QuotaReserved"), "lastTransitionTime")
        waited = (self.loop.now() - parse_time(since)).total_seconds() if since else 0.0
        name = dig(workload, "status", "admission", "clusterQueue")
        self.admission.emit(
            workload,
            "Normal",
            "Admitted",
            f"Admitted by ClusterQueue {name}, wait time since reservation was {waited:.0f}s",
        )

    def _limit(self, workload: Obj) -> None:
        """``maximumExecutionTimeSeconds``: a Workload that ran too long is deactivated."""
        most = dig(workload, "spec", "maximumExecutionTimeSeconds")
        admitted = condition(workload, "Admitted")
        if most is None or admitted is None or admitted["status"] != "True":
            return
        left = float(most) - (self.loop.now() - parse_time(admitted["lastTransitionTime"])).total_seconds()
        if left > 0:
            self.queue.add(key_of(workload), left)
            return
        self.kube.patch(n.WORKLOADS, name_of(workload), {"spec": {"active": False}}, namespace_of(workload))
        self.events.emit(
            workload, "Warning", "MaximumExecutionTimeExceeded", f"The maximum execution time ({most}s) exceeded"
        )

    def _evict(self, workload: Obj, reason: str, message: str, preempted: str = "") -> None:
        """Say so; the integration that owns the Workload stops what it runs and then gives the quota back."""
        obj, now = self.changed_status(workload), format_time(self.loop.now())
        put(obj, "Evicted", "True", now, reason=reason, message=message)
        if preempted:
            put(obj, "Preempted", "True", now, reason=preempted, message=message)
        self.shelf.write(workload, obj["status"])
        self.events.emit(workload, "Normal", f"EvictedDueTo{reason}", message)

    # -- back in -------------------------------------------------------------------------------------------
    def _requeue(self, workload: Obj) -> None:
        """A queue that was stopped and is open again takes back what it evicted."""
        requeued = condition(workload, "Requeued")
        why = requeued["reason"] if requeued is not None and requeued["status"] == "False" else ""
        local, queue = self.shelf.local_queue(workload), self.shelf.queue_of(workload)
        opened = ""
        if why == "LocalQueueStopped" and local is not None and stop_policy(local) == "None":
            opened, word = "LocalQueueRestarted", "LocalQueue"
        elif why == "ClusterQueueStopped" and queue is not None and stop_policy(queue) == "None":
            opened, word = "ClusterQueueRestarted", "ClusterQueue"
        elif why == "AdmissionCheck":
            again = dig(workload, "status", "requeueState", "requeueAt")
            left = (parse_time(again) - self.loop.now()).total_seconds() if again else 0.0
            if left > 0:
                self.queue.add(key_of(workload), left)
                return
            opened, word = "BackoffFinished", ""
        elif why.startswith("Deactivated"):
            opened, word = "WorkloadReactivated", ""
        if opened:
            said = f"The {word} was restarted after being stopped" if word else _BACK[opened][1]
            reason = opened if word else _BACK[opened][0]
            obj = self.changed_status(workload)
            if "requeueState" in obj["status"]:
                obj["status"]["requeueState"] = None
            put(obj, "Requeued", "True", format_time(self.loop.now()), reason=reason, message=said)
            self.shelf.write(workload, obj["status"])
            return
        blocked = self._blocker(workload, local, queue)
        if blocked:
            self._blocked(workload, *blocked, event=blocked[1] == _NOT_OF_IT)

    def _blocker(self, workload: Obj, local: Obj | None, queue: Obj | None) -> tuple[str, str] | None:
        """What keeps a Workload from being looked at at all."""
        name = dig(workload, "spec", "queueName", default="")
        if local is None:
            return "Misconfigured", f"LocalQueue {name} doesn't exist"
        if stop_policy(local) != "None":
            return "Suspended", f"LocalQueue {name} is inactive"
        if queue is None:
            return "Misconfigured", f"ClusterQueue {dig(local, 'spec', 'clusterQueue', default='')} doesn't exist"
        if self.shelf.inactive(queue) or self.shelf.quotas(()).cyclic(name_of(queue)):
            return "Suspended", f"ClusterQueue {name_of(queue)} is inactive"
        namespace = self.namespaces.get(namespace_of(workload))
        selector = dig(queue, "spec", "namespaceSelector")
        if (
            namespace is None
            or selector is None
            or not selectors.from_match_labels(selector).matches(labels_of(namespace))
        ):
            return "Misconfigured", _NOT_OF_IT
        return None

    def _blocked(self, workload: Obj, reason: str, message: str, event: bool = False) -> None:
        obj, now = self.changed_status(workload), format_time(self.loop.now())
        before = copy(obj["status"])
        release(obj, reason, message, now)
        obj["status"]["admission"] = None
        if {**before, "admission": None} == obj["status"]:
            return
        self.shelf.write(workload, obj["status"])
        if event:
            self.admission.emit(workload, "Warning", reason, message)

    # -- the scheduler -------------------------------------------------------------------------------------
    def _schedule(self) -> None:
        """Look at the head of every queue, then at the next ones, until nobody is left.

        Among heads those that need not borrow come first, then priority and age decide: else what was reclaimed from a
        borrower would go back to it. A StrictFIFO queue whose head does not fit is not looked at any further.
        """
        holders = self.shelf.holders()
        books = self.shelf.quotas(holders)
        flavors = {name_of(flavor): flavor for flavor in self.shelf.flavors.values()}
        lines = self._lines()
        while lines:
            heads = []
            for name in list(lines):
                queue, line = lines[name]
                heads.append((line.pop(0), queue))
                if not line:
                    del lines[name]
            judged = [(one, queue, assign(one, queue, flavors, books)) for one, queue in heads]
            judged.sort(key=lambda entry: (books.would_borrow(name_of(entry[1]), entry[2].usage), *_rank(entry[0])))
            for workload, queue, _ in judged:
                found = assign(workload, queue, flavors, books)  # others may have been admitted since
                try:
                    admitted = self._consider(workload, queue, found, holders, books)
                except Conflict:  # somebody wrote to it: that change brings the next cycle
                    continue
                if not admitted and dig(queue, "spec", "queueingStrategy") == "StrictFIFO":
                    lines.pop(name_of(queue), None)

    def _lines(self) -> dict[str, tuple[Obj, list[Obj]]]:
        """Who waits for which ClusterQueue that admits, in order."""
        lines: dict[str, tuple[Obj, list[Obj]]] = {}
        for workload in sorted((one for one in self.shelf.workloads() if is_pending(one)), key=_rank):
            queue = self.shelf.queue_of(workload)
            if queue is None or self._blocker(workload, self.shelf.local_queue(workload), queue):
                self.queue.add(key_of(workload))
            else:
                lines.setdefault(name_of(queue), (queue, []))[1].append(workload)
        return lines

    def _consider(
        self,
        workload: Obj,
        queue: Obj,
        found: Assignment,
        holders: list[Holder],
        books: Quotas,
    ) -> bool:
        if found.mode == "fit":
            self._admit(workload, queue, found)
            books.add(name_of(queue), found.usage)
            return True
        message = found.message
        if found.mode == "preempt":
            chosen = targets(workload, queue, found.usage, holders, books)
            fresh = [pair for pair in chosen if not is_true(pair[0].workload, "Evicted")]
            for holder, reason in fresh:
                self._preempt(workload, queue, holder, reason)
            if chosen:
                message += f". Pending the preemption of {len(chosen)} workload(s)"
                self._blocked(workload, "WaitingForPreemptedWorkloads", message, event=True)
                return False
        self._blocked(workload, found.reason, message, event=True)
        return False

    def _preempt(self, workload: Obj, queue: Obj, holder: Holder, reason: str) -> None:
        books = self.shelf.quotas(())
        paths = f"preemptor path: {books.path(name_of(queue))}; preemptee path: {books.path(holder.queue)}"
        message = (
            f"Preempted to accommodate a workload (UID: {uid_of(workload)}, JobUID: "
            f"{labels_of(workload).get(n.JOB_UID, 'UNKNOWN')}) due to {REASONS[reason]}; {paths}"
        )
        self._evict(holder.workload, "Preempted", message, preempted=reason)
        mine = int(dig(workload, "spec", "priority", default=0))
        told = (
            f"; {who} effective priority: {p} (base: {p}, boost: 0)"
            for who, p in (("preemptor", mine), ("preemptee", holder.priority))
        )
        self.admission.emit(holder.workload, "Normal", "Preempted", message + "".join(told))

    def _admit(self, workload: Obj, queue: Obj, found: Assignment) -> None:
        obj, now, name = self.changed_status(workload), format_time(self.loop.now()), name_of(queue)
        obj["status"]["admission"] = found.admission(name)
        said = f"Quota reserved in ClusterQueue {name}"
        put(obj, "QuotaReserved", "True", now, reason="QuotaReserved", message=said)
        for kind in ("Evicted", "Preempted"):
            before = condition(workload, kind)
            if before is not None and before["status"] == "True":
                put(obj, kind, "False", now, reason="QuotaReserved", message=f"Previously: {before['message']}")
        asked = checks.required(obj, queue)
        if not asked:
            put(obj, "Admitted", "True", now, reason="Admitted", message="The workload is admitted")
        written = self.shelf.write(workload, obj["status"])
        since = dig(condition(workload, "Requeued"), "lastTransitionTime") or workload["metadata"]["creationTimestamp"]
        waited = (self.loop.now() - parse_time(since)).total_seconds()
        self.admission.emit(workload, "Normal", "QuotaReserved", f"{said}, wait time since queued was {waited:.0f}s")
        if not asked:
            self._tell_admitted(written)


def _rank(workload: Obj) -> tuple[int, str, tuple[str, str]]:
    """Priority, then age."""
    created = workload["metadata"]["creationTimestamp"]
    return -int(dig(workload, "spec", "priority", default=0)), created, key_of(workload)
