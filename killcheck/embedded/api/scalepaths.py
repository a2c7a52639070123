"""Where objects have what their Scale shows: built-in types all alike, custom resources as their definition says."""

from __future__ import annotations

from typing import Any

from killcheck.embedded.api.fieldsets import Fields, applied_fields
from killcheck.embedded.api.kinds import Kind
from killcheck.kube.objects import Obj

__all__ = ["path_of", "put_at", "replicas_fields"]


def path_of(kind: Kind, name: str, fallback: str) -> list[str]:
    """The steps to a field, by its name in a definition's scale subresource; ``fallback`` is a built-in type's."""
    scale = (kind.crd_version.get("subresources") or {}).get("scale") or {}
    text = str(scale.get(name, "")).lstrip(".") if kind.crd else fallback
    return text.split(".") if text else []


def replicas_fields(kind: Kind) -> Fields:
    """Where the replicas are, as managedFields have it."""
    shape: Obj = {}
    put_at(shape, path_of(kind, "specReplicasPath", "spec.replicas"), 0)
    return applied_fields(shape)


def put_at(obj: Obj, path: list[str], value: Any) -> None:
    """Set a field in place, with what leads there."""
    for step in path[:-1]:
        obj = obj.setdefault(step, {})
    obj[path[-1]] = value
