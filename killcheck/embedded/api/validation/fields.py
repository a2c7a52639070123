"""Causes of a refusal, in the words of Kubernetes' field errors.

Source: k8s.io/apimachinery/pkg/util/validation/field/errors.go and pkg/api/validation/generic.go.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from killcheck.kube.objects import Obj

__all__ = [
    "IMMUTABLE",
    "Causes",
    "at",
    "duplicate",
    "forbidden",
    "immutable",
    "invalid",
    "invalid_value",
    "key",
    "nonnegative",
    "not_found",
    "not_supported",
    "positive",
    "quote",
    "required",
    "too_long",
    "too_many",
]

Causes = list[Obj]
IMMUTABLE = "field is immutable"


def at(path: str, child: str | int) -> str:
    """``path.child``, or ``path[3]``."""
    if isinstance(child, int):
        return f"{path}[{child}]"
    return f"{path}.{child}" if path else child


def key(path: str, name: str) -> str:
    """``path[name]``: an entry of a map."""
    return f"{path}[{name}]"


def _cause(reason: str, message: str, path: str) -> Obj:
    return {"reason": reason, "message": message, "field": path}


def quote(text: str) -> str:
    """Go's %q."""
    return json.dumps(text, ensure_ascii=False)


def _shown(value: Any) -> str:
    if isinstance(value, str):
        return quote(value)
    text = json.dumps(value, separators=(",", ":"), ensure_ascii=False)
    return text.replace("<", r"\u003c").replace(">", r"\u003e").replace("&", r"\u0026")  # as encoding/json writes them


def _with(body: str, detail: str) -> str:
    return f"{body}: {detail}" if detail else body


def required(path: str, detail: str = "") -> Obj:
    """A value is missing."""
    return _cause("FieldValueRequired", _with("Required value", detail), path)


def invalid(path: str, value: Any, detail: str) -> Obj:
    """A malformed value."""
    return _cause("FieldValueInvalid", _with(f"Invalid value: {_shown(value)}", detail), path)


def invalid_value(path: str, detail: str) -> Obj:
    """Malformed, without showing the value."""
    return _cause("FieldValueInvalid", _with("Invalid value", detail), path)


def forbidden(path: str, detail: str) -> Obj:
    """A value that may not stand here."""
    return _cause("FieldValueForbidden", _with("Forbidden", detail), path)


def not_supported(path: str, value: Any, supported: Iterable[str]) -> Obj:
    """None of the values there are."""
    listed = ", ".join(quote(item) for item in supported)
    return _cause("FieldValueNotSupported", f"Unsupported value: {_shown(value)}: supported values: {listed}", path)


def duplicate(path: str, value: Any) -> Obj:
    """A value that was there before."""
    return _cause("FieldValueDuplicate", f"Duplicate value: {_shown(value)}", path)


def not_found(path: str, value: Any, detail: str = "") -> Obj:
    """A name of nothing."""
    return _cause("FieldValueNotFound", _with(f"Not found: {_shown(value)}", detail), path)


def too_long(path: str, most: int) -> Obj:
    """More bytes than allowed."""
    return _cause("FieldValueTooLong", f"Too long: may not be more than {most} byte{'' if most == 1 else 's'}", path)


def too_many(path: str, count: int, most: int) -> Obj:
    """More items than allowed."""
    return _cause(
        "FieldValueTooMany", f"Too many: {count}: must have at most {most} item{'' if most == 1 else 's'}", path
    )


def nonnegative(path: str, value: int | None) -> Causes:
    """A number that may be missing but not below 0."""
    if value is None or value >= 0:
        return []
    return [invalid(path, value, "must be greater than or equal to 0")]


def positive(path: str, value: int) -> Causes:
    """A number above 0."""
    return [] if value > 0 else [invalid(path, value, "must be greater than 0")]


def immutable(path: str, new: Any, old: Any) -> Causes:
    """A value that must stay what it is."""
    return [] if (new or None) == (old or None) else [invalid(path, new, IMMUTABLE)]
