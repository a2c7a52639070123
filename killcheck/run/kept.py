"""The runs that are kept under ``.killcheck/``: which there are, and how many stay.

What may *not* live here: what a record says beyond its first and its last line.
"""

from __future__ import annotations

import os
import shutil
import stat
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

from msgspec import Struct, structs

from killcheck.run.chain import Chain, ChainBroken
from killcheck.run.record import RecordError
from killcheck.run.session import SessionError
from killcheck.safety.orphans import local
from killcheck.safety.seals import Whose
from killcheck.text.files import LONGEST, own
from killcheck.text.jsontext import from_text

__all__ = ["KEPT", "SETTING", "KeptRun", "described", "limit", "own_ignore", "record_of", "runs", "tidy"]

#: How many runs stay where nothing else is said, and the environment variable that says it (0: all of them).
KEPT = 20
SETTING = "KILLCHECK_KEEP_RUNS"
#: Bytes from the end of a record in which its last line is looked for.
LAST = 4096


class KeptRun(Struct, frozen=True):
    """A run as its folder tells it; ``verdict`` is ``unfinished`` where the record ends early, ``size`` in bytes.

    ``sealed``: whether this machine wrote its record, or one with the same ``KILLCHECK_KEY``.
    """

    run: str
    at: str
    kill_path: str
    cluster: str
    drills: int
    verdict: str
    size: int
    record: Path
    sealed: bool

    def to_json(self) -> dict[str, Any]:
        """As JSON."""
        return structs.asdict(self) | {"record": str(self.record)}


def runs(folder: Path) -> list[Path]:
    """The records under a state folder, the newest first: by when they were written last."""
    found = []
    for file in (folder / "runs").glob("*/run.jsonl"):
        with suppress(FileNotFoundError):  # another killcheck tidies up
            if stat.S_ISREG((looked := file.stat()).st_mode):
                found.append((looked.st_mtime_ns, file))
    return [file for _, file in sorted(found, reverse=True)]


def record_of(named: Path | None, folder: Path) -> Path:
    """The record that a person means: a file, a run's folder, or none, which is the newest.

    Raises RecordError where there is none.
    """
    if named is not None:
        return named / "run.jsonl" if named.is_dir() else named
    newest = runs(folder)
    if not newest:
        raise RecordError(f"there is no run under {folder / 'runs'}: killcheck drill makes one, or name RUN")
    return newest[0]


def described(folder: Path) -> Iterator[KeptRun]:
    """Every run, the newest first. A folder whose record begins with anything else is left out."""
    for record in runs(folder):
        with suppress(FileNotFoundError):  # another killcheck tidies up
            first, last = _ends(record)
            if first.get("event") == "RunStarted":
                yield _kept(record, first, last)


def _kept(record: Path, first: dict[str, Any], last: dict[str, Any]) -> KeptRun:
    return KeptRun(
        str(first.get("run", record.parent.name)),
        str(first.get("at", "")),
        str(first.get("kill_path", "")),
        str(first.get("cluster", "")),
        len(first.get("drills") or ()),
        str(last.get("verdict", "unfinished")) if last.get("event") == "RunFinished" else "unfinished",
        sum(file.stat().st_size for file in record.parent.rglob("*") if file.is_file()),
        record,
        _sealed(record),
    )


def limit() -> int:
    """How many runs stay; 0: all. Raises SessionError where the setting is no number."""
    said = os.environ.get(SETTING, "").strip()
    if said and not (said.isascii() and said.isdigit()):
        raise SessionError(f"{SETTING}={said!r}: expected a whole number of runs to keep (0 keeps all)")
    return int(said) if said else KEPT


def tidy(folder: Path, keep: int) -> list[Path]:
    """Remove the oldest runs beyond ``keep`` (0: none); the folders that are gone.

    A run stays where its record has no end (it may be under way) and where its journal may have something to put back.
    """
    beyond = runs(folder)[keep:] if keep else []
    if not beyond:
        return []
    open_journals = {path.parent for path, _ in local(folder)}
    gone = []
    for record in beyond:
        with suppress(FileNotFoundError):  # another killcheck was faster
            if record.parent not in open_journals and _ends(record)[1].get("event") == "RunFinished":
                shutil.rmtree(record.parent, ignore_errors=True)
                gone.append(record.parent)
    return gone


def own_ignore(folder: Path) -> None:
    """Keep a state folder out of the repository that it lies in: records name what a cluster has."""
    own(folder).mkdir(parents=True, exist_ok=True)
    with suppress(FileExistsError), (folder / ".gitignore").open("x", encoding="utf-8") as file:
        file.write("# Written by killcheck: runs and journals are this machine's.\n*\n")


def _sealed(record: Path) -> bool:
    chain = Chain()
    with record.open(encoding="utf-8", errors="replace") as file, suppress(ChainBroken):
        for line in file:
            chain.follow(line.rstrip("\n"))
        return chain.whose is Whose.OURS
    return False


def _ends(record: Path) -> tuple[dict[str, Any], dict[str, Any]]:
    """A record's first and last line; empty where one is no JSON object."""
    with record.open("rb") as file:
        first = file.readline(LONGEST)
        file.seek(max(0, record.stat().st_size - LAST))
        lines = file.read().splitlines()
    return _object(first), _object(lines[-1] if lines else b"")


def _object(line: bytes) -> dict[str, Any]:
    try:
        found = from_text(line)
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}
