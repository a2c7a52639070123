"""Pod specs in custom resources, which no API server has typed: without what is of another shape than a pod's field.

A chart's values have ``env`` as a mapping, an operator ``command`` as text. Readers take a pod spec as the API server
would hand it out, so nothing else reaches them. Built-in types are checked against their schemas instead.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from killcheck.kube.objects import Obj

__all__ = ["as_typed"]

#: Fields by what they hold: ``map``, ``maps`` (a list of them), ``texts``, ``env``, or the fields of each of a list.
_CONTAINER: Mapping[str, Any] = {
    "env": "env",
    "envFrom": "maps",
    "ports": "maps",
    "volumeMounts": "maps",
    "volumeDevices": "maps",
    "command": "texts",
    "args": "texts",
    "resources": {"limits": "map", "requests": "map", "claims": "maps"},
    "lifecycle": "map",
    "livenessProbe": "map",
    "readinessProbe": "map",
    "startupProbe": "map",
    "securityContext": "map",
}
_POD: Mapping[str, Any] = {
    "containers": [_CONTAINER],
    "initContainers": [_CONTAINER],
    "ephemeralContainers": [_CONTAINER],
    "resources": {"limits": "map", "requests": "map", "claims": "maps"},
    "volumes": "maps",
    "tolerations": "maps",
    "imagePullSecrets": "maps",
    "resourceClaims": "maps",
    "topologySpreadConstraints": "maps",
    "nodeSelector": "map",
    "securityContext": "map",
    "affinity": {
        "nodeAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": {
                "nodeSelectorTerms": [{"matchExpressions": "maps", "matchFields": "maps"}]
            },
            "preferredDuringSchedulingIgnoredDuringExecution": "maps",
        },
        "podAffinity": "map",
        "podAntiAffinity": "map",
    },
}


def as_typed(spec: Obj) -> Obj:
    """A pod spec without the parts that have another shape than the API's; itself where all have it."""
    return _fields(spec, _POD)


def _fields(value: Obj, shapes: Mapping[str, Any]) -> Obj:
    changed = {}
    for key, shape in shapes.items():
        if key in value:
            typed = _typed(value[key], shape)
            if typed is not value[key]:
                changed[key] = typed
    kept = {key: item for key, item in value.items() if changed.get(key, item) is not None or item is None}
    return {**kept, **{key: item for key, item in changed.items() if item is not None}} if changed else value


def _typed(value: Any, shape: Any) -> Any:
    """The value in this shape; None where it has not got it."""
    if value is None:
        return None
    if shape == "env" and isinstance(value, dict):  # charts' values have it by name
        return [{"name": str(name), "value": item} for name, item in value.items() if not isinstance(item, dict | list)]
    if isinstance(shape, Mapping):
        return _fields(value, shape) if isinstance(value, dict) else None
    if shape == "map":
        return value if isinstance(value, dict) else None
    if not isinstance(value, list):
        return None
    items: list[Any] = [item for item in value if isinstance(item, (str, int, float) if shape == "texts" else dict)]
    if isinstance(shape, list):
        items = [_fields(item, shape[0]) for item in items]
    same = len(items) == len(value) and all(a is b for a, b in zip(items, value, strict=True))
    return value if same else items
