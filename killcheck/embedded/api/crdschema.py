"""Custom resources against the structural schema of their CRD: pruning, defaults, validation.

Source: k8s.io/apiextensions-apiserver (pruning, defaulting) and kube-openapi/pkg/validation for the words. The rules
in CEL are next door, in ``celrules``.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from datetime import date
from functools import lru_cache
from typing import Any

from killcheck.embedded.api.kinds import Kind
from killcheck.embedded.api.patch import go_value
from killcheck.embedded.api.validation import meta, names
from killcheck.kube.objects import Obj, copy
from killcheck.text import lazy_re

__all__ = ["apply_defaults", "has_rules", "of_default", "prune", "schema_of", "validate"]

_MAX_INT32 = 2**31 - 1
_ROOT = frozenset({"apiVersion", "kind", "metadata"})
_GO_TYPES: dict[type, str] = {
    str: "string",
    bool: "bool",
    int: "int64",
    float: "float64",
    dict: "map[string]interface {}",
    list: "[]interface {}",
    type(None): "<nil>",
}
_TYPES: dict[str, tuple[type, ...]] = {
    "string": (str,),
    "boolean": (bool,),
    "object": (dict,),
    "array": (list,),
    "integer": (int,),
    "number": (int, float),
}


def schema_of(kind: Kind) -> Obj:
    """``openAPIV3Schema`` of the version; empty where it has none."""
    return (kind.crd_version.get("schema") or {}).get("openAPIV3Schema") or {}


# -- pruning ---------------------------------------------------------------------------------------------------
def prune(kind: Kind, obj: Obj) -> tuple[Obj, list[str]]:
    """The object without fields that the schema does not know, and their paths."""
    schema = schema_of(kind)
    unknown: list[str] = []
    if not schema or (kind.crd or {}).get("spec", {}).get("preserveUnknownFields"):
        return obj, unknown
    result = {name: value for name, value in obj.items() if name in _ROOT}
    rest = {name: value for name, value in obj.items() if name not in _ROOT}
    return result | _pruned(rest, schema, "", unknown), unknown


def _pruned(value: Any, schema: Obj, path: str, unknown: list[str]) -> Any:
    if isinstance(value, list):
        if schema.get("x-kubernetes-preserve-unknown-fields") and "items" not in schema:
            return value
        items = schema.get("items") or {}
        return [_pruned(entry, items, f"{path}[{i}]", unknown) for i, entry in enumerate(value)]
    if not isinstance(value, dict):
        return value
    properties = schema.get("properties") or {}
    extra = schema.get("additionalProperties")
    keep = bool(schema.get("x-kubernetes-preserve-unknown-fields")) or extra is True
    embedded = bool(schema.get("x-kubernetes-embedded-resource"))
    result: Obj = {}
    for name, inner in value.items():
        where = f"{path}.{name}" if path else name
        if name in properties:
            result[name] = _pruned(inner, properties[name], where, unknown)
        elif isinstance(extra, dict):
            result[name] = _pruned(inner, extra, where, unknown)
        elif keep or (embedded and name in _ROOT):
            result[name] = inner
        else:
            unknown.append(where)
    return result


def without_nulls(kind: Kind, obj: Obj) -> None:
    """Take away, in place, the nulls of fields that may not be null (apiextensions: PruneNonNullableNulls...)."""
    _drop_nulls(obj, schema_of(kind))


def _drop_nulls(value: Any, schema: Obj) -> None:
    if isinstance(value, list):
        for entry in value:
            _drop_nulls(entry, schema.get("items") or {})
        return
    if not isinstance(value, dict):
        return
    properties, extra = schema.get("properties") or {}, schema.get("additionalProperties")
    for name, inner in list(value.items()):
        below = properties.get(name, extra if isinstance(extra, dict) else None)
        if below is None:
            continue
        if inner is None and not below.get("nullable"):
            del value[name]
        else:
            _drop_nulls(inner, below)


# -- defaults --------------------------------------------------------------------------------------------------
def apply_defaults(kind: Kind, obj: Obj) -> None:
    """Fill in ``default:`` values, in place."""
    _default(obj, schema_of(kind))


def _default(value: Any, schema: Obj) -> None:
    if isinstance(value, list):
        items = schema.get("items") or {}
        for entry in value:
            _default(entry, items)
        return
    if not isinstance(value, dict):
        return
    properties = schema.get("properties") or {}
    for name, inner in properties.items():
        missing = name not in value or (value[name] is None and not inner.get("nullable"))
        if missing and "default" in inner:
            value[name] = copy({"default": inner["default"]})["default"]
        if name in value:
            _default(value[name], inner)
    extra = schema.get("additionalProperties")
    if isinstance(extra, dict):
        for name, entry in value.items():
            if name not in properties:
                _default(entry, extra)


# -- validation ------------------------------------------------------------------------------------------------
def validate(kind: Kind, obj: Obj, old: Obj | None = None, *, status: bool = False) -> list[Obj]:
    """What metadata's rules, the schema and its rules in CEL have against an object, as the API server's causes.

    ``status``: only its status was written, and only that is looked at.
    """
    if old is None:
        causes = meta.create(obj["metadata"], names.dns_subdomain, core=False)
    else:
        causes = meta.update(obj["metadata"], old["metadata"], core=False)
    schema = schema_of(kind)
    if schema and status:
        below = (schema.get("properties") or {}).get("status") or {}
        causes += [
            cause | {"field": "status" + (f".{cause['field']}" if cause["field"] not in ("", "<nil>") else "")}
            for cause in _check(obj.get("status"), below, "")
        ]
    elif schema:
        rest = {name: value for name, value in obj.items() if name not in _ROOT}
        required = [name for name in schema.get("required") or [] if name not in _ROOT]
        causes += _check(rest, schema | {"required": required}, "")
    causes += _scale(kind, obj)
    if has_rules(kind):
        from killcheck.embedded.api import celrules

        causes += [celrules.NOT_CHECKED] if celrules.blocks(causes) else celrules.check(schema, obj, old)
    return causes


@lru_cache(maxsize=512)
def has_rules(kind: Kind) -> bool:
    """Whether the schema has rules in CEL."""
    return "x-kubernetes-validations" in json.dumps(schema_of(kind))


def of_default(value: Any, schema: Obj, path: str) -> list[Obj]:
    """What a schema has against a default of its own that stands at ``path``."""
    unknown: list[str] = []
    _pruned(value, schema, "", unknown)
    if unknown:
        why = "must not have unknown fields"
        return [{"reason": "FieldValueInvalid", "message": f"Invalid value: {_shown(value)}: {why}", "field": path}]
    return [
        cause | {"field": path if cause["field"] in ("", "<nil>") else f"{path}.{cause['field']}"}
        for cause in _check(value, schema, "")
    ]


def _scale(kind: Kind, obj: Obj) -> Iterator[Obj]:
    """What a scale subresource asks of the fields that it shows."""
    scale = (kind.crd_version.get("subresources") or {}).get("scale") or {}
    for field in ("specReplicasPath", "statusReplicasPath"):
        path = str(scale.get(field) or "")
        steps = path.strip(".").split(".") if path else []
        value: Any = obj if path else None
        for number, step in enumerate(steps):
            if not isinstance(value, dict):
                at = "." + ".".join(steps[: number + 1])
                yield _invalid(path, "0", _accessor_error(at, value, "map[string]interface{}"))
                value = None
                break
            if step not in value:
                value = None
                break
            value = value[step]
        else:
            if value is None and steps:
                yield _invalid(path, "0", _accessor_error(path, None, "int64"))
        if value is None:
            continue
        if isinstance(value, bool) or not isinstance(value, int):
            yield _invalid(path, "0", _accessor_error(path, value, "int64"))
        elif value < 0:
            yield _invalid(path, str(value), "should be a non-negative integer")
        elif value > _MAX_INT32:
            yield _invalid(path, str(value), f"should be less than or equal to {_MAX_INT32}")


def _accessor_error(path: str, value: Any, wanted: str) -> str:
    """Source: NestedFieldNoCopy and NestedInt64 in apimachinery/pkg/apis/meta/v1/unstructured/helpers.go."""
    return f"{path} accessor error: {go_value(value)} is of the type {_GO_TYPES[type(value)]}, expected {wanted}"


def _check(value: Any, schema: Obj, path: str) -> Iterator[Obj]:
    if value is None:
        if not schema.get("nullable") and schema.get("type"):
            yield _type_error(path, str(schema["type"]), None)
        return
    wrong = _wrong_type(value, schema, path)
    if wrong is not None:
        yield wrong
        yield from _check_enum(value, schema, path)  # which compares values of any type
        if schema.get("type") == "integer" and isinstance(value, float):
            yield _invalid("", '""', f"Checked value must be of type integer (default format) in {path}")
            yield from _check_number(value, schema, path)
        return
    yield from _check_enum(value, schema, path)
    if isinstance(value, dict):
        yield from _check_object(value, schema, path)
    elif isinstance(value, list):
        yield from _check_array(value, schema, path)
    elif isinstance(value, str):
        yield from _check_string(value, schema, path)
    elif not isinstance(value, bool):
        yield from _check_number(value, schema, path)
    yield from _check_combined(value, schema, path)


def _wrong_type(value: Any, schema: Obj, path: str) -> Obj | None:
    wanted = schema.get("type")
    if schema.get("x-kubernetes-int-or-string"):
        fits = isinstance(value, int | str) and not isinstance(value, bool)
        return None if fits else _type_error(path, "integer,string", value)
    if not wanted:
        return None
    if schema.get("format") and wanted not in ("integer", "number"):
        if isinstance(value, list):  # whose format nobody looks at (kube-openapi/pkg/validation/validate/type.go)
            return None
        if not isinstance(value, _TYPES.get(wanted, (object,))):
            have = {int: "int64", float: "float64"}.get(type(value), "")
            why = f'{path} in body must be of type {schema["format"]}: "{have}"'
            return _invalid(path, f'"{have}"', why, reason="FieldValueTypeInvalid")
    fits = isinstance(value, _TYPES.get(wanted, (object,)))
    if isinstance(value, bool) and wanted != "boolean":
        fits = False
    if wanted == "integer" and isinstance(value, float) and value.is_integer():
        fits = True
    return None if fits else _type_error(path, wanted, value)


def _type_error(path: str, wanted: str, value: Any) -> Obj:
    have = _type_name(value)
    why = f'{path} in body must be of type {wanted}: "{have}"'
    return _invalid(path, f'"{have}"', why, reason="FieldValueTypeInvalid")


def _type_name(value: Any) -> str:
    if value is None:
        return "null"
    for name in ("boolean", "string", "object", "array", "integer"):
        if isinstance(value, _TYPES[name]):
            return name
    return "number"


def _check_enum(value: Any, schema: Obj, path: str) -> Iterator[Obj]:
    allowed = schema.get("enum")
    if allowed and value not in allowed:
        listed = ", ".join(_shown(entry) if isinstance(entry, str) else f'"{_shown(entry)}"' for entry in allowed)
        message = f"Unsupported value: {_shown(value)}: supported values: {listed}"
        yield {"reason": "FieldValueNotSupported", "message": message, "field": path}


def _check_object(value: Obj, schema: Obj, path: str) -> Iterator[Obj]:
    properties = schema.get("properties") or {}
    for name in schema.get("required") or []:
        if name not in value:
            yield {"reason": "FieldValueRequired", "message": "Required value", "field": _join(path, name)}
    extra = schema.get("additionalProperties")
    for name, inner in value.items():
        below = properties.get(name, extra if isinstance(extra, dict) else None)
        if below:
            yield from _check(inner, below, _join(path, name))
    most, least = schema.get("maxProperties"), schema.get("minProperties")
    if most is not None and len(value) > most:
        message = f"Too many: {len(value)}: must have at most {most} items"
        yield {"reason": "FieldValueTooMany", "message": message, "field": path}
    if least is not None and len(value) < least:
        yield _invalid(path, str(len(value)), f"{path} in body should have at least {least} properties")


def _check_array(value: list[Any], schema: Obj, path: str) -> Iterator[Obj]:
    most, least = schema.get("maxItems"), schema.get("minItems")
    if most is not None and len(value) > most:
        message = f"Too many: {len(value)}: must have at most {most} items"
        yield {"reason": "FieldValueTooMany", "message": message, "field": path}
    if least is not None and len(value) < least:
        yield _invalid(path, str(len(value)), f"{path} in body should have at least {least} items")
    items = schema.get("items") or {}
    keys = schema.get("x-kubernetes-list-map-keys") or []
    seen: list[Any] = []
    for i, entry in enumerate(value):
        yield from _check(entry, items, f"{path}[{i}]")
        if schema.get("x-kubernetes-list-type") in ("map", "set"):
            identity = {key: entry.get(key) for key in keys} if keys and isinstance(entry, dict) else entry
            if identity in seen:
                message = f"Duplicate value: {json.dumps(identity, separators=(',', ':'))}"
                yield {"reason": "FieldValueDuplicate", "message": message, "field": f"{path}[{i}]"}
            seen.append(identity)


def _check_string(value: str, schema: Obj, path: str) -> Iterator[Obj]:
    most, least, pattern = schema.get("maxLength"), schema.get("minLength"), schema.get("pattern")
    if not _FORMATS.get(str(schema.get("format")), _any_text)(value):
        why = f"{path} in body must be of type {schema['format']}: {_shown(value)}"
        yield _invalid(path, _shown(value), why, reason="FieldValueTypeInvalid")
    if most is not None and len(value) > most:
        yield {"reason": "FieldValueTooLong", "message": f"Too long: may not be more than {most} bytes", "field": path}
    if least is not None and len(value) < least:
        yield _invalid(path, _shown(value), f"{path} in body should be at least {least} chars long")
    if pattern and not _compiled(pattern).search(value):
        yield _invalid(path, _shown(value), f"{path} in body should match '{pattern}'")


def _check_number(value: float, schema: Obj, path: str) -> Iterator[Obj]:
    least, most = schema.get("minimum"), schema.get("maximum")
    if least is not None and (value < least or (value == least and schema.get("exclusiveMinimum"))):
        than = "greater than" if schema.get("exclusiveMinimum") else "greater than or equal to"
        yield _invalid(path, _shown(value), f"{path} in body should be {than} {least}")
    if most is not None and (value > most or (value == most and schema.get("exclusiveMaximum"))):
        than = "less than" if schema.get("exclusiveMaximum") else "less than or equal to"
        yield _invalid(path, _shown(value), f"{path} in body should be {than} {most}")
    step = schema.get("multipleOf")
    if step and value % step:
        yield _invalid(path, _shown(value), f"{path} in body should be a multiple of {step}")


def _check_combined(value: Any, schema: Obj, path: str) -> Iterator[Obj]:
    def fits(other: Obj) -> bool:
        return next(_check(value, other, path), None) is None

    for other in schema.get("allOf") or []:
        yield from _check(value, other, path)
    any_of, one_of = schema.get("anyOf"), schema.get("oneOf")
    if any_of and not schema.get("x-kubernetes-int-or-string") and not any(fits(other) for other in any_of):
        yield _invalid(path, _shown(value), f"{path} in body must validate at least one schema (anyOf)")
    if one_of and sum(fits(other) for other in one_of) != 1:
        yield _invalid(path, _shown(value), f"{path} in body must validate one and only one schema (oneOf)")
    if schema.get("not") and fits(schema["not"]):
        yield _invalid(path, _shown(value), f"{path} in body must not validate the schema (not)")


_DATE = lazy_re.compile(r"\d{4}-\d\d-\d\d")
_CLOCK = lazy_re.compile(r"(?:[01]\d|2[0-3]):[0-5]\d:[0-5]\d(?:\.\d+)?(?:z|[+-]\d\d:\d\d)")


def _any_text(_: str) -> bool:
    return True


def _is_date(text: str) -> bool:
    try:
        return bool(_DATE.fullmatch(text)) and date.fromisoformat(text) is not None
    except ValueError:
        return False


def _is_date_time(text: str) -> bool:
    day, _, clock = text.lower().partition("t")
    return _is_date(day) and _CLOCK.fullmatch(clock) is not None


#: Formats that are checked (kube-openapi/pkg/validation/strfmt); of others any text is taken.
_FORMATS = {"date": _is_date, "date-time": _is_date_time, "datetime": _is_date_time}
_patterns: dict[str, re.Pattern[str]] = {}
#: Flags behind the beginning, as Kueue's ``^(?i)[a-z]...`` has them: Python wants them first.
_LATE_FLAGS = lazy_re.compile(r"^\^\(\?([ims]+)\)")
_POSIX = {"alnum": "a-zA-Z0-9", "alpha": "a-zA-Z", "digit": "0-9", "lower": "a-z", "upper": "A-Z", "space": r"\s"}


def _compiled(pattern: str) -> re.Pattern[str]:
    """RE2 patterns as Python's re reads them: the subset CRDs use is the same but for what is spelled anew here.

    What Python cannot read even so lets every text pass.
    """
    if pattern not in _patterns:
        text = _LATE_FLAGS.sub(r"(?\1)^", pattern.replace(r"\z", r"\Z"))
        for name, characters in _POSIX.items():
            text = text.replace(f"[:{name}:]", characters)
        try:
            compiled = re.compile(re.sub(r"\$$", r"\\Z", text) if not text.endswith(r"\$") else text)
        except re.error:
            compiled = re.compile("")
        _patterns[pattern] = compiled
    return _patterns[pattern]


def _invalid(path: str, shown: str, why: str, *, reason: str = "FieldValueInvalid") -> Obj:
    return {"reason": reason, "message": f"Invalid value: {shown}: {why}", "field": path or "<nil>"}


def _shown(value: Any) -> str:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False)


def _join(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name
