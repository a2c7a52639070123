"""Who lit a target again: the field manager that wrote its replicas, or whoever says that they scaled it."""

from __future__ import annotations

from datetime import datetime

from killcheck.kube.objects import Obj, dig, format_time
from killcheck.layers.base import Stage, writer_of
from killcheck.watch.scene import event_time

__all__ = ["lighter", "rival_that_spoke"]

#: Controllers by what they say when they scale up: (about a kind, reason, field manager).
_SAYINGS = (
    ("ScaledObject", "KEDAScaleTargetActivated", "keda-operator"),
    ("Application", "OperationStarted", "argocd-application-controller"),
    ("Kustomization", "Progressing", "kustomize-controller"),
    ("HelmRelease", "DriftCorrected", "helm-controller"),
    ("HorizontalPodAutoscaler", "SuccessfulRescale", "horizontal-pod-autoscaler"),
)


def lighter(stage: Stage, obj: Obj, since: datetime) -> str | None:
    """The field manager that lit it; None where neither managedFields nor events nor a fault tell."""
    return writer_of(obj) or rival_that_spoke(stage, since)


def rival_that_spoke(stage: Stage, since: datetime) -> str | None:
    """Whose events say that they scaled since then, or whom a fault plays; as a field manager."""
    if stage.rival:
        return stage.rival
    for event in sorted(stage.scene.events.values(), key=event_time, reverse=True):
        if event_time(event) < format_time(since):
            break
        about = dig(event, "involvedObject", "kind")
        for kind, reason, manager in _SAYINGS:
            if about == kind and event.get("reason") == reason:
                return manager
    return None
