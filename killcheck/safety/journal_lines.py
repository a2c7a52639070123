"""What a journal's lines may be, each field with its bounds: what is otherwise is told, and nothing of it taken over.

Apart from :mod:`killcheck.safety.written`, so that only who reads a journal loads what checks one.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator

from killcheck.kube.objects import Obj, parse_time

__all__ = ["entry", "header"]


def header(line: Obj) -> dict[str, Any] | str:
    """The fields of a journal's first line, or why it is none."""
    try:
        return _Header.model_validate(line["journal"]).model_dump()
    except KeyError:
        return "there is none"
    except ValidationError as error:
        return _told(error)


def entry(line: Obj) -> dict[str, Any] | str:
    """The fields of an entry's line, or why it is none."""
    try:
        return _Entry.model_validate(line).model_dump()
    except ValidationError as error:
        return _told(error)


def _told(error: ValidationError) -> str:
    """What is wrong with it, without what it says: that was written by anybody."""
    first = error.errors(include_url=False, include_input=False, include_context=False)[0]
    place = ".".join(str(part) for part in first["loc"])[:80]
    return f"{_shown(place)}: {first['msg']}" if place else str(first["msg"])


def _shown(text: str) -> str:
    """Text for a terminal: nothing in it moves the cursor."""
    return "".join(one if one.isprintable() else "?" for one in text)


_Name = Annotated[str, Field(max_length=253, pattern=r"^[A-Za-z0-9]?[A-Za-z0-9._-]*$")]
_Line = Annotated[str, Field(max_length=4000)]


class _Strict(BaseModel):
    model_config = ConfigDict(strict=True, extra="forbid", allow_inf_nan=False)


class _Header(_Strict):
    """A header may say more than is understood here."""

    model_config = ConfigDict(strict=True, extra="ignore", allow_inf_nan=False)

    run: Annotated[_Name, Field(min_length=1, max_length=63)]
    context: _Line = ""
    kubeconfig: _Line = ""
    home: _Name = ""
    host: _Line = ""
    pid: Annotated[int, Field(ge=0, lt=2**31)] = 0
    closed: bool = False
    began: Annotated[str, Field(max_length=100)] = ""
    places: Annotated[list[_Name], Field(max_length=100)] = []
    count: Annotated[int, Field(ge=0, le=10**6)] = 0

    @field_validator("context", "host")
    @classmethod
    def _printable(cls, text: str) -> str:
        return _shown(text)


class _Undo(_Strict):
    action: Literal["delete", "sweep", "merge", "create", "put", "call", "set", "aws"]
    path: _Line
    body: Any = None
    uid: Annotated[str, Field(max_length=100)] = ""
    left: dict[str, Any] | None = None
    manual: Annotated[str, Field(max_length=200_000)] = ""
    transient: bool = False
    ends_s: Annotated[float, Field(ge=0, le=7 * 86400, strict=False)] = 0.0
    owners: list[dict[str, Any]] | None = None
    marked: bool = False

    @field_validator("manual")
    @classmethod
    def _printable(cls, text: str) -> str:
        return _shown(text)


class _Entry(_Strict):
    """Of an entry nothing may be passed over."""

    run: Annotated[str, Field(min_length=1, max_length=63)]
    number: Annotated[int, Field(ge=0, le=10**6)]
    what: _Line
    undo: _Undo
    expires: Annotated[str, Field(max_length=40)]
    state: Literal["intent", "applied", "undone", "verified", "failed"] = "intent"
    problem: Annotated[str, Field(max_length=200_000)] = ""
    lever: Annotated[str, Field(max_length=40)] = ""
    owner: Annotated[str, Field(max_length=200)] = ""

    @field_validator("what", "problem", "owner")
    @classmethod
    def _printable(cls, text: str) -> str:
        return _shown(text)

    @field_validator("expires")
    @classmethod
    def _moment(cls, text: str) -> str:
        try:
            parse_time(text)
        except OverflowError as error:
            raise ValueError("it is no moment") from error
        return text
