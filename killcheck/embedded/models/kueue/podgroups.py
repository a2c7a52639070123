"""Pods that are admitted together or not at all: one Workload for all pods that name the same group.

There is none before as many pods are there as the group counts (``pod-group-total-count``), unless the first may speak
for all (``pod-group-fast-admission``). When it is evicted every pod of it is deleted. A group ends when as many of its
pods have succeeded as it counts, or all have ended and one says that it must not be tried again; one that serves never
does. Source: kubernetes-sigs/kueue pkg/controller/jobs/pod/pod_controller.go (August 2026). Left out: replacement of
single pods, excess pods, the webhooks of StatefulSet and LeaderWorkerSet.
"""

from __future__ import annotations

import hashlib
import json
from typing import ClassVar

from killcheck.embedded.models.karpenter.conditions import is_true
from killcheck.embedded.models.kueue import names as n
from killcheck.embedded.models.kueue.integration import queue_name
from killcheck.embedded.models.kueue.pods import PodIntegration, ended, gated, pod_set
from killcheck.kube import resources as r
from killcheck.kube.errors import Conflict
from killcheck.kube.informer import Change
from killcheck.kube.objects import Obj, annotations_of, condition, dig, labels_of, name_of, namespace_of, uid_of

__all__ = ["PodGroups"]


class PodGroups(PodIntegration):
    """The pod integration, as far as groups go."""

    name: ClassVar[str] = "kueue-pod-groups"

    def setup(self) -> None:
        """Follow pods that name a group, and the Workloads of groups."""
        self.kind = r.PODS
        self.pods = self.informers.index(
            r.PODS,
            n.POD_GROUP,
            lambda pod: [f"{namespace_of(pod)}/{group}" for group in [labels_of(pod).get(n.POD_GROUP)] if group],
        )
        self.follow(r.PODS, self._pod)
        self.follow(n.WORKLOADS, self._workload, optional=True)

    def _pod(self, _change: Change, _old: Obj | None, new: Obj) -> list[tuple[str, str]]:
        group = labels_of(new).get(n.POD_GROUP)
        return [(namespace_of(new), group)] if group and labels_of(new).get(n.MANAGED) == "true" else []

    def _workload(self, _change: Change, _old: Obj | None, new: Obj) -> list[tuple[str, str]]:
        return [(namespace_of(new), name_of(new))] if annotations_of(new).get(_IS_GROUP) == "true" else []

    def reconcile(self, key: tuple[str, str]) -> None:
        """One group."""
        pods = self.pods.get("/".join(key))
        workload = self.shelf.workload(key)
        for pod in pods:
            if "deletionTimestamp" in pod["metadata"]:
                self.untie(pod)
        live = [pod for pod in pods if "deletionTimestamp" not in pod["metadata"]]
        if workload is None:
            self._compose(key, [pod for pod in live if not ended(pod)])
        elif not live and not pods:
            self.let_go(workload)
        elif self._over(live):
            total, well = _total(live), sum(dig(pod, "status", "phase") == "Succeeded" for pod in live)
            self.finish(live[0], workload, "Succeeded", f"Pods succeeded: {well}/{total}.")
            for pod in live:
                self.untie(pod)
        else:
            self._under(live, workload)

    def _compose(self, key: tuple[str, str], pods: list[Obj]) -> None:
        if not pods:
            return
        total, fast = _total(pods), annotations_of(pods[0]).get(n.FAST) == "true"
        if len(pods) < total and not fast:
            self.events.emit(
                pods[0], "Warning", "ErrWorkloadCompose", f"'{key[1]}' group has fewer runnable pods than expected"
            )
            return
        roles: dict[str, list[Obj]] = {}
        for pod in pods:
            roles.setdefault(_role(pod), []).append(pod)
        if fast:
            sets = [pod_set(pods[0], _role(pods[0]), total)]
        else:
            sets = [pod_set(members[0], role, len(members)) for role, members in sorted(roles.items())]
        spec: Obj = {"active": True, "queueName": queue_name(pods[0]), "podSets": sets}
        body = {
            "apiVersion": n.WORKLOADS.api_version,
            "kind": "Workload",
            "metadata": {
                "name": key[1],
                "namespace": key[0],
                "finalizers": [n.IN_USE],
                "annotations": {_IS_GROUP: "true"},
                "ownerReferences": [
                    {"apiVersion": "v1", "kind": "Pod", "name": name_of(pod), "uid": uid_of(pod)} for pod in pods
                ],
            },
            "spec": spec | self._priority(pods[0], sets[0]),
        }
        try:
            self.kube.create(n.WORKLOADS, body, key[0])
        except Conflict:
            return
        self.events.emit(pods[0], "Normal", "CreatedWorkload", f"Created Workload: {key[0]}/{key[1]}")

    def _over(self, pods: list[Obj]) -> bool:
        if not pods or annotations_of(pods[0]).get(n.SERVING) == "true":
            return False
        well = sum(dig(pod, "status", "phase") == "Succeeded" for pod in pods)
        final = any(annotations_of(pod).get(n.UNRETRIABLE) == "false" for pod in pods)
        return well == _total(pods) or (final and all(map(ended, pods)))

    def _under(self, pods: list[Obj], workload: Obj) -> None:
        evicted = condition(workload, "Evicted")
        started = [pod for pod in pods if not gated(pod) and not ended(pod)]
        if "deletionTimestamp" in workload["metadata"]:
            for pod in pods:
                self.stop_pod(pod, "WorkloadDeleted", "Workload is deleted")
            self.let_go(workload)
        elif evicted is not None and evicted["status"] == "True":
            for pod in started:
                self.stop_pod(pod, f"WorkloadEvictedDueTo{evicted['reason']}", evicted["message"])
            if not started:
                self.give_back(workload)
        elif is_true(workload, "Admitted"):
            for pod in filter(gated, pods):
                self.open_gate(pod, workload, _role(pod))


#: On a Workload that stands for a group (pkg/controller/constants: is-group-workload).
_IS_GROUP = f"{n.GROUP}/is-group-workload"


def _total(pods: list[Obj]) -> int:
    """How many the group counts; what is no number counts for nothing, as there (the pods then wait for ever)."""
    said = annotations_of(pods[0]).get(n.TOTAL_COUNT, "")
    return int(said) if said.isdigit() and int(said) else len(pods) + 1


def _role(pod: Obj) -> str:
    """A name for all pods of a group that ask for the same."""
    shape = {
        key: pod["spec"].get(key)
        for key in (
            "initContainers",
            "nodeSelector",
            "affinity",
            "tolerations",
            "runtimeClassName",
            "priority",
            "topologySpreadConstraints",
            "overhead",
            "resourceClaims",
        )
    }
    shape["containers"] = [{key: one.get(key) for key in ("resources", "ports")} for one in pod["spec"]["containers"]]
    shape["labels"] = labels_of(pod).get(n.PRIORITY_CLASS)
    granted = {"nodeSelector", "tolerations"}  # what an admission adds does not make it another role
    text = json.dumps({key: value for key, value in shape.items() if key not in granted}, sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:8]
