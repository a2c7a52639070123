"""What a certificate says, once its signature was checked, and whether that holds today for what is in hand."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import date, datetime, timedelta
from pathlib import Path
from typing import Any

from msgspec import Struct

from killcheck.kube.objects import parse_time
from killcheck.proof.errors import Refused
from killcheck.proof.signing import opened
from killcheck.proof.statement import MANIFESTS, PREDICATE_TYPE, SPEC
from killcheck.run.subjects import Subjects
from killcheck.verdict import DrillResult, overall

__all__ = ["Certificate", "check_dates", "check_subjects", "read"]

#: How far the clocks of two machines may be apart.
SKEW = timedelta(minutes=5)
#: So many objects are named that differ.
_NAMED = 5
DAY_S = 86400.0


class Certificate(Struct, frozen=True):
    """A certificate whose signature is good. ``subjects``: what was drilled; ``drills``: what came of it.

    ``record`` is the SHA-256 of the run record. ``assumptions`` are sentences.
    """

    file: Path
    key_id: str
    kill_path: str
    cluster: str
    real: bool
    run: str
    version: str
    record: str
    started: datetime
    finished: datetime
    certified: datetime
    drills: tuple[DrillResult, ...]
    subjects: Subjects
    assumptions: tuple[str, ...]

    @property
    def verdict(self) -> str:
        """That of the run, from its drills."""
        return overall(self.drills)[0]

    @property
    def exit_code(self) -> int:
        """As the run would have had it."""
        return overall(self.drills)[1]

    @property
    def word(self) -> str:
        """``proven``, ``accepted``, ``exposed``, ``inconclusive`` or ``dirty``."""
        return "proven" if self.verdict in ("survived", "covered") else self.verdict

    def to_json(self) -> dict[str, Any]:
        """For JSON documents."""
        return {
            "certificate": str(self.file),
            "key_id": self.key_id,
            "kill_path": self.kill_path,
            "cluster": self.cluster,
            "run": self.run,
            "verdict": self.word,
            "version": self.version,
            "record": self.record,
            "started": self.started.isoformat(),
            "finished": self.finished.isoformat(),
            "certified": self.certified.isoformat(),
            "drills": [one.to_json() for one in self.drills],
            "assumptions": list(self.assumptions),
            "unpinned": self.subjects.unpinned,
        }


def read(file: Path, key: Path) -> Certificate:
    """A certificate that the owner of this public key signed. Raises Refused, ProofError, OSError."""
    statement, key_id = opened(file, key)
    kind = statement.get("predicateType")
    if kind != PREDICATE_TYPE:
        raise Refused(f"{file}: refused: it is signed, and says nothing of a kill path: its predicate is {kind}")
    try:
        found = _read(file, key_id, statement["predicate"])
        _consistent(found, statement)
    except (KeyError, TypeError, AttributeError, ValueError) as error:
        raise Refused(
            f"{file}: refused: it is signed, and does not read as a certificate of killcheck's: {error}"
        ) from error
    return found


def _read(file: Path, key_id: str, said: Mapping[str, Any]) -> Certificate:
    times = {name: parse_time(str(said["times"][name])) for name in ("started", "finished", "certified")}
    subjects = said["subjects"]
    return Certificate(
        file,
        key_id,
        str(said["killPath"]),
        str(said["cluster"]),
        said["real"] is not False,
        str(said["run"]),
        str(said["versions"]["killcheck"]),
        str(said["record"]["sha256"]),
        **times,
        drills=tuple(DrillResult.from_json(one) for one in said["drills"]),
        subjects=Subjects(
            str(subjects["spec"]),
            {str(ref): str(digest) for ref, digest in subjects["objects"].items()},
            tuple(map(str, subjects["unread"])),
            tuple(map(str, subjects["images"])),
            tuple(map(str, subjects.get("withheld", ()))),
        ),
        assumptions=tuple(map(str, said["assumptions"])),
    )


def _consistent(found: Certificate, statement: Mapping[str, Any]) -> None:
    """Raise ValueError where it says two things at once: what reads only a part of it must not read another verdict."""
    said = statement["predicate"]
    if said["verdict"] != found.verdict or said["proven"] is not (found.word == "proven"):
        raise ValueError(f"its drills are {found.verdict}, and it says {said['verdict']}")
    named = {one["name"]: f"sha256:{one['digest']['sha256']}" for one in statement["subject"]}
    wanted = {SPEC: found.subjects.spec, MANIFESTS: found.subjects.manifests, **found.subjects.pinned}
    if named != {name: digest for name, digest in wanted.items() if digest}:
        raise ValueError("its subjects are not those of its predicate")


def check_dates(found: Certificate, now: datetime, max_age_s: float | None = None) -> None:
    """Raise Refused for a certificate of the future, one that is too old, and one that rests on what is over.

    Its age is that of its drills, from when they began, not of its signature.
    """
    if max(found.started, found.finished, found.certified) > now + SKEW:
        raise Refused(f"{found.file}: refused: its date is in the future: {_latest(found):%Y-%m-%d %H:%M} UTC")
    if not found.started <= found.finished <= found.certified:
        raise Refused(f"{found.file}: refused: its dates cannot be: it was certified before its drills ended")
    age_s = (now - found.started).total_seconds()
    if max_age_s is not None and age_s >= max_age_s:
        raise Refused(
            f"{found.file}: refused: its drills began {age_s / DAY_S:.1f} days ago, and it must be younger than "
            f"{max_age_s / DAY_S:g}: drill again"
        )
    for what, until in _promises(found):
        if date.fromisoformat(until) < now.date():
            raise Refused(f"{found.file}: refused: it rests on {what}, which ended on {until}: drill again")


def _latest(found: Certificate) -> datetime:
    return max(found.started, found.finished, found.certified)


def _promises(found: Certificate) -> Iterator[tuple[str, str]]:
    """What somebody vouched for until a last day."""
    for drill in found.drills:
        for entry in drill.ledger.entries if drill.ledger else ():
            if entry.until:
                yield f"an assumption ({entry.object}: {entry.because})", entry.until
        if drill.accepted is not None and drill.accepted.get("until"):
            yield f"an exposure that was accepted ({drill.layer})", drill.accepted["until"]


def check_subjects(found: Certificate, in_hand: Subjects) -> None:
    """Raise Refused where what is in hand is not what was drilled."""
    reason = next(_differences(found, in_hand), None)
    if reason is not None:
        raise Refused(f"{found.file}: refused: what is in hand is not what was drilled: {reason}")


def _differences(found: Certificate, in_hand: Subjects) -> Iterator[str]:
    was = found.subjects
    if was.spec != in_hand.spec:
        how = "differs" if was.spec and in_hand.spec else "is new" if in_hand.spec else "is not named"
        yield f"the spec {how} (the accepted exposures beside it count)"
    if in_hand.manifests and not was.manifests:
        yield f"it was drilled on {found.cluster}, and no manifests are in the certificate"
    if was.manifests != in_hand.manifests:
        yield _changed(was, in_hand)


def _changed(was: Subjects, now: Subjects) -> str:
    """Which objects differ, in a few words."""
    words = {
        "changed": [ref for ref, digest in now.objects.items() if was.objects.get(ref, digest) != digest],
        "new": [ref for ref in now.objects if ref not in was.objects],
        "gone": [ref for ref in was.objects if ref not in now.objects],
    }
    parts = [f"{', '.join(refs[:_NAMED])}{_more(refs)} {word}" for word, refs in words.items() if refs]
    if set(was.unread) != set(now.unread):
        parts.append("files that cannot be read differ")
    return "; ".join(parts)


def _more(refs: list[str]) -> str:
    return f" and {len(refs) - _NAMED} more" if len(refs) > _NAMED else ""
