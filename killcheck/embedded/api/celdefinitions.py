"""Rules in CEL of CustomResourceDefinitions, asked when a definition is written: whether each compiles where it stands.

Source: k8s.io/apiserver/pkg/cel/common/schemas.go (``SchemaDeclType``) for the types, apiextensions-apiserver's
``ValidateCustomResourceDefinitionOpenAPISchema`` for the order; words are answers of kube-apiserver v1.36.2. What
a rule costs is not estimated.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, NamedTuple

from killcheck.embedded.api import celcompile, celrules
from killcheck.embedded.api.validation.fields import invalid, not_supported, required
from killcheck.kube.objects import Obj
from killcheck.text import lazy_re

__all__ = ["broken"]

_REASONS = ("FieldValueDuplicate", "FieldValueForbidden", "FieldValueInvalid", "FieldValueRequired")
_FORMATS = {"byte": "bytes", "duration": "duration", "date": "timestamp", "date-time": "timestamp"}
_SCALARS = {"boolean": "bool", "number": "double", "integer": "int"}
_OLD = lazy_re.compile(r"\boldSelf\b")
_NO_TYPE = (
    "Internal error: internal error: failed to construct type information for x-kubernetes-validations rules: unable "
    "to convert structural schema to CEL declarations"
)
_UNRELATED = "oldSelf cannot be used on the uncorrelatable portion of the schema within "


class _Place(NamedTuple):
    path: str
    #: Whether it is the root of an object, which has a kind and a name.
    root: bool = False
    #: The part of the schema above it in which old and new are not told from each other; empty: none.
    unrelated: str = ""


def broken(schema: Obj, path: str) -> list[Obj]:
    """Causes of every rule below a schema that is none, or does not compile; where one is none, nothing is compiled."""
    places = list(_places(schema, _Place(path, root=True)))
    shapes = [cause for one, place in places for cause in _shapes(one, place.path)]
    return shapes or [cause for one, place in places for cause in _compiled(one, place)]


def _places(schema: Obj, place: _Place) -> Iterator[tuple[Obj, _Place]]:
    """The schemas that have rules, those inside before those that hold them."""
    for name, below in sorted((schema.get("properties") or {}).items()):
        yield from _places(below, _Place(f"{place.path}.properties[{name}]", _embedded(below), place.unrelated))
    more, items = schema.get("additionalProperties"), schema.get("items")
    if isinstance(more, dict):
        yield from _places(more, _Place(f"{place.path}.additionalProperties", _embedded(more), place.unrelated))
    if isinstance(items, dict):
        apart = place.unrelated or (place.path if schema.get("x-kubernetes-list-type") != "map" else "")
        yield from _places(items, _Place(f"{place.path}.items", _embedded(items), apart))
    if schema.get(celrules.RULES):
        yield schema, place


def _embedded(schema: Obj) -> bool:
    return bool(schema.get("x-kubernetes-embedded-resource"))


# -- what a rule consists of -----------------------------------------------------------------------------------
def _shapes(schema: Obj, path: str) -> Iterator[Obj]:
    for i, rule in enumerate(schema[celrules.RULES]):
        where = f"{path}.{celrules.RULES}[{i}]"
        text, message = str(rule.get("rule") or ""), str(rule.get("message") or "")
        if not text.strip():
            yield required(f"{where}.rule", "rule is not specified")
        elif message and not message.strip():
            yield invalid(f"{where}.message", message, "must be non-empty if specified")
        elif "\n" in message.strip():
            yield invalid(f"{where}.message", message, "must not contain line breaks")
        elif "\n" in text.strip() and not message:
            yield required(f"{where}.message", "message must be specified if rule contains line breaks")
        said = str(rule.get("messageExpression") or "")
        if said and not said.strip():
            yield required(f"{where}.messageExpression", "messageExpression must be non-empty if specified")
        if rule.get("reason") is not None and rule["reason"] not in _REASONS:
            yield not_supported(f"{where}.reason", rule["reason"], _REASONS)
        yield from _field(schema, str(rule.get("fieldPath") or ""), f"{where}.fieldPath")


def _field(schema: Obj, path: str, where: str) -> Iterator[Obj]:
    if path and not path.strip():
        yield invalid(where, path, "must be non-empty if specified")
    if "\n" in path:
        yield invalid(where, path, "must not contain line breaks")
    steps = re.findall(r"\.([A-Za-z_]\w*)|\['((?:[^'\\]|\\.)*)'\]", path)
    if path and (not _is_path(path) or not _leads(schema, [one or other for one, other in steps])):
        yield invalid(where, path, "must be a valid path")


def _is_path(path: str) -> bool:
    return bool(re.fullmatch(r"(?:\.[A-Za-z_]\w*|\['(?:[^'\\]|\\.)*'\])+", path))


def _leads(schema: Obj, steps: list[str]) -> bool:
    """Whether a field is declared where the steps lead; what an escape stands for is not looked at."""
    for step in steps:
        more = schema.get("additionalProperties")
        inner: Any = (schema.get("properties") or {}).get(step, more)
        if not isinstance(inner, dict):
            return "\\" in step
        schema = inner
    return True


# -- whether it compiles ---------------------------------------------------------------------------------------
def _compiled(schema: Obj, place: _Place) -> Iterator[Obj]:
    objects: dict[str, dict[str, str]] = {}
    own = _type(schema, "selfType", objects, root=place.root)
    if own is None:
        yield {"reason": "InternalError", "message": _NO_TYPE, "field": f"{place.path}.{celrules.RULES}"}
        return
    for i, rule in enumerate(schema[celrules.RULES]):
        types = celcompile.Types({"self": own, "oldSelf": _old(own, rule)}, objects)
        yield from _ask(rule, types, f"{place.path}.{celrules.RULES}[{i}]", place.unrelated)


def _old(own: str, rule: Obj) -> str:
    """The type of ``oldSelf``; where ``.?`` is put into words for ``celpy``, it is not known."""
    if not rule.get("optionalOldSelf"):
        return own
    return "" if ".?" in str(rule["rule"]) else f"optional_type({own})"


def _ask(rule: Obj, types: celcompile.Types, where: str, unrelated: str) -> Iterator[Obj]:
    text, said = str(rule["rule"]), str(rule.get("messageExpression") or "")
    why = _problem(text, types, "bool", "cel expression must evaluate to a bool")
    if why:
        yield invalid(f"{where}.rule", _shown(rule), why)
    elif said and (why := _problem(said, types, "string", "messageExpression must evaluate to a string")):
        words = f"messageExpression {why}" if why.startswith("compilation") else why
        yield invalid(f"{where}.messageExpression", _shown(rule), words)
    if not _OLD.search(text) or why:
        if rule.get("optionalOldSelf") is not None:
            yield invalid(
                f"{where}.optionalOldSelf", rule["optionalOldSelf"], "may not be set if oldSelf is not used in rule"
            )
    elif unrelated:
        yield invalid(f"{where}.rule", text, _UNRELATED + unrelated)


def _problem(text: str, types: celcompile.Types, wanted: str, otherwise: str) -> str | None:
    why = celcompile.problem(text, {"self": None, "oldSelf": None}, wanted, otherwise, types)
    if why:
        return why
    unread = celrules.syntax(text)
    return f"compilation failed: ERROR: <input>: Syntax error: {unread}" if unread else None


def _shown(rule: Obj) -> Obj:
    return {
        "Rule": rule["rule"],
        "Message": rule.get("message", ""),
        "MessageExpression": rule.get("messageExpression", ""),
        "Reason": rule.get("reason"),
        "FieldPath": rule.get("fieldPath", ""),
        "OptionalOldSelf": rule.get("optionalOldSelf"),
    }


# -- types of a schema -----------------------------------------------------------------------------------------
def _type(schema: Obj, name: str, objects: dict[str, dict[str, str]], *, root: bool = False) -> str | None:
    """What a rule takes a schema's value for; None: it has no type. Fields of objects are put into ``objects``."""
    kind = schema.get("type")
    if schema.get("x-kubernetes-int-or-string"):
        return "dyn"
    if kind == "array":
        return _of("list({})", schema.get("items"), f"{name}.@idx", objects)
    if kind == "object":
        more = schema.get("additionalProperties")
        if isinstance(more, dict):
            return _of("map(string, {})", more, f"{name}.@elem", objects)
        objects[name] = _fields(schema, name, objects, root=root)
        return name
    if kind == "string":
        return _FORMATS.get(str(schema.get("format") or ""), "string")
    return _SCALARS.get(str(kind))


def _of(form: str, schema: Any, name: str, objects: dict[str, dict[str, str]]) -> str | None:
    held = _type(schema, name, objects, root=_embedded(schema)) if isinstance(schema, dict) else None
    return form.format(held) if held is not None else None


def _fields(schema: Obj, name: str, objects: dict[str, dict[str, str]], *, root: bool) -> dict[str, str]:
    fields: dict[str, str] = {}
    for field, below in (schema.get("properties") or {}).items():
        kind = _type(below, f"{name}.{field}", objects, root=_embedded(below))
        if kind is not None:
            fields |= dict.fromkeys(celrules.spellings(field), kind)
    if root:
        objects[f"{name}.metadata"] = {"name": "string", "generateName": "string"}
        fields |= {"apiVersion": "string", "kind": "string", "metadata": f"{name}.metadata"}
    return fields
