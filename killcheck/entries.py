"""What a ledger is made of: one entry an object, with its status, the reason for it, and what would settle it.

Code that says so of something that nobody built is marked by :func:`leaves`; `docs/reference/extent.md` is made of
these marks, so that a limit is told as long as there is code that says it, and no longer.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from enum import StrEnum
from typing import Any, TypeVar

from msgspec import Struct
from msgspec.structs import force_setattr

__all__ = ["MARK", "Assumption", "Becomes", "Doubt", "Entry", "Ledger", "Status", "Unknown", "leaves", "lines"]


class Becomes(StrEnum):
    """What a verdict does about something that is not known."""

    OPEN = "inconclusive: an open entry of the ledger, or no steady state"
    UNPROVEN = "unproven"
    SAID = "said under the verdict"
    UNSEEN = "not seen, and not said: drill it on a real cluster"


class Unknown(Struct, frozen=True):
    """Something that is not built, in one area of kill paths."""

    area: str
    what: str
    becomes: Becomes


#: Where the marks of code that says what is not known are kept.
MARK = "__leaves__"
_Code = TypeVar("_Code", bound=Callable[..., Any])


def leaves(area: str, what: str, becomes: Becomes) -> Callable[[_Code], _Code]:
    """Mark the code that says of ``what`` that it is not known here."""

    def mark(code: _Code) -> _Code:
        setattr(code, MARK, (Unknown(area, what, becomes), *getattr(code, MARK, ())))
        return code

    return mark


class Assumption(str):
    """A sentence about what an outcome rests on without having been seen.

    ``about``: the ref of an object, an image, ``node label KEY=VALUE``; the cluster, where it is of no one thing.
    """

    __slots__ = ("about",)
    about: str

    def __new__(cls, said: str, about: str = "the cluster") -> Assumption:
        """Of no one thing, unless ``about`` says of what."""
        made = super().__new__(cls, said)
        made.about = about
        return made


class Doubt(Struct, frozen=True):
    """What a model does not know of one object (``about``, its ref), a sentence.

    ``may_be_on``: on a real cluster it could be on, or be turned on, where it is off here: nothing survives on it.
    ``may_be_off``: it could be off there where it is on here: nothing is exposed by it.
    ``settles``: what settles it, where that is not its controller.
    """

    about: str
    said: str
    may_be_on: bool = True
    may_be_off: bool = True
    settles: str = ""


class Status(StrEnum):
    """What a verdict knows of an object."""

    MODELLED = "modelled"  #: a controller or a model of it runs here and was given its time
    EXECUTED = "executed"  #: its own program ran
    HARMLESS = "harmless"  #: it can neither turn anything on nor keep it on, and why
    ASSUMED = "assumed"  #: a person vouches for it until a date, or killcheck had to and says so
    NOT_MODELLED = "not modelled"  #: it could, and nobody here knows whether it would


class Entry(Struct, frozen=True):
    """One object. ``object`` is its ref (``Deployment/ops/relighter``), or a name for what is no object (an image).

    ``settles``: what somebody can do about an open one, which never is without. ``until``: the last day of a person's
    assumption. ``told``: a reader is told also where nothing is open.
    """

    object: str
    status: Status
    because: str
    settles: str = ""
    until: str = ""
    told: bool = False

    def __post_init__(self) -> None:
        if self.status is Status.NOT_MODELLED and not self.settles:
            force_setattr(self, "settles", _SETTLES)

    def __str__(self) -> str:
        if self.status is Status.ASSUMED and self.until:
            return f"{self.object} (assumed until {self.until}): {self.because}"
        return self.because if self.because.startswith(self.object) else f"{self.object}: {self.because}"

    @property
    def matters(self) -> bool:
        """Whether a reader of the verdict has to know of it."""
        return self.told or self.status in (Status.NOT_MODELLED, Status.ASSUMED)

    def to_json(self) -> dict[str, Any]:
        """As the JSON document and the run record have it."""
        return {
            "object": self.object,
            "status": str(self.status),
            "because": self.because,
            "settles": self.settles or None,
            "until": self.until or None,
        }


class Ledger(Struct, frozen=True):
    """Every entry of one drill."""

    entries: tuple[Entry, ...] = ()
    #: How many have each status, of one that was read from a document: that holds only those that matter.
    counted: Mapping[str, int] | None = None

    @property
    def open(self) -> tuple[Entry, ...]:
        """What makes *survived* and *covered* impossible."""
        return tuple(entry for entry in self.entries if entry.status is Status.NOT_MODELLED)

    @property
    def telling(self) -> tuple[Entry, ...]:
        """What a reader has to know; the rest is only counted."""
        return tuple(entry for entry in self.entries if entry.matters)

    @property
    def counts(self) -> dict[str, int]:
        """How many entries have each status."""
        if self.counted is not None:
            return dict(self.counted)
        found = Counter(entry.status for entry in self.entries)
        return {str(status): found[status] for status in Status if found[status]}

    @classmethod
    def from_json(cls, entries: Iterable[Mapping[str, Any]], counts: Mapping[str, int]) -> Ledger:
        """What a result's ``ledger`` and ``ledger_counts`` say. Raises KeyError, ValueError for what is no entry."""
        read = [
            Entry(
                one["object"],
                Status(one["status"]),
                one["because"],
                one.get("settles") or "",
                one.get("until") or "",
                told=True,
            )
            for one in entries
        ]
        return cls(tuple(read), counts)

    def and_also(self, more: Iterable[Entry]) -> Ledger:
        """With further entries, each once."""
        return Ledger(tuple(dict.fromkeys([*self.entries, *more])))

    def verdict(self) -> str | None:
        """Why nothing is proven, in a sentence; None where nothing is open."""
        if not self.open:
            return None
        named = "; ".join(map(str, self.open[:_NAMED]))
        left = len(self.open) - _NAMED
        more = f"; and {left} more" if left > 0 else ""
        what = f"To settle it: {self.open[0].settles}"
        return f"the GPUs went off, but what could keep or turn GPUs on is not all known: {named}{more}. {what}"


#: What settles any open entry.
_SETTLES = "drill it where it runs (--on CONTEXT), or say under assume: why it turns nothing on"
#: How many open entries a verdict names; all of them are in the ledger.
_NAMED = 4


def lines(result: Mapping[str, Any]) -> list[str]:
    """What a drill's verdict rests on, a line each, from its JSON document: open entries, assumptions, notes."""
    notes = list(result.get("notes") or ())
    found = []
    for one in result.get("ledger") or ():
        until = f" until {one['until']}" if one.get("until") else ""
        if until or one["because"] not in notes:  # what a cluster assumed of itself is among the notes already
            found.append(f"{one['status']}{until}: {one['object']}: {one['because']}")
    return [*found, *notes]
