"""Volcano's controller of its own Jobs (``batch.volcano.sh``), from tasks to pods.

Only what turns them on and off, as it does it (volcano-sh/volcano pkg/controllers/job, 1.12): a pod for each replica of
each task; one that somebody deletes or evicts is made again (job_controller_actions.go, syncJob), unless a policy for
``PodEvicted`` ends the job, or has restarted it ``maxRetry`` times (state/restarting.go). A policy of the task goes
before the job's (job_controller_util.go, applyPolicies).

Left out: ends of jobs, dependencies of tasks, queues, gangs, commands (``vcctl job suspend``). The default scheduler
places the pods.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar

from killcheck.embedded.controllers.runtime import Key
from killcheck.embedded.models.groups import Groups
from killcheck.kube import resources as r
from killcheck.kube.informer import Change
from killcheck.kube.objects import Obj, annotations_of, copy, dig, labels_of, name_of, owners, uid_of
from killcheck.kube.resources import Resource

__all__ = ["VOLCANO_JOBS", "VolcanoJobs"]

VOLCANO_JOBS = Resource("batch.volcano.sh", "v1alpha1", "jobs", "Job")
#: What a policy does about pods that were evicted.
_ENDS, _RESTARTS = frozenset({"AbortJob", "TerminateJob", "CompleteJob"}), "RestartJob"
#: How often a job is restarted where it does not say.
_MAX_RETRY = 3


class VolcanoJobs(Groups):
    """vc-controller-manager."""

    name: ClassVar[str] = "vc-controller-manager"
    own: ClassVar[Resource] = VOLCANO_JOBS
    made: ClassVar[Resource] = r.PODS

    def setup(self) -> None:
        """Remember which pods have gone, and what has ended."""
        #: By a job's uid: the pods that have gone since it was looked at, how often it was restarted.
        self._gone: dict[str, set[str]] = {}
        self._restarted: dict[str, int] = {}
        self._ended: set[str] = set()
        self.listen(r.PODS, self._pod)
        super().setup()

    def _pod(self, change: Change, _old: Obj | None, pod: Obj) -> None:
        if change == "deleted":
            for owner in owners(pod):
                self._gone.setdefault(str(owner.get("uid")), set()).add(name_of(pod))

    def reconcile(self, key: Key) -> None:
        """See first what its policies make of pods that are gone."""
        obj = self.objects.get(key[1], key[0])
        if obj is not None and "deletionTimestamp" not in obj["metadata"]:
            self._heed(obj)
        super().reconcile(key)

    def _heed(self, obj: Obj) -> None:
        uid = uid_of(obj)
        actions = {_action(obj, name) for name in self._gone.pop(uid, ())} if uid not in self._ended else set()
        if _RESTARTS in actions:
            self._restarted[uid] = self._restarted.get(uid, 0) + 1
        if actions & _ENDS or self._restarted.get(uid, 0) > int(dig(obj, "spec", "maxRetry", default=_MAX_RETRY)):
            self._ended.add(uid)

    def wanted(self, obj: Obj) -> Iterator[Obj]:
        """A pod for each replica of each task; none of a job that has ended."""
        if uid_of(obj) in self._ended:
            return
        for number, task in enumerate(dig(obj, "spec", "tasks", default=[])):
            template, name = task.get("template") or {}, _task_name(task, number)
            for index in range(int(task.get("replicas", 1))):
                marks = {
                    "volcano.sh/job-name": name_of(obj),
                    "volcano.sh/task-spec": name,
                    "volcano.sh/task-index": str(index),
                    "volcano.sh/queue-name": str(dig(obj, "spec", "queue", default="default")),
                }
                spec = copy(template.get("spec") or {})
                spec.setdefault("restartPolicy", "OnFailure")
                yield {
                    "metadata": {
                        "name": f"{name_of(obj)}-{name}-{index}",
                        "labels": {**labels_of(template), **marks},
                        "annotations": {**annotations_of(template), **marks},
                    },
                    "spec": spec,
                }

    def adjust(self, one: Obj, wanted: Obj) -> None:
        """Nothing: a pod is as it is."""


def _task_name(task: Obj, number: int) -> str:
    return str(task.get("name") or f"default{number}")


def _action(obj: Obj, pod: str) -> str:
    """What a job's policies say of a pod of it that was evicted; empty: nothing, so that it is made again."""
    task = pod.removeprefix(f"{name_of(obj)}-").rpartition("-")[0]
    own = [one for i, one in enumerate(dig(obj, "spec", "tasks", default=[])) if _task_name(one, i) == task]
    for policies in (dig(own[0], "policies", default=[]) if own else [], dig(obj, "spec", "policies", default=[])):
        for policy in policies:
            if {"PodEvicted", "*"} & {policy.get("event"), *(policy.get("events") or ())}:
                return str(policy.get("action") or "")
    return ""
