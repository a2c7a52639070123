"""What a workload looks like that somebody deployed: who manages its fields, and what that client left on it.

Manifests are loaded as their own tools would have: an executor that applies them again, patches them or applies
server-side meets the managers that it would meet. Sources: kubectl apply (annotation and field manager of client-side
apply), helm v3 (creates as manager ``helm``, label ``app.kubernetes.io/managed-by``), Argo CD (applies client-side, as
``argocd-controller``, tracking by annotation since 3.0). What may *not* live here: calls to the API.
"""

from __future__ import annotations

import json

from killcheck.embedded.api.applying import LAST_APPLIED
from killcheck.kube.objects import Obj, annotations_of, labels_of

__all__ = ["as_deployed"]

_TRACKED = "argocd.argoproj.io/tracking-id"
_MANAGED_BY = "app.kubernetes.io/managed-by"
#: What makes an object a workload, or something whose replicas are written.
_WORKLOAD = frozenset({"template", "jobTemplate", "replicas", "scaleTargetRef"})


def as_deployed(obj: Obj) -> tuple[Obj, str]:
    """The object as its tool would send it, and the field manager; an empty name: no workload, or not a tool's."""
    if not _WORKLOAD & set(obj.get("spec") or {}) or LAST_APPLIED in annotations_of(obj):
        return obj, ""
    if labels_of(obj).get(_MANAGED_BY) == "Helm":
        return obj, "helm"
    manager = "argocd-controller" if _TRACKED in annotations_of(obj) else "kubectl-client-side-apply"
    # kubectl writes the annotations' map of what it applied, also where there is none.
    applied = obj | {"metadata": {"annotations": {}} | obj["metadata"]}
    said = json.dumps(applied, separators=(",", ":"), sort_keys=True, default=str) + "\n"
    meta = obj["metadata"] | {"annotations": annotations_of(obj) | {LAST_APPLIED: said}}
    return obj | {"metadata": meta}, manager
