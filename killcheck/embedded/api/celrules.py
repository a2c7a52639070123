"""Validation rules of custom resources in CEL (``x-kubernetes-validations``), through ``celpy`` where it is installed.

Source: k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel/validation.go and the answers of a v1.36.2 API server:
the object's own rules before those of its fields, transition rules only where there is an old value, nothing checked
again that an update leaves as it was. A rule that ``celpy`` cannot read holds nothing up; :func:`unread` names it, so
that nobody takes it for checked.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from functools import lru_cache
from typing import Any, NamedTuple

from killcheck.embedded.api import celsyntax
from killcheck.embedded.api.celfunctions import FUNCTIONS
from killcheck.kube.objects import Obj
from killcheck.text import lazy_re

__all__ = ["NOT_CHECKED", "RULES", "blocks", "check", "spellings", "syntax", "unread"]

RULES = "x-kubernetes-validations"
#: What stands instead of the rules' findings where the schema's own make the object unreadable.
NOT_CHECKED: Obj = {
    "reason": "FieldValueInvalid",
    "message": "Invalid value: null: some validation rules were not checked because the object was invalid; correct "
    "the existing errors to complete validation",
    "field": "<nil>",
}
_BLOCKING = frozenset(
    {"FieldValueNotSupported", "FieldValueRequired", "FieldValueTooLong", "FieldValueTooMany", "FieldValueTypeInvalid"}
)
_WORDS = {
    "FieldValueForbidden": "Forbidden",
    "FieldValueRequired": "Required value",
    "FieldValueDuplicate": "Duplicate value",
    "FieldValueInvalid": "Invalid value",
}
_META = ("name", "generateName")
_KEYWORDS = frozenset(
    {
        "true",
        "false",
        "null",
        "in",
        "as",
        "break",
        "const",
        "continue",
        "else",
        "for",
        "function",
        "if",
        "import",
        "let",
        "loop",
        "package",
        "namespace",
        "return",
        "var",
        "void",
        "while",
    }
)
#: What CEL itself has a use for.
_WRITTEN = frozenset({"true", "false", "null", "in"})
_OLD = lazy_re.compile(r"\boldSelf\b")
_NOTHING: Any = object()


def blocks(causes: list[Obj]) -> bool:
    """Whether what the schema found leaves the rules unasked."""
    return any(cause["reason"] in _BLOCKING for cause in causes)


def check(schema: Obj, obj: Obj, old: Obj | None) -> list[Obj]:
    """Causes of every rule that an object breaks; ``old`` is None for a new one."""
    return list(_check(schema, obj, _NOTHING if old is None else old, "", root=True))


def unread(schema: Obj) -> list[str]:
    """Rules below a schema that cannot be evaluated here, a sentence each."""
    found = [
        f"rule {json.dumps(rule.get('rule', ''))} is not evaluated here: {why}"
        for rule in schema.get(RULES) or []
        if isinstance(why := _compiled(rule.get("rule", ""), bool(rule.get("optionalOldSelf"))), str)
    ]
    for below in [*(schema.get("properties") or {}).values(), schema.get("items"), schema.get("additionalProperties")]:
        if isinstance(below, dict):
            found += unread(below)
    return found


#: Kubernetes' own syntax, which ``celpy`` lacks.
_OPTIONAL = lazy_re.compile(r"\.\?|\[\?|[{,]\s*\?")


@lru_cache(maxsize=4096)
def syntax(text: str) -> str | None:
    """Why an expression cannot be parsed; None where it can be, or where nobody here could tell."""
    try:
        from celpy.celparser import CELParseError
    except ImportError:
        return None
    if _OPTIONAL.search(text):
        return None
    try:
        _environment().compile(celsyntax.readable(text))
    except CELParseError as error:
        return " ".join(str(error.args[0]).split()) if error.args else str(error)
    return None


class _Place(NamedTuple):
    schema: Obj
    value: Any
    old: Any
    path: str


def _check(schema: Obj, value: Any, old: Any, path: str, *, root: bool = False) -> Iterator[Obj]:
    if value is None:
        return
    if old is _NOTHING or old != value:
        for rule in schema.get(RULES) or []:
            yield from _ask(rule, _Place(schema, value, old, path), root=root)
    for below in _below(schema, value, old, path):
        yield from _check(*below)


def _below(schema: Obj, value: Any, old: Any, path: str) -> Iterator[_Place]:
    if isinstance(value, list):
        items = schema.get("items") or {}
        keys = schema.get("x-kubernetes-list-map-keys") or []
        known = {_identity(item, keys): item for item in old} if keys and isinstance(old, list) else {}
        for i, item in enumerate(value):
            yield _Place(items, item, known.get(_identity(item, keys), _NOTHING), f"{path}[{i}]")
    elif isinstance(value, dict):
        properties, extra = schema.get("properties") or {}, schema.get("additionalProperties")
        for name in sorted(value):
            inner = properties.get(name, extra if isinstance(extra, dict) else None)
            if inner:
                before = old.get(name, _NOTHING) if isinstance(old, dict) else _NOTHING
                known_field = name in properties
                where = (f"{path}.{name}" if path else name) if known_field else f"{path}[{name}]"
                yield _Place(inner, value[name], before, where)


def _identity(item: Any, keys: list[str]) -> str:
    return json.dumps([item.get(key) for key in keys] if isinstance(item, dict) else item)


# -- one rule --------------------------------------------------------------------------------------------------
def _ask(rule: Obj, place: _Place, *, root: bool) -> Iterator[Obj]:
    text = rule.get("rule", "")
    optional = bool(rule.get("optionalOldSelf"))
    if _OLD.search(text) and place.old is _NOTHING and not optional:
        return
    program = _compiled(text, optional)
    if isinstance(program, str):
        return
    variables = {"self": _to_cel(place.value, place.schema, root=root)}
    if optional:
        variables[celsyntax.KNOWN] = _scalar(place.old is not _NOTHING, {})
    if place.old is not _NOTHING:
        variables["oldSelf"] = _to_cel(place.old, place.schema, root=root)
    reason = rule.get("reason") or "FieldValueInvalid"
    path = place.path + rule.get("fieldPath", "") if place.path else rule.get("fieldPath", "").lstrip(".")
    outcome = _value(program, variables)
    if isinstance(outcome, str):
        kind, named = place.schema.get("type", "object"), rule.get("message") or text
        message = f'Invalid value: "{kind}": {outcome} evaluating rule: {named}'
        yield {"reason": "FieldValueInvalid", "message": message, "field": place.path or "<nil>"}
    elif not outcome:
        said = _message(rule, variables)
        shown = (
            ""
            if isinstance(place.value, dict | list) or reason != "FieldValueInvalid"
            else (json.dumps(place.value, ensure_ascii=False) + ": ")
        )
        yield {"reason": reason, "message": f"{_WORDS[reason]}: {shown}{said}", "field": path or "<nil>"}


def _message(rule: Obj, variables: Obj) -> str:
    expression = rule.get("messageExpression")
    if expression:
        program = _compiled(expression, bool(rule.get("optionalOldSelf")))
        said = _evaluated(program, variables) if not isinstance(program, str) else None
        if isinstance(said, str) and said.strip() and "\n" not in said:
            return str(said)
    return rule.get("message") or f"failed rule: {rule.get('rule', '').strip()}"


def _value(program: Any, variables: Obj) -> bool | str:
    """What a rule says; or, as a string, why it could not be evaluated."""
    from celpy.evaluation import CELEvalError

    try:
        return bool(program.evaluate(variables))
    except (CELEvalError, ValueError, TypeError) as error:
        return celsyntax.in_words(error)


def _evaluated(program: Any, variables: Obj) -> Any:
    from celpy.evaluation import CELEvalError

    try:
        return program.evaluate(variables)
    except (CELEvalError, ValueError, TypeError):
        return None


@lru_cache(maxsize=1024)
def _compiled(text: str, optional_old: bool = False) -> Any:
    """A program; or, as a string, why there is none."""
    try:
        from celpy.celparser import CELParseError
        from celpy.evaluation import CELUnsupportedError
    except ImportError:
        return "cel-python is not installed: install killcheck[dra]"
    environment = _environment()
    try:
        tree = celsyntax.parted(environment.compile(celsyntax.readable(text, optional_old=optional_old)))
        unknown = sorted({name for name in _calls(tree) if name not in FUNCTIONS and name not in _standard()})
        if unknown:
            return f"it calls {', '.join(unknown)}"
        return environment.program(tree, functions=FUNCTIONS)
    except (CELParseError, CELUnsupportedError) as error:
        return str(error.args[0]).splitlines()[0] if error.args else str(error)


@lru_cache(maxsize=1)
def _environment() -> Any:
    from celpy import Environment

    return Environment()


_MACROS = frozenset({"has", "all", "exists", "exists_one", "map", "filter", "min", "dyn"})


@lru_cache(maxsize=1)
def _standard() -> frozenset[str]:
    from celpy.evaluation import base_functions

    return frozenset(base_functions) | _MACROS


def _calls(tree: Any) -> Iterator[str]:
    """The names of the functions and methods that an expression calls."""
    for node in tree.find_pred(lambda node: node.data in ("ident_arg", "member_dot_arg", "dot_ident_arg")):
        position = 1 if node.data == "member_dot_arg" else 0
        yield str(node.children[position])


# -- values ----------------------------------------------------------------------------------------------------
def _to_cel(value: Any, schema: Obj, *, root: bool = False) -> Any:
    """A value with the types that its schema gives it; of metadata a rule sees the names alone."""
    from celpy import celtypes

    if isinstance(value, dict):
        properties, extra = schema.get("properties") or {}, schema.get("additionalProperties")
        members = {}
        for name, inner in value.items():
            if root and name == "metadata":
                inner = {key: inner[key] for key in _META if key in inner}
            below = properties.get(name) or (extra if isinstance(extra, dict) else {})
            for key in spellings(name) if properties else (name,):
                members[celtypes.StringType(key)] = _to_cel(inner, below)
        return celtypes.MapType(members)
    if isinstance(value, list):
        items = schema.get("items") or {}
        return celtypes.ListType([_to_cel(item, items) for item in value])
    return _scalar(value, schema)


def _scalar(value: Any, schema: Obj) -> Any:
    from celpy import celtypes

    if value is None:
        return None
    if isinstance(value, bool):
        return celtypes.BoolType(value)
    if isinstance(value, str):
        return _string(value, schema.get("format"))
    if isinstance(value, float) or schema.get("type") == "number":
        return celtypes.DoubleType(value)
    return celtypes.IntType(value)


def _string(value: str, form: str | None) -> Any:
    from celpy import celtypes

    try:
        if form == "duration":
            return celtypes.DurationType(value)
        if form in ("date-time", "date"):
            return celtypes.TimestampType(value)
    except ValueError:
        pass
    return celtypes.StringType(value)


def spellings(name: str) -> tuple[str, ...]:
    """How rules may write a field's name: words that CEL keeps for later are taken as they are, too."""
    escaped = _escaped(name)
    return (escaped, name) if name in _KEYWORDS - _WRITTEN else (escaped,)


def _escaped(name: str) -> str:
    """A field's name as rules write it (KEP-2876)."""
    if name in _KEYWORDS:
        return f"__{name}__"
    if re.fullmatch(r"[A-Za-z_]\w*", name) and "__" not in name:
        return name
    for char, put in (("__", "__underscores__"), (".", "__dot__"), ("-", "__dash__"), ("/", "__slash__")):
        name = name.replace(char, put)
    return name
