"""Kubernetes objects as plain dicts, and the few questions asked of any of them.

Objects that came from the API are read-only by convention (as in client-go's caches): copy before editing.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any, cast

__all__ = [
    "Obj",
    "annotations_of",
    "condition",
    "controller_of",
    "copy",
    "dig",
    "format_time",
    "is_answer",
    "is_object",
    "items",
    "key_of",
    "labels_of",
    "mappings",
    "name_of",
    "namespace_of",
    "owners",
    "parse_time",
    "ref_of",
    "uid_of",
]

#: A Kubernetes object or any part of one, as JSON has it.
Obj = dict[str, Any]


def copy(value: Obj) -> Obj:
    """A deep copy of JSON-like data (several times faster than ``copy.deepcopy``)."""
    return cast(Obj, _copy(value))


def _copy(value: Any) -> Any:
    kind = value.__class__
    return _copy_dict(value) if kind is dict else _copy_list(value) if kind is list else value


def _copy_dict(value: Obj) -> Obj:
    new = value.copy()  # in C; of most values that is all there is to do
    for key, inner in value.items():
        kind = inner.__class__
        if kind is dict:
            new[key] = _copy_dict(inner)
        elif kind is list:
            new[key] = _copy_list(inner)
    return new


def _copy_list(value: list[Any]) -> list[Any]:
    return [
        _copy_dict(inner) if inner.__class__ is dict else _copy_list(inner) if inner.__class__ is list else inner
        for inner in value
    ]


def items(value: Any) -> list[Any]:
    """A list as somebody wrote it in an object of a kind without a schema here; what is none is its only item."""
    if value is None:
        return []
    return value if isinstance(value, list) else [value]


def mappings(value: Any) -> list[Obj]:
    """Those of :func:`items` that are mappings."""
    return [one for one in items(value) if isinstance(one, dict)]


def dig(obj: Any, *path: str | int, default: Any = None) -> Any:
    """Follow ``path`` through dicts and lists; ``default`` where a step is missing or null."""
    for step in path:
        if obj.__class__ is dict:  # the quick test, and the next one, answer nearly always
            obj = obj.get(step)
        elif obj is None:
            return default
        elif isinstance(obj, Mapping):
            obj = obj.get(step)
        elif isinstance(obj, list) and isinstance(step, int) and -len(obj) <= step < len(obj):
            obj = obj[step]
        else:
            return default
    return default if obj is None else obj


def is_answer(body: Any) -> bool:
    """Whether JSON is an object, or a list of such, as far down as every object is alike: anybody may have sent it."""
    if not isinstance(body, dict) or not isinstance(body.get("metadata") or {}, dict):
        return False
    lists = [body.get(name) or [] for name in ("items", "groups", "resources")]
    if not all(isinstance(one, list) and all(isinstance(item, dict) for item in one) for one in lists):
        return False
    return all(map(is_object, lists[0]))


def is_object(item: Any) -> bool:
    """Whether JSON is an object with the metadata that each has."""
    meta = item.get("metadata") if isinstance(item, dict) else None
    if not isinstance(meta, dict) or not isinstance(meta.get("name", ""), str):
        return False
    return all(isinstance(meta.get(name) or {}, dict) for name in ("labels", "annotations"))


def name_of(obj: Obj) -> str:
    """``metadata.name``; empty where there is none."""
    return str(_metadata(obj).get("name") or "")


def namespace_of(obj: Obj) -> str:
    """``metadata.namespace``; empty for cluster-scoped objects."""
    return str(_metadata(obj).get("namespace") or "")


def uid_of(obj: Obj) -> str:
    """``metadata.uid``."""
    return str(_metadata(obj).get("uid") or "")


def key_of(obj: Obj) -> tuple[str, str]:
    """(namespace, name)."""
    metadata = _metadata(obj)
    return str(metadata.get("namespace") or ""), str(metadata.get("name") or "")


def _metadata(obj: Obj) -> Obj:
    """Asked for with every change of every object: no ``dig``, which takes three times as long."""
    metadata = obj.get("metadata")
    return metadata if metadata.__class__ is dict else {}


def ref_of(obj: Obj) -> str:
    """How people write it: ``Deployment/inference/vllm``, ``Node/gpu-1``."""
    parts = [str(obj.get("kind", "?")), namespace_of(obj), name_of(obj)]
    return "/".join(part for part in parts if part)


def labels_of(obj: Obj) -> dict[str, str]:
    """``metadata.labels``, never None."""
    return _metadata(obj).get("labels") or {}


def annotations_of(obj: Obj) -> dict[str, str]:
    """``metadata.annotations``, never None."""
    return _metadata(obj).get("annotations") or {}


def owners(obj: Obj) -> Iterator[Obj]:
    """``metadata.ownerReferences``."""
    yield from _metadata(obj).get("ownerReferences") or ()


def controller_of(obj: Obj) -> Obj | None:
    """The owner reference with ``controller: true``."""
    refs: Iterable[Obj] = _metadata(obj).get("ownerReferences") or ()
    for owner in refs:
        if owner.get("controller"):
            return owner
    return None


def condition(obj: Obj, kind: str) -> Obj | None:
    """The entry of ``status.conditions`` whose type is ``kind``."""
    for one in dig(obj, "status", "conditions") or ():
        if one.get("type") == kind:
            return cast(Obj, one)
    return None


def parse_time(text: str) -> datetime:
    """RFC 3339 as Kubernetes writes it (metav1.Time and MicroTime), timezone-aware UTC.

    Raises ValueError for anything else.
    """
    return datetime.fromisoformat(text.replace("Z", "+00:00")).astimezone(UTC)


def format_time(when: datetime, *, micro: bool = False) -> str:
    """metav1.Time (whole seconds), or MicroTime with ``micro``."""
    return _formatted(when, micro)


@lru_cache(maxsize=256)
def _formatted(when: datetime, micro: bool) -> str:
    """Much is written at one moment."""
    utc = when if when.tzinfo is UTC else when.astimezone(UTC)
    return utc.replace(tzinfo=None).isoformat(timespec="microseconds" if micro else "seconds") + "Z"
