"""What server-side apply says of a configuration that does not fit its type.

It is read before anything else, by sigs.k8s.io/structured-merge-diff (typed/validate.go), which knows types more
coarsely than Go does: a number, a text, a truth, a list, a map, whatever is a scalar.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, NamedTuple

from killcheck.embedded.api import crdschema, schemas
from killcheck.embedded.api.kinds import Kind
from killcheck.embedded.api.mergekeys import KEY_DEFAULTS, ApplyLists
from killcheck.embedded.api.patch import go_map, go_value
from killcheck.kube.objects import Obj

__all__ = ["misfits"]

Path = tuple[str, ...]
_SCALARS = {"string": "string", "bytes": "string", "bool": "boolean", "any": ""}
_NUMBERS = frozenset({"int32", "int64", "float64", "integer", "number"})


class _Type(NamedTuple):
    """``sort``: list, map, struct, string, boolean, numeric, scalar (any of these), or empty: anything."""

    sort: str
    fields: dict[str, _Type]
    items: _Type | None = None


_ANYTHING = _Type("", {})


def misfits(kind: Kind, schema: str | None, config: Obj) -> list[str]:
    """A sentence for every field that its type does not have, or has otherwise; ``schema``: of the body (built in)."""
    top = _of_custom(crdschema.schema_of(kind)) if kind.crd is not None and schema is None else _built_in(schema, kind)
    meta = {"metadata": _struct("V1ObjectMeta"), "apiVersion": _scalar("string"), "kind": _scalar("string")}
    lists = ApplyLists(kind if schema is None else None)
    return sorted(_walk(config, top._replace(fields=top.fields | meta), (), "", lists))


def _built_in(schema: str | None, kind: Kind) -> _Type:
    name = schema or kind.schema
    return _struct(name) if name else _ANYTHING


def _scalar(sort: str) -> _Type:
    return _Type(sort, {})


class _Lazy(dict[str, _Type]):
    """The fields of a structure, made when they are looked at: types contain themselves."""

    def __init__(self, schema: str) -> None:
        super().__init__()
        self.schema = schema

    def get(self, key: str, default: Any = None) -> Any:
        code = schemas.load()[self.schema].get(key)
        return default if code is None else _of_field(schemas.field(code))

    def __or__(self, other: Any) -> Any:
        return _Joined(self, other)


class _Joined(dict[str, _Type]):
    def __init__(self, below: _Lazy, above: dict[str, _Type]) -> None:
        super().__init__(above)
        self.below = below

    def get(self, key: str, default: Any = None) -> Any:
        return super().get(key) or self.below.get(key, default)


def _struct(schema: str) -> _Type:
    return _Type("struct", _Lazy(schema))


def _of_field(field: schemas.Field) -> _Type:
    found = _struct(field.base) if field.base in schemas.load() else _of_base(field.base)
    for shape in reversed([field.shape[i : i + 2] for i in range(0, len(field.shape), 2)]):
        found = _Type("list" if shape == "[]" else "map", {}, found)
    return found


def _of_base(base: str) -> _Type:
    if base in _NUMBERS:
        return _scalar("numeric")
    return _scalar(_SCALARS.get(base, "scalar"))


def _of_custom(schema: Obj) -> _Type:
    if schema.get("x-kubernetes-int-or-string"):  # which is left without a type, and so is anything
        return _ANYTHING
    kind = schema.get("type", "")
    if kind == "array":
        return _Type("list", {}, _of_custom(schema.get("items") or {}))
    if kind != "object":
        sort = "numeric" if kind in _NUMBERS else kind if kind in ("string", "boolean") else ""
        return _scalar("scalar" if sort == "string" and schema.get("format") else sort)
    extra, properties = schema.get("additionalProperties"), schema.get("properties")
    if isinstance(extra, dict):
        return _Type("map", {}, _of_custom(extra))
    if schema.get("x-kubernetes-preserve-unknown-fields") or schema.get("x-kubernetes-embedded-resource"):
        return _Type("map", {name: _of_custom(inner) for name, inner in (properties or {}).items()}, _ANYTHING)
    if not properties:
        return _Type("map", {}, _ANYTHING)
    return _Type("struct", {name: _of_custom(inner) for name, inner in properties.items()})


def _walk(value: Any, at: _Type, path: Path, shown: str, lists: ApplyLists) -> Iterator[str]:
    if value is None or not at.sort:
        return
    prefix = f"{shown}: " if shown else ""
    if at.sort == "list":
        if not isinstance(value, list):
            yield f"{prefix}expected list, got &{{{go_value(value)}}}"
            return
        yield from _items(value, at, path, shown, lists)
    elif at.sort in ("map", "struct"):
        if not isinstance(value, dict):
            yield f"{prefix}expected map, got &{{{go_value(value)}}}"
            return
        for name, inner in value.items():
            found = at.fields.get(name) or at.items
            if found is None:
                yield f"{shown}.{name}: field not declared in schema"
                return  # nobody looks further in this one
            else:
                yield from _walk(inner, found, (*path, name), f"{shown}.{name}", lists)
    else:
        said = _of_scalar(value, at.sort)
        if said:
            yield prefix + said


def _items(value: list[Any], at: _Type, path: Path, shown: str, lists: ApplyLists) -> Iterator[str]:
    keys = lists.keys(path) if path else None
    seen: set[str] = set()
    for number, item in enumerate(value):
        element = f"{shown}[{number}]"
        if keys is not None and item is None:
            yield f"{shown}: element {number}: associative list with keys may not have a null element"
            return  # nothing deeper is looked at
        if keys and not isinstance(item, dict):
            yield f"{shown}: element {number}: associative list with keys may not have non-map elements"
            return
        if keys and isinstance(item, dict):
            wanted = {key: item.get(key, KEY_DEFAULTS.get(key)) for key in sorted(keys)}
            by = ",".join(f"{key}={_go_shown(given)}" for key, given in wanted.items() if given is not None)
            element = f"{shown}[{by}]"
            if element in seen:
                yield f"{shown}: duplicate entries for key [{by}]"
                continue
            seen.add(element)
        yield from _walk(item, at.items or _ANYTHING, path, element, lists)


def _of_scalar(value: Any, sort: str) -> str | None:
    number = isinstance(value, int | float) and not isinstance(value, bool)
    if sort == "numeric" and not number:
        return f"expected numeric (int or float), got {_go_type(value)}"
    if sort == "string" and not isinstance(value, str):
        return f"expected string, got &value.valueUnstructured{{Value:{_go_syntax(value)}}}"
    if sort == "boolean" and not isinstance(value, bool):
        return f"expected boolean, got &{{{go_value(value)}}}"
    if sort == "scalar" and isinstance(value, dict | list):
        return f"expected any scalar, got &{{{go_value(value)}}}"
    return None


def _go_shown(value: Any) -> str:
    """A value in a path (value.ToString)."""
    if isinstance(value, dict):
        return "".join(f"{key}={_go_shown(inner)}" for key, inner in value.items())
    if isinstance(value, list):
        return f"[{','.join(map(_go_shown, value))}]"
    return json.dumps(value)


def _go_type(value: Any) -> str:
    if isinstance(value, dict):
        return "map[string]interface {}"
    return {str: "string", bool: "bool", list: "[]interface {}"}.get(type(value), "")


def _go_syntax(value: Any) -> str:
    """A value as Go's ``%#v`` prints it."""
    if isinstance(value, dict):
        members = ", ".join(f"{json.dumps(k)}:{_go_syntax(v)}" for k, v in sorted(value.items()))
        return f"map[string]interface {{}}{{{members}}}"
    if isinstance(value, list):
        return "[]interface {}{" + ", ".join(map(_go_syntax, value)) + "}"
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False)
    return "interface {}(nil)" if value is None else go_map({"": value})[5:-1]
