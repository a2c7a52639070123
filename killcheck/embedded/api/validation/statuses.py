"""The status of workloads, as a writer from outside may set it.

Source: ``ValidateDeploymentStatus`` and its likes in pkg/apis/apps/validation/validation.go and
pkg/apis/core/validation/validation.go of Kubernetes v1.36: numbers that are counted, and none above their whole.
"""

from __future__ import annotations

from killcheck.embedded.api.kinds import Kind
from killcheck.embedded.api.validation import names
from killcheck.embedded.api.validation.fields import Causes, forbidden, invalid, nonnegative
from killcheck.kube.objects import Obj, dig

__all__ = ["update"]

_COUNTS: dict[str, tuple[str, ...]] = {
    "Deployment": (
        "observedGeneration",
        "replicas",
        "updatedReplicas",
        "readyReplicas",
        "availableReplicas",
        "unavailableReplicas",
        "terminatingReplicas",
        "collisionCount",
    ),
    "StatefulSet": (
        "replicas",
        "readyReplicas",
        "currentReplicas",
        "updatedReplicas",
        "availableReplicas",
        "observedGeneration",
        "collisionCount",
    ),
    "ReplicaSet": (
        "replicas",
        "fullyLabeledReplicas",
        "readyReplicas",
        "availableReplicas",
        "terminatingReplicas",
        "observedGeneration",
    ),
    "ReplicationController": (
        "replicas",
        "fullyLabeledReplicas",
        "readyReplicas",
        "availableReplicas",
        "observedGeneration",
    ),
}
#: Conditions of a pod that Kubernetes itself reports.
_OF_THE_SYSTEM = frozenset({"Initialized", "PodScheduled", "Ready"})
#: What of a status may not be above ``replicas``.
_WITHIN: dict[str, tuple[str, ...]] = {
    "Deployment": ("updatedReplicas", "readyReplicas", "availableReplicas"),
    "StatefulSet": ("readyReplicas", "currentReplicas", "updatedReplicas", "availableReplicas"),
    "ReplicaSet": ("fullyLabeledReplicas", "readyReplicas", "availableReplicas"),
    "ReplicationController": ("fullyLabeledReplicas", "readyReplicas", "availableReplicas"),
}


def update(kind: Kind, new: Obj) -> Causes:
    """What is wrong with a new status; of a kind that is not known here, nothing is."""
    name, status = kind.resource.kind, new.get("status") or {}
    causes: Causes = _conditions(status.get("conditions") or []) if name == "Pod" else []
    balanced = dig(status, "loadBalancer", "ingress")
    if name == "Service" and balanced and dig(new, "spec", "type") != "LoadBalancer":
        causes.append(forbidden("status.loadBalancer.ingress", "may only be used when `spec.type` is 'LoadBalancer'"))
    for field in _COUNTS.get(name, ()):
        causes += nonnegative(f"status.{field}", status.get(field))
    whole = status.get("replicas", 0)
    for field in _WITHIN.get(name, ()):
        if status.get(field, 0) > whole:
            causes.append(invalid(f"status.{field}", status.get(field, 0), "cannot be greater than status.replicas"))
    available, ready = status.get("availableReplicas", 0), status.get("readyReplicas", 0)
    if name in _WITHIN and available > ready:
        than = "readyReplicas" if name != "StatefulSet" else "status.readyReplicas"
        causes.append(invalid("status.availableReplicas", available, f"cannot be greater than {than}"))
    return causes


def _conditions(conditions: list[Obj]) -> Causes:
    """Of a pod: those that are not Kubernetes' own are called as labels are (``validatePodConditions``)."""
    causes: Causes = []
    for number, condition in enumerate(conditions):
        path = f"status.conditions[{number}]"
        if condition.get("observedGeneration", 0) < 0:
            words = "must be a non-negative integer"
            causes.append(invalid(f"{path}.observedGeneration", condition["observedGeneration"], words))
        kind = str(condition.get("type", ""))
        if kind not in _OF_THE_SYSTEM:
            causes += [invalid(f"{path}.Type", kind, words) for words in names.qualified_name(kind)]
    return causes
