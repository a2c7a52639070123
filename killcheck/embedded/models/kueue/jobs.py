"""Jobs under Kueue: suspended until their Workload is admitted, suspended again when it is evicted.

Source: kubernetes-sigs/kueue pkg/controller/jobs/job/job_controller.go, pkg/controller/jobframework/reconciler.go.
"""

from __future__ import annotations

from typing import ClassVar

from killcheck.embedded.models.karpenter.conditions import is_true
from killcheck.embedded.models.kueue import names as n
from killcheck.embedded.models.kueue.integration import Integration, merge, queue_name
from killcheck.embedded.models.kueue.shelf import active
from killcheck.kube import resources as r
from killcheck.kube.errors import NotFound
from killcheck.kube.informer import Change
from killcheck.kube.objects import (
    Obj,
    annotations_of,
    condition,
    controller_of,
    copy,
    dig,
    key_of,
    name_of,
    namespace_of,
)

__all__ = ["Jobs"]

#: What the Job controller puts on the template: the name stays, the uid does not (cleanLabels, job_controller.go).
_CONTROLLERS = ("job-name", "controller-uid", "batch.kubernetes.io/controller-uid")
_OWN = (*_CONTROLLERS, "batch.kubernetes.io/job-name")
_SET = "main"
_MANAGER = "kubernetes.io/job-controller"


class Jobs(Integration):
    """The batch/job integration."""

    name: ClassVar[str] = "kueue-job"
    component: ClassVar[str] = "batch/job-kueue-controller"

    def setup(self) -> None:
        """Follow Jobs and the Workloads that stand for them."""
        self.kind = r.JOBS
        self.jobs = self.follow(r.JOBS, self._job)
        self.follow(n.WORKLOADS, self._workload, optional=True)
        self.follow(n.CLUSTERQUEUES, self._opened, optional=True)

    def _opened(self, change: Change, _old: Obj | None, _new: Obj) -> list[tuple[str, str]]:
        return [key_of(job) for job in self.jobs.values() if queue_name(job)] if change == "added" else []

    def _job(self, _change: Change, old: Obj | None, new: Obj) -> list[tuple[str, str]]:
        return [key_of(new)] if queue_name(new) or (old is not None and queue_name(old)) else []

    def _workload(self, _change: Change, _old: Obj | None, new: Obj) -> list[tuple[str, str]]:
        owner = controller_of(new)
        return [(namespace_of(new), owner["name"])] if owner and owner["kind"] == "Job" else []

    def reconcile(self, key: tuple[str, str]) -> None:
        """One Job, in the order in which Kueue's generic reconciler asks."""
        job = self.jobs.objects.get(key)
        if job is None or "deletionTimestamp" in job["metadata"]:
            for one in self.workloads_named(*key):
                self.orphaned(one)
            return
        if not queue_name(job) or not self.shelf.in_use() or job["spec"].get("managedBy", _MANAGER) != _MANAGER:
            return
        workload = self.workload_of(job)
        ended = _finished(job)
        if workload is None:
            if not ended:
                self._without_workload(job)
        elif ended:
            self.finish(job, workload, "Failed" if ended["type"] == "Failed" else "Succeeded", ended.get("message", ""))
        elif "deletionTimestamp" in workload["metadata"]:
            self._stop(job, workload, "Workload is deleted")
            self.let_go(workload)
        else:
            self._under(job, workload)

    def _without_workload(self, job: Obj) -> None:
        if not _is_suspended(job):
            self._stop(job, None, "Missing Workload; unable to restore pod templates")
        elif not active(job):
            more = {}
            most = dig(job, "metadata", "labels", "kueue.x-k8s.io/max-exec-time-seconds")
            if most:
                more["maximumExecutionTimeSeconds"] = int(most)
            self.make_workload(job, _pod_set(job), more)

    def _under(self, job: Obj, workload: Obj) -> None:
        if self._reclaim(job, workload):
            return
        evicted = condition(workload, "Evicted")
        if evicted is not None and evicted["status"] == "True":
            self._stop(job, workload, evicted["message"])
            if not active(self.jobs.objects.get(key_of(job), job)):
                self.give_back(workload)
        elif _is_suspended(job):
            if is_true(workload, "Admitted"):
                self._start(job, workload)
            elif dig(workload, "spec", "queueName") != queue_name(job):
                self.kube.patch(
                    n.WORKLOADS, name_of(workload), {"spec": {"queueName": queue_name(job)}}, namespace_of(workload)
                )
        elif not is_true(workload, "Admitted"):
            self._stop(job, workload, "Not admitted by cluster queue")

    def _reclaim(self, job: Obj, workload: Obj) -> bool:
        """Note how many of its pods the Job will not need again; answers whether that changed."""
        parallelism = int(job["spec"].get("parallelism", 1))
        completions = int(job["spec"].get("completions", parallelism))
        ended = int(dig(job, "status", "succeeded", default=0))
        spare = parallelism - max(completions - ended, 0) if parallelism > 1 and ended else 0
        wanted = [{"name": _SET, "count": spare}] if spare > 0 else []
        if wanted == dig(workload, "status", "reclaimablePods", default=[]):
            return False
        status = copy(workload.get("status") or {}) | {"reclaimablePods": wanted}
        self.shelf.write(workload, status)
        return True

    def _start(self, job: Obj, workload: Obj) -> None:
        granted = self.granted(workload, _SET)
        spec = merge(job["spec"]["template"]["spec"], granted)
        template = {"spec": {"nodeSelector": spec["nodeSelector"], "tolerations": spec["tolerations"]}}
        self.kube.patch(
            r.JOBS,
            name_of(job),
            {
                "metadata": {"resourceVersion": job["metadata"]["resourceVersion"]},
                "spec": {"suspend": False, "template": template},
            },
            namespace_of(job),
        )
        queue = dig(workload, "status", "admission", "clusterQueue")
        self.events.emit(job, "Normal", "Started", f"Admitted by clusterQueue {queue}")

    def _stop(self, job: Obj, workload: Obj | None, message: str) -> None:
        """Suspend; forget when it started, so that its template may change; give it its own template back."""
        name, namespace = name_of(job), namespace_of(job)
        try:
            if not _is_suspended(job):
                if not job["spec"].get("suspend"):
                    self.kube.patch(
                        r.JOBS,
                        name,
                        {"metadata": {"annotations": {n.STOPPING: "true"}}, "spec": {"suspend": True}},
                        namespace,
                    )
                self._restore(job, workload)
                self.events.emit(job, "Normal", "Stopped", message)
        except NotFound:
            return

    def _restore(self, job: Obj, workload: Obj | None) -> None:
        name, namespace = name_of(job), namespace_of(job)
        if dig(job, "status", "startTime"):
            self.kube.patch(r.JOBS, name, {"status": {"startTime": None}}, namespace, subresource="status")
        body: Obj = {"metadata": {"annotations": {n.STOPPING: None}}}
        own = next((one for one in dig(workload, "spec", "podSets", default=[]) if one["name"] == _SET), None)
        if own is not None:
            before = dig(job, "spec", "template", "spec", "nodeSelector", default={})
            selector = dict.fromkeys(before) | (own["template"]["spec"].get("nodeSelector") or {})
            body["spec"] = {
                "template": {
                    "spec": {
                        "nodeSelector": selector or None,
                        "tolerations": own["template"]["spec"].get("tolerations"),
                    }
                }
            }
        self.kube.patch(r.JOBS, name, body, namespace)


def _is_suspended(job: Obj) -> bool:
    """Suspended, and not merely on its way there."""
    return bool(job["spec"].get("suspend")) and annotations_of(job).get(n.STOPPING) != "true"


def _finished(job: Obj) -> Obj | None:
    for kind in ("Complete", "Failed"):
        found = condition(job, kind)
        if found is not None and found["status"] == "True":
            return found
    return None


def _pod_set(job: Obj) -> Obj:
    template = copy(job["spec"]["template"])
    labels = dig(template, "metadata", "labels", default={})
    for name in _CONTROLLERS:
        labels.pop(name, None)
    parallelism = int(job["spec"].get("parallelism", 1))
    completions = job["spec"].get("completions")
    count = parallelism if completions is None else min(parallelism, int(completions))
    return {"name": _SET, "count": count, "template": template}
