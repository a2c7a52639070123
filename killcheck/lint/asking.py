"""Asks every probe about objects from manifests or from a live cluster, and sorts out what is suppressed or known."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import date, datetime
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from killcheck import discover
from killcheck.discover.shapes import read_as_typed
from killcheck.kube import blame, gpus, releases
from killcheck.kube.manifests import STUMBLES
from killcheck.kube.objects import Obj, annotations_of, ref_of
from killcheck.spec import killpath
from killcheck.spec.killpath import KillPath
from killcheck.text.files import bytes_of, put
from killcheck.text.jsontext import from_text
from killcheck.text.redaction import clean
from killcheck.text.values import replace
from killcheck.verdict import EXIT_CODES

if TYPE_CHECKING:
    from killcheck.kube.manifests import Loaded
    from killcheck.probes import Finding, Probe, Severity, World
    from killcheck.rehearsal.record import Rehearsed

__all__ = ["BaselineError", "LintResult", "ask", "lint", "read_baseline", "world_of", "write_baseline"]

#: ``killcheck.dev/ignore: "false-green until 2026-12-31: reason"``, entries apart by ';' or lines.
ANNOTATION = "killcheck.dev/ignore"


class BaselineError(Exception):
    """The baseline file cannot be used; the message names it and says why."""


class LintResult(Struct, frozen=True):
    """What the probes found. ``suppressed`` and ``known`` (from a baseline) do not count; ``asked`` are probes' ids.

    ``baselined``: there was a baseline, so that what is left is new. ``probes`` are those that were asked.
    ``rehearsed`` are the programs that were fired once and watched: of these it was seen, the rest was read.
    """

    kill_path: KillPath
    findings: tuple[Finding, ...]
    suppressed: tuple[Finding, ...] = ()
    known: tuple[Finding, ...] = ()
    notes: tuple[str, ...] = ()
    asked: tuple[str, ...] = ()
    baselined: bool = False
    probes: tuple[Probe, ...] = ()
    rehearsed: tuple[Rehearsed, ...] = ()

    def at_or_above(self, severity: Severity) -> tuple[Finding, ...]:
        """The findings that fail at this severity. What is unproven is not at fault."""
        from killcheck.probes import SEVERITIES

        bad = SEVERITIES[: SEVERITIES.index(severity) + 1]
        return tuple(f for f in self.findings if f.severity in bad and not (f.unproven and severity != "note"))

    def exit_code(self, fail_on: Severity) -> int:
        """0, or 1 where something is at or above the failing severity."""
        return EXIT_CODES["exposed"] if self.at_or_above(fail_on) else EXIT_CODES["proven"]

    def to_json(self, fail_on: Severity) -> dict[str, Any]:
        """One document of schema killcheck.result/v1."""
        return {
            "schema": "killcheck.result/v1",
            "command": "lint",
            "kill_path": self.kill_path.name,
            "kubernetes": releases.told(self.kill_path.kubernetes_version) if self.kill_path.in_kubernetes else None,
            "verdict": "exposed" if self.at_or_above(fail_on) else "clean",
            "exit_code": self.exit_code(fail_on),
            "drills": [],
            "findings": [finding.to_json() for finding in self.findings],
            "fences": [],
            "suppressed": [finding.to_json() for finding in self.suppressed],
            "baseline": len(self.known),
            "notes": list(self.notes),
            **({"rehearsed": [one.to_json() for one in self.rehearsed]} if self.rehearsed else {}),
        }


# -- asking ------------------------------------------------------------------------------------------------
def world_of(
    objects: Sequence[Obj] | Loaded,
    now: datetime,
    *,
    kill_path: KillPath | None = None,
    live: bool = False,
    unread: dict[str, str] | None = None,
    listed: Iterable[str] = (),
    verbose: bool = False,
    rehearsed: Mapping[str, Rehearsed] | None = None,
    kubernetes_version: str = "",
) -> tuple[World, tuple[str, ...]]:
    """The probes' world, and notes on how its kill path was found (where no spec says it).

    What was ``rehearsed`` answers the questions that it can answer; reading answers the others. ``kubernetes_version``:
    that of the cluster which is asked about, where it is not the spec's. Raises DiscoveryError where nothing asks for a
    GPU.
    """
    from killcheck.kube.manifests import Loaded as _Loaded
    from killcheck.probes import World

    loaded = objects if isinstance(objects, _Loaded) else None
    found = [o for o in (loaded.objects if loaded else objects) if o.get("apiVersion") != killpath.API_VERSION]  # type: ignore[union-attr]
    notes: tuple[str, ...] = loaded.notes if loaded else ()
    if loaded is not None:
        fired = discover.fired_files(rehearsed or {})
        left = replace(loaded, skipped=tuple(one for one in loaded.skipped if one.file not in fired))
        notes += tuple(
            left.passed_over(spec=kill_path is not None, verbose=verbose, harmless=not verbose)
        )  # findings tell the rest
    if kill_path is None:
        with read_as_typed(lambda: loaded):
            kill_path, more = _found_path(found, loaded, rehearsed or {})
        notes += more
    if kubernetes_version:
        kill_path = replace(kill_path, kubernetes_version=kubernetes_version)
    with gpus.as_said(kill_path.accelerators), read_as_typed(lambda: loaded):
        return World(
            found, kill_path, now, loaded, live, unread or {}, frozenset(listed), rehearsed=rehearsed or {}
        ), notes


def _found_path(
    objects: list[Obj],
    loaded: Loaded | None,
    rehearsed: Mapping[str, Rehearsed],
) -> tuple[KillPath, tuple[str, ...]]:
    """The kill path among objects. Holders without any layer are a kill path too, and its findings say so.

    So are objects that name GPUs and are not understood, or files that were not read: there is something to say.
    """
    try:
        whole = replace(loaded, notes=()) if loaded else objects
        found = discover.from_objects(whole, rehearsed=rehearsed, complete=False)
    except discover.DiscoveryError as error:
        if not error.something:
            raise
        return KillPath("not-found", (), ()), tuple(str(error).splitlines()[:1])
    unread = tuple(f"not understood: {what}" for what in found.not_understood)
    if found.kill_path.layers:
        return found.kill_path, unread
    return found.kill_path, (*found.notes, *unread)


def ask(world: World, probes: Iterable[Probe]) -> Iterator[Finding]:
    """Every finding of these probes, and for each what it could not read: a question without an answer is said."""
    for probe in probes:
        if probe.live and not world.live:
            yield probe.unproven(world, None, "only a running cluster can tell (lint --on CONTEXT)")
            continue
        world.asked.clear()
        try:
            found = list(dict.fromkeys(probe.ask(world)))
        except STUMBLES as error:
            obj = blame.blamed(error, world.objects)
            if obj is None:
                raise
            yield _unanswered(probe, world, obj)
            continue
        for kind in sorted({*probe.needs, *world.asked} & set(world.unread)):
            yield probe.unproven(world, None, f"{kind}s could not be read: {world.unread[kind]}")
        yield from found


def _unanswered(probe: Probe, world: World, obj: Obj) -> Finding:
    """An error: one odd object must not silence a question about all the others."""
    message = f"{blame.told(obj)}, so it is not known whether this holds: {probe.claim}"
    remedy = "Give its fields the types that its API has, or leave it out (--exclude, .killcheckignore)."
    return probe.finding(world, obj, ("kind",), message, remedy=remedy, severity="error")


def lint(
    world: World,
    *,
    notes: Sequence[str] = (),
    baseline: frozenset[str] | None = None,
    probes: Sequence[Probe] = (),
) -> LintResult:
    """Ask every probe (or ``probes``); suppressions that have expired are findings of their own again.

    Raises ManifestError where a manifest's values are such that a probe cannot read them.
    """
    from killcheck.probes import ALL, REHEARSED

    chosen = probes or (*ALL, *(REHEARSED if world.rehearsed else ()))
    with gpus.as_said(world.kill_path.accelerators), read_as_typed(lambda: world.loaded):
        return _asked(world, (*notes, *_not_rehearsed(world)), baseline, chosen)


def _not_rehearsed(world: World) -> list[str]:
    """The programs that could not be run: of these is known what reading them says."""
    from killcheck.rehearsal.record import NOT_FIRED

    return [
        f"{ref} could not be rehearsed, and was read: {one.why_unknown}"
        for ref, one in world.rehearsed.items()
        if not one.known and one.first.why != NOT_FIRED
    ]


def _asked(
    world: World,
    notes: tuple[str, ...],
    baseline: frozenset[str] | None,
    chosen: Sequence[Probe],
) -> LintResult:
    from killcheck.probes import SEVERITIES

    found, suppressed, known = [], [], []
    annotated = {
        ref_of(obj): list(_annotated(annotations_of(obj)[ANNOTATION]))
        for obj in world.objects
        if ANNOTATION in annotations_of(obj)
    }
    for finding in ask(world, chosen):
        until = _suppressed_until(world.kill_path, annotated, finding)
        if until is not None and until >= world.now.date():
            suppressed.append(finding)
        elif _fingerprint(finding) in (baseline or ()):
            known.append(finding)
        elif until is not None:
            message = f"{finding.message} (a suppression of it ended on {until})"
            found.append(replace(finding, message=message))
        else:
            found.append(finding)
    found.sort(key=lambda f: (f.unproven, SEVERITIES.index(f.severity), -f.gpus, _in_order(f.object)))
    return LintResult(
        world.kill_path,
        clean(tuple(found)),
        tuple(suppressed),
        tuple(known),
        notes,
        tuple(p.id for p in chosen),
        baseline is not None,
        tuple(chosen),
        clean(tuple(world.rehearsed.values())),
    )


# -- what is suppressed ------------------------------------------------------------------------------------
def _in_order(name: str) -> list[tuple[int, int | str]]:
    """A key that sorts line 3 of a file before line 14."""
    parts = re.split(r"([0-9]{1,18})", name)
    return [(0, int(part)) if part.isascii() and part.isdigit() else (1, part) for part in parts]


def _suppressed_until(
    kill_path: KillPath,
    annotated: dict[str, list[tuple[str, date]]],
    finding: Finding,
) -> date | None:
    """The last day on which somebody decided to live with a finding; None: nobody did."""
    days = [
        entry.until
        for entry in kill_path.suppress
        if fnmatchcase(finding.probe, entry.probe) and fnmatchcase(finding.object, entry.object)
    ]
    days += [until for probe, until in annotated.get(finding.object, ()) if fnmatchcase(finding.probe, probe)]
    return max(days, default=None)


def _annotated(text: str) -> Iterator[tuple[str, date]]:
    """(probe, last day) of an annotation's entries; one without a reason or a date does not count."""
    for entry in text.replace("\n", ";").split(";"):
        head, colon, reason = entry.strip().partition(":")
        words = head.split()
        if len(words) == 3 and words[1] == "until" and colon and reason.strip():
            try:
                yield words[0], date.fromisoformat(words[2])
            except ValueError:
                continue


# -- what was there before ---------------------------------------------------------------------------------
def _fingerprint(finding: Finding) -> str:
    """What stays the same of a finding when lines move."""
    return f"{finding.probe}|{finding.object}|{finding.message}"


def read_baseline(path: Path) -> frozenset[str]:
    """The findings that a file of :func:`write_baseline` holds. Raises BaselineError."""
    try:
        document = from_text(bytes_of(path))
        return frozenset(f"{e['probe']}|{e['object']}|{e['message']}" for e in document["findings"])
    except OSError as error:
        raise BaselineError(f"{path}: {(error.strerror or str(error)).lower()}") from error
    except (ValueError, KeyError, TypeError) as error:
        why = f" ({error})" if isinstance(error, ValueError) else ""
        expected = "expected what killcheck lint --baseline FILE --write-baseline writes"
        raise BaselineError(f"{path}: not a baseline file of killcheck lint{why}: {expected}") from error


def write_baseline(path: Path, result: LintResult) -> int:
    """Write what was found (and what was known) as the baseline for later runs; answers how many entries it has."""
    findings = sorted({(f.probe, f.object, f.message) for f in (*result.findings, *result.known) if not f.unproven})
    entries = [{"probe": probe, "object": obj, "message": message} for probe, obj, message in findings]
    put(path, json.dumps({"schema": "killcheck.baseline/v1", "findings": entries}, indent=2) + "\n")
    return len(entries)
