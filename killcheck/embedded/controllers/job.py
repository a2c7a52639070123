"""The Job controller: pods until enough have succeeded, too many have failed, or time is up.

What a pass knows is in ``job_pass``, what pods mean in ``job_rules``, how they are made in ``job_pods``.
Source: pkg/controller/job of Kubernetes v1.36; recordings 01, 11, 12, 20, 28, 28d, 30b. Changes of pods and of status
are acted upon a second later, changes of the spec at once: that second is most of what a Job's status lags behind.
"""

from __future__ import annotations

from collections.abc import Hashable
from datetime import timedelta
from typing import cast

from msgspec import Struct

from killcheck.embedded.controllers import pods as podset
from killcheck.embedded.controllers.job_pass import Pass
from killcheck.embedded.controllers.job_pods import JobPods, restarts
from killcheck.embedded.controllers.job_rules import (
    Backoff,
    finished,
    format_indexes,
    is_indexed,
    match_failure,
    pod_failed,
    success_policy,
    tracked,
)
from killcheck.embedded.controllers.podcontrol import PodControl, claim
from killcheck.embedded.controllers.runtime import Controller, Key, WorkQueue
from killcheck.kube import resources as r
from killcheck.kube.errors import KubeError
from killcheck.kube.informer import Change
from killcheck.kube.objects import (
    Obj,
    controller_of,
    copy,
    dig,
    format_time,
    key_of,
    labels_of,
    namespace_of,
    parse_time,
    uid_of,
)
from killcheck.kube.selectors import from_match_labels

__all__ = ["JobController"]

#: How long changes of pods and status wait for company, seconds.
BATCH_S = 1.0
#: How many pods may stand in ``uncountedTerminatedPods`` at once.
MAX_UNCOUNTED = 500
#: Between the two writes of a status that counts a pod: long enough for a watcher to see the first, seconds.
FLUSH_S = 0.01
_MANAGER = "kubernetes.io/job-controller"


class _Count(Struct, frozen=True):
    """Pods that were noted in the status and are now to be counted; ``kept``: uids that carry the finalizer."""

    at: Pass
    ending: list[Obj]
    kept: set[str]
    verdict: Obj | None


class JobController(Controller):
    """Runs Jobs to completion."""

    name = "job-controller"
    backoff_s = (1.0, 60.0)

    def setup(self) -> None:
        """Follow Jobs and their pods."""
        self.pods = JobPods(PodControl(self.kube, self.events, r.JOBS))
        self.by_owner = self.informers.by_controller(r.PODS)
        self.pod_objects = self.informers.of(r.PODS)
        self.backoffs: dict[str, Backoff] = {}
        self.orphans = WorkQueue(self.loop, self._sync_orphan)
        self._counting: set[Key] = set()
        self.jobs = self.informers.of(r.JOBS)
        self.listen(r.PODS, self.pods.control.expected.saw)
        self.listen(r.JOBS, self._job_changed)
        self.listen(r.PODS, self._pod_changed)

    def stop(self) -> None:
        """Stop working."""
        self.orphans.stop()
        super().stop()

    # -- what happens --------------------------------------------------------------------------------------
    def _job_changed(self, change: Change, old: Obj | None, new: Obj) -> None:
        key = key_of(new)
        if change == "deleted":
            self.backoffs.pop(uid_of(new), None)
            self.pods.control.expected.forget(key)
            self._check_orphans(new)
            self.queue.add(key)
        elif change == "added" or old is None:
            self.queue.add(key)
        elif finished(new):
            self._check_orphans(new)
        elif new["metadata"].get("generation") == old["metadata"].get("generation"):
            self.queue.add(key, BATCH_S)
        else:
            self.queue.add(key)

    def _check_orphans(self, job: Obj) -> None:
        selector = from_match_labels(job["spec"].get("selector"))
        candidates = [*self.by_owner.get(uid_of(job)), *self.by_owner.get(f"{namespace_of(job)}/")]
        for pod in candidates:
            if tracked(pod) and selector.matches(labels_of(pod)):
                self.orphans.add(key_of(pod))

    def _pod_changed(self, change: Change, old: Obj | None, new: Obj) -> None:
        owner = controller_of(new)
        former = controller_of(old) if old is not None else None
        if former and former != owner and former.get("kind") == "Job":
            self.queue.add((namespace_of(new), former["name"]), BATCH_S)
        if owner is None:
            if tracked(new):
                self.orphans.add(key_of(new))
            return
        if owner.get("kind") != "Job":
            return
        job = self._job_of(new, owner)
        leaving = change == "deleted" or "deletionTimestamp" in new["metadata"]
        if leaving and (job is None or finished(job)):
            if tracked(new):
                self.orphans.add(key_of(new))
        elif job is not None:
            self.queue.add(key_of(job), BATCH_S)

    def _job_of(self, pod: Obj, owner: Obj) -> Obj | None:
        job = self.jobs.get(owner["name"], namespace_of(pod))
        return job if job is not None and uid_of(job) == owner["uid"] else None

    def _sync_orphan(self, key: Hashable) -> None:
        """Take the finalizer from a pod that no unfinished Job owns."""
        pod = self.pod_objects.objects.get(cast(Key, key))
        if pod is None:
            return
        owner = controller_of(pod)
        if owner is not None:
            job = self._job_of(pod, owner)
            if owner.get("kind") != "Job" or (job is not None and not finished(job)):
                return
        try:
            self.pods.untrack(pod)
        except KubeError:
            self.orphans.retry(key)

    # -- one pass ------------------------------------------------------------------------------------------
    def reconcile(self, key: Key) -> None:
        """One pass over a Job, as syncJob."""
        job = self.jobs.get(key[1], key[0])
        if job is None or job["spec"].get("managedBy", _MANAGER) != _MANAGER:
            return
        if finished(job):
            self.backoffs.pop(uid_of(job), None)
            return
        if key in self._counting:
            self.queue.add(key, 2 * FLUSH_S)
            return
        at = Pass(job, self._pods_of(job), self.backoffs.get(uid_of(job), Backoff()), self.loop.now())
        if not at.status.get("startTime") and not at.suspended:
            at.status["startTime"] = format_time(at.now)
        self._judge(key, at)
        changed = self._act(key, at)
        changed |= at.active != at.before.get("active", 0)
        changed |= at.ready != at.before.get("ready") or at.terminating != at.before.get("terminating")
        _set(at.status, "active", at.active)
        at.status["ready"] = at.ready
        at.status["terminating"] = at.terminating
        self._track(at, changed)
        if at.error is not None:
            raise at.error

    def _pods_of(self, job: Obj) -> list[Obj]:
        selector = from_match_labels(job["spec"].get("selector"))
        own = self.by_owner.get(uid_of(job))
        if job["spec"].get("manualSelector"):
            own += self.by_owner.get(f"{namespace_of(job)}/")
        return claim(self.kube, r.JOBS, job, selector, own, target=r.PODS)

    def _judge(self, key: Key, at: Pass) -> None:
        """Whether the Job has failed, or has met its success policy."""
        met = _condition(at.status, "SuccessCriteriaMet")
        target = _condition(at.status, "FailureTarget")
        if met:
            at.verdict = met
        elif target:
            at.verdict = self._condition("Failed", target["reason"], target["message"])
        else:
            at.verdict = self._failure(key, at)
        if at.verdict is None and is_indexed(at.job):
            message = success_policy(at.job, at.succeeded_indexes)
            if message:
                at.verdict = self._condition("SuccessCriteriaMet", "SuccessPolicy", message)

    def _failure(self, key: Key, at: Pass) -> Obj | None:
        if at.spec.get("podFailurePolicy"):
            matches = (match_failure(at.job, pod).message for pod in at.pods if pod_failed(pod, at.job))
            message = next(filter(None, matches), "")
            if message:
                return self._condition("FailureTarget", "PodFailurePolicy", message)
        limit = int(at.spec.get("backoffLimit", 6))
        if at.failed > limit or _restarts_exceed(at, limit):
            return self._condition(
                "FailureTarget", "BackoffLimitExceeded", "Job has reached the specified backoff limit"
            )
        deadline = at.spec.get("activeDeadlineSeconds")
        if deadline is not None and not at.suspended:
            left = (parse_time(at.status["startTime"]) + timedelta(seconds=deadline) - at.now).total_seconds()
            if left <= 0:
                return self._condition(
                    "FailureTarget", "DeadlineExceeded", "Job was active longer than specified deadline"
                )
            self.queue.add(key, left)
        return self._failed_indexes(at)

    def _failed_indexes(self, at: Pass) -> Obj | None:
        if at.spec.get("backoffLimitPerIndex") is None or not at.failed_indexes:
            return None
        most = at.spec.get("maxFailedIndexes")
        if most is not None and len(at.failed_indexes) > int(most):
            return self._condition(
                "FailureTarget",
                "MaxFailedIndexesExceeded",
                "Job has exceeded the specified maximal number of failed indexes",
            )
        if len(at.failed_indexes | at.succeeded_indexes) >= int(at.spec["completions"]):
            return self._condition("FailureTarget", "FailedIndexes", "Job has failed indexes")
        return None

    def _act(self, key: Key, at: Pass) -> bool:
        """Delete the pods of a Job that ends, manage those of one that goes on; whether a condition changed."""
        if at.verdict is not None:
            if not self.pods.delete_active(at):
                at.verdict = None
            return False
        managed = "deletionTimestamp" not in at.job["metadata"] and self.pods.control.expected.satisfied(key)
        if managed:
            wait = self.pods.manage(at)
            if wait > 0:
                self.queue.add(key, max(wait, BATCH_S))
        completions = at.spec.get("completions")
        enough = at.succeeded > 0 if completions is None else at.succeeded >= int(completions)
        if enough and at.active == 0:
            at.verdict = self._condition(
                "SuccessCriteriaMet", "CompletionsReached", "Reached expected number of succeeded pods"
            )
            return False
        return managed and self._tell_suspension(at)

    def _tell_suspension(self, at: Pass) -> bool:
        current = _condition(at.status, "Suspended", of_any_status=True)
        if at.suspended:
            if current and current["status"] == "True":
                return False
            _put(at.status, self._condition("Suspended", "JobSuspended", "Job suspended"))
            at.status.pop("startTime", None)
            self.events.emit(at.job, "Normal", "Suspended", "Job suspended")
            return True
        if current is None or current["status"] == "False":
            return False
        _put(at.status, self._condition("Suspended", "JobResumed", "Job resumed") | {"status": "False"})
        at.status["startTime"] = format_time(at.now)
        self.events.emit(at.job, "Normal", "Resumed", "Job resumed")
        return True

    def _condition(self, kind: str, reason: str, message: str) -> Obj:
        now = format_time(self.loop.now())
        return {
            "type": kind,
            "status": "True",
            "lastProbeTime": now,
            "lastTransitionTime": now,
            "reason": reason,
            "message": message,
        }

    # -- counting pods exactly once ------------------------------------------------------------------------
    def _track(self, at: Pass, changed: bool) -> None:
        """Write down which pods are about to be counted, take their finalizers, then count them.

        The Job ends, with Complete or Failed, when nothing is left to count and no pod is left terminating.
        """
        kept = {uid_of(pod) for pod in at.pods if tracked(pod)}
        changed |= _settle(at.status, kept)
        ending, full, noted = self._note_ended(at)
        changed |= self._note_indexes(at) or noted
        verdict = at.verdict
        if verdict is not None and verdict["type"] in ("FailureTarget", "SuccessCriteriaMet"):
            if not _condition(at.status, verdict["type"]):
                _put(at.status, verdict)
                changed = True
            last = "Failed" if verdict["type"] == "FailureTarget" else "Complete"
            verdict = self._condition(last, verdict["reason"], verdict["message"])
        if changed:
            self._write(at)
            self.backoffs[uid_of(at.job)] = at.backoff
        if ending or verdict is not None:
            key = key_of(at.job)
            self._counting.add(key)
            self.loop.call_later(FLUSH_S, self._count_later, key, _Count(at, ending, kept, None if full else verdict))

    def _count_later(self, key: Key, count: _Count) -> None:
        self._counting.discard(key)
        if self.queue.stopped:
            return
        try:
            self._count(count)
        except KubeError:
            self.queue.retry(key)

    def _count(self, count: _Count) -> None:
        """The second half of :meth:`_track`."""
        at, kept, verdict = count.at, count.kept, count.verdict
        for pod in count.ending:
            self.pods.untrack(pod)
            kept.discard(uid_of(pod))
        changed = _settle(at.status, kept)
        done = verdict is not None and self._may_end(at)
        if done and verdict is not None:
            _put(at.status, verdict)
            if verdict["type"] == "Complete":
                at.status["completionTime"] = verdict["lastTransitionTime"]
        if changed or done:
            self._write(at)
        if done and verdict is not None:
            self._tell_end(at, verdict)

    def _may_end(self, at: Pass) -> bool:
        uncounted = at.status["uncountedTerminatedPods"]
        return not any(uncounted.values()) and at.terminating == 0

    def _note_ended(self, at: Pass) -> tuple[list[Obj], bool, bool]:
        """Pods whose finalizer may go, whether there are more than fit, and whether the status changed."""
        uncounted = at.status["uncountedTerminatedPods"]
        ending: list[Obj] = []
        changed = False
        for pod in at.pods:
            if not tracked(pod):
                continue
            failed = pod_failed(pod, at.job)
            if not self._may_untrack(at, pod, failed):
                continue
            ending.append(pod)
            field = self._column(at, pod, failed)
            if field:
                uncounted[field] = [*uncounted.get(field, ()), uid_of(pod)]
                changed = True
            if sum(map(len, uncounted.values())) >= MAX_UNCOUNTED:
                return ending, True, changed
        return ending, False, changed

    def _may_untrack(self, at: Pass, pod: Obj, failed: bool) -> bool:
        ends = "deletionTimestamp" in at.job["metadata"] or at.verdict is not None
        if ends or podset.phase_of(pod) == "Succeeded":
            return True
        return failed and uid_of(pod) not in {uid_of(delayed) for delayed in at.delayed.values()}

    def _column(self, at: Pass, pod: Obj, failed: bool) -> str | None:
        """Where a pod is to be counted: succeeded, failed, or nowhere (again)."""
        uid = uid_of(pod)
        if podset.phase_of(pod) == "Succeeded" and uid not in at.uncounted_failed:
            return None if is_indexed(at.job) or uid in at.uncounted_succeeded else "succeeded"
        success = at.verdict is not None and at.verdict["type"] == "SuccessCriteriaMet"
        if not failed and (at.verdict is None or success):
            return None
        if uid in at.uncounted_failed or (is_indexed(at.job) and at.valid_index(pod) is None):
            return None
        return "failed" if match_failure(at.job, pod).counts else None

    def _note_indexes(self, at: Pass) -> bool:
        if not is_indexed(at.job):
            return False
        before = (at.status.get("completedIndexes", ""), at.status.get("failedIndexes"))
        _set(at.status, "succeeded", len(at.succeeded_indexes))
        _set(at.status, "completedIndexes", format_indexes(at.succeeded_indexes))
        if at.spec.get("backoffLimitPerIndex") is not None:
            at.status["failedIndexes"] = format_indexes(at.failed_indexes)
        return before != (at.status.get("completedIndexes", ""), at.status.get("failedIndexes"))

    def _write(self, at: Pass) -> None:
        written = self.kube.replace(r.JOBS, at.job, subresource="status")
        at.job["metadata"] = copy(written["metadata"])

    def _tell_end(self, at: Pass, verdict: Obj) -> None:
        if verdict["type"] == "Failed":
            self.events.emit(at.job, "Warning", verdict["reason"], verdict["message"])
            return
        completions = at.spec.get("completions")
        if completions is not None and at.status.get("succeeded", 0) > int(completions):
            self.events.emit(
                at.job,
                "Warning",
                "TooManySucceededPods",
                "Too many succeeded pods running after completion count reached",
            )
        self.events.emit(at.job, "Normal", "Completed", "Job completed")


def _restarts_exceed(at: Pass, limit: int) -> bool:
    """Under ``restartPolicy: OnFailure`` restarts in place count against the limit."""
    if dig(at.spec, "template", "spec", "restartPolicy") != "OnFailure":
        return False
    total = sum(restarts(pod) for pod in at.pods if podset.phase_of(pod) in ("Running", "Pending"))
    return total > 0 if limit == 0 else total >= limit


def _settle(status: Obj, kept: set[str]) -> bool:
    """Count the pods that were noted and have lost their finalizer; whether there were any."""
    uncounted = status["uncountedTerminatedPods"]
    changed = False
    for field in ("succeeded", "failed"):
        noted = uncounted.get(field) or []
        left = [uid for uid in noted if uid in kept]
        if len(left) != len(noted):
            _set(status, field, int(status.get(field, 0)) + len(noted) - len(left))
            changed = True
        _set(uncounted, field, left)
    return changed


def _set(holder: Obj, field: str, value: int | str | list[str]) -> None:
    """Nothing is an absent field."""
    if value:
        holder[field] = value
    else:
        holder.pop(field, None)


def _condition(status: Obj, kind: str, *, of_any_status: bool = False) -> Obj | None:
    for found in status.get("conditions") or []:
        if found["type"] == kind and (of_any_status or found["status"] == "True"):
            return found  # type: ignore[no-any-return]
    return None


def _put(status: Obj, condition: Obj) -> None:
    conditions = list(status.get("conditions") or [])
    for number, found in enumerate(conditions):
        if found["type"] == condition["type"]:
            conditions[number] = condition
            break
    else:
        conditions.append(condition)
    status["conditions"] = conditions
