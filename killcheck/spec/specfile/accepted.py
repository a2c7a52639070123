"""The exposures that a team lives with for a while: ``killcheck.accepted.yaml`` beside ``killcheck.yaml``.

Each has an owner, a reason and a last day, and becomes a rule of the policy, before the spec's own rules. A day after
its last one it says nothing any more. What may *not* live here: what a drill found.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import date
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from killcheck.spec.killpath import API_VERSION, Outcome, Rule
from killcheck.spec.specfile.errors import SpecError
from killcheck.text.problems import Problem
from killcheck.text.yamlfile import YamlError, documents, format_path

__all__ = ["beside", "dump", "read"]

_HEAD = f"""\
# Exposures that somebody decided to live with for a while; killcheck accept writes this file.
# Each is a drill after which the GPUs stay on. After its last day (until) it fails the gate again.
apiVersion: {API_VERSION}
kind: Accepted
"""


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid")


class _Exposure(_Strict):
    layer: Annotated[str, Field(min_length=1)]
    fault: Annotated[str, Field(min_length=1)]
    cause: list[Annotated[str, Field(min_length=1)]] = Field(min_length=1)
    owner: Annotated[str, Field(min_length=2)]
    reason: Annotated[str, Field(min_length=3)]
    until: date


class _Accepted(_Strict):
    apiVersion: Literal["killcheck/v1"]
    kind: Literal["Accepted"]
    exposures: list[_Exposure]


def beside(spec: Path) -> Path:
    """Where the accepted exposures of a spec are: ``killcheck.accepted.yaml`` for ``killcheck.yaml``."""
    return spec.with_name(f"{spec.stem}.accepted.yaml")


def read(file: Path) -> tuple[Rule, ...]:
    """The rules of a file; none where there is no such file. Raises SpecError with every problem and its line."""
    try:
        text = file.read_text(encoding="utf-8")
    except FileNotFoundError:
        return ()
    except (OSError, UnicodeDecodeError) as error:
        raise SpecError([Problem(str(file), 0, "", str(error))]) from error
    try:
        found = documents(text, str(file))
    except YamlError as error:
        raise SpecError([Problem(str(file), error.line, "", f"not YAML: {error.problem}")]) from error
    if len(found) != 1:
        raise SpecError([Problem(str(file), 0, "", f"expected one YAML document, found {len(found)}")])
    try:
        said = _Accepted.model_validate(found[0].value)
    except ValidationError as error:
        problems = [(tuple(detail["loc"]), detail["msg"]) for detail in error.errors(include_url=False)]
        raise SpecError(
            Problem(str(file), found[0].line_of(path), format_path(path), message) for path, message in problems
        ) from error
    return tuple(_rule(one) for one in said.exposures)


def dump(rules: Iterable[Rule]) -> str:
    """The file's text; what :func:`read` gives back."""
    from yaml import safe_dump

    exposures = [
        {
            "layer": rule.layer,
            "fault": rule.fault,
            "cause": list(rule.causes),
            "owner": rule.owner,
            "reason": rule.reason,
            "until": rule.until.isoformat() if rule.until else None,
        }
        for rule in rules
    ]
    document: dict[str, Sequence[Any]] = {"exposures": exposures}
    return _HEAD + safe_dump(document, sort_keys=False, allow_unicode=True, width=110)


def _rule(one: _Exposure) -> Rule:
    return Rule(Outcome.KNOWN, one.layer, one.fault, tuple(one.cause), one.owner, one.reason, one.until)
