"""What each record came to, kept in an SQLite file: a record is read again only when it has changed.

The index is this user's, outside of every checkout; it holds nothing that the records do not say, and may be deleted.
"""

from __future__ import annotations

import hashlib
import json
import os
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing, suppress
from pathlib import Path

from msgspec import Struct, field
from msgspec.json import Decoder, encode

from killcheck.history.nights import UNFINISHED, Night, RunNights, Unreadable, read
from killcheck.history.places import Place, PlaceError
from killcheck.safety.keys import known_keys
from killcheck.safety.seals import fingerprint

__all__ = ["History", "gather"]

#: What the tables and rows are like: an index of another layout is made anew.
LAYOUT = 5
#: The JSON of a snapshot that is not there.
_NOTHING = "{}"
#: How the nights of a row are read.
_NIGHTS = Decoder(tuple[Night, ...])
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
        for found, snapshot, problem in _rows(place, folder):
            if problem:
                unreadable.append(problem)
            for night in found:  # the same run may lie in two places: it is one
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


def _rows(place: Place, folder: Path | None) -> Iterator[tuple[tuple[Night, ...], str, str]]:
    """(nights, snapshot, problem) of every record."""
    # A seal that was nobody's may be ours, once the key is known.
    mark, keys = fingerprint(), known_keys()
    fresh: list[tuple[str, ...]] = []
    with closing(_opened(place, folder)) as index:
        known = {name: rest for name, *rest in index.execute("SELECT * FROM records")}
        for one in list(place.listed()):
            if one.problem:
                yield (), _NOTHING, one.problem
                continue
            version, nights, snapshot, problem = known.pop(one.name, ("", "[]", "", ""))
            if version == f"{one.version} {mark}":
                yield _NIGHTS.decode(nights), snapshot, problem
                continue
            try:
                found, problem = read(place.lines(one.name), place.where(one.name), keys), ""
            except PlaceError as error:  # it may be read the next time
                yield (), _NOTHING, str(error)
                continue
            except Unreadable as error:
                found, problem = RunNights(()), str(error)
            snapshot = encode(found.snapshot).decode()
            fresh.append((one.name, f"{one.version} {mark}", encode(found.nights).decode(), snapshot, problem))
            yield found.nights, snapshot, problem
        with suppress(sqlite3.Error):  # what cannot be kept is read again the next time
            index.executemany("INSERT OR REPLACE INTO records VALUES (?, ?, ?, ?, ?)", sorted(fresh))
            index.executemany("DELETE FROM records WHERE name = ?", [(name,) for name in known])
            index.commit()


def _opened(place: Place, folder: Path | None) -> sqlite3.Connection:
    """The place's index, empty where there is none that can be used."""
    if folder is None:
        return _made(":memory:")
    file = folder / f"{hashlib.sha256(os.fsencode(place.name)).hexdigest()[:32]}.sqlite"
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
