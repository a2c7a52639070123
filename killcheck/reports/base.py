"""What a report is: an option of ``killcheck report``, and what is made of a run where that option is given."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
from typing import NamedTuple

from killcheck.reports.compare import Comparison
from killcheck.reports.story import RunStory

__all__ = ["Delivery", "Place", "Report", "Told", "Written"]


class Place(Enum):
    """What an option says: where the report goes."""

    #: A file, or ``-``: standard output.
    FILE = "file"
    FOLDER = "folder"
    ADDRESS = "address"
    #: Nothing: the address is a secret, in an environment variable.
    ASKED = "asked"


class Told(NamedTuple):
    """What every report is made from. ``comparison``: with an earlier run, where one was given."""

    story: RunStory
    comparison: Comparison | None


@dataclass(frozen=True, slots=True)
class Report:
    """``option``: its name without dashes in front; ``help``: its line in ``killcheck report --help``."""

    option: str
    help: str
    place: Place = field(default=Place.FILE, kw_only=True)


@dataclass(frozen=True, slots=True)
class Written(Report):
    """A report that is one text. ``text`` makes it whole; it is written whole, in place of what was there.

    ``joined(text, earlier)`` says what the file is to hold where it held something; ``appended``: what it held stays
    before it.
    """

    text: Callable[[Told], str]
    joined: Callable[[str, str], str] = lambda text, _earlier: text
    appended: bool = False


@dataclass(frozen=True, slots=True)
class Delivery(Report):
    """A report that goes elsewhere: into a folder, to an address, or to the address that ``variable`` holds."""

    into: Callable[[Told, Path], object] | None = None
    to: Callable[[Told, str], None] | None = None
    variable: str = ""
