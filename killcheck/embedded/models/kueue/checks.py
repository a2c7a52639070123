"""AdmissionChecks: others who must agree before a Workload that holds quota may run.

Kueue puts them as Pending into the Workload's status; whoever their controllers are (the provisioning of machines, a
person) answers Ready, Retry or Rejected there. Nobody is modelled: where nobody answers nothing runs.
Source: kubernetes-sigs/kueue pkg/workload/{admissionchecks,workload}.go, pkg/workload/evict/evict.go,
pkg/controller/core/workload_controller.go (August 2026).
"""

from __future__ import annotations

from datetime import datetime, timedelta

from killcheck.embedded.models.kueue.quota import flavors_of
from killcheck.kube.objects import Obj, dig, format_time, parse_time

__all__ = [
    "all_ready",
    "in_state",
    "named_by",
    "of_any",
    "requeue_state",
    "required",
    "reset",
    "states_of",
    "synced",
    "told",
]


def named_by(queue: Obj) -> dict[str, set[str]]:
    """The checks of a ClusterQueue, and the flavors for which each is asked."""
    every = set(flavors_of(queue))
    found = {str(name): every for name in dig(queue, "spec", "admissionChecks", default=[])}
    for rule in dig(queue, "spec", "admissionChecksStrategy", "admissionChecks", default=[]):
        found[str(rule["name"])] = set(rule.get("onFlavors") or every)
    return found


def required(workload: Obj, queue: Obj) -> list[str]:
    """The checks that a Workload with a reservation must pass: those of the flavors that it was given."""
    given = {
        flavor
        for one in dig(workload, "status", "admission", "podSetAssignments", default=[])
        for flavor in (one.get("flavors") or {}).values()
    }
    return sorted(name for name, flavors in named_by(queue).items() if flavors & given)


def of_any(queue: Obj) -> list[str]:
    """The checks that are asked for every flavor of a ClusterQueue: what a Workload without a reservation has."""
    every = set(flavors_of(queue))
    return sorted(name for name, flavors in named_by(queue).items() if flavors >= every)


def synced(states: list[Obj], wanted: list[str], now: str) -> list[Obj]:
    """The states with new checks Pending, and without those that are no longer asked for."""
    known = {one["name"]: one for one in states}
    return [
        known.get(name) or {"name": name, "state": "Pending", "message": "", "lastTransitionTime": now}
        for name in wanted
    ]


def states_of(workload: Obj) -> list[Obj]:
    """``status.admissionChecks``."""
    return list(dig(workload, "status", "admissionChecks", default=[]))


def in_state(workload: Obj, state: str) -> list[Obj]:
    """The checks that are in a state, by name."""
    return sorted((one for one in states_of(workload) if one.get("state") == state), key=lambda one: str(one["name"]))


def all_ready(workload: Obj) -> bool:
    """Whether every check agreed."""
    return all(one.get("state") == "Ready" for one in states_of(workload))


def told(checks: list[Obj], state: str) -> str:
    """``AdmissionCheck in Retry state: "capacity" (no machines)``."""
    parts = [f'"{one["name"]}"' + (f" ({one['message']})" if one.get("message") else "") for one in checks]
    return f"AdmissionCheck{'s' if len(checks) > 1 else ''} in {state} state: {'; '.join(parts)}"


def reset(workload: Obj, now: str) -> list[Obj]:
    """Every check Pending again, as after an eviction."""
    found = []
    for one in states_of(workload):
        if one.get("state") == "Pending":
            found.append(one)
            continue
        fresh: Obj = {
            "name": one["name"],
            "state": "Pending",
            "lastTransitionTime": now,
            "message": f"Reset to Pending after eviction. Previously: {one.get('state')}",
        }
        if "requeueAfterSeconds" in one:
            fresh["requeueAfterSeconds"] = one["requeueAfterSeconds"]
        if one.get("state") == "Retry":
            fresh["retryCount"] = int(one.get("retryCount") or 0) + 1
        found.append(fresh)
    return found


def retry_at(workload: Obj) -> datetime | None:
    """When the last of the checks that want a retry wants it; None: at once."""
    moments = [
        parse_time(one["lastTransitionTime"]) + timedelta(seconds=float(one["requeueAfterSeconds"]))
        for one in in_state(workload, "Retry")
        if one.get("requeueAfterSeconds") and one.get("lastTransitionTime")
    ]
    return max(moments, default=None)


def requeue_state(workload: Obj) -> Obj | None:
    """``status.requeueState`` of a Workload that a check sends back; None where it may queue again at once."""
    moment = retry_at(workload)
    return {"requeueAt": format_time(moment)} if moment is not None else None
