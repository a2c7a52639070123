"""A YAML file of ours against the form of its kind: everything that does not fit, in the words of who wrote it.

For the spec, for what lies beside it, and for fleets.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path as FilePath
from typing import Any, TypeVar

from msgspec import Struct

from killcheck.spec import killpath as k
from killcheck.spec.specfile.errors import SpecError
from killcheck.text.files import text_of
from killcheck.text.forms import Misfit, fit
from killcheck.text.problems import Problem, not_utf8
from killcheck.text.yamlfile import Document, Path, YamlError, documents, format_path

Form = TypeVar("Form", bound=Struct)

__all__ = ["explained", "fitted", "one_document", "read", "surprises"]


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


def fitted(doc: Document, form: type[Form]) -> Form:
    """What a document says, as its form has it. Raises SpecError with all that does not fit."""
    found, misfits = fit(form, doc.value)
    told = [Problem(doc.file, doc.line_of(one.path), format_path(one.path), explained(doc, one)) for one in misfits]
    problems = [*surprises(doc), *told]
    if problems or found is None:
        raise SpecError(sorted(dict.fromkeys(problems), key=lambda problem: problem.line))
    return found


def explained(doc: Document, misfit: Misfit) -> str:
    """What does not fit, with what was found there as its document spells it."""
    if not misfit.found:
        return misfit.words
    value, raw, words = misfit.found[0], doc.raw(misfit.path), misfit.words
    if words == "expected text" and isinstance(value, bool):
        return f'YAML 1.1 reads {raw} as a boolean; write "{raw}" in quotes'
    if words == "expected text" and isinstance(value, int | float):
        return f'expected text, found the number {raw}; write "{raw}" in quotes'
    if words.startswith("expected a name") and _names_a_namespace(misfit.path):
        words = "expected the name of a namespace (lower-case letters, digits and '-')"
    return f"{words}, found {_shown(value, raw)}{misfit.near}"


def _names_a_namespace(path: Path) -> bool:
    return path[-1] == "namespace" or path[-2:-1] == ("namespaces",)


#: How much of a wrong value is quoted.
_SHOWN = 80


def _shown(value: Any, raw: str | None) -> str:
    if isinstance(value, dict):
        return "a mapping"
    if isinstance(value, list):
        return "a list" if value else "an empty list"
    if value is None:
        return "nothing"
    text = f"{raw} (a boolean in YAML 1.1)" if isinstance(value, bool) and raw else repr(value)
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}... ({len(str(value))} characters)"
