"""Manifests as one layer's drill has them: a worker that ends itself hangs while another layer is drilled.

That other layer is for the day that it does.
"""

from __future__ import annotations

from killcheck.kube.objects import Obj, copy, dig, namespace_of
from killcheck.kube.pod_annotations import EXECUTE
from killcheck.spec.killpath import KillPath, Layer, LayerType

__all__ = ["as_drilled", "marked"]


def as_drilled(kill_path: KillPath, objects: list[Obj], layer: Layer | None) -> list[Obj]:
    """The manifests, the very list where nothing hangs."""
    if layer is None or layer.type is LayerType.SELF_TERMINATING:
        return objects
    hung = {
        (target.kind, target.namespace, target.object)
        for other in kill_path.layers
        if other.type is LayerType.SELF_TERMINATING
        for target in kill_path.covered_by(other)
        if target.kind  # what is rented runs: without workers no queue is ever empty
    }
    if not hung:
        return objects
    return [
        marked(o, "false") if (o.get("kind"), namespace_of(o), dig(o, "metadata", "name")) in hung else o
        for o in objects
    ]


def marked(workload: Obj, said: str) -> Obj:
    """Whose containers run on the embedded cluster ("true"), or are on and do nothing, for ever ("false")."""
    changed = copy(workload)
    meta = changed["spec"]["template"].setdefault("metadata", {})
    meta["annotations"] = {**(meta.get("annotations") or {}), EXECUTE: said}
    return changed
