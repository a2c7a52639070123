"""What a journal's lines may be, each field with its bounds: what is otherwise is told, and nothing of it taken over.

Apart from :mod:`killcheck.safety.written`, so that only who reads a journal loads what checks one.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from msgspec import Meta, Struct
from msgspec.structs import asdict

from killcheck.kube.objects import Obj, parse_time
from killcheck.text.forms import Misfit, Parsed, fit

__all__ = ["entry", "header"]


def header(line: Obj) -> dict[str, Any] | str:
    """The fields of a journal's first line, or why it is none."""
    if "journal" not in line:
        return "there is none"
    found, misfits = fit(_Header, line["journal"])
    return _told(misfits) if found is None else asdict(found)


def entry(line: Obj) -> dict[str, Any] | str:
    """The fields of an entry's line, or why it is none."""
    found, misfits = fit(_Entry, line)
    return _told(misfits) if found is None else asdict(found) | {"undo": asdict(found.undo)}


def _told(misfits: list[Misfit]) -> str:
    """What is wrong with it, without what it says: that was written by anybody."""
    first = misfits[0]
    place = ".".join(str(part) for part in first.path)[:80]
    words = "unknown field" if first.words.startswith("unknown field") else first.words
    return f"{_shown(place)}: {words}" if place else words


def _shown(text: str) -> str:
    """Text for a terminal: nothing in it moves the cursor."""
    return "".join(one if one.isprintable() else "?" for one in text)


def _moment(text: str) -> str:
    try:
        parse_time(text)
    except OverflowError as error:
        raise ValueError("it is no moment") from error
    return text


_Name = Annotated[str, Meta(max_length=253, pattern=r"^[A-Za-z0-9]?[A-Za-z0-9._-]*$")]
_Line = Annotated[str, Meta(max_length=4000)]
_Printable = Annotated[_Line, Parsed(_shown)]
_Manual = Annotated[str, Meta(max_length=200_000), Parsed(_shown)]
_Run = Annotated[str, Meta(min_length=1, max_length=63)]


class _Header(Struct, kw_only=True):
    """A header may say more than is understood here."""

    run: Annotated[_Name, Meta(min_length=1, max_length=63)]
    context: _Printable = ""
    kubeconfig: _Line = ""
    home: _Name = ""
    host: _Printable = ""
    pid: Annotated[int, Meta(ge=0, lt=2**31)] = 0
    closed: bool = False
    began: Annotated[str, Meta(max_length=100)] = ""
    places: Annotated[list[_Name], Meta(max_length=100)] = []
    count: Annotated[int, Meta(ge=0, le=10**6)] = 0


class _Undo(Struct, kw_only=True, forbid_unknown_fields=True):
    action: Literal["delete", "sweep", "merge", "create", "put", "call", "set", "aws"]
    path: _Line
    body: Any = None
    uid: Annotated[str, Meta(max_length=100)] = ""
    left: dict[str, Any] | None = None
    manual: _Manual = ""
    transient: bool = False
    ends_s: Annotated[float, Meta(ge=0, le=7 * 86400)] = 0.0


class _Entry(Struct, kw_only=True, forbid_unknown_fields=True):
    """Of an entry nothing may be passed over."""

    run: _Run
    number: Annotated[int, Meta(ge=0, le=10**6)]
    what: _Printable
    undo: _Undo
    expires: Annotated[str, Meta(max_length=40), Parsed(_moment)]
    state: Literal["intent", "applied", "undone", "verified", "failed"] = "intent"
    problem: _Manual = ""
    lever: Annotated[str, Meta(max_length=40)] = ""
    owner: Annotated[str, Meta(max_length=200), Parsed(_shown)] = ""
