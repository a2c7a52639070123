"""What controllers ask of pods: ready, available, active, terminating - and which ones go first.

Source: pkg/api/v1/pod/util.go and pkg/controller/controller_utils.go of Kubernetes v1.36.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from math import floor, log2
from typing import Any

from killcheck.embedded.controllers.runtime import Index, Informers
from killcheck.kube import resources as r
from killcheck.kube.objects import Obj, condition, dig, parse_time

__all__ = [
    "active_first",
    "by_node",
    "deletion_rank",
    "is_active",
    "is_available",
    "is_ready",
    "is_terminal",
    "is_terminating",
    "next_available_s",
    "node_of",
    "phase_of",
]

_PHASES = {"Pending": 0, "Unknown": 1, "Running": 2}
_COST = "controller.kubernetes.io/pod-deletion-cost"


def phase_of(pod: Obj) -> str:
    """``status.phase``."""
    status = pod.get("status")  # asked of every pod at each change of one: no ``dig``
    return str(status.get("phase") or "") if status.__class__ is dict else ""


def node_of(pod: Obj) -> str:
    """``spec.nodeName``, empty while unscheduled."""
    return str(pod["spec"].get("nodeName") or "")


def is_terminal(pod: Obj) -> bool:
    """Whether all its containers have ended for good."""
    return phase_of(pod) in ("Succeeded", "Failed")


def is_active(pod: Obj) -> bool:
    """Neither ended nor being deleted."""
    return "deletionTimestamp" not in pod["metadata"] and not is_terminal(pod)


def is_terminating(pod: Obj) -> bool:
    """Being deleted, and its containers have not ended yet."""
    return "deletionTimestamp" in pod["metadata"] and not is_terminal(pod)


def is_ready(pod: Obj) -> bool:
    """Whether the Ready condition is true."""
    ready = condition(pod, "Ready")
    return ready is not None and ready.get("status") == "True"


def is_available(pod: Obj, min_ready_s: int, now: datetime) -> bool:
    """Ready for at least ``min_ready_s`` seconds."""
    if not is_ready(pod):
        return False
    return not min_ready_s or next_available_s(pod, min_ready_s, now) <= 0


def next_available_s(pod: Obj, min_ready_s: int, now: datetime) -> float:
    """In how many seconds a ready pod becomes available (0 or less: it is)."""
    since = dig(condition(pod, "Ready"), "lastTransitionTime")
    if not since:
        return float(min_ready_s)
    return (parse_time(since) + timedelta(seconds=min_ready_s) - now).total_seconds()


def by_node(informers: Informers) -> Index:
    """Pods by the node they are bound to; the empty name holds those that are bound to none."""
    return informers.index(r.PODS, "node", lambda pod: [node_of(pod)])


def _ready_since(pod: Obj) -> str:
    ready = condition(pod, "Ready")
    return str(ready.get("lastTransitionTime") or "") if ready and ready.get("status") == "True" else ""


def _restarts(pod: Obj) -> int:
    statuses = dig(pod, "status", "containerStatuses", default=[])
    return max((int(status.get("restartCount", 0)) for status in statuses), default=0)


def _newest_first(stamp: str) -> Any:
    """A key that puts the later of two times first, and no time before any."""
    return -parse_time(stamp).timestamp() if stamp else float("-inf")


def active_first(pods: list[Obj]) -> list[Obj]:
    """The order in which a Job gives up pods: the least far along first (``ActivePods``)."""
    return sorted(
        pods,
        key=lambda pod: (
            bool(node_of(pod)),
            _PHASES.get(phase_of(pod), 3),
            is_ready(pod),
            _newest_first(_ready_since(pod)),
            -_restarts(pod),
            _newest_first(str(pod["metadata"].get("creationTimestamp") or "")),
        ),
    )


def _age_rank(stamp: str, now: datetime) -> int:
    """Ages that share a power of two are alike (LogarithmicScaleDown, ages in nanoseconds)."""
    if not stamp:
        return -1
    age_ns = max(0.0, (now - parse_time(stamp)).total_seconds()) * 1e9
    return floor(log2(age_ns)) if age_ns >= 1 else -1


def _cost(pod: Obj) -> int:
    text = (pod["metadata"].get("annotations") or {}).get(_COST, "0")
    try:
        return int(text)
    except ValueError:
        return 0


def deletion_rank(pods: list[Obj], related: list[Obj], now: datetime) -> list[Obj]:
    """The order in which a ReplicaSet deletes pods (``ActivePodsWithRanks``); ``related`` are its owner's pods."""
    on_node: dict[str, int] = {}
    for pod in related:
        if is_active(pod):
            on_node[node_of(pod)] = on_node.get(node_of(pod), 0) + 1
    return sorted(
        pods,
        key=lambda pod: (
            bool(node_of(pod)),
            _PHASES.get(phase_of(pod), 3),
            is_ready(pod),
            _cost(pod),
            -on_node.get(node_of(pod), 0),
            _age_rank(_ready_since(pod), now) if is_ready(pod) else 0,
            -_restarts(pod),
            _age_rank(str(pod["metadata"].get("creationTimestamp") or ""), now),
            pod["metadata"]["uid"],
        ),
    )
