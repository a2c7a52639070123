"""What Deployments, StatefulSets and DaemonSets share: template hashes, revision numbers, sizes given in percent.

Source: pkg/controller/deployment/util and pkg/controller/history of Kubernetes v1.36. The hash is of our own making (Go
hashes a dump of its structs), its alphabet and length are the original's.
"""

from __future__ import annotations

import json
from math import ceil, floor
from typing import Any

from killcheck.kube.objects import Obj, annotations_of

__all__ = ["POD_TEMPLATE_HASH", "REVISION", "revision_of", "same_template", "scaled", "template_hash"]

REVISION = "deployment.kubernetes.io/revision"
POD_TEMPLATE_HASH = "pod-template-hash"
_SAFE = "bcdfghjklmnpqrstvwxz2456789"


def template_hash(template: Any, collisions: int | None = None) -> str:
    """FNV-1a (32 bit) of what a template says, in letters that make no words."""
    text = json.dumps(_pruned(template), sort_keys=True, separators=(",", ":"))
    value = 0x811C9DC5
    for byte in text.encode() + (b"" if collisions is None else collisions.to_bytes(8, "little")):
        value = ((value ^ byte) * 0x01000193) & 0xFFFFFFFF
    return "".join(_SAFE[ord(digit) % len(_SAFE)] for digit in str(value))


def same_template(one: Obj, other: Obj) -> bool:
    """Whether two pod templates say the same, the hash label apart (nothing and empty are the same)."""
    one, other = _without_hash(one), _without_hash(other)
    return one == other or bool(_pruned(one) == _pruned(other))


def _without_hash(template: Obj) -> Obj:
    meta = template.get("metadata") or {}
    labels = {k: v for k, v in (meta.get("labels") or {}).items() if k != POD_TEMPLATE_HASH}
    return template | {"metadata": {**meta, "labels": labels}}


def _pruned(value: Any) -> Any:
    if isinstance(value, dict):
        pruned = {k: _pruned(v) for k, v in value.items()}
        return {k: v for k, v in pruned.items() if v is not None and v not in ({}, [])}
    if isinstance(value, list):
        return [_pruned(v) for v in value]
    return value


def revision_of(obj: Obj) -> int:
    """The number in the revision annotation; 0 without one."""
    text = annotations_of(obj).get(REVISION, "0")
    return int(text) if text.isdigit() else 0


def scaled(value: Any, total: int, *, up: bool) -> int:
    """A count, or a share of ``total`` as in ``25%``."""
    if isinstance(value, str) and value.endswith("%"):
        share = int(value[:-1]) * total / 100
        return ceil(share) if up else floor(share)
    return int(value or 0)
