"""Plain pods, and those of Deployments, under Kueue: gated until their Workload is admitted, deleted when evicted.

Source: kubernetes-sigs/kueue pkg/controller/jobs/pod/pod_controller.go. Left out: pod groups (StatefulSets and
LeaderWorkerSets under Kueue).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from killcheck.embedded.models.karpenter.conditions import is_true
from killcheck.embedded.models.kueue import names as n
from killcheck.embedded.models.kueue.integration import Integration, merge
from killcheck.kube import resources as r
from killcheck.kube.errors import Conflict, NotFound
from killcheck.kube.informer import Change
from killcheck.kube.objects import (
    Obj,
    condition,
    controller_of,
    copy,
    dig,
    format_time,
    key_of,
    labels_of,
    name_of,
    namespace_of,
    uid_of,
)

__all__ = ["Pods"]

_SET = "main"


@dataclass
class Pods(Integration):
    """The pod integration."""

    name: ClassVar[str] = "kueue-pod"
    component: ClassVar[str] = "pod-kueue-controller"

    def setup(self) -> None:
        """Follow managed pods and the Workloads that stand for them."""
        self.kind = r.PODS
        self.pods = self.follow(r.PODS, self._pod)
        self.follow(n.WORKLOADS, self._workload, optional=True)

    def _pod(self, _change: Change, _old: Obj | None, new: Obj) -> list[tuple[str, str]]:
        return [key_of(new)] if labels_of(new).get(n.MANAGED) == "true" else []

    def _workload(self, _change: Change, _old: Obj | None, new: Obj) -> list[tuple[str, str]]:
        owner = controller_of(new)
        return [(namespace_of(new), owner["name"])] if owner and owner["kind"] == "Pod" else []

    def reconcile(self, key: tuple[str, str]) -> None:
        """One pod."""
        pod = self.pods.objects.get(key)
        if pod is None or "deletionTimestamp" in pod["metadata"]:
            for one in self.workloads_named(*key):
                self.let_go(one)
            if pod is not None:
                self._untie(pod)
            return
        workload = self.workload_of(pod)
        phase = dig(pod, "status", "phase")
        if phase in ("Succeeded", "Failed"):
            if workload is not None:
                self.finish(pod, workload, phase, dig(pod, "status", "message", default=""))
            self._untie(pod)
        elif workload is None:
            self.make_workload(pod, _pod_set(pod))
        else:
            self._under(pod, workload)

    def _under(self, pod: Obj, workload: Obj) -> None:
        evicted = condition(workload, "Evicted")
        if "deletionTimestamp" in workload["metadata"]:
            self._stop(pod, "WorkloadDeleted", "Workload is deleted")
            self.let_go(workload)
        elif evicted is not None and evicted["status"] == "True":
            if _gated(pod):
                self.give_back(workload)
            else:
                self._stop(pod, f"WorkloadEvictedDueTo{evicted['reason']}", evicted["message"])
        elif is_true(workload, "Admitted") and _gated(pod):
            self._start(pod, workload)

    def _start(self, pod: Obj, workload: Obj) -> None:
        spec = merge(pod["spec"], self.granted(workload, _SET))
        gates = [one for one in pod["spec"].get("schedulingGates") or () if one["name"] != n.GATE]
        body = {
            "metadata": {"resourceVersion": pod["metadata"]["resourceVersion"]},
            "spec": {"nodeSelector": spec["nodeSelector"], "tolerations": spec["tolerations"],
                     "schedulingGates": gates or None}}
        self.kube.patch(r.PODS, name_of(pod), body, namespace_of(pod))
        queue = dig(workload, "status", "admission", "clusterQueue")
        self.events.emit(pod, "Normal", "Started", f"Admitted by clusterQueue {queue}")

    def _stop(self, pod: Obj, reason: str, message: str) -> None:
        target = {"type": "TerminationTarget", "status": "True", "reason": reason, "message": message,
                  "lastProbeTime": None, "lastTransitionTime": format_time(self.loop.now())}
        name, namespace = name_of(pod), namespace_of(pod)
        body = {"metadata": {"uid": uid_of(pod)}, "status": {"conditions": [target]}}
        try:
            self.kube.patch(r.PODS, name, body, namespace, kind="strategic", subresource="status")
            self.kube.delete(r.PODS, name, namespace, uid=uid_of(pod))
        except (NotFound, Conflict):
            return
        self.events.emit(pod, "Normal", "Stopped", message)

    def _untie(self, pod: Obj) -> None:
        finalizers = pod["metadata"].get("finalizers") or []
        if n.MANAGED not in finalizers:
            return
        kept = [one for one in finalizers if one != n.MANAGED]
        body = {"metadata": {"finalizers": kept or None, "uid": uid_of(pod)}}
        try:
            self.kube.patch(r.PODS, name_of(pod), body, namespace_of(pod))
        except (NotFound, Conflict):
            return


def _gated(pod: Obj) -> bool:
    return any(one["name"] == n.GATE for one in pod["spec"].get("schedulingGates") or ())


def _pod_set(pod: Obj) -> Obj:
    spec = copy(pod["spec"])
    spec.pop("schedulingGates", None)
    return {"name": _SET, "count": 1, "template": {"metadata": {"labels": dict(labels_of(pod))}, "spec": spec}}
