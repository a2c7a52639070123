"""Targets as an autoscaler may have left them by the evening: with one replica more than the manifests ask for.

An executor that goes by the number which the manifests say (``--current-replicas=1``, a ``sed`` over the YAML, one pod
by its name) turns off what was drilled, and nothing on a busy day. What may *not* live here: when that is, verdicts.
"""

from __future__ import annotations

from collections.abc import Iterable

from killcheck.kube import resources as r
from killcheck.kube.client import Kube
from killcheck.kube.objects import Obj, dig, name_of, namespace_of

__all__ = ["grow"]

_SCALED = {one.kind: one for one in (r.DEPLOYMENTS, r.STATEFULSETS, r.REPLICASETS)}


def grow(kube: Kube, objects: Iterable[Obj]) -> None:
    """Give what a HorizontalPodAutoscaler scales, and is on, one replica more where it may have more.

    Raises KubeError.
    """
    grown = list(objects)
    most = {
        (dig(hpa, "spec", "scaleTargetRef", "kind"), namespace, dig(hpa, "spec", "scaleTargetRef", "name")): hpa
        for namespace in sorted({namespace_of(obj) for obj in grown})
        for hpa in kube.list(r.HPAS, namespace).items
    }
    for obj in grown:
        hpa, resource = most.get((obj.get("kind"), namespace_of(obj), name_of(obj))), _SCALED.get(str(obj.get("kind")))
        if hpa is None or resource is None:
            continue
        now = dig(kube.get(resource, name_of(obj), namespace_of(obj)), "spec", "replicas", default=1)
        if 0 < now < dig(hpa, "spec", "maxReplicas", default=0):
            kube.patch(resource, name_of(obj), {"spec": {"replicas": now + 1}}, namespace_of(obj))
