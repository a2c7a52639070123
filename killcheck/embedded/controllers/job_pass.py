"""One pass over a Job: what its pods amount to, before anything is done about it.

Source: ``syncJobCtx`` and what fills it in pkg/controller/job/job_controller.go of Kubernetes v1.36.
"""

from __future__ import annotations

from datetime import datetime

from killcheck.embedded.controllers import pods as podset
from killcheck.embedded.controllers.job_rules import (
    Backoff,
    failures_of,
    finished_at,
    index_of,
    is_indexed,
    match_failure,
    parse_indexes,
    pod_failed,
    tracked,
)
from killcheck.kube.errors import ApiError
from killcheck.kube.objects import Obj, copy, uid_of

__all__ = ["Pass"]


class Pass:
    """A Job (a private copy) and its pods, counted."""

    def __init__(self, job: Obj, pods: list[Obj], backoff: Backoff, now: datetime) -> None:
        self.job = copy(job)
        self.now = now
        self.spec = job["spec"]
        self.status: Obj = self.job.setdefault("status", {})
        self.before = job.get("status") or {}
        uncounted = self.status.setdefault("uncountedTerminatedPods", {})
        self.uncounted_succeeded = set(uncounted.get("succeeded") or ())
        self.uncounted_failed = set(uncounted.get("failed") or ())
        self.pods = pods
        self.active_pods = [pod for pod in pods if podset.is_active(pod)]
        self.active = len(self.active_pods)
        self.ready = sum(podset.is_ready(pod) for pod in self.active_pods)
        self.terminating = sum(podset.is_terminating(pod) for pod in pods)
        self.error: ApiError | None = None
        #: The condition that ends the Job, as far as this pass knows.
        self.verdict: Obj | None = None
        succeeded, failed = self._newly_ended()
        self.succeeded = int(self.status.get("succeeded", 0)) + len(succeeded) + len(self.uncounted_succeeded)
        counted = sum(match_failure(job, pod).counts for pod in failed)
        self.failed = int(self.status.get("failed", 0)) + counted + len(self.uncounted_failed)
        self.backoff = backoff.after(succeeded, failed)
        self.former_indexes: set[int] = set()
        self.succeeded_indexes: set[int] = set()
        self.failed_indexes: set[int] = set()
        #: By index: the failed pod that keeps its finalizer until its replacement carries the count of failures.
        self.delayed: dict[int, Obj] = {}
        if is_indexed(job):
            self._count_indexes()

    @property
    def suspended(self) -> bool:
        """``spec.suspend``."""
        return bool(self.spec.get("suspend"))

    def deleted(self, pod: Obj) -> None:
        """A pod was deleted in this pass."""
        self.active -= 1
        self.terminating += 1
        self.ready -= podset.is_ready(pod)

    def valid_index(self, pod: Obj) -> int | None:
        """The pod's index, if the Job has such an index."""
        index = index_of(pod)
        return index if index is not None and index < int(self.spec.get("completions") or 0) else None

    def _newly_ended(self) -> tuple[list[Obj], list[Obj]]:
        """Pods that succeeded, and that failed, and are counted nowhere yet."""
        mine = [pod for pod in self.pods if tracked(pod)]
        if is_indexed(self.job):
            mine = [pod for pod in mine if self.valid_index(pod) is not None]
        succeeded = [
            pod for pod in mine if podset.phase_of(pod) == "Succeeded" and uid_of(pod) not in self.uncounted_succeeded
        ]
        failed = [pod for pod in mine if pod_failed(pod, self.job) and uid_of(pod) not in self.uncounted_failed]
        return succeeded, failed

    def _count_indexes(self) -> None:
        completions = int(self.spec.get("completions") or 0)
        self.former_indexes = parse_indexes(self.status.get("completedIndexes", ""), completions)
        valid = {uid_of(pod): self.valid_index(pod) for pod in self.pods if tracked(pod)}
        mine = [(pod, index) for pod in self.pods if (index := valid.get(uid_of(pod))) is not None]
        done = {index for pod, index in mine if podset.phase_of(pod) == "Succeeded"}
        self.succeeded_indexes = self.former_indexes | done
        self.succeeded = len(self.succeeded_indexes)
        limit = self.spec.get("backoffLimitPerIndex")
        if limit is None:
            return
        former = parse_indexes(self.status.get("failedIndexes") or "", completions)
        self.failed_indexes = former | {index for pod, index in mine if self._index_failed(pod, int(limit))}
        busy = {index_of(pod) for pod in self.active_pods} | self.succeeded_indexes | self.failed_indexes
        for pod, index in mine:
            if pod_failed(pod, self.job) and index not in busy:
                self._delay(index, pod)

    def _index_failed(self, pod: Obj, limit: int) -> bool:
        if not pod_failed(pod, self.job):
            return False
        match = match_failure(self.job, pod)
        return match.action == "FailIndex" or (match.counts and failures_of(pod)[0] >= limit)

    def _delay(self, index: int, pod: Obj) -> None:
        last = self.delayed.get(index)
        later = last is None or (
            sum(failures_of(last)) <= sum(failures_of(pod)) and finished_at(pod) >= finished_at(last)
        )
        if later:
            self.delayed[index] = pod
