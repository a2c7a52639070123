"""What a search has found so far, in a file: the next search goes on from there instead of trying it all again.

A line a scenario, as it ended. What is kept of one spec and its manifests says nothing of others.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any, Self

from killcheck import __version__
from killcheck.run.combinations import Found, Scenario
from killcheck.run.session import Session, SessionError
from killcheck.run.subjects import of_session

__all__ = ["Kept"]

SCHEMA = "killcheck.explored/v1"
#: How a search tells of a scenario that the machine ended: another time it may end otherwise.
_MACHINE = ("its process died", "took longer than")


@dataclass
class Kept:
    """The scenarios of a file, by what they are. ``known``: those that were in it."""

    path: Path
    known: dict[Scenario, Found] = field(default_factory=dict)
    _file: IO[str] | None = None

    @classmethod
    def of(cls, path: Path, session: Session) -> Self:
        """Those of a file, made where there is none. Raises SessionError where it is of something else, OSError."""
        head = _head(session)
        lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
        if lines and _object(lines[0]) != head:
            raise SessionError(
                f"{path}: it was kept of another spec, other manifests or by another killcheck: name another file"
            )
        found = [one for one in map(_found, lines[1:]) if one is not None]
        kept = cls(path, {one.scenario: one for one in found})
        whole = [head, *map(_line, kept.known.values())]  # without a last line that a kill cut short
        path.write_text("".join(f"{json.dumps(one)}\n" for one in whole), encoding="utf-8")
        kept._file = path.open("a", encoding="utf-8")
        return kept

    def __call__(self, found: Found) -> None:
        """Keep what a scenario ended with, at once; not what only the machine ended."""
        if self._file is not None and not any(said in found.why for said in _MACHINE):
            self._file.write(f"{json.dumps(_line(found))}\n")
            self._file.flush()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._file is not None:
            self._file.close()


def _head(session: Session) -> dict[str, Any]:
    subjects = of_session(session)
    return {"schema": SCHEMA, "version": __version__, "spec": subjects.spec, "manifests": subjects.manifests}


def _line(found: Found) -> dict[str, Any]:
    return {
        "layer": found.scenario.layer,
        "faults": list(found.scenario.faults),
        "verdict": found.verdict,
        "why": found.why,
        "off_by": found.off_by,
    }


def _found(line: str) -> Found | None:
    said = _object(line)
    try:
        scenario = Scenario(str(said["layer"]), tuple(map(str, said["faults"])))
        return Found(scenario, str(said["verdict"]), str(said["why"]), str(said["off_by"]))
    except (KeyError, TypeError):
        return None


def _object(line: str) -> dict[str, Any]:
    try:
        found = json.loads(line)
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}
