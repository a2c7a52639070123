"""What a pod asks of a node, and the questions that Karpenter asks of pods (pkg/utils/pod/scheduling.go, v1.14)."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

from killcheck.embedded.models.karpenter import names as n
from killcheck.instances.amounts import amounts, total
from killcheck.instances.requirements import Requirements
from killcheck.kube.objects import Obj, annotations_of, condition, dig, owners, parse_time
from killcheck.kube.selectors import node_terms
from killcheck.text.durations import parse_duration

__all__ = [
    "FOREVER",
    "alternatives",
    "anti_affine",
    "do_not_disrupt_until",
    "is_active",
    "is_critical",
    "is_daemon",
    "is_drainable",
    "is_empty_cost",
    "is_mirror",
    "is_provisionable",
    "is_reschedulable",
    "is_terminal",
    "is_terminating",
    "requests",
    "tolerates",
]

#: Later than anything.
FOREVER = datetime.max.replace(tzinfo=UTC)


def requests(spec: Obj) -> dict[str, float]:
    """What the scheduler counts for a pod spec: containers and sidecars together, or its hungriest init container."""
    containers = [_asked(c) for c in spec.get("containers", ())]
    sidecars: list[dict[str, float]] = []
    most: dict[str, float] = {}
    for init in spec.get("initContainers", ()):
        if init.get("restartPolicy") == "Always":
            sidecars.append(_asked(init))
            needed = total(sidecars)
        else:
            needed = total([*sidecars, _asked(init)])
        most = _larger(most, needed)
    whole = _larger(total([*containers, *sidecars]), most)
    stated = dig(spec, "resources", "requests", default={})
    whole |= amounts(stated)
    whole = total([whole, amounts(spec.get("overhead"))])
    whole["pods"] = 1.0
    return whole


def _asked(container: Obj) -> dict[str, float]:
    resources = container.get("resources") or {}
    # A limit without a request is a request (the API server's defaulting, which manifests have not been through).
    return amounts({**(resources.get("limits") or {}), **(resources.get("requests") or {})})


def _larger(one: Mapping[str, float], other: Mapping[str, float]) -> dict[str, float]:
    return {name: max(one.get(name, 0.0), other.get(name, 0.0)) for name in {**one, **other}}


def alternatives(spec: Obj) -> Iterator[Requirements]:
    """What a pod requires of a node's labels: one set for each term of its required node affinity (any will do).

    Raises RequirementError.
    """
    selector = spec.get("nodeSelector") or {}
    for term in node_terms(spec) or [{}]:
        yield Requirements.of(term.get("matchExpressions") or [], selector)


def anti_affine(pod: Obj, other: Obj) -> bool:
    """Whether ``pod`` must not share a host with ``other`` (required anti-affinity by hostname, matchLabels)."""
    required = "requiredDuringSchedulingIgnoredDuringExecution"
    for term in dig(pod, "spec", "affinity", "podAntiAffinity", required, default=[]):
        if term.get("topologyKey") != n.HOSTNAME:
            continue
        wanted = dig(term, "labelSelector", "matchLabels", default={})
        labels = dig(other, "metadata", "labels", default={})
        if wanted and all(labels.get(key) == value for key, value in wanted.items()):
            return True
    return False


def tolerates(spec: Obj, taints: Iterable[Obj]) -> Obj | None:
    """The first taint that keeps the pod away, or None. PreferNoSchedule never does."""
    given = spec.get("tolerations") or ()
    for taint in taints:
        if taint.get("effect") != "PreferNoSchedule" and not any(_tolerated(one, taint) for one in given):
            return taint
    return None


def _tolerated(toleration: Mapping[str, Any], taint: Obj) -> bool:
    if toleration.get("effect") and toleration["effect"] != taint.get("effect"):
        return False
    if toleration.get("key") and toleration["key"] != taint.get("key"):
        return False
    if toleration.get("operator", "Equal") == "Exists":
        return True
    return bool(toleration.get("key")) and toleration.get("value", "") == (taint.get("value") or "")


def _owned_by(pod: Obj, kind: str) -> bool:
    return any(owner.get("kind") == kind for owner in owners(pod))


def is_daemon(pod: Obj) -> bool:
    """Owned by a DaemonSet."""
    return _owned_by(pod, "DaemonSet")


def is_mirror(pod: Obj) -> bool:
    """A static pod, owned by its Node."""
    return _owned_by(pod, "Node")


def is_terminal(pod: Obj) -> bool:
    """Failed or Succeeded."""
    return dig(pod, "status", "phase") in ("Failed", "Succeeded")


def is_terminating(pod: Obj) -> bool:
    """It has a deletionTimestamp."""
    return dig(pod, "metadata", "deletionTimestamp") is not None


def is_active(pod: Obj) -> bool:
    """Neither terminal nor terminating."""
    return not is_terminal(pod) and not is_terminating(pod)


def is_reschedulable(pod: Obj) -> bool:
    """It would have to run elsewhere if its node went."""
    moves = is_active(pod) or (_owned_by(pod, "StatefulSet") and is_terminating(pod))
    return moves and not is_daemon(pod) and not is_mirror(pod)


def is_provisionable(pod: Obj) -> bool:
    """The scheduler said that it fits nowhere, and a new node could help."""
    scheduled = condition(pod, "PodScheduled")
    return (
        scheduled is not None
        and scheduled.get("reason") == "Unschedulable"
        and not dig(pod, "spec", "nodeName")
        and not dig(pod, "status", "nominatedNodeName")
        and not is_daemon(pod)
        and not is_mirror(pod)
        and is_active(pod)
    )


def is_critical(pod: Obj) -> bool:
    """One of the two system priority classes."""
    return dig(pod, "spec", "priorityClassName") in ("system-cluster-critical", "system-node-critical")


def is_empty_cost(pods: Iterable[Obj]) -> bool:
    """Whether evicting these costs nothing (Karpenter's IsEmpty): none, or only pods of very low priority."""
    return sum(max(0.0, _eviction_cost(pod)) for pod in pods) <= 0.0


def _eviction_cost(pod: Obj) -> float:
    cost = 1.0 + float(dig(pod, "spec", "priority", default=0)) / 2.0**25
    with contextlib.suppress(ValueError):
        cost += float(annotations_of(pod).get("controller.kubernetes.io/pod-deletion-cost", 0)) / 2.0**27
    return min(10.0, max(-10.0, cost))


def do_not_disrupt_until(pod: Obj) -> datetime | None:
    """Until when the annotation protects the pod: for ever (FOREVER), until its age, or not at all (None)."""
    value = annotations_of(pod).get(n.DO_NOT_DISRUPT)
    if value is None:
        return None
    if value == "true":
        return FOREVER
    try:
        age_s = parse_duration(value)
    except ValueError:
        return None
    started = dig(pod, "status", "startTime")
    return None if age_s <= 0 else parse_time(started) + timedelta(seconds=age_s) if started else FOREVER


def is_drainable(pod: Obj, now: datetime) -> bool:
    """A drain waits for it: not tolerating the taint, not mirror, not stuck terminating for a minute past its end."""
    if tolerates(pod["spec"], (n.DISRUPTED_TAINT,)) is None or is_mirror(pod):
        return False
    deleted = dig(pod, "metadata", "deletionTimestamp")
    return deleted is None or (now - parse_time(deleted)).total_seconds() <= 60
