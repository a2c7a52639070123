"""Who lit a target again: the field manager that wrote its replicas, or whoever says that they scaled it."""

from __future__ import annotations

from contextlib import suppress
from datetime import datetime

from killcheck.kube import resources as r
from killcheck.kube.errors import KubeError
from killcheck.kube.objects import Obj, condition, dig, format_time, name_of, namespace_of
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
    """The field manager that lit it; None where neither managedFields, events, a fault nor a minimum tell."""
    return writer_of(obj) or rival_that_spoke(stage, since) or _keeper(stage, obj)


def _keeper(stage: Stage, obj: Obj) -> str | None:
    """KEDA, where it keeps a minimum: it writes that by the Scale, of which a zero has no manager, and says nothing.

    Source: kedacore/keda v2.20.2 pkg/scaling/executor/scale_scaledobjects.go (RequestScale); recorded on v1.36.2.
    """
    with suppress(KubeError):
        for scaled in stage.cluster.kube.list(r.SCALEDOBJECTS, namespace_of(obj)).items:
            ref = dig(scaled, "spec", "scaleTargetRef", default={})
            ready = (condition(scaled, "Ready") or {}).get("status") == "True"
            least = int(dig(scaled, "spec", "minReplicaCount", default=0) or 0)
            if (ref.get("kind") or "Deployment", ref.get("name")) == (obj["kind"], name_of(obj)) and ready and least:
                return "keda-operator"
    return None


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
