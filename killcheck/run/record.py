"""The run record: one JSON-lines file that holds everything that was seen, written as it happens."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import IO, Self

from msgspec import ValidationError, convert, structs

from killcheck.events import Event, RunFinished, RunStarted, from_json
from killcheck.run.chain import Chain, ChainBroken
from killcheck.safety.keys import VARIABLE
from killcheck.safety.seals import Whose
from killcheck.text.files import bytes_of
from killcheck.text.jsontext import from_text
from killcheck.text.shown import plain_in

__all__ = ["NOT_OURS", "RecordError", "RecordWriter", "UnsealedError", "believed", "read"]

#: Why a record proves nothing, by whose seal it has.
NOT_OURS = {
    Whose.NOBODYS: "it has no seal: its run was killed, an older killcheck wrote it, or somebody made it up",
    Whose.ANOTHERS: "another machine sealed it, or somebody made it up",
}
_ANYWAY = f"drill here, share {VARIABLE} with the machine that drilled, or say --unsealed where you know who wrote it"
#: What a file should have been that is none.
_EXPECTED = "expected a run record, run.jsonl; killcheck runs lists those that are kept here"


class RecordError(Exception):
    """The file is not a run record; the message says where it stops being one."""


class UnsealedError(Exception):
    """A record that this machine did not write, and nobody said that it is to be believed; the message says why."""


class RecordWriter:
    """Writes each event as a line of a chain, flushed at once: a record cut short by a kill is complete up to there.

    The line with which its run ends is sealed: a record of a killed run has no seal. Of a run that is refused
    before its first drill no record stays: it would be the newest one, which is what every report is made of.
    """

    def __init__(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self.path = path
        self._chain = Chain()
        self._began = False
        self._file: IO[str] = path.open("w", encoding="utf-8")
        path.chmod(0o600)

    def __call__(self, event: Event) -> None:
        """Write an event."""
        self._began = self._began or bool(event.drill)
        line = json.dumps(event.to_json(), separators=(",", ":"))
        self._file.write(self._chain.add(line, last=isinstance(event, RunFinished)) + "\n")
        self._file.flush()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()
        if error is not None and not self._began:
            self.path.unlink()
            with suppress(OSError):  # a journal lies there, too
                self.path.parent.rmdir()

    def close(self) -> None:
        """Close the file after it has reached the disk; idempotent."""
        if not self._file.closed:
            self._file.flush()
            os.fsync(self._file.fileno())
            self._file.close()


def read(path: Path, chain: Chain | None = None) -> Iterator[Event]:
    """The events of a record, in order; a last line cut short by a kill is left out.

    ``chain``: follows the record's own, and knows at the end whether it has one, and which line was left out.
    Raises RecordError for a file that cannot be read, is not a run record, or was changed.
    """
    chain = Chain() if chain is None else chain
    try:
        lines = bytes_of(path).decode("utf-8-sig", "replace").splitlines()
    except OSError as error:
        raise RecordError(f"{path}: {(error.strerror or str(error)).lower()}: {_EXPECTED}") from error
    if not lines:
        raise RecordError(f"{path}:1: is empty: {_EXPECTED}")
    for number, line in enumerate(lines, 1):
        try:
            data = plain_in(from_text(line))
            chain.follow(line)
            event = _typed(from_json(data)) if isinstance(data, dict) else None
        except ChainBroken as error:
            raise RecordError(f"{path}:{number}: {error}") from error
        except (ValueError, TypeError, KeyError, RecursionError) as error:
            if number == len(lines) and number > 1:
                chain.cut = number
                return
            raise RecordError(f"{path}:{number}: not a line of a killcheck run record ({error})") from error
        if number == 1 and event is None:
            raise RecordError(f"{path}:1: not a killcheck run record: the first line must be a RunStarted event")
        if number > 1 and isinstance(event, RunStarted):  # of the first one nothing would be told
            raise RecordError(f"{path}:{number}: a second run begins here: a record is one run")
        if event is not None:
            yield event


def believed(path: Path, chain: Chain, *, anyway: bool) -> str | None:
    """Why a record, whose ``chain`` was followed to its end, has to be taken on somebody's word; None: it is ours.

    Raises UnsealedError where it is not, and nobody gave that word (``anyway``).
    """
    why = NOT_OURS.get(chain.whose)
    if why is not None and not anyway:
        raise UnsealedError(f"{path}: {why}. Nothing is proven by it: {_ANYWAY}")
    return why


def _typed(event: Event | None) -> Event | None:
    """The same, every field of its type: anybody may have written it. Raises ValueError."""
    if event is None:
        return None
    try:
        return convert(structs.asdict(event), type(event))
    except ValidationError as error:
        raise ValueError(f"{event.kind}: {error}") from error
