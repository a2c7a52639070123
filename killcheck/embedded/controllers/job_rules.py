"""What a Job's pods mean for it: failed or not, by which rule, when they ended, which indexes are done.

Source: pkg/controller/job/{pod_failure_policy,success_policy,indexed_job_utils,backoff_utils}.go of Kubernetes v1.36;
recording 28d.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, timedelta

from msgspec import Struct

from killcheck.kube.objects import Obj, annotations_of, condition, dig, name_of, namespace_of, parse_time

__all__ = [
    "FINALIZER",
    "INDEX",
    "Backoff",
    "Match",
    "failures_of",
    "finished",
    "finished_at",
    "format_indexes",
    "index_of",
    "is_indexed",
    "match_failure",
    "parse_indexes",
    "pod_failed",
    "replaces_failed_only",
    "success_policy",
    "tracked",
    "wait_after",
]

FINALIZER = "batch.kubernetes.io/job-tracking"
INDEX = "batch.kubernetes.io/job-completion-index"
INDEX_FAILURES = "batch.kubernetes.io/job-index-failure-count"
INDEX_IGNORED = "batch.kubernetes.io/job-index-ignored-failure-count"
#: The first pause before a failed pod is replaced, and the longest, seconds.
FIRST_WAIT_S = 10.0
LONGEST_WAIT_S = 600.0


def finished(job: Obj) -> str | None:
    """``Complete`` or ``Failed`` where the Job has ended, else None."""
    for kind in ("Complete", "Failed"):
        found = condition(job, kind)
        if found and found.get("status") == "True":
            return kind
    return None


def is_indexed(job: Obj) -> bool:
    """Whether its pods have completion indexes."""
    return bool(job["spec"].get("completionMode") == "Indexed")


def tracked(pod: Obj) -> bool:
    """Whether the pod still carries the finalizer, that is, has not been counted for good."""
    return FINALIZER in (pod["metadata"].get("finalizers") or ())


def replaces_failed_only(job: Obj) -> bool:
    """Whether a pod that is being deleted is replaced only once it has ended."""
    return job["spec"].get("podReplacementPolicy") == "Failed" or bool(job["spec"].get("podFailurePolicy"))


def pod_failed(pod: Obj, job: Obj) -> bool:
    """Failed, or being deleted without having succeeded (unless only ended pods are replaced)."""
    phase = dig(pod, "status", "phase")
    if phase == "Failed":
        return True
    return not replaces_failed_only(job) and "deletionTimestamp" in pod["metadata"] and phase != "Succeeded"


# -- podFailurePolicy --------------------------------------------------------------------------------------
class Match(Struct, frozen=True):
    """What the policy makes of a failed pod: whether it counts, and why the Job fails (empty: it does not)."""

    counts: bool = True
    action: str = ""
    message: str = ""


def match_failure(job: Obj, pod: Obj) -> Match:
    """The first rule that fits a failed pod."""
    for number, rule in enumerate(dig(job, "spec", "podFailurePolicy", "rules", default=[])):
        why = _why(rule, pod)
        if why:
            action = rule["action"]
            message = f"{why} matching {action} rule at index {number}" if action == "FailJob" else ""
            return Match(action != "Ignore", action, message)
    return Match()


def _why(rule: Obj, pod: Obj) -> str | None:
    where = f"{namespace_of(pod)}/{name_of(pod)}"
    if rule.get("onExitCodes"):
        status = _exit_match(rule["onExitCodes"], pod)
        if status is None:
            return None
        code = dig(status, "state", "terminated", "exitCode")
        return f"Container {status['name']} for pod {where} failed with exit code {code}"
    for found in dig(pod, "status", "conditions", default=[]):
        for pattern in rule.get("onPodConditions") or []:
            if found["type"] == pattern["type"] and found["status"] == pattern.get("status", "True"):
                return f"Pod {where} has condition {found['type']}"
    return None


def _exit_match(wanted: Obj, pod: Obj) -> Obj | None:
    for kind in ("containerStatuses", "initContainerStatuses"):
        for status in dig(pod, "status", kind, default=[]):
            code = dig(status, "state", "terminated", "exitCode")
            if not code or wanted.get("containerName") not in (None, status["name"]):
                continue
            if (code in wanted.get("values", [])) == (wanted["operator"] == "In"):
                return status  # type: ignore[no-any-return]
    return None


# -- indexes -----------------------------------------------------------------------------------------------
def index_of(pod: Obj) -> int | None:
    """The pod's completion index."""
    text = annotations_of(pod).get(INDEX, "")
    return int(text) if text.isdigit() else None


def parse_indexes(text: str, completions: int) -> set[int]:
    """``0-2,5`` as a set, up to ``completions``."""
    found: set[int] = set()
    for part in filter(None, (text or "").split(",")):
        first, _, last = part.partition("-")
        if first.isdigit() and (not last or last.isdigit()):
            found |= set(range(int(first), min(int(last or first), completions - 1) + 1))
    return found


def format_indexes(indexes: Iterable[int]) -> str:
    """A set as ``0-2,5``; two neighbours are written apart."""
    parts: list[str] = []
    run: list[int] = []
    for index in [*sorted(indexes), None]:
        if run and index != run[-1] + 1:
            parts.append(str(run[0]) if len(run) == 1 else f"{run[0]}{',' if len(run) == 2 else '-'}{run[-1]}")
            run = []
        if index is not None:
            run.append(index)
    return ",".join(parts)


def failures_of(pod: Obj) -> tuple[int, int]:
    """How often the pod's index had failed before it: counted, ignored."""
    counts = [annotations_of(pod).get(key, "0") for key in (INDEX_FAILURES, INDEX_IGNORED)]
    counted, ignored = (int(text) if text.isdigit() else 0 for text in counts)
    return counted, ignored


def success_policy(job: Obj, succeeded: set[int]) -> str | None:
    """Which rule of ``successPolicy`` is met, as the condition's message says it; None: none."""
    if not succeeded:
        return None
    completions = int(job["spec"].get("completions") or 0)
    for number, rule in enumerate(dig(job, "spec", "successPolicy", "rules", default=[])):
        count = rule.get("succeededCount")
        if rule.get("succeededIndexes") is not None:
            wanted = parse_indexes(rule["succeededIndexes"], completions)
            met = len(wanted & succeeded)
            done = bool(wanted) and (met == len(wanted) or (count is not None and met >= count))
        else:
            done = count is not None and len(succeeded) >= count
        if done:
            return f"Matched rules at index {number}"
    return None


# -- back-off ----------------------------------------------------------------------------------------------
def finished_at(pod: Obj) -> datetime:
    """When the pod ended: by its containers, by its Ready condition, by its deletion, else by its creation."""
    statuses = dig(pod, "status", "containerStatuses", default=[])
    ends = [dig(status, "state", "terminated", "finishedAt") for status in statuses]
    if ends and all(ends):
        return max(parse_time(end) for end in ends)
    ready = condition(pod, "Ready")
    if ready and ready.get("status") == "False" and ready.get("lastTransitionTime"):
        return parse_time(ready["lastTransitionTime"])
    meta = pod["metadata"]
    if "deletionTimestamp" in meta:
        grace = timedelta(seconds=int(meta.get("deletionGracePeriodSeconds") or 0))
        return parse_time(meta["deletionTimestamp"]) - grace
    return parse_time(meta["creationTimestamp"])


class Backoff(Struct, frozen=True):
    """How many pods failed since one last succeeded, and when the latest did."""

    failures: int = 0
    latest: datetime | None = None

    def after(self, succeeded: list[Obj], failed: list[Obj]) -> Backoff:
        """The record with newly ended pods taken into account."""
        ends = sorted(finished_at(pod) for pod in failed)
        if not succeeded:
            return Backoff(self.failures + len(ends), ends[-1]) if ends else self
        success = max(finished_at(pod) for pod in succeeded)
        later = [end for end in ends if end > success]
        return Backoff(len(later), later[-1]) if later else Backoff()

    def wait_s(self, now: datetime) -> float:
        """How long until the next pod may be created."""
        return wait_after(self.failures, self.latest, now)


def wait_after(failures: int, latest: datetime | None, now: datetime) -> float:
    """10 s after the first failure, twice that after each further one, ten minutes at most."""
    if not failures or latest is None:
        return 0.0
    pause = min(LONGEST_WAIT_S, FIRST_WAIT_S * 2.0 ** min(failures - 1, 16))
    return max(0.0, pause - (now - latest).total_seconds())
