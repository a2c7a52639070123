"""Plain pods, and those of Deployments, under Kueue: gated until their Workload is admitted, deleted when evicted.

Source: kubernetes-sigs/kueue pkg/controller/jobs/pod/pod_controller.go. Pods of a group are admitted together, by
:mod:`killcheck.embedded.models.kueue.podgroups`.
"""

from __future__ import annotations

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

__all__ = ["PodIntegration", "Pods", "ended", "gated", "pod_set"]

_SET = "main"


class PodIntegration(Integration):
    """How a pod under Kueue starts and stops."""

    component: ClassVar[str] = "pod-kueue-controller"

    def open_gate(self, pod: Obj, workload: Obj, role: str) -> None:
        """Let an admitted pod be scheduled, onto the nodes of its flavors."""
        spec = merge(pod["spec"], self.granted(workload, role))
        gates = [one for one in pod["spec"].get("schedulingGates") or () if one["name"] != n.GATE]
        body = {
            "metadata": {"resourceVersion": pod["metadata"]["resourceVersion"]},
            "spec": {
                "nodeSelector": spec["nodeSelector"],
                "tolerations": spec["tolerations"],
                "schedulingGates": gates or None,
            },
        }
        self.kube.patch(r.PODS, name_of(pod), body, namespace_of(pod))
        queue = dig(workload, "status", "admission", "clusterQueue")
        self.events.emit(pod, "Normal", "Started", f"Admitted by clusterQueue {queue}")

    def stop_pod(self, pod: Obj, reason: str, message: str) -> None:
        """Delete a pod that was evicted, and say so on it."""
        target = {
            "type": "TerminationTarget",
            "status": "True",
            "reason": reason,
            "message": message,
            "lastProbeTime": None,
            "lastTransitionTime": format_time(self.loop.now()),
        }
        name, namespace = name_of(pod), namespace_of(pod)
        body = {"metadata": {"uid": uid_of(pod)}, "status": {"conditions": [target]}}
        try:
            self.kube.patch(r.PODS, name, body, namespace, kind="strategic", subresource="status")
            self.kube.delete(r.PODS, name, namespace, uid=uid_of(pod))
        except (NotFound, Conflict):
            return
        self.events.emit(pod, "Normal", "Stopped", message)

    def untie(self, pod: Obj) -> None:
        """Take the finalizer off."""
        finalizers = pod["metadata"].get("finalizers") or []
        if n.MANAGED not in finalizers:
            return
        kept = [one for one in finalizers if one != n.MANAGED]
        body = {"metadata": {"finalizers": kept or None, "uid": uid_of(pod)}}
        try:
            self.kube.patch(r.PODS, name_of(pod), body, namespace_of(pod))
        except (NotFound, Conflict):
            return


class Pods(PodIntegration):
    """The pod integration."""

    name: ClassVar[str] = "kueue-pod"

    def setup(self) -> None:
        """Follow managed pods and the Workloads that stand for them."""
        self.kind = r.PODS
        self.pods = self.follow(r.PODS, self._pod)
        self.follow(n.WORKLOADS, self._workload, optional=True)

    def _pod(self, _change: Change, _old: Obj | None, new: Obj) -> list[tuple[str, str]]:
        alone = labels_of(new).get(n.MANAGED) == "true" and not labels_of(new).get(n.POD_GROUP)
        return [key_of(new)] if alone else []

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
                self.untie(pod)
            return
        workload = self.workload_of(pod)
        phase = dig(pod, "status", "phase")
        if ended(pod):
            if workload is not None:
                self.finish(pod, workload, phase, dig(pod, "status", "message", default=""))
            self.untie(pod)
        elif workload is None:
            self.make_workload(pod, pod_set(pod))
        else:
            self._under(pod, workload)

    def _under(self, pod: Obj, workload: Obj) -> None:
        evicted = condition(workload, "Evicted")
        if "deletionTimestamp" in workload["metadata"]:
            self.stop_pod(pod, "WorkloadDeleted", "Workload is deleted")
            self.let_go(workload)
        elif evicted is not None and evicted["status"] == "True":
            if gated(pod):
                self.give_back(workload)
            else:
                self.stop_pod(pod, f"WorkloadEvictedDueTo{evicted['reason']}", evicted["message"])
        elif is_true(workload, "Admitted") and gated(pod):
            self.open_gate(pod, workload, _SET)


def gated(pod: Obj) -> bool:
    """Whether it waits for Kueue."""
    return any(one["name"] == n.GATE for one in pod["spec"].get("schedulingGates") or ())


def ended(pod: Obj) -> bool:
    """Whether its containers have run."""
    return dig(pod, "status", "phase") in ("Succeeded", "Failed")


def pod_set(pod: Obj, name: str = _SET, count: int = 1) -> Obj:
    """What pods like this one ask for."""
    spec = copy(pod["spec"])
    spec.pop("schedulingGates", None)
    return {"name": name, "count": count, "template": {"metadata": {"labels": dict(labels_of(pod))}, "spec": spec}}
