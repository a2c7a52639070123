"""Schemas of CustomResourceDefinitions: what a server takes for one, in its words.

Source: ``ValidateCustomResourceDefinitionOpenAPISchema`` of apiextensions-apiserver v1.36, and its packages
pkg/apiserver/schema (``ValidateStructural``) and pkg/apiserver/schema/defaulting (``ValidateDefaults``). Whether each
value validation has its structure (``validateStructuralCompleteness``) is not looked at.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from typing import Any

from killcheck.embedded.api import celdefinitions, celrules, crdschema
from killcheck.embedded.api.validation.fields import (
    Causes,
    at,
    forbidden,
    invalid,
    key,
    not_supported,
    required,
)
from killcheck.kube.objects import Obj

__all__ = ["of_definition"]

_TYPES = ("array", "boolean", "integer", "number", "object", "string")
_COLUMNS = ("boolean", "date", "integer", "number", "string")
_QUADRATIC = "uniqueItems cannot be set to true since the runtime complexity becomes quadratic"
_UNSUPPORTED = ("id", "additionalItems", "patternProperties", "definitions", "dependencies", "$ref")
_METADATA = "must not specify anything other than name and generateName, but metadata is implicitly specified"
_LIST, _KEYS, _MAP = "x-kubernetes-list-type", "x-kubernetes-list-map-keys", "x-kubernetes-map-type"
_EMBEDDED, _KEPT = "x-kubernetes-embedded-resource", "x-kubernetes-preserve-unknown-fields"
_EITHER = "x-kubernetes-int-or-string"
#: What stands in the structure alone, and not in what values are held against: how each is refused there.
_STRUCTURE = {
    "type": "empty",
    "additionalProperties": "undefined",
    "default": "undefined",
    "title": "empty",
    "description": "empty",
    "nullable": "false",
    _KEPT: "false",
    _EMBEDDED: "false",
    _EITHER: "false",
    _KEYS: "empty",
    _LIST: "undefined",
    _MAP: "undefined",
}
_COMBINED = ("allOf", "anyOf", "oneOf")


def of_definition(versions: list[Obj]) -> Causes:
    """What is wrong with the schemas, the subresources and the columns of a definition's versions."""
    causes: Causes = []
    for field, top, rule in _PARTS:
        told = [version.get(field) for version in versions]
        if all(one == told[0] for one in told):  # told once, as the server keeps it
            versions_of = [(f"spec.{top}", told[0])] if told else []
        else:
            versions_of = [(f"{at('spec.versions', i)}.{field}", one) for i, one in enumerate(told)]
        for path, one in versions_of:
            causes += rule(one, path) if one else []
    return causes + _cel(versions)


def _cel(versions: list[Obj]) -> Causes:
    """Rules in CEL that cannot be read. A definition with one version is named as if it were the only place."""
    causes: Causes = []
    for i, version in enumerate(versions):
        schema = (version.get("schema") or {}).get("openAPIV3Schema") or {}
        if celrules.RULES in json.dumps(schema):
            path = "spec.validation" if len(versions) == 1 else f"spec.versions[{i}].schema"
            causes += celdefinitions.broken(schema, f"{path}.openAPIV3Schema")
    return causes


def _of_schema(schema: Obj, path: str) -> Causes:
    root, path = schema.get("openAPIV3Schema"), f"{path}.openAPIV3Schema"
    if not isinstance(root, dict):
        return []
    causes = list(_own(root, path, root=True))
    if any(cause["message"].endswith("is not supported") for cause in causes):  # there is no structure to be had
        return causes
    shape = sorted(_structure(root, path, "root"), key=lambda cause: f"{cause['field']}: {cause['message']}")
    return causes + (shape or ([] if causes else list(_defaults(root, path))))


# -- each schema for itself ------------------------------------------------------------------------------------
def _own(schema: Obj, path: str, *, root: bool = False) -> Iterator[Obj]:
    for field in _UNSUPPORTED:
        if schema.get(field):
            yield forbidden(f"{path}.{field}", f"{field} is not supported")
    kind, items = schema.get("type"), schema.get("items")
    if kind == "null":
        yield forbidden(f"{path}.type", "type cannot be set to null, use nullable as an alternative")
    elif kind and kind not in _TYPES:
        yield not_supported(f"{path}.type", kind, _TYPES)
    if isinstance(items, list):
        yield forbidden(f"{path}.items", "items must be a schema object and not an array")
    if schema.get("uniqueItems"):
        yield forbidden(f"{path}.uniqueItems", _QUADRATIC)
    if _unclosed(str(schema.get("pattern") or "")):
        why = "must be a valid regular expression, but isn't: error parsing regexp: missing closing ]: "
        yield invalid(f"{path}.pattern", schema["pattern"], f"{why}`{schema['pattern']}`")
    more = schema.get("additionalProperties")
    if more is not None and more is not True and schema.get("properties"):
        yield forbidden(f"{path}.additionalProperties", "additionalProperties and properties are mutual exclusive")
    if more is not None and root:
        yield forbidden(f"{path}.additionalProperties", "additionalProperties cannot be used at the root")
    if schema.get(_KEPT) is False:
        yield invalid(f"{path}.{_KEPT}", False, "must be true or undefined")
    yield from _lists_and_maps(schema, path)
    for where, inner in _inside(schema, path):
        yield from _own(inner, where)


def _unclosed(pattern: str) -> bool:
    """Whether a class of characters has no end."""
    try:
        re.compile(pattern)
    except re.error as error:
        return error.msg == "unterminated character set" and pattern.count("[") == 1
    return False


def _lists_and_maps(schema: Obj, path: str) -> Iterator[Obj]:
    listed, keys, items = schema.get(_LIST), schema.get(_KEYS) or [], schema.get("items")
    for field, kind, known in ((_MAP, "object", ("atomic", "granular")), (_LIST, "array", ("atomic", "set", "map"))):
        value, words = schema.get(field), f"must be {kind} if {field} is specified"
        if value is not None and schema.get("type") != kind:
            yield (
                invalid(f"{path}.type", schema["type"], words)
                if schema.get("type")
                else required(f"{path}.type", words)
            )
        elif value is not None and value not in known:
            yield not_supported(f"{path}.{field}", value, known)
    if keys and listed != "map":
        words = f"must be map if {_KEYS} is non-empty"
        yield invalid(f"{path}.{_LIST}", listed, words) if listed else required(f"{path}.{_LIST}", words)
    if listed == "map":
        yield from _keyed(keys, items, path)


def _keyed(keys: list[str], items: Any, path: str) -> Iterator[Obj]:
    """A list whose entries are told from each other by some of their fields."""
    if not keys:
        yield required(f"{path}.{_KEYS}", f"must not be empty if {_LIST} is map")
    if not isinstance(items, dict):
        if items is None:
            yield required(f"{path}.items", f"must have a schema if {_LIST} is map")
        return
    if items.get("type") != "object":
        yield invalid(f"{path}.items.type", items.get("type", ""), f"must be object if parent array's {_LIST} is map")
        return
    properties = items.get("properties") or {}
    for name in keys:
        here = key(f"{path}.items.properties", name)
        if name not in properties:
            yield invalid(f"{path}.{_KEYS}", keys, "entries must all be names of item properties")
            continue
        one = properties[name]
        if one.get("type") in ("array", "object"):
            words = f"must be a scalar type if parent array's {_LIST} is map"
            yield invalid(f"{here}.type", one["type"], words)
        told = f"this property is in {_KEYS}, so it"
        if name not in (items.get("required") or ()) and one.get("default") is None:
            yield required(f"{here}.default", f"{told} must have a default or be a required property")
        if one.get("nullable"):
            yield forbidden(f"{here}.nullable", f"{told} cannot be nullable")


def _inside(schema: Obj, path: str) -> Iterator[tuple[str, Obj]]:
    """The schemas in a schema, each with its place."""
    for field in ("additionalProperties", "not", "items"):
        if isinstance(schema.get(field), dict):
            yield f"{path}.{field}", schema[field]
    for name, inner in (schema.get("properties") or {}).items():
        yield key(f"{path}.properties", name), inner
    for field in _COMBINED:
        for i, inner in enumerate(schema.get(field) or ()):
            yield at(f"{path}.{field}", i), inner


# -- the structure ---------------------------------------------------------------------------------------------
_WHERE = {"root": "at the root", "item": "for specified array items", "field": "for specified object fields"}


def _structure(schema: Obj, path: str, level: str) -> Iterator[Obj]:
    kind, properties, items = schema.get("type"), schema.get("properties") or {}, schema.get("items")
    if kind == "array" and items is None:
        yield required(f"{path}.items", "must be specified")
    if isinstance(items, dict):
        yield from _structure(items, f"{path}.items", "item")
    for name, inner in properties.items():
        yield from _structure(inner, key(f"{path}.properties", name), "field")
    if isinstance(schema.get("additionalProperties"), dict):
        yield from _structure(schema["additionalProperties"], f"{path}.additionalProperties", "field")
    yield from _held_against(schema, path)
    if not kind and not schema.get(_EITHER) and not schema.get(_KEPT):
        yield required(f"{path}.type", f"must not be empty {_WHERE[level]}")
    if level == "root" and kind and kind != "object":
        yield invalid(f"{path}.type", kind, "must be object at the root")
    if level == "root" or schema.get(_EMBEDDED):
        yield from _of_an_object(properties, f"{path}.properties")
    if schema.get(_EMBEDDED) and not schema.get(_KEPT) and not properties:
        words = f"must not be empty if {_EMBEDDED} is true without {_KEPT}"
        yield required(f"{path}.properties", words)


def _of_an_object(properties: Obj, path: str) -> Iterator[Obj]:
    """What every object has, and no schema may say otherwise of."""
    for field in ("kind", "apiVersion"):
        if field in properties and properties[field].get("type") != "string":
            yield invalid(f"{key(path, field)}.type", properties[field].get("type", ""), "must be string")
    meta = properties.get("metadata") or {}
    if {*meta} - {"type", "description", "properties"} or {*(meta.get("properties") or ())} - {"name", "generateName"}:
        yield forbidden(key(path, "metadata"), _METADATA)


def _held_against(schema: Obj, path: str) -> Iterator[Obj]:
    """What is said with allOf, anyOf, oneOf and not: validations of values, and no structure."""
    for field in _COMBINED:
        first = field == "anyOf" and schema.get(_EITHER)  # which may name its two types
        for i, inner in enumerate(() if first else schema.get(field) or ()):
            either = field == "allOf" and not i and schema.get(_EITHER)
            yield from _only_values(inner | {"anyOf": []} if either else inner, at(f"{path}.{field}", i))
    if isinstance(schema.get("not"), dict):
        yield from _only_values(schema["not"], f"{path}.not")


def _only_values(schema: Obj, path: str) -> Iterator[Obj]:
    for field, word in _STRUCTURE.items():
        value = schema.get(field)
        if value is not None if word == "undefined" else value:
            yield forbidden(f"{path}.{field}", f"must be {word} to be structural")
    if isinstance(schema.get("items"), dict):
        yield from _only_values(schema["items"], f"{path}.items")
    for name, inner in (schema.get("properties") or {}).items():
        yield from _only_values(inner, key(f"{path}.properties", name))
    yield from _held_against(schema, path)


def _defaults(schema: Obj, path: str) -> Iterator[Obj]:
    """Each default has to be what its own schema takes."""
    value = schema.get("default")
    if value is not None:
        yield from crdschema.of_default(value, schema, f"{path}.default")
    for where, inner in _inside({k: v for k, v in schema.items() if k not in (*_COMBINED, "not")}, path):
        yield from _defaults(inner, where)


# -- subresources and columns ----------------------------------------------------------------------------------
def _of_subresources(given: Obj, path: str) -> Causes:
    scale, causes = given.get("scale"), []
    if scale is None:
        return []
    path = f"{path}.scale"
    for field, root in (("specReplicasPath", ".spec"), ("statusReplicasPath", ".status")):
        if not scale.get(field):
            causes.append(required(f"{path}.{field}"))
        elif not scale[field].startswith(f"{root}."):
            causes.append(invalid(f"{path}.{field}", scale[field], f"should be a json path under {root}"))
    selector = scale.get("labelSelectorPath")
    if selector and not selector.startswith((".spec.", ".status.")):
        words = "should be a json path under either .spec or .status"
        causes.append(invalid(f"{path}.labelSelectorPath", selector, words))
    return causes


def _of_columns(given: list[Obj], path: str) -> Causes:
    causes: Causes = []
    for i, column in enumerate(given):
        here, kind, json_path = at(path, i), column.get("type"), column.get("jsonPath")
        causes += [] if column.get("name") else [required(f"{here}.name")]
        if not kind:
            causes.append(required(f"{here}.type", f"must be one of {','.join(_COLUMNS)}"))
        elif kind not in _COLUMNS:
            causes.append(invalid(f"{here}.type", kind, f"must be one of {','.join(_COLUMNS)}"))
        if not json_path:
            causes.append(required(f"{here}.JSONPath"))
        elif not json_path.startswith("."):
            causes.append(invalid(f"{here}.JSONPath", json_path, "must be a simple json path starting with ."))
    return causes


_PARTS: tuple[tuple[str, str, Callable[[Any, str], Causes]], ...] = (
    ("schema", "validation", _of_schema),
    ("subresources", "subresources", _of_subresources),
    ("additionalPrinterColumns", "additionalPrinterColumns", _of_columns),
)
