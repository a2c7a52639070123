"""What a search has found so far, in a file: the next search goes on from there instead of trying it all again.

A line a scenario, as it ended, each with this machine's seal over it and the seal before it: a checkout that brings
such a file is not believed. What is kept of one spec and its manifests says nothing of others.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import IO, Any, Self

from msgspec import Struct, field

from killcheck.run.combinations import Found, Scenario
from killcheck.run.session import Session, SessionError
from killcheck.run.subjects import of_session
from killcheck.safety.keys import VARIABLE, KeyProblem, known_keys
from killcheck.safety.seals import Purpose, Whose, seal, whose
from killcheck.text.files import lines_of, opened, put
from killcheck.text.jsontext import from_text
from killcheck.version import __version__

__all__ = ["Kept", "kept_elsewhere"]

SCHEMA = "killcheck.explored/v2"
SEAL = "seal"


class Kept(Struct):
    """The scenarios of a file, by what they are. ``known``: those that were in it and that this machine sealed."""

    path: Path
    known: dict[Scenario, Found] = field(default_factory=dict)
    _file: IO[str] | None = None
    _before: str = ""

    @classmethod
    def of(cls, path: Path, session: Session) -> Self:
        """Those of a file, made where there is none.

        Raises SessionError where it is of something else or of another machine, and where there is no key; OSError.
        """
        head = _head(session)
        kept = cls(path, {one.scenario: one for one in _read(path, head)} if path.exists() else {})
        kept._begin([head, *map(_line, kept.known.values())])
        return kept

    def _begin(self, whole: Iterable[dict[str, Any]]) -> None:
        """Write the file anew: without what a kill cut short, and what does not follow."""
        text = "".join(map(self._next, whole))
        put(self.path, text)
        self._file = self.path.open("a", encoding="utf-8")

    def _next(self, said: dict[str, Any]) -> str:
        """The next line, sealed. Raises SessionError where there is no key."""
        try:
            self._before = seal(Purpose.EXPLORED, _over(self._before, said))
        except KeyProblem as error:
            raise SessionError(f"{self.path}: what is kept there is sealed: {error}") from error
        return f"{json.dumps({**said, SEAL: self._before})}\n"

    def __call__(self, found: Found) -> None:
        """Keep what a scenario ended with, at once; not what only the machine ended."""
        if self._file is not None and not found.died:
            self._file.write(self._next(_line(found)))
            self._file.flush()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._file is not None:
            self._file.close()


def kept_elsewhere(places: Iterable[Path], session: Session) -> dict[Scenario, Found]:
    """What other searches kept of this spec and these manifests: each a file, or a folder with some below it.

    In a folder what is of something else is passed over. Raises SessionError for a file that is, or that this machine
    did not seal; OSError.
    """
    head = _head(session)
    trees = (file for place in places for file in (_trees(place, head) if place.is_dir() else [place]))
    return {one.scenario: one for file in trees for one in _read(file, head)}


def _trees(folder: Path, head: dict[str, Any]) -> Iterator[Path]:
    for file in filter(Path.is_file, sorted(folder.rglob("*.jsonl"))):
        if _bare(next(lines_of(file), "")) == head:
            yield file


def _read(path: Path, head: dict[str, Any]) -> list[Found]:
    """The scenarios of a file. Raises SessionError where it is of something else or of another machine; OSError."""
    lines = _lines(path)
    if lines and _bare(lines[0]) != head:
        raise SessionError(
            f"{path}: it was kept of another spec, other manifests or by another killcheck: name another file"
        )
    sealed = _sealed(lines)
    if lines and not sealed:
        raise SessionError(
            f"{path}: this machine did not seal it, so nothing in it is believed: name another file (machines "
            f"with the same {VARIABLE} go on with each other's)"
        )
    return [one for one in map(_found, sealed[1:]) if one is not None]


def _bare(line: str) -> dict[str, Any]:
    return {key: value for key, value in _object(line).items() if key != SEAL}


def _sealed(lines: Iterable[str]) -> list[dict[str, Any]]:
    """The first lines that follow one another by this machine's seals."""
    found: list[dict[str, Any]] = []
    before, keys = "", known_keys()
    for one in map(_object, lines):
        bare = {key: value for key, value in one.items() if key != SEAL}
        if whose(Purpose.EXPLORED, _over(before, bare), str(one.get(SEAL, "")), keys) is not Whose.OURS:
            break
        before = one[SEAL]
        found.append(bare)
    return found


def _over(before: str, said: dict[str, Any]) -> str:
    """What a line's seal is over."""
    return f"{before}\n{json.dumps(said, sort_keys=True)}"


def _lines(path: Path) -> list[str]:
    with opened(path) as kept:
        return kept.read().decode("utf-8", "replace").splitlines()


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


def _found(said: dict[str, Any]) -> Found | None:
    try:
        scenario = Scenario(str(said["layer"]), tuple(map(str, said["faults"])))
        return Found(scenario, str(said["verdict"]), str(said["why"]), str(said["off_by"]))
    except (KeyError, TypeError):
        return None


def _object(line: str) -> dict[str, Any]:
    try:
        found = from_text(line)
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}
