"""Ends that the cluster puts to a Job after a time: by its own deadline, or as Kueue does with what it admitted.

Told in the cluster's own words: the Job controller's condition (``DeadlineExceeded``), Kueue's event
(``MaximumExecutionTimeExceeded``, pkg/controller/core/workload_controller.go). What *may* have ended it is no word.
"""

from __future__ import annotations

import re
from datetime import datetime, timedelta

from killcheck.kube import resources as r
from killcheck.kube.client import Kube
from killcheck.kube.errors import KubeError
from killcheck.kube.objects import Obj, condition, dig, name_of, namespace_of, parse_time
from killcheck.watch.scene import event_time

__all__ = ["ended_by_limit"]

#: Between such an end and the moment its pods count as gone, in seconds.
_SLACK_S = 120.0
_EXCEEDED = "MaximumExecutionTimeExceeded"


def ended_by_limit(kube: Kube, job: Obj, at: datetime) -> str | None:
    """In one phrase, that the cluster ended a Job about then because its time was over; None: nothing says so."""
    failed = condition(job, "Failed")
    exceeded = failed is not None and failed.get("status") == "True" and failed.get("reason") == "DeadlineExceeded"
    if failed is not None and exceeded and _about(failed.get("lastTransitionTime"), at):
        return f"Job {name_of(job)} was ended by its activeDeadlineSeconds ({failed.get('message', '')})"
    if not dig(job, "spec", "suspend"):
        return None
    try:
        events = kube.list(r.EVENTS, namespace_of(job)).items
    except KubeError:
        return None  # who may not look has not seen it
    own = re.compile(rf"job-{re.escape(name_of(job))}-[0-9a-f]{{5}}")
    for event in events:
        about = event.get("involvedObject") or {}
        is_own = about.get("kind") == "Workload" and own.fullmatch(str(about.get("name", "")))
        if is_own and event.get("reason") == _EXCEEDED and _about(event_time(event), at):
            return f"Kueue ended Job {name_of(job)}: {event.get('message', _EXCEEDED)}"
    return None


def _about(stamp: object, at: datetime) -> bool:
    return isinstance(stamp, str) and bool(stamp) and abs(parse_time(stamp) - at) <= timedelta(seconds=_SLACK_S)
