"""What somebody may write in a file, declared as typed classes: read with every problem at once, told as JSON Schema.

A form is a msgspec Struct. Its fields are ``str``, ``int``, ``float``, ``bool``, ``Any``, a ``Literal`` of texts, a
list, a mapping with free keys, another form, or one of these or nothing. ``Annotated`` adds bounds and a description
(msgspec's ``Meta``), or a function that reads the value (:class:`Parsed`). Nothing is converted: "5" is no number, and
1 is not true. A form with ``forbid_unknown_fields`` knows no others.

msgspec's own conversion ends at the first problem, and speaks of JSON. So this goes through a value by itself.
"""

from __future__ import annotations

import math
import re
import types
from collections.abc import Callable, Iterable, Iterator
from functools import cache
from typing import Annotated, Any, Literal, NamedTuple, TypeVar, Union, get_args, get_origin, get_type_hints

from msgspec import NODEFAULT, Meta, Struct

from killcheck.text.suggestions import did_you_mean

__all__ = ["Misfit", "Parsed", "Path", "fit", "schema"]

Path = tuple[str | int, ...]
Form = TypeVar("Form", bound=Struct)


class Misfit(NamedTuple):
    """Where a value does not fit. ``found``: the value, to be shown behind the words; without it they are all."""

    path: Path
    words: str
    found: tuple[Any, ...] = ()
    near: str = ""


class Parsed(Struct, frozen=True, eq=False):
    """In ``Annotated``: a value is what ``by`` makes of it, or its ValueError is the problem.

    With a ``schema``, ``by`` is given what the file has; without one, what the type has read.
    """

    by: Callable[[Any], Any]
    schema: dict[str, Any] | None = None


_Reader = Callable[[Any, Path, list[Misfit]], Any]


def fit(form: type[Form], value: Any) -> tuple[Form | None, list[Misfit]]:
    """What a value says, as the form has it; None, and everything that does not fit, where something does not."""
    misfits: list[Misfit] = []
    found = _of_form(form)(value, (), misfits)
    return (None if misfits else found), misfits


# -- fields ------------------------------------------------------------------------------------------------
class _Field(Struct, frozen=True):
    """``key`` is its name in a file."""

    name: str
    key: str
    hint: Any
    read: _Reader
    default: Any

    @property
    def required(self) -> bool:
        return self.default is NODEFAULT


@cache
def _fields(form: type[Struct]) -> tuple[_Field, ...]:
    hints, names, keys = (
        get_type_hints(form, include_extras=True),
        form.__struct_fields__,
        form.__struct_encode_fields__,
    )
    defaults = (NODEFAULT,) * (len(names) - len(form.__struct_defaults__)) + form.__struct_defaults__
    return tuple(
        _Field(name, key, hints[name], _reader(hints[name]), default)
        for name, key, default in zip(names, keys, defaults, strict=True)
    )


class _Type(NamedTuple):
    """A type without what is around it. ``bounds``: of all its annotations, ``kinds``: one, or those that it may be."""

    kinds: tuple[Any, ...]
    nothing: bool
    bounds: tuple[Meta, ...]
    parsed: Parsed | None

    def bound(self, name: str) -> Any:
        """The tightest is the outermost."""
        return next((said for meta in reversed(self.bounds) if (said := getattr(meta, name)) is not None), None)


def _type(hint: Any) -> _Type:
    if get_origin(hint) is Annotated:
        inner, *marks = get_args(hint)
        within = _type(inner)
        bounds = (*within.bounds, *(mark for mark in marks if isinstance(mark, Meta)))
        parsed = next((mark for mark in marks if isinstance(mark, Parsed)), within.parsed)
        return within._replace(bounds=bounds, parsed=parsed)
    if get_origin(hint) in (Union, types.UnionType):
        kinds = tuple(kind for kind in get_args(hint) if kind is not type(None))
        nothing = len(kinds) < len(get_args(hint))
        return _type(kinds[0])._replace(nothing=nothing) if len(kinds) == 1 else _Type(kinds, nothing, (), None)
    return _Type((hint,), False, (), None)


# -- reading -----------------------------------------------------------------------------------------------
def _reader(hint: Any) -> _Reader:
    """What reads a value of a type; it adds what does not fit to a list, and then its answer means nothing."""
    wanted = _type(hint)
    read = _either(wanted.kinds) if len(wanted.kinds) > 1 else _plain(wanted.kinds[0], wanted)
    if wanted.parsed is not None:
        read = _parsed(wanted.parsed, read)
    if not wanted.nothing:
        return read
    return lambda value, path, misfits: None if value is None else read(value, path, misfits)


def _plain(kind: Any, wanted: _Type) -> _Reader:
    origin = get_origin(kind)
    if kind is Any:
        return lambda value, _path, _misfits: value
    if origin is Literal:
        return _one_of(get_args(kind))
    if origin is list:
        return _list(_reader(get_args(kind)[0]), wanted)
    if origin is dict:
        return _mapping(_reader(get_args(kind)[1]))
    if isinstance(kind, type) and issubclass(kind, Struct):
        return _of_form(kind)
    return _scalar(kind, tuple(_checks(kind, wanted)))


def _either(kinds: Iterable[Any]) -> _Reader:
    """A list is read as the list that it may be, anything else as the other."""
    readers = {get_origin(kind) is list: _reader(kind) for kind in kinds}
    return lambda value, path, misfits: readers[isinstance(value, list)](value, path, misfits)


def _parsed(mark: Parsed, read: _Reader) -> _Reader:
    def reader(value: Any, path: Path, misfits: list[Misfit]) -> Any:
        if mark.schema is None:
            before = len(misfits)
            value = read(value, path, misfits)
            if len(misfits) > before:
                return None
        try:
            return mark.by(value)
        except ValueError as error:
            misfits.append(Misfit(path, str(error)))
            return None

    return reader


def _one_of(allowed: tuple[str, ...]) -> _Reader:
    def reader(value: Any, path: Path, misfits: list[Misfit]) -> Any:
        if value not in allowed:
            near = did_you_mean(value, allowed) if isinstance(value, str) else ""
            expected = f"expected {' | '.join(allowed)}"
            misfits.append(Misfit(path, expected, (value,), near if "did you" in near else ""))
        return value

    return reader


def _list(read: _Reader, wanted: _Type) -> _Reader:
    least, most = wanted.bound("min_length") or 0, wanted.bound("max_length")

    def reader(value: Any, path: Path, misfits: list[Misfit]) -> Any:
        if not isinstance(value, list):
            misfits.append(Misfit(path, "expected a list", (value,)))
        elif len(value) < least:
            misfits.append(Misfit(path, "expected at least one entry", (value,)))
        elif most is not None and len(value) > most:
            misfits.append(Misfit(path, f"expected at most {most} entries", (value,)))
        else:
            return [read(one, (*path, number), misfits) for number, one in enumerate(value)]
        return None

    return reader


def _mapping(read: _Reader) -> _Reader:
    def reader(value: Any, path: Path, misfits: list[Misfit]) -> Any:
        if isinstance(value, dict):
            return {key: read(one, (*path, key), misfits) for key, one in value.items()}
        misfits.append(Misfit(path, "expected a mapping", (value,)))
        return None

    return reader


def _of_form(form: type[Struct]) -> _Reader:
    def reader(value: Any, path: Path, misfits: list[Misfit]) -> Any:
        if not isinstance(value, dict):
            misfits.append(Misfit(path, "expected a mapping", (value,)))
            return None
        before, fields, said = len(misfits), _fields(form), {}
        for field in fields:
            if field.key in value:
                said[field.name] = field.read(value[field.key], (*path, field.key), misfits)
            elif field.required:
                misfits.append(Misfit((*path, field.key), "missing"))
        if form.__struct_config__.forbid_unknown_fields:
            misfits += _unknown(value, path, [field.key for field in fields])
        return form(**said) if len(misfits) == before else None

    return reader


def _unknown(value: dict[str, Any], path: Path, known: list[str]) -> Iterator[Misfit]:
    for key in value:
        if key not in known:
            yield Misfit((*path, key), f"unknown field{did_you_mean(str(key), known)}")


# -- scalars -----------------------------------------------------------------------------------------------
_Check = Callable[[Any], str]
_EXPECTED = {str: "text", int: "a whole number", float: "a number", bool: "true or false"}


def _scalar(kind: type, checks: tuple[_Check, ...]) -> _Reader:
    taken = (int, float) if kind is float else kind

    def reader(value: Any, path: Path, misfits: list[Misfit]) -> Any:
        fits = isinstance(value, taken) and (kind is bool or not isinstance(value, bool))
        if not fits:
            misfits.append(Misfit(path, f"expected {_EXPECTED[kind]}", (value,)))
            return None
        words = next((words for check in checks if (words := check(value))), "")
        if words:
            misfits.append(Misfit(path, words, (value,)))
        return float(value) if kind is float and not words else value

    return reader


def _checks(kind: type, wanted: _Type) -> Iterator[_Check]:
    """What a value of the right type must hold too: each answers with what is wrong, or nothing."""
    if kind is float:
        yield lambda value: "" if _finite(value) else "input should be a finite number"
    for name, check in _BOUNDS.items():
        bound = wanted.bound(name)
        if bound is not None:
            yield check(float(bound) if kind is float and name not in ("gt", "lt") else bound)


def _finite(value: float) -> bool:
    try:
        return math.isfinite(value)
    except OverflowError:  # a whole number beyond any float
        return False


def _at_least(least: float) -> _Check:
    return lambda value: "" if value >= least else f"expected {least} or more"


def _at_most(most: float) -> _Check:
    return lambda value: "" if value <= most else f"expected {most} or less"


def _more_than(bound: float) -> _Check:
    return lambda value: "" if value > bound else f"input should be greater than {bound}"


def _less_than(bound: float) -> _Check:
    return lambda value: "" if value < bound else f"input should be less than {bound}"


def _no_shorter(least: int) -> _Check:
    return lambda value: (
        "" if len(value) >= least else f"expected {f'at least {least} characters' if value else 'something'}"
    )


def _no_longer(most: int) -> _Check:
    return lambda value: "" if len(value) <= most else f"string should have at most {most} characters"


def _spelled(pattern: str) -> _Check:
    """``$`` is the end of the text and nothing else."""
    whole = pattern.endswith("$")
    found = re.compile(pattern)
    matches = found.fullmatch if whole else found.search
    lower = pattern.startswith("^[a-z0-9]")
    letters = "lower-case letters, digits and '-'" if lower else "letters, digits, '-', '_' and '.'"
    words = f"expected a name of {letters}"
    return lambda value: "" if matches(value) else words


_BOUNDS: dict[str, Callable[[Any], _Check]] = {
    "max_length": _no_longer,
    "min_length": _no_shorter,
    "pattern": _spelled,
    "ge": _at_least,
    "le": _at_most,
    "gt": _more_than,
    "lt": _less_than,
}


# -- JSON Schema -------------------------------------------------------------------------------------------
_JSON_TYPES = {str: "string", int: "integer", float: "number", bool: "boolean"}
_JSON_BOUNDS = {
    "min_length": "minLength",
    "max_length": "maxLength",
    "pattern": "pattern",
    "ge": "minimum",
    "le": "maximum",
    "gt": "exclusiveMinimum",
    "lt": "exclusiveMaximum",
}


def schema(form: type[Struct]) -> dict[str, Any]:
    """The JSON Schema (2020-12) of a form, with all forms that it refers to."""
    defined: dict[str, dict[str, Any]] = {}
    whole = _form_schema(form, defined)
    return {"$defs": dict(sorted(defined.items())), **whole}


def _form_schema(form: type[Struct], defined: dict[str, dict[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {"additionalProperties": False} if form.__struct_config__.forbid_unknown_fields else {}
    fields = _fields(form)
    found |= {
        "description": form.__doc__,
        "properties": {field.key: _field_schema(field, defined) for field in fields},
        "required": [field.key for field in fields if field.required],
        "title": form.__name__,
        "type": "object",
    }
    return {key: value for key, value in found.items() if value != []}


def _field_schema(field: _Field, defined: dict[str, dict[str, Any]]) -> dict[str, Any]:
    found = _type_schema(field.hint, defined)
    if found.get("anyOf", [found])[0].keys() != {"$ref"}:
        found["title"] = field.key.title()
    said = [meta for meta in _type(field.hint).bounds if meta.description or meta.extra_json_schema]
    for meta in said:
        found |= {"description": meta.description} if meta.description else {}
        found |= meta.extra_json_schema or {}
    if isinstance(field.default, str | int | float | None):
        found["default"] = field.default
    return dict(sorted(found.items()))


def _type_schema(hint: Any, defined: dict[str, dict[str, Any]]) -> dict[str, Any]:
    wanted = _type(hint)
    if wanted.parsed is not None and wanted.parsed.schema is not None:
        found = [dict(wanted.parsed.schema)]
    else:
        found = [_kind_schema(kind, wanted, defined) for kind in wanted.kinds]
    if wanted.nothing:
        found.append({"type": "null"})
    return found[0] if len(found) == 1 else {"anyOf": found}


def _kind_schema(kind: Any, wanted: _Type, defined: dict[str, dict[str, Any]]) -> dict[str, Any]:
    origin = get_origin(kind)
    if len(wanted.kinds) > 1 and origin is Annotated:
        return _type_schema(kind, defined)
    if origin is Literal:
        allowed = get_args(kind)
        return {**({"const": allowed[0]} if len(allowed) == 1 else {"enum": list(allowed)}), "type": "string"}
    if origin is list:
        least = wanted.bound("min_length")
        return {
            "items": _type_schema(get_args(kind)[0], defined),
            **({"minItems": least} if least else {}),
            "type": "array",
        }
    if origin is dict:
        return {"additionalProperties": _type_schema(get_args(kind)[1], defined), "type": "object"}
    if isinstance(kind, type) and issubclass(kind, Struct):
        if kind.__name__ not in defined:
            defined[kind.__name__] = {}
            defined[kind.__name__] = _form_schema(kind, defined)
        return {"$ref": f"#/$defs/{kind.__name__}"}
    bounds = {word: said for name, word in _JSON_BOUNDS.items() if (said := wanted.bound(name)) is not None}
    return dict(sorted((bounds | {"type": _JSON_TYPES[kind]}).items()))
