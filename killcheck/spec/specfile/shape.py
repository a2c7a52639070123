"""A YAML file of ours against the model of its kind: everything that does not fit, in the words of who wrote it.

For the spec, for what lies beside it, and for fleets. pydantic is imported only when a file is held against a model.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path as FilePath
from typing import TYPE_CHECKING, Any, TypeVar

from killcheck.spec import killpath as k
from killcheck.spec.specfile.errors import SpecError
from killcheck.text.files import text_of
from killcheck.text.problems import Problem, not_utf8
from killcheck.text.suggestions import did_you_mean, nearest
from killcheck.text.yamlfile import Document, Path, YamlError, documents, format_path

if TYPE_CHECKING:
    from pydantic import BaseModel
    from pydantic_core import ErrorDetails

Model = TypeVar("Model", bound="BaseModel")

__all__ = ["fitted", "misfits", "one_document", "read", "surprises"]


def read(path: FilePath, *, absent: str = "", folder: str = "a folder: give the file in it") -> str:
    """The text of a file. Raises SpecError where it cannot be read.

    ``absent``: what to do where there is none; ``folder``: what to do with a folder.
    """
    try:
        return text_of(path)
    except UnicodeDecodeError as error:
        raise SpecError([Problem(str(path), 0, "", not_utf8(error))]) from error
    except IsADirectoryError as error:
        raise SpecError([Problem(str(path), 0, "", folder)]) from error
    except OSError as error:
        hint = absent if isinstance(error, FileNotFoundError) else ""
        hint = "; manifests come from standard input with --manifests -" if str(path) == "-" else hint
        raise SpecError([Problem(str(path), 0, "", (error.strerror or str(error)).lower() + hint)]) from error


def one_document(
    text: str, file: str, *, what: str, begins: str = f"apiVersion: {k.API_VERSION}", hint: str = ""
) -> Document:
    """The only document of a text, a mapping. ``what`` it is meant to be, and how such a one ``begins``.

    Raises SpecError.
    """
    try:
        found = documents(text, file)
    except YamlError as error:
        raise SpecError([Problem(file, error.line, "", f"not YAML: {error.problem}")]) from error
    if not found:
        raise SpecError([Problem(file, 0, "", f"empty; a {what} begins with '{begins}'{hint}")])
    if len(found) > 1:
        message = f"a second YAML document begins here (there are {len(found)}); a {what} is one"
        raise SpecError([Problem(file, found[1].line, "", message)])
    if not isinstance(found[0].value, dict):
        kind = "a list" if isinstance(found[0].value, list) else repr(found[0].value)
        message = f"expected a mapping that begins with '{begins}', found {kind}"
        raise SpecError([Problem(file, found[0].line, "", message)])
    return found[0]


def surprises(doc: Document) -> Iterator[Problem]:
    """What another reader of YAML would make something else of."""
    for path, line in doc.duplicates:
        yield Problem(doc.file, line, format_path(path), "given twice; a YAML reader would silently take the last one")
    for path, raw, line in doc.boolean_keys:
        message = f'YAML 1.1 reads the key {raw} as a boolean; write "{raw}" in quotes'
        yield Problem(doc.file, line, format_path((*path[:-1], raw)), message)


def fitted(doc: Document, model: type[Model]) -> Model:
    """What a document says, as its model has it. Raises SpecError with all that does not fit."""
    found = [Problem(doc.file, doc.line_of(at), format_path(at), why) for at, why in misfits(doc, doc.value, model)]
    problems = [*surprises(doc), *found]
    if problems:
        raise SpecError(sorted(dict.fromkeys(problems), key=lambda problem: problem.line))
    return model.model_validate(doc.value)


def misfits(doc: Document, value: Any, model: type[BaseModel]) -> Iterable[tuple[Path, str]]:
    """Where and how a value does not fit a model. ``doc``: the document that it is from."""
    from pydantic import ValidationError

    try:
        model.model_validate(value)
    except ValidationError as error:
        details = error.errors(include_url=False, include_context=True)
        return [(_real_path(one["loc"]), _explain(doc, _real_path(one["loc"]), one, model)) for one in details]
    return []


def _real_path(loc: tuple[str | int, ...]) -> Path:
    """pydantic's location, without the marker it adds for a mapping's key."""
    return tuple(step for step in loc if step != "[key]")


def _explain(doc: Document, path: Path, detail: ErrorDetails, model: type[BaseModel]) -> str:
    kind, value = detail["type"], detail.get("input")
    if kind == "extra_forbidden":
        return f"unknown field{did_you_mean(str(path[-1]), _fields_at(path[:-1], model))}"
    if kind == "missing":
        return "missing"
    if kind == "value_error":
        return str(detail["ctx"]["error"])
    raw = doc.raw(path)
    if kind == "literal_error":
        allowed = str(detail["ctx"]["expected"]).replace("'", "").replace(" or ", ", ").split(", ")
        near = nearest(value, allowed, 1) if isinstance(value, str) else []
        hint = did_you_mean(str(value), near) if near else ""
        return f"expected {' | '.join(allowed)}, found {_shown(value, raw)}{hint}"
    expected = _EXPECTED.get(kind) or _bound(detail)
    if kind == "string_pattern_mismatch" and str(detail["ctx"]["pattern"]).startswith("^[a-z0-9]"):
        expected = "a name of lower-case letters, digits and '-'"
    if kind == "string_pattern_mismatch" and (path[-1] == "namespace" or path[-2:-1] == ("namespaces",)):
        expected = "the name of a namespace (lower-case letters, digits and '-')"
    if kind == "string_too_short" and value:
        expected = f"at least {detail['ctx']['min_length']} characters"
    if kind == "string_too_long":
        expected = f"at most {detail['ctx']['max_length']} characters"
    if kind == "string_type" and isinstance(value, bool):
        return f'YAML 1.1 reads {raw} as a boolean; write "{raw}" in quotes'
    if kind == "string_type" and isinstance(value, int | float):
        return f'expected text, found the number {raw}; write "{raw}" in quotes'
    if expected:
        return f"expected {expected}, found {_shown(value, raw)}"
    message = detail["msg"][0].lower() + detail["msg"][1:]
    return f"{message}, found {_shown(value, raw)}"


def _bound(detail: ErrorDetails) -> str | None:
    """The bound that a number is beyond."""
    bounds = {"greater_than_equal": ("ge", "or more"), "less_than_equal": ("le", "or less")}
    name, side = bounds.get(detail["type"], ("", ""))
    return f"{detail['ctx'][name]} {side}" if name else None


#: How much of a wrong value is quoted.
_SHOWN = 80

_DAY = "a day, as 2027-01-31"
_EXPECTED = {
    "string_type": "text",
    "int_type": "a whole number",
    "float_type": "a number",
    "list_type": "a list",
    "dict_type": "a mapping",
    "model_type": "a mapping",
    "bool_type": "true or false",
    "model_attributes_type": "a mapping",
    "int_from_float": "a whole number",
    "int_parsing": "a whole number",
    "string_pattern_mismatch": "a name of letters, digits, '-', '_' and '.'",
    "string_too_short": "something",
    "too_short": "at least one entry",
    "date_type": _DAY,
    "date_parsing": _DAY,
    "date_from_datetime_parsing": _DAY,
    "date_from_datetime_inexact": _DAY,
}


def _shown(value: Any, raw: str | None) -> str:
    if isinstance(value, dict):
        return "a mapping"
    if isinstance(value, list):
        return "a list" if value else "an empty list"
    if value is None:
        return "nothing"
    text = f"{raw} (a boolean in YAML 1.1)" if isinstance(value, bool) and raw else repr(value)
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}... ({len(str(value))} characters)"


def _fields_at(path: Path, model: type[BaseModel]) -> list[str]:
    """The fields that the model at ``path`` has, as the file writes them."""
    schema = model.model_json_schema(by_alias=True)
    here: Any = schema
    for step in path:
        here = _resolved(here, schema)
        here = here.get("items", {}) if isinstance(step, int) else here.get("properties", {}).get(step, {})
    return list(_resolved(here, schema).get("properties", {}))


def _resolved(node: dict[str, Any], schema: dict[str, Any]) -> dict[str, Any]:
    for choice in node.get("anyOf", []):
        if choice.get("type") != "null":
            node = choice
    name = node.get("$ref", "").rpartition("/")[2]
    found: dict[str, Any] = schema["$defs"][name] if name else node
    return found
