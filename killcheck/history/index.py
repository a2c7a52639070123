"""What each record came to, kept in an SQLite file: a record is read again only when it has changed.

The index is this user's, outside of every checkout; it holds nothing that the records do not say, and may be deleted.
"""

from __future__ import annotations

import hashlib
import json
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing, suppress
from pathlib import Path

from msgspec import Struct, field

from killcheck.history.nights import UNFINISHED, Night, RunNights, Unreadable, read
from killcheck.history.places import Listed, Place, PlaceError
from killcheck.safety.seals import fingerprint
from killcheck.text.values import replace

__all__ = ["History", "gather"]

#: What the tables and rows are like: an index of another layout is made anew.
LAYOUT = 4
#: The JSON of a snapshot that is not there.
_NOTHING = "{}"
_TABLES = """
CREATE TABLE IF NOT EXISTS records (
  name TEXT PRIMARY KEY, version TEXT NOT NULL, nights TEXT NOT NULL, snapshot TEXT NOT NULL, unreadable TEXT NOT NULL
) WITHOUT ROWID;
"""


class History(Struct, frozen=True):
    """The nights of a place, oldest first. ``unreadable``: what says nothing that can be used, in one sentence each.

    ``snapshots`` by run, as JSON: only those around a break are ever looked at.
    """

    nights: tuple[Night, ...]
    snapshots: dict[str, str] = field(default_factory=dict)
    unreadable: tuple[str, ...] = ()

    def snapshot(self, run: str) -> dict[str, dict[str, str]] | None:
        """What was around the drills of a run; None where its record does not say it."""
        found: dict[str, dict[str, str]] | None = json.loads(self.snapshots.get(run, "null"))
        return found


def gather(places: Sequence[Place], folder: Path | None, *, anyway: bool = False) -> History:
    """Everything that the places' records say. ``folder``: where indexes are kept; None: nowhere.

    What a record without this machine's seal proves is ``unsealed``, unless somebody vouches for it (``anyway``).
    Raises PlaceError for a place that cannot be listed; a record that cannot be read is told and passed over.
    """
    nights: dict[tuple[str, str, tuple[str, ...], str], Night] = {}
    snapshots: dict[str, str] = {}
    unreadable: list[str] = []
    for place in places:
        for _, found, snapshot, problem in _rows(place, folder):
            if problem:
                unreadable.append(problem)
            for night in map(Night.from_json, json.loads(found)):  # the same run may lie in two places: it is one
                key = (night.run, night.layer, night.faults, night.title)
                if key in nights and _counts(nights[key]) >= _counts(night):
                    continue
                nights[key] = night
                if snapshot != _NOTHING:
                    snapshots[night.run] = snapshot
    told = [night if anyway else night.believed for night in nights.values()]
    return History(tuple(sorted(told, key=lambda night: (night.at, night.run))), snapshots, tuple(unreadable))


def _counts(night: Night) -> tuple[bool, ...]:
    """Which of two tellings of one night counts, the greater: what is sealed, for whoever may write there may give a
    record any run's name; what came to its end; the worse one."""
    exposed = night.dirty or night.standing == "exposed"
    return night.sealed, night.standing != UNFINISHED, exposed, not night.proven


def _rows(place: Place, folder: Path | None) -> Iterator[list[str]]:
    """(version, nights, snapshot, problem) of every record."""
    keys = fingerprint()  # a seal that was nobody's may be ours, once the key is known
    with closing(_opened(place, folder)) as index:
        known = {name: rest for name, *rest in index.execute("SELECT * FROM records")}
        for one in [replace(found, version=f"{found.version} {keys}") for found in place.listed()]:
            if one.problem:
                yield [one.version, "[]", _NOTHING, one.problem]
                continue
            row = known.pop(one.name, None)
            if row is None or row[0] != one.version:
                row = _indexed(index, place, one)
            yield row
        with suppress(sqlite3.Error):  # what cannot be kept is read again the next time
            index.executemany("DELETE FROM records WHERE name = ?", [(name,) for name in known])
            index.commit()


def _indexed(index: sqlite3.Connection, place: Place, one: Listed) -> list[str]:
    """The row of a record that is new or has changed; what may be read the next time is not kept."""
    problem = ""
    try:
        found = read(place.lines(one.name), place.where(one.name))
    except PlaceError as error:
        return [one.version, "[]", _NOTHING, str(error)]
    except Unreadable as error:
        found, problem = RunNights(()), str(error)
    nights = json.dumps([night.to_json() for night in found.nights])
    row = [one.version, nights, json.dumps(found.snapshot), problem]
    with suppress(sqlite3.Error):
        index.execute("INSERT OR REPLACE INTO records VALUES (?, ?, ?, ?, ?)", (one.name, *row))
    return row


def _opened(place: Place, folder: Path | None) -> sqlite3.Connection:
    """The place's index, empty where there is none that can be used."""
    if folder is None:
        return _made(":memory:")
    file = folder / f"{hashlib.sha256(place.name.encode()).hexdigest()[:32]}.sqlite"
    try:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        return _made(str(file))
    except (OSError, sqlite3.Error):
        with suppress(OSError):
            file.unlink()
    try:
        return _made(str(file))
    except sqlite3.Error:  # it may not be written here: it is only slower without
        return _made(":memory:")


def _made(name: str) -> sqlite3.Connection:
    """Raises sqlite3.Error."""
    index = sqlite3.connect(name, timeout=10)
    try:
        if index.execute("PRAGMA user_version").fetchone()[0] != LAYOUT:
            index.executescript(f"DROP TABLE IF EXISTS records; {_TABLES} PRAGMA user_version = {LAYOUT};")
        index.execute("SELECT * FROM records LIMIT 1").fetchone()
    except sqlite3.Error:
        index.close()
        raise
    return index
