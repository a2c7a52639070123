"""A pod's spec as the API server holds it inside, in Go's indented JSON, and how two of them differ.

So a refused update shows what was changed in the words of a real server. ``internal_pod.json`` names the fields of the
internal types in their order, each with its name in v1 and its type (pkg/apis/core/types.go of Kubernetes v1.36).
"""

from __future__ import annotations

import difflib
import json
from functools import cache
from pathlib import Path
from typing import Any

from killcheck.kube.objects import Obj
from killcheck.text import lazy_re

__all__ = ["claim_inside", "context_inside", "difference", "inside", "volume_claim_difference"]

_ZERO: dict[str, Any] = {"string": "", "number": 0, "bool": False, "Quantity": "0"}
#: Fields of v1's pod that are inside the security context in here.
_HOST = ("hostNetwork", "hostPID", "hostIPC", "shareProcessNamespace", "hostUsers")
_CODE = lazy_re.compile(r"((?:\*|\[\]|\{\})*)(\w+)")


def difference(old: Obj, new: Obj) -> str:
    """A unified diff of two pods' specs, with three lines of context."""
    return _difference(inside(old), inside(new))


def volume_claim_difference(old: Obj, new: Obj) -> str:
    """The same of two PersistentVolumeClaims' specs."""
    return _difference(*(_shown(spec, "PersistentVolumeClaimSpec") for spec in (old, new)))


def _difference(old: Any, new: Any) -> str:
    before, after = _lines(old), _lines(new)
    return "".join(list(difflib.unified_diff(before, after, n=3))[2:])


def _lines(value: Any) -> list[str]:
    text = json.dumps(value, indent=1, ensure_ascii=False)
    for char in "<>&":
        text = text.replace(char, f"\\u{ord(char):04x}")
    return [f"{line}\n" for line in text.split("\n")]


def inside(spec: Obj) -> Any:
    """A pod's spec as the internal type shows itself."""
    context = dict(spec.get("securityContext") or {}) | {name: spec[name] for name in _HOST if name in spec}
    return _shown(spec | {"securityContext": context}, "PodSpec")


def context_inside(context: Obj) -> Any:
    """A container's security context as the internal type shows itself."""
    return _shown(context, "SecurityContext")


def claim_inside(spec: Obj | None) -> Any:
    """A ResourceClaim's spec as the internal type shows itself (pkg/apis/resource/types.go)."""
    return _shown(spec, "ResourceClaimSpec")


@cache
def _types() -> dict[str, dict[str, tuple[str, str, str]]]:
    """type -> Go's name of a field -> (its name in v1, pointer, list and map marks, type)."""
    raw: dict[str, dict[str, str]] = json.loads((Path(__file__).parents[1] / "internal_pod.json").read_text("utf-8"))
    found: dict[str, dict[str, tuple[str, str, str]]] = {}
    for name, fields in raw.items():
        found[name] = {}
        for go, code in fields.items():
            own, _, kind = code.partition(":")
            marks, base = _CODE.fullmatch(kind).groups()  # type: ignore[union-attr]
            found[name][go] = (own, marks, base)
    return found


def _shown(value: Any, base: str, marks: str = "") -> Any:
    if marks:
        return _wrapped(value, base, marks)
    fields = _types().get(base)
    if fields is None:
        return _ZERO.get(base) if value is None else value
    value = value or {}
    return {go: _shown(value.get(own), kind, inner) for go, (own, inner, kind) in fields.items()}


def _wrapped(value: Any, base: str, marks: str) -> Any:
    if value is None:
        return None
    if marks[0] == "*":
        return _shown(value, base, marks[1:])
    if marks.startswith("[]"):
        return [_shown(item, base, marks[2:]) for item in value]
    return {key: _shown(value[key], base, marks[2:]) for key in sorted(value)}
