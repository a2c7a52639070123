"""From a run record to an in-toto statement: what was drilled (subjects), and what came of it (predicate).

Source: in-toto Attestation Framework, spec/v1 (statement.md, resource_descriptor.md).
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

from killcheck.entries import lines
from killcheck.events import DrillFinished, DrillStarted, Event, Noted, RunFinished, RunStarted
from killcheck.events import Subjects as SubjectsEvent
from killcheck.kube.objects import format_time
from killcheck.proof.errors import ProofError, Refused
from killcheck.run.chain import Chain
from killcheck.run.record import believed, read
from killcheck.run.subjects import Subjects
from killcheck.text.files import bytes_of
from killcheck.verdict import DrillResult, overall

__all__ = ["MANIFESTS", "PREDICATE_TYPE", "SPEC", "STATEMENT_TYPE", "statement", "subjects_of", "validated"]

STATEMENT_TYPE = "https://in-toto.io/Statement/v1"
PREDICATE_TYPE = "https://killcheck.dev/attestation/kill-path/v1"
#: What the subjects are called that are not images.
SPEC, MANIFESTS = "killcheck.yaml", "manifests"
#: Of a drill's result, what an auditor reads; logs and evidence stay in the record.
_TOLD = (
    "layer", "faults", "title", "verdict", "why", "off_by", "stuck_at", "cause", "remedy", "seconds_to_zero",
    "seconds_to_drained", "watched_s", "usd", "usd_per_hour", "usd_until_next_chance", "noticed", "phases", "bites",
    "notes", "problems", "sandbox", "kubernetes", "accepted", "ledger", "ledger_counts",
)  # fmt: skip


def statement(record: Path, now: datetime, *, anyway: bool = False) -> dict[str, Any]:
    """The statement of a run. ``anyway``: also of a record that this machine did not write, which it then says.

    Raises RecordError for what is no record or was changed, UnsealedError, OSError, and Refused where it does not say
    enough to certify anything.
    """
    chain = Chain()
    told = list(read(record, chain))
    started, finished = told[0], told[-1]
    if not isinstance(started, RunStarted) or not isinstance(finished, RunFinished):
        raise Refused(f"{record}: the run did not end, so nothing is certified: drill again")
    taken = believed(record, chain, anyway=anyway)
    if not started.at <= finished.at <= now:
        raise Refused(f"{record}: its run ended before it began, or ends in the future: nothing is certified")
    if any(one.get("fixture") for one in started.drills):
        raise Refused(f"{record}: its drills are of examples, not of one kill path: nothing is certified")
    results = _results(record, told, len(started.drills))
    subjects = subjects_of(told)
    if not (subjects.spec or subjects.manifests):
        raise Refused(f"{record}: it does not say what was drilled (an older version wrote it): drill again")
    verdict, _ = overall([DrillResult.from_json(one) for one in results])
    return {
        "_type": STATEMENT_TYPE,
        "subject": list(_descriptors(subjects)),
        "predicateType": PREDICATE_TYPE,
        "predicate": {
            "killPath": started.kill_path,
            "cluster": started.cluster,
            "real": started.real,
            "run": started.run,
            "verdict": verdict,
            "proven": verdict in ("survived", "covered"),
            "times": {name: format_time(at) for name, at in _times(started, finished, now)},
            "versions": {"killcheck": started.version},
            "record": {
                "sha256": hashlib.sha256(bytes_of(record)).hexdigest(),
                "chain": chain.head if chain.kept else None,
                "lines": chain.lines,
                "sealed": taken is None,
            },
            "drills": results,
            "assumptions": [*_unsealed(taken), *_assumptions(started, told, results, subjects)],
            "subjects": subjects.to_json(),
        },
    }


def _unsealed(why: str | None) -> list[str]:
    return [] if why is None else [f"the record was taken on the word of who certified it (--unsealed): {why}"]


def validated(said: Mapping[str, Any]) -> None:
    """Raise ProofError where the library is missing, ValueError for what is no in-toto statement of version 1."""
    try:
        from google.protobuf.json_format import ParseDict, ParseError
        from in_toto_attestation.v1.statement import Statement
        from in_toto_attestation.v1.statement_pb2 import Statement as Message
    except ImportError as error:
        raise ProofError(
            f"certificates are in-toto statements ({error.name} is not there): pip install 'killcheck[proof]'"
        ) from error
    try:
        Statement.copy_from_pb(ParseDict(dict(said), Message())).validate()
    except ParseError as error:
        raise ValueError(str(error)) from error


def _times(started: Event, finished: Event, now: datetime) -> list[tuple[str, datetime]]:
    return [("started", started.at), ("finished", finished.at), ("certified", now)]


def _results(record: Path, told: Iterable[Event], planned: int) -> list[dict[str, Any]]:
    """Each drill's, with its deadlines. Raises Refused where one has none."""
    begun = {event.drill: event for event in told if isinstance(event, DrillStarted)}
    ended = [event for event in told if isinstance(event, DrillFinished)]
    if len(ended) != planned or len(begun) > planned:
        raise Refused(f"{record}: {planned} drill(s) were begun and {len(ended)} ended, so nothing is certified")
    found = []
    for event in ended:
        deadlines = begun[event.drill].deadlines if event.drill in begun else {}
        found.append({key: event.result.get(key) for key in _TOLD} | {"deadlines": deadlines})
    return found


def subjects_of(told: Iterable[Event]) -> Subjects:
    """What the drills of a record are of."""
    found = [event for event in told if isinstance(event, SubjectsEvent)]
    objects = {ref: digest for event in found for ref, digest in event.objects.items()}
    unread = sorted({digest for event in found for digest in event.unread})
    images = sorted({image for event in found for image in event.images})
    kept_back = sorted({ref for event in found for ref in event.withheld})
    spec = next((event.spec for event in found if event.spec), "")
    return Subjects(spec, objects, tuple(unread), tuple(images), tuple(kept_back))


def _descriptors(subjects: Subjects) -> Iterable[dict[str, Any]]:
    named = {SPEC: subjects.spec, MANIFESTS: subjects.manifests, **subjects.pinned}
    for name, digest in named.items():
        if digest:
            yield {"name": name, "digest": {"sha256": digest.removeprefix("sha256:")}}


def _layers(started: RunStarted) -> list[str]:
    """The layers of the kill path, as far as the record knows where they are declared."""
    places = started.spec.get("places")
    return [str(name) for name in places] if isinstance(places, dict) else []


def _assumptions(
    started: RunStarted, told: Iterable[Event], results: Iterable[Mapping[str, Any]], subjects: Subjects
) -> list[str]:
    """What the verdicts rest on, and what nobody looked at; each once."""
    noted = [event.text for event in told if isinstance(event, Noted) and not event.drill]
    found = [*noted, *(line for result in results for line in lines(result))]
    drilled = {result["layer"] for result in results}
    found += [f"{name} was not drilled in this run" for name in _layers(started) if name not in drilled]
    if started.real:
        found.append(f"drilled on {started.cluster} as it was: no manifests were compared with what runs there")
    elif started.cluster == "embedded":
        found.append("drilled on the embedded cluster: container runtimes and GPU drivers are not modelled")
    found += [
        f"{image} is named by a tag, which is no digest: what it leads to may change" for image in subjects.unpinned
    ]
    if any(ref.startswith("Secret/") for ref in subjects.objects):
        found.append("what Secrets hold is not among the subjects: only their names and keys are")
    if subjects.withheld:
        found.append(f"values that {', '.join(subjects.withheld)} call secrets are not among the subjects")
    if subjects.unread:
        found.append(
            f"{len(subjects.unread)} file(s) of the manifests could not be read; they are compared as they are"
        )
    return list(dict.fromkeys(found))
