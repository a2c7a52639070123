"""From maps to Go's structures, as strategic merge patches and server-side apply go there.

What does not fit is refused in other words than JSON's decoder has, and a number without a fraction is a whole one.
Source: ``fromUnstructured`` in k8s.io/apimachinery/pkg/runtime/converter.go.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import cache
from typing import Any

from killcheck.embedded.api import scalars, schemas
from killcheck.embedded.api.scalars import Mismatch
from killcheck.kube.objects import Obj

__all__ = ["Misfit", "restored"]

#: Types that read themselves from JSON.
_OWN_READERS = frozenset({"Quantity", "IntOrString", "Time", "MicroTime", "Duration"})
_KINDS: dict[type, str] = {str: "string", bool: "bool", int: "int64", float: "float64", list: "slice", dict: "map"}


class Misfit(Exception):
    """A value that cannot be converted, in the converter's words."""


def restored(schema: str, obj: Obj, known: Obj | None = None) -> Obj:
    """The object with whole numbers where the type has such. Raises Misfit at the first field that does not fit.

    ``known``: an object of that type. What is its own very value, not one that is equal, is of its type already.
    """
    result: Obj
    try:
        result = _struct(schema, obj, _as_given, known)
    except Misfit:  # which is the first, the structure's order says: a type has far more fields than an object
        result = _struct(schema, obj, _as_declared, known)
    return result


Fields = dict[str, schemas.Field]
#: The names of a map in which the fields of a structure are looked for.
_Order = Callable[[Fields, Obj], Iterable[str]]


def _as_given(_fields: Fields, value: Obj) -> Iterable[str]:
    return value


def _as_declared(fields: Fields, value: Obj) -> Iterable[str]:
    return [name for name in fields if name in value]


def _struct(schema: str, value: Any, order: _Order, known: Any) -> Any:
    if value is None or value is known:
        return value
    if not isinstance(value, dict):
        raise Misfit(f"cannot restore struct from: {_kind(value)}")
    found = dict(value)
    as_they_are, fields = _as_they_are(schema), schemas.fields(schema)
    before = known if known.__class__ is dict else {}
    for name in order(fields, value):
        given = value[name]
        if as_they_are.get(name) is not given.__class__:
            had, field = before.get(name), fields.get(name)
            if given is not had and field is not None:
                found[name] = _shaped(field, field.shape, given, order, had)
    return found


@cache
def _as_they_are(schema: str) -> dict[str, type]:
    """The fields that hold one text or one truth, with the type of what nothing is to be done with."""
    plain: dict[str, type] = {"string": str, "bool": bool}
    declared = schemas.fields(schema).items()
    return {name: plain[field.base] for name, field in declared if not field.shape and field.base in plain}


def _shaped(field: schemas.Field, shape: str, value: Any, order: _Order, known: Any) -> Any:
    if value is None or value is known:
        return value
    if not shape:
        return _struct(field.base, value, order, known) if field.base in schemas.load() else _scalar(field, value)
    if shape.startswith("[]"):
        if not isinstance(value, list):
            raise Misfit(f"cannot restore slice from {_kind(value)}")
        had = {id(item): item for item in known} if known.__class__ is list else {}
        return [_shaped(field, shape[2:], item, order, had.get(id(item))) for item in value]
    if not isinstance(value, dict):
        raise Misfit(f"cannot restore map from {_kind(value)}")
    before = known if known.__class__ is dict else {}
    return {key: _shaped(field, shape[2:], item, order, before.get(key)) for key, item in value.items()}


def _scalar(field: schemas.Field, value: Any) -> Any:
    base = field.base
    if base == "any":
        return value
    if base in _OWN_READERS:
        value = int(value) if isinstance(value, float) and value.is_integer() else value  # as JSON writes it
        try:
            scalars.reader(base, field.go)(value)
        except Mismatch as error:
            raise Misfit(error.words()) from error
        return value
    if base == "bytes":
        return _bytes(value)
    return _simple(base, field.go or base, value)


def _bytes(value: Any) -> Any:
    if not isinstance(value, str):
        raise Misfit(f"cannot restore slice from {_kind(value)}")
    try:
        scalars.reader("bytes", "")(value)
    except Mismatch as error:
        raise Misfit(f"error decoding from json: {error.words()}") from error
    return value


def _simple(base: str, go: str, value: Any) -> Any:
    """Text, truths and numbers: each of its own group alone."""
    kind = _kind(value)
    if kind == "int64" and base == "int32":
        return (value + 2**31) % 2**32 - 2**31  # Go's conversion goes round
    if kind == base or (kind == "int64" and base == "float64"):
        return value
    if kind == "float64" and base in ("int32", "int64") and value.is_integer():
        return int(value)
    if kind in ("int64", "float64") and base != "bool" and not (kind == "float64" and base == "string"):
        raise Misfit(f"cannot convert {kind} to {go}")  # which Go could, and JSON does not mean
    raise Misfit(f"unrecognized type: {base}")


def _kind(value: Any) -> str:
    return _KINDS[type(value)]
