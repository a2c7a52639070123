"""What Jobs and pods under Kueue have in common: the Workload that stands for them, and what admission gives them.

Source: kubernetes-sigs/kueue pkg/controller/jobframework/{reconciler,workload_names}.go, pkg/podset/podset.go.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass, field

from msgspec import Struct

from killcheck.embedded.models.karpenter.conditions import is_true, put
from killcheck.embedded.models.kueue import checks
from killcheck.embedded.models.kueue import names as n
from killcheck.embedded.models.kueue.shelf import Part, has_reservation
from killcheck.embedded.models.kueue.workloads import release
from killcheck.kube import resources as r
from killcheck.kube.errors import Conflict, NotFound
from killcheck.kube.objects import (
    Obj,
    condition,
    controller_of,
    copy,
    dig,
    format_time,
    labels_of,
    name_of,
    namespace_of,
    uid_of,
)
from killcheck.kube.resources import Resource

__all__ = ["Granted", "Integration", "merge", "queue_name", "workload_name"]

_LONGEST = 253
_HASH = 5


def queue_name(obj: Obj) -> str:
    """The LocalQueue that an object names by its label."""
    return labels_of(obj).get(n.QUEUE, "")


def workload_name(obj: Obj, resource: Resource) -> str:
    """``job-training-run-82-3f1c2``."""
    words = [resource.kind, resource.group, name_of(obj), uid_of(obj)]
    digest = hashlib.sha1("\n".join(words).encode(), usedforsecurity=False).hexdigest()
    prefix = f"{resource.kind.lower()}-{name_of(obj)}"[: _LONGEST - 1 - _HASH]
    return f"{prefix}-{digest[:_HASH]}"


class Granted(Struct, frozen=True):
    """What an admission adds to a pod set: the flavors' labels as a node selector, and their tolerations."""

    selector: dict[str, str]
    tolerations: list[Obj]


def merge(spec: Obj, granted: Granted) -> Obj:
    """A pod spec as it runs."""
    own = spec.get("tolerations") or []
    return spec | {
        "nodeSelector": {**(spec.get("nodeSelector") or {}), **granted.selector},
        "tolerations": [*own, *(one for one in granted.tolerations if one not in own)],
    }


@dataclass(eq=False, repr=False)
class Integration(Part):
    """Keeps one Workload for each object of a kind; subclasses say how the object starts and stops."""

    kind: Resource = field(init=False)

    def make_workload(self, obj: Obj, pod_set: Obj, more: Obj | None = None) -> Obj | None:
        """Create the Workload; None where it is there already."""
        spec: Obj = {"active": True, "queueName": queue_name(obj), "podSets": [pod_set]} | (more or {})
        spec |= self._priority(obj, pod_set)
        body = {
            "apiVersion": n.WORKLOADS.api_version,
            "kind": "Workload",
            "metadata": {
                "name": workload_name(obj, self.kind),
                "namespace": namespace_of(obj),
                "labels": {n.JOB_UID: uid_of(obj)},
                "finalizers": [n.IN_USE],
                "ownerReferences": [
                    {
                        "apiVersion": self.kind.api_version,
                        "kind": self.kind.kind,
                        "name": name_of(obj),
                        "uid": uid_of(obj),
                        "controller": True,
                        "blockOwnerDeletion": True,
                    }
                ],
            },
            "spec": spec,
        }
        try:
            made = self.kube.create(n.WORKLOADS, body, namespace_of(obj))
        except Conflict:
            return None
        self.events.emit(obj, "Normal", "CreatedWorkload", f"Created Workload: {namespace_of(obj)}/{name_of(made)}")
        return made

    def workload_of(self, obj: Obj) -> Obj | None:
        """The Workload that stands for an object."""
        found = self.shelf.workload((namespace_of(obj), workload_name(obj, self.kind)))
        owner = controller_of(found) if found is not None else None
        return found if owner is not None and owner["uid"] == uid_of(obj) else None

    def workloads_named(self, namespace: str, name: str) -> list[Obj]:
        """The Workloads of an object that may be gone already."""
        found = []
        for one in self.shelf.workloads():
            owner = controller_of(one)
            if namespace_of(one) == namespace and owner and (owner["kind"], owner["name"]) == (self.kind.kind, name):
                found.append(one)
        return found

    def let_go(self, workload: Obj) -> None:
        """Take the finalizer off."""
        kept = [one for one in workload["metadata"].get("finalizers") or () if one != n.IN_USE]
        if len(kept) == len(workload["metadata"].get("finalizers") or ()):
            return
        body = {"metadata": {"finalizers": kept or None, "uid": uid_of(workload)}}
        try:
            self.kube.patch(n.WORKLOADS, name_of(workload), body, namespace_of(workload))
        except (NotFound, Conflict):
            return

    def orphaned(self, workload: Obj) -> None:
        """Whose object is gone: it is finished, so that its quota returns, and may go (FinalizeOrphanedWorkload)."""
        if "deletionTimestamp" not in workload["metadata"] and not is_true(workload, "Finished"):
            ended, now = self.changed_status(workload), format_time(self.loop.now())
            why = "The workload's owner no longer exists"
            put(ended, "Finished", "True", now, reason="OwnerNotFound", message=why)
            with suppress(Conflict):  # somebody wrote to it: that change brings the next look
                self.shelf.write(workload, ended["status"])
        self.let_go(workload)

    def finish(self, obj: Obj, workload: Obj, reason: str, message: str) -> None:
        """Declare a Workload finished: it gives its quota back."""
        if is_true(workload, "Finished"):
            self.let_go(workload)
            return
        ended = self.changed_status(workload)
        put(ended, "Finished", "True", format_time(self.loop.now()), reason=reason, message=message)
        self.shelf.write(workload, ended["status"])
        self.events.emit(
            obj,
            "Normal",
            "FinishedWorkload",
            f"Workload '{namespace_of(workload)}/{name_of(workload)}' is declared finished",
        )

    def give_back(self, workload: Obj) -> None:
        """What was evicted has stopped: quota returns; only a preempted Workload queues again by itself."""
        evicted = condition(workload, "Evicted")
        if not has_reservation(workload) or evicted is None:
            return
        obj, now = self.changed_status(workload), format_time(self.loop.now())
        again = "True" if evicted["reason"] == "Preempted" else "False"
        put(obj, "Requeued", again, now, reason=evicted["reason"], message=evicted["message"])
        release(obj, "PendingEvaluation", evicted["message"], now)
        if checks.states_of(workload):
            obj["status"]["requeueState"] = checks.requeue_state(workload)
            obj["status"]["admissionChecks"] = checks.reset(workload, now)
        self.shelf.write(workload, obj["status"])

    def granted(self, workload: Obj, pod_set: str) -> Granted:
        """What the flavors of an admission add to the pods of a set."""
        selector: dict[str, str] = {}
        tolerations: list[Obj] = []
        for name in self._flavors(workload, pod_set):
            flavor = self.shelf.flavors.get(name)
            selector |= dig(flavor, "spec", "nodeLabels", default={})
            tolerations += copy({"list": dig(flavor, "spec", "tolerations", default=[])})["list"]
        return Granted(selector, tolerations)

    def _flavors(self, workload: Obj, pod_set: str) -> Iterable[str]:
        for one in dig(workload, "status", "admission", "podSetAssignments", default=[]):
            if one["name"] == pod_set:
                return dict.fromkeys((one.get("flavors") or {}).values())
        return ()

    def _priority(self, obj: Obj, pod_set: Obj) -> Obj:
        """Kueue's own class by label, else the pods' PriorityClass; none: 0."""
        own = labels_of(obj).get(n.PRIORITY_CLASS)
        if own:
            found = self.kube.find(n.PRIORITYCLASSES, own)
            return {
                "priorityClassName": own,
                "priorityClassSource": "kueue.x-k8s.io/workloadpriorityclass",
                "priority": int((found or {}).get("value", 0)),
            }
        name = pod_set["template"]["spec"].get("priorityClassName")
        if name:
            found = self.kube.find(r.PRIORITYCLASSES, name)
            return {
                "priorityClassName": name,
                "priorityClassSource": "scheduling.k8s.io/priorityclass",
                "priority": int((found or {}).get("value", 0)),
            }
        return {"priority": 0}
