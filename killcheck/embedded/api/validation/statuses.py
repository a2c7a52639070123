"""The status of workloads, as a writer from outside may set it.

Source: ``ValidateDeploymentStatus`` and its likes in pkg/apis/apps/validation/validation.go and
pkg/apis/core/validation/validation.go of Kubernetes v1.36: numbers that are counted, and none above their whole.
"""

from __future__ import annotations

from killcheck.embedded.api.kinds import Kind
from killcheck.embedded.api.validation.fields import Causes, invalid, nonnegative
from killcheck.kube.objects import Obj

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
    causes: Causes = []
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
