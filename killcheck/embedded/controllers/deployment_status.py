"""What a Deployment's status says: counts, Available, Progressing, and the progress deadline.

Source: pkg/controller/deployment/{progress,sync}.go of Kubernetes v1.36; recordings 01, 21, 30. Zeros are left out, but
for ``terminatingReplicas``.
"""

from __future__ import annotations

from datetime import datetime, timedelta

from killcheck.embedded.controllers import rollout
from killcheck.kube.objects import Obj, dig, format_time, name_of, parse_time

__all__ = [
    "calculate",
    "complete",
    "has_deadline",
    "progressing",
    "rollout_status",
    "seconds_to_deadline",
    "set_condition",
]

_NEVER = 2**31 - 1


def has_deadline(d: Obj) -> bool:
    """Whether ``progressDeadlineSeconds`` is set to anything but 'never'."""
    return d["spec"].get("progressDeadlineSeconds") not in (None, _NEVER)


def _condition(status: Obj, kind: str) -> Obj | None:
    return next((c for c in status.get("conditions") or [] if c["type"] == kind), None)


def progressing(status: Obj) -> Obj | None:
    """The Progressing condition of a status."""
    return _condition(status, "Progressing")


def _put(status: Obj, condition: Obj) -> None:
    kept = [c for c in status.get("conditions") or [] if c["type"] != condition["type"]]
    status["conditions"] = [*kept, condition]


def _remove(status: Obj, kind: str) -> None:
    if _condition(status, kind):
        status["conditions"] = [c for c in status["conditions"] if c["type"] != kind]


def set_condition(status: Obj, kind: str, state: str, reason: str, message: str, *, now: datetime) -> None:
    """Set a condition, unless one of the same state and reason is there already."""
    current = _condition(status, kind)
    if current and current["status"] == state and current.get("reason") == reason:
        return
    stamp = format_time(now)
    since = current["lastTransitionTime"] if current and current["status"] == state else stamp
    _put(
        status,
        {
            "type": kind,
            "status": state,
            "lastUpdateTime": stamp,
            "lastTransitionTime": since,
            "reason": reason,
            "message": message,
        },
    )


def _sum(sets: list[Obj], field: str) -> int:
    return sum(int(dig(rs, "status", field, default=0)) for rs in sets)


def calculate(d: Obj, sets: list[Obj], new: Obj | None, now: datetime) -> Obj:
    """The counts and the Available condition."""
    available = _sum(sets, "availableReplicas")
    counts = {
        "replicas": _sum(sets, "replicas"),
        "updatedReplicas": _sum([new] if new else [], "replicas"),
        "readyReplicas": _sum(sets, "readyReplicas"),
        "availableReplicas": available,
        "unavailableReplicas": max(0, rollout.total(sets) - available),
    }
    status: Obj = {"observedGeneration": d["metadata"].get("generation", 0)}
    status |= {name: count for name, count in counts.items() if count}
    status["terminatingReplicas"] = _sum(sets, "terminatingReplicas")
    if d["status"].get("collisionCount") is not None:
        status["collisionCount"] = d["status"]["collisionCount"]
    if d["status"].get("conditions"):
        status["conditions"] = list(d["status"]["conditions"])
    if available >= int(d["spec"]["replicas"]) - rollout.max_unavailable(d):
        state, reason, message = "True", "MinimumReplicasAvailable", "Deployment has minimum availability."
    else:
        state, reason, message = (
            "False",
            "MinimumReplicasUnavailable",
            "Deployment does not have minimum availability.",
        )
    set_condition(status, "Available", state, reason, message, now=now)
    return status


def complete(d: Obj, status: Obj) -> bool:
    """Whether all replicas are of the newest template and available."""
    desired = int(d["spec"]["replicas"])
    return all(
        int(status.get(field, 0)) == desired for field in ("updatedReplicas", "replicas", "availableReplicas")
    ) and status.get("observedGeneration", 0) >= d["metadata"].get("generation", 0)


def rollout_status(d: Obj, sets: list[Obj], new: Obj | None, now: datetime) -> Obj:
    """The whole status of a Deployment that is rolling out, or has."""
    status = calculate(d, sets, new, now)
    if not has_deadline(d):
        _remove(status, "Progressing")
    current = progressing(d["status"])
    done = status.get("replicas", 0) == status.get("updatedReplicas", 0) and (
        current is not None and current.get("reason") == "NewReplicaSetAvailable"
    )
    if has_deadline(d) and not done:
        _judge_progress(d, status, current, new, now)
    failure = _replica_failure(sets, new)
    if failure is not None:
        set_condition(status, "ReplicaFailure", failure["status"], failure["reason"], failure["message"], now=now)
    else:
        _remove(status, "ReplicaFailure")
    if "conditions" in status and not status["conditions"]:
        del status["conditions"]
    return status


def _judge_progress(d: Obj, status: Obj, current: Obj | None, new: Obj | None, now: datetime) -> None:
    subject = f'ReplicaSet "{name_of(new)}"' if new else f'Deployment "{name_of(d)}"'
    if complete(d, status):
        message = f"{subject} has successfully progressed."
        set_condition(status, "Progressing", "True", "NewReplicaSetAvailable", message, now=now)
    elif _has_progressed(d["status"], status):
        stamp = format_time(now)
        since = current["lastTransitionTime"] if current and current["status"] == "True" else stamp
        _put(
            status,
            {
                "type": "Progressing",
                "status": "True",
                "lastUpdateTime": stamp,
                "lastTransitionTime": since,
                "reason": "ReplicaSetUpdated",
                "message": f"{subject} is progressing.",
            },
        )
    elif _timed_out(d, status, now):
        message = f"{subject} has timed out progressing."
        set_condition(status, "Progressing", "False", "ProgressDeadlineExceeded", message, now=now)


def _has_progressed(before: Obj, after: Obj) -> bool:
    def old_pods(status: Obj) -> int:
        return int(status.get("replicas", 0)) - int(status.get("updatedReplicas", 0))

    grown = any(
        after.get(field, 0) > before.get(field, 0)
        for field in ("updatedReplicas", "readyReplicas", "availableReplicas")
    )
    return grown or old_pods(after) < old_pods(before)


def _timed_out(d: Obj, status: Obj, now: datetime) -> bool:
    current = progressing(status)
    if current is None or current.get("reason") == "NewReplicaSetAvailable":
        return False
    if current.get("reason") == "ProgressDeadlineExceeded":
        return True
    limit = timedelta(seconds=int(d["spec"]["progressDeadlineSeconds"]))
    return parse_time(current["lastUpdateTime"]) + limit < now


def _replica_failure(sets: list[Obj], new: Obj | None) -> Obj | None:
    for rs in ([new] if new else []) + sets:
        for condition in dig(rs, "status", "conditions", default=[]):
            if condition["type"] == "ReplicaFailure":
                return condition  # type: ignore[no-any-return]
    return None


def seconds_to_deadline(d: Obj, status: Obj, now: datetime) -> float | None:
    """How long until lack of progress is to be judged again; None: not at all."""
    current = progressing(d["status"])
    if not has_deadline(d) or current is None:
        return None
    # What was once available is not judged by time any more: only a change can change its status.
    if complete(d, status) or current.get("reason") in ("ProgressDeadlineExceeded", "NewReplicaSetAvailable"):
        return None
    limit = timedelta(seconds=int(d["spec"]["progressDeadlineSeconds"]))
    return (parse_time(current["lastUpdateTime"]) + limit - now).total_seconds()
