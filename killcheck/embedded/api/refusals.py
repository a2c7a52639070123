"""Why the API server would refuse an object as it is written, asked of its decoding and validation alone.

Strictly, as ``kubectl apply`` asks: a field that the type does not have is refused. No store, no admission: what else
is in a cluster plays no part, so nothing said here can be wrong because something is missing. Types of
CustomResourceDefinitions are left alone, as the cluster's own may be others; so is what only a feature gate decides.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime

from msgspec import Struct

from killcheck.embedded.api import crdschema, schemas, type_dispatch
from killcheck.embedded.api.kinds import Kind, Registry, builtin
from killcheck.embedded.api.status import StatusError
from killcheck.embedded.api.strategy import prepare_for_create
from killcheck.kube import releases
from killcheck.kube.objects import Obj, copy, format_time
from killcheck.kube.quantities import parse as quantity
from killcheck.text import lazy_re
from killcheck.text.yamlfile import Path

__all__ = ["Refusal", "refusals", "unreadable"]

#: What a feature gate decides, which an administrator may have switched on (HPAScaleToZero before v1.37).
_GATED = {("HorizontalPodAutoscaler", "spec.minReplicas")}
#: Fields whose values are quantities by name.
_QUANTITIES = ("limits", "requests", "hard", "capacity", "allocatable", "min", "max", "default", "defaultRequest")
_STRUCT_FIELD = lazy_re.compile(r"cannot unmarshal (\w+)(?: [^ ]+)? into Go (?:struct field \w+\.([\w.]+)|value)")
_JSON_TYPES: dict[str, type | tuple[type, ...]] = {
    "string": str,
    "number": (int, float),
    "bool": bool,
    "object": dict,
    "array": list,
}
_STEP = lazy_re.compile(r"\[([^\]]*)\]|([^.\[\]]+)")


class Refusal(Struct, frozen=True):
    """``path``: of the field, as far as it is known; ``message``: the API server's words."""

    path: Path
    message: str


def refusals(kinds: Registry, obj: Obj, now: datetime) -> list[Refusal]:
    """All that is wrong with an object of a built-in type; what cannot be decoded is told alone, as there."""
    group, _, version = str(obj.get("apiVersion", "")).rpartition("/")
    kind = kinds.by_kind(group, str(obj.get("kind")), version)
    if kind is None:
        return _no_such_type(kinds, group, version, str(obj.get("kind")))
    if kind.crd is not None or kind.table == ("", "secrets"):  # what a Secret holds was taken out when it was read
        return []
    try:
        clean, unknown = type_dispatch.decode(kind, copy(obj))
    except StatusError as error:
        return [Refusal(_misread(obj, str(error)), str(error))]
    found = [Refusal(_path(field), f'unknown field "{field}"') for field in unknown]
    return found + [
        Refusal(_path(cause["field"]), ": ".join(filter(None, (cause["field"], cause["message"]))))
        for cause in _causes(kind, clean, now)
        if (kind.resource.kind, cause["field"]) not in _GATED
    ]


def unreadable(kinds: Registry, obj: Obj) -> list[Refusal]:
    """The values of an object that are of another type than their field; of a built-in type the first alone."""
    group, _, version = str(obj.get("apiVersion", "")).rpartition("/")
    kind = kinds.by_kind(group, str(obj.get("kind")), version)
    if kind is None:
        return []
    part: Path = () if kind.crd is None else ("metadata",)
    try:
        if kind.crd is None:
            type_dispatch.decode(kind, copy(obj))
        else:
            schemas.decode("V1ObjectMeta", copy(obj["metadata"]))
    except StatusError as error:
        return [Refusal((*part, *_misread(obj["metadata"] if part else obj, str(error))), str(error))]
    return [] if kind.crd is None else list(_misfits(kind, obj))


def _misfits(kind: Kind, obj: Obj) -> Iterator[Refusal]:
    """The values of a custom resource that its schema has other types for; nulls are taken away before it is asked."""
    clean = copy(obj)
    crdschema.without_nulls(kind, clean)
    for cause in crdschema.validate(kind, clean):
        if cause["reason"] == "FieldValueTypeInvalid":
            yield Refusal(_path(cause["field"]), cause["message"])


def _no_such_type(kinds: Registry, group: str, version: str, name: str) -> list[Refusal]:
    """Only where it is nearly one that is served: what else there is depends on the cluster."""
    for one in (kind.resource for kind in builtin()):
        if (one.group, one.version, one.kind) == (group, version, name):
            since = releases.TYPES[one.api_version, one.plural]
            said = f"Kubernetes {kinds.release.name} does not serve it: v1.{since} is the first"
            return [Refusal(("apiVersion",), f'no matches for kind "{name}" in version "{group}/{version}": {said}')]
    alike = [k.resource for k in kinds.all() if k.crd is None and k.resource.kind.lower() == name.lower()]
    here = [resource for resource in alike if resource.group == group]
    near = here or (
        alike if "." not in group else []
    )  # a group of somebody's has a dot in it (apiextensions validation)
    if not near:
        return []
    wrong: Path = ("kind",) if any(resource.version == version for resource in here) else ("apiVersion",)
    said = f'no matches for kind "{name}" in version "{f"{group}/{version}" if group else version}"'
    return [Refusal(wrong, f"{said}; there is {near[0].kind} in {near[0].api_version}")]


def _causes(kind: Kind, clean: Obj, now: datetime) -> list[Obj]:
    new = copy(clean)
    meta = new["metadata"] = dict(new.get("metadata") or {})
    meta.setdefault("name", f"{meta.get('generateName', '')}x")
    if kind.resource.namespaced:
        meta.setdefault("namespace", "default")
    meta |= {"uid": "00000000-0000-4000-8000-000000000000", "creationTimestamp": format_time(now)}
    try:
        type_dispatch.apply_defaults(kind, new, now)
        prepare_for_create(kind, new, now)
        return type_dispatch.validate(kind, new, None)
    except StatusError as error:
        return [{"field": "", "message": str(error)}]


# -- where -------------------------------------------------------------------------------------------------
def _path(field: str) -> Path:
    """``spec.containers[0].resources.limits[cpu]`` as steps."""
    steps: list[str | int] = []
    for bracketed, plain in _STEP.findall(field if field != "<nil>" else ""):
        steps.append(int(bracketed) if bracketed.isdigit() else bracketed or plain)
    return tuple(steps)


def _misread(obj: Obj, message: str) -> Path:
    """Where a value is that could not be decoded: Go names its field without the places in lists, or not at all."""
    if message.startswith("quantities must match"):
        return next(_bad_quantities(obj), ())
    told = _STRUCT_FIELD.search(message)
    if told is None or not told[2]:
        return ()
    kind = _JSON_TYPES.get(told[1], object)
    found = list(_at(obj, told[2].split(".")))
    return next((path for path, value in found if isinstance(value, kind)), found[0][0] if found else ())


def _at(value: object, steps: list[str], done: Path = ()) -> Iterator[tuple[Path, object]]:
    if isinstance(value, list):
        for index, item in enumerate(value):
            yield from _at(item, steps, (*done, index))
    elif not steps:
        yield done, value
    elif isinstance(value, dict) and steps[0] in value:
        yield from _at(value[steps[0]], steps[1:], (*done, steps[0]))


def _bad_quantities(value: object, done: Path = ()) -> Iterator[Path]:
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, item in items:
        if key in _QUANTITIES and isinstance(item, dict):
            yield from ((*done, key, name) for name, text in item.items() if not _is_quantity(text))
        else:
            yield from _bad_quantities(item, (*done, key))


def _is_quantity(text: object) -> bool:
    try:
        quantity(str(text))
    except ValueError:
        return False
    return True
