"""The status of a Job, as a writer from outside may set it: no end without what leads to it, and no way back.

Source: ``validateJobStatus`` and ``ValidateJobStatusUpdate`` in pkg/apis/batch/validation/validation.go, with what
``getStatusValidationOptions`` of pkg/registry/batch/job/strategy.go turns on, of Kubernetes v1.36. Whether lists of
indexes can be read is not looked at.
"""

from __future__ import annotations

from killcheck.embedded.api.validation.fields import Causes, invalid, invalid_value, nonnegative, required
from killcheck.kube.objects import Obj, condition, dig

__all__ = ["update"]

_PATH = "status.conditions"


class _Seen:
    """What a Job's status says."""

    def __init__(self, job: Obj) -> None:
        self.status: Obj = job.get("status") or {}
        self.complete, self.failed = self._is("Complete"), self._is("Failed")
        self.target, self.met = self._is("FailureTarget"), self._is("SuccessCriteriaMet")
        self.finished = self.complete or self.failed
        self.resumed = dig(condition(job, "Suspended"), "status") == "False"
        self.suspended = dig(condition(job, "Suspended"), "status") == "True"

    def _is(self, kind: str) -> bool:
        found = self.status.get("conditions") or []
        return any(one.get("type") == kind and one.get("status") == "True" for one in found)

    def number(self, field: str) -> int:
        return int(self.status.get(field) or 0)

    def changed(self, before: _Seen, *fields: str) -> bool:
        return any(self.status.get(field) != before.status.get(field) for field in fields)


def update(new: Obj, old: Obj) -> Causes:
    """What is wrong with a new status; of what is as it was, nothing is."""
    now, before = _Seen(new), _Seen(old)
    spec = new.get("spec") or {}
    causes: Causes = []
    for field in ("active", "succeeded", "failed", "ready", "terminating"):
        causes += nonnegative(f"status.{field}", now.status.get(field))
    return (
        causes + _ends(now, before, spec) + _counts(now, before, spec) + _success(now, spec) + _back(now, before, spec)
    )


def _ends(now: _Seen, before: _Seen, spec: Obj) -> Causes:
    """Conditions and times of an end."""
    causes: Causes = []
    completed, failed = now.complete != before.complete, now.failed != before.failed
    ended, finished = now.status.get("completionTime"), now.finished != before.finished
    if (completed or failed) and now.complete and now.failed:
        causes.append(invalid_value(_PATH, "cannot set Complete=True and Failed=true conditions"))
    if (completed or now.target != before.target) and now.complete and now.target:
        causes.append(invalid_value(_PATH, "cannot set Complete=True and FailureTarget=true conditions"))
    if completed or now.changed(before, "completionTime"):
        if ended and not now.complete:
            words = "cannot set completionTime when there is no Complete=True condition"
            causes.append(invalid("status.completionTime", ended, words))
        if not ended and now.complete:
            causes.append(required("status.completionTime", "completionTime is required for Complete jobs"))
    began = now.status.get("startTime")
    if now.changed(before, "startTime", "completionTime") and began and ended and ended < began:
        causes.append(invalid("status.completionTime", ended, "must be equal to or after `startTime`"))
    if (failed or now.changed(before, "failedIndexes")) and now.failed and not now.target:
        causes.append(invalid_value(_PATH, "cannot set Failed=True condition without the FailureTarget=true condition"))
    if (completed or now.met != before.met) and now.complete and not now.met:
        words = "cannot set Complete=True condition without the SuccessCriteriaMet=true condition"
        causes.append(invalid_value(_PATH, words))
    if (finished or now.changed(before, "active")) and now.finished and now.number("active"):
        causes.append(invalid("status.active", now.number("active"), "active>0 is invalid for finished job"))
    none_wanted = spec.get("suspend") is True and spec.get("completions") == 0
    if (finished or now.changed(before, "startTime")) and not none_wanted and now.finished and not began:
        causes.append(required("status.startTime", "startTime is required for finished job"))
    return causes


def _counts(now: _Seen, before: _Seen, spec: Obj) -> Causes:
    causes: Causes = []
    finished = now.finished != before.finished
    uncounted = now.status.get("uncountedTerminatedPods") or {}
    if (finished or now.changed(before, "uncountedTerminatedPods")) and now.finished and any(uncounted.values()):
        causes.append(invalid("status.uncountedTerminatedPods", uncounted, "must be empty for finished job"))
    if now.changed(before, "completedIndexes") and now.status.get("completedIndexes") and not _indexed(spec):
        words = "cannot set non-empty completedIndexes when non-indexed completion mode"
        causes.append(invalid("status.completedIndexes", now.status["completedIndexes"], words))
    failed = now.status.get("failedIndexes")
    if now.changed(before, "failedIndexes") and failed is not None and spec.get("backoffLimitPerIndex") is None:
        words = "cannot set non-null failedIndexes when backoffLimitPerIndex is null"
        causes.append(invalid("status.failedIndexes", failed, words))
    leaving = now.number("terminating")
    if (finished or now.changed(before, "terminating")) and now.finished and leaving:
        causes.append(invalid("status.terminating", leaving, "terminating>0 is invalid for finished job"))
    if now.changed(before, "ready", "active") and now.number("ready") > now.number("active"):
        causes.append(invalid("status.ready", now.number("ready"), "cannot set more ready pods than active"))
    return causes


def _success(now: _Seen, spec: Obj) -> Causes:
    causes: Causes = []
    if now.met and now.failed:
        causes.append(invalid_value(_PATH, "cannot set SuccessCriteriaMet=True and Failed=true conditions"))
    if now.met and now.target:
        causes.append(invalid_value(_PATH, "cannot set SuccessCriteriaMet=True and FailureTarget=true conditions"))
    if spec.get("successPolicy") is not None and now.complete and not now.met:
        words = "cannot set Complete=True for Job with SuccessPolicy unless SuccessCriteriaMet=True"
        causes.append(invalid_value(_PATH, words))
    return causes


def _back(now: _Seen, before: _Seen, spec: Obj) -> Causes:
    """What does not change any more once it is so."""
    causes: Causes = []
    for kind, had, has in (
        ("Failed", before.failed, now.failed),
        ("Complete", before.complete, now.complete),
        ("FailureTarget", before.target, now.target),
    ):
        if had and not has:
            causes.append(invalid_value(_PATH, f"cannot disable the terminal {kind}=True condition"))
    scales = _indexed(spec) and spec.get("completions") == spec.get("parallelism")
    for field in ("failed", "succeeded"):
        if now.number(field) < before.number(field) and not (field == "succeeded" and scales):
            causes.append(invalid(f"status.{field}", now.number(field), f"cannot decrease the {field} counter"))
    ended = now.status.get("completionTime")
    if ended and before.status.get("completionTime") and now.changed(before, "completionTime"):
        causes.append(invalid("status.completionTime", ended, "field is immutable"))
    resuming = before.suspended and now.resumed
    if before.status.get("startTime") and now.changed(before, "startTime") and not (resuming or spec.get("suspend")):
        words = "field is immutable for unsuspended job once set"
        causes.append(invalid("status.startTime", now.status.get("startTime"), words))
    if before.met and not now.met:
        causes.append(invalid_value(_PATH, "cannot disable the SuccessCriteriaMet=True condition"))
    if before.complete and not before.met and now.met:
        words = "cannot set SuccessCriteriaMet=True for Job already has Complete=true conditions"
        causes.append(invalid_value(_PATH, words))
    return causes


def _indexed(spec: Obj) -> bool:
    return spec.get("completionMode") == "Indexed"
