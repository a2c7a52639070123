"""How a fleet stands: each shard by the nights that its records hold, and what was never drilled."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from msgspec import Struct

from killcheck.events import Event, Subjects, from_json
from killcheck.fleet.file import Fleet, Shard
from killcheck.fleet.searches import EXPLORED, NEVER, SearchRow, searches
from killcheck.history.index import History, gather
from killcheck.history.nights import Night
from killcheck.history.places import Place, place_of
from killcheck.history.series import Stand, Story, told
from killcheck.proof.statement import subjects_of
from killcheck.run.chosen import chosen
from killcheck.run.subjects import of_session
from killcheck.text.values import replace
from killcheck.verdict import EXIT_CODES

__all__ = ["EXPLORED", "NEVER", "Row", "Standing", "code_of", "fresh", "standing"]


class Row(Struct, frozen=True):
    """A shard. ``story``: what its records say; it has no series where there are none.

    ``changed``: its last run was of another spec, or of other manifests, than are in hand.
    """

    shard: Shard
    story: Story
    changed: bool = False

    @property
    def word(self) -> str:
        """How it stands; what was proven of another spec or other manifests is proven no longer."""
        if not self.story.series:
            return NEVER
        passes = self.story.stand in (Stand.PROVEN, Stand.ACCEPTED)
        return str(Stand.STALE if self.changed and passes else self.story.stand)

    @property
    def proven_at(self) -> float | None:
        """When all of it was last proven (Unix time): its oldest proof counts. None: something of it never was."""
        proofs = [one.last_proven for one in self.story.series]
        return min((one.at for one in proofs if one), default=None) if all(proofs) else None

    @property
    def unproven_s(self) -> float | None:
        """For how long it has not been proven, in seconds; None: never was."""
        return None if self.proven_at is None else max(0.0, self.story.now - self.proven_at)

    @property
    def usd(self) -> float:
        """At risk until its layers' next chance, where they stand exposed."""
        return self.story.at_risk_usd

    @property
    def lines(self) -> list[str]:
        """What is not proven of it, and what could not be read."""
        cells = [one for one in self.story.series if one.stand not in (Stand.PROVEN, Stand.ACCEPTED)]
        told = [
            f"{one.last.layer}, {one.under}: {one.stand}{f': {one.last.cause}' if one.last.cause else ''}"
            for one in cells
        ]
        changed = ["what is in hand is not what was drilled: drill again"] if self.changed else []
        return [*changed, *told, *(f"passed over: {one}" for one in self.story.unreadable)]

    def to_json(self) -> dict[str, Any]:
        """For JSON documents."""
        return {
            "shard": self.shard.key,
            "cluster": self.shard.cluster,
            "context": self.shard.context,
            "kill_path": self.shard.kill_path,
            "stand": self.word,
            "changed": self.changed,
            "proven_at": self.proven_at,
            "unproven_s": None if self.unproven_s is None else round(self.unproven_s),
            "at_risk_usd": round(self.usd, 2),
            "cells": [
                {"layer": one.last.layer, "under": one.under, "stand": str(one.stand), "cause": one.last.cause}
                for one in self.story.series
            ],
            "unreadable": list(self.story.unreadable),
        }


class Standing(Struct, frozen=True):
    """All of a fleet; those that need somebody first."""

    fleet: Fleet
    now: float
    rows: tuple[Row | SearchRow, ...]

    @property
    def exit_code(self) -> int:
        """1: something stands exposed; 3: something is not proven, or its proof is too old; else 0."""
        words = {row.word for row in self.rows}
        if Stand.EXPOSED in words:
            return EXIT_CODES["exposed"]
        return EXIT_CODES["proven" if words <= {Stand.PROVEN, Stand.ACCEPTED, EXPLORED} else "inconclusive"]

    @property
    def sentence(self) -> str:
        """How it stands, for somebody who reads one line."""
        count = Counter(row.word for row in self.rows)
        parts = [f"{count[word]} {word}" for word in _ORDER if count[word]]
        return f"Of {len(self.rows)} kill path(s) on clusters: {', '.join(parts)}."

    @property
    def usd(self) -> float:
        """At risk in all."""
        return sum(row.usd for row in self.rows)

    def to_json(self) -> dict[str, Any]:
        """The document."""
        return {
            "schema": "killcheck.fleet/v1",
            "fleet": self.fleet.name,
            "exit_code": self.exit_code,
            "at_risk_usd": round(self.usd, 2),
            "count": dict(sorted(Counter(row.word for row in self.rows).items())),
            "shards": [row.to_json() for row in self.rows],
        }


_ORDER = (Stand.EXPOSED, NEVER, Stand.INCONCLUSIVE, Stand.STALE, Stand.ACCEPTED, EXPLORED, Stand.PROVEN)


def standing(
    fleet: Fleet,
    now: float,
    *,
    stale_after_s: float,
    index: Path | None,
    anyway: bool = False,
    place: Callable[[str], Place] = place_of,
) -> Standing:
    """What the records of all shards say. ``anyway``: also what this machine did not seal. Raises PlaceError."""

    def row(shard: Shard) -> Row:
        story = told(_history(fleet, shard, index, place, anyway=anyway), now=now, stale_after_s=stale_after_s)
        last = story.nights[-1].run if story.nights else None
        return Row(shard, story, last is not None and not _same(fleet, shard, last, place))

    rows: list[Row | SearchRow] = [row(one) for one in fleet.shards if one.search is None]
    rows += searches(fleet)
    rows.sort(key=lambda row: (_ORDER.index(row.word), -row.usd, row.shard.key))
    return Standing(fleet, now, tuple(rows))


def fresh(
    fleet: Fleet, shard: Shard, now: float, within_s: float, *, place: Callable[[str], Place] = place_of
) -> list[Night] | None:
    """The nights of a shard's last run, where that came to its end so short ago, and was of what is in hand; None: it
    is to be drilled. A search goes on from what it kept, however old that is.

    Raises PlaceError, and what reading its spec and manifests does.
    """
    if shard.search is not None:
        return None
    found = _history(fleet, shard, None, place)
    ended = [night for night in found.nights if night.sealed and now - within_s <= night.at <= now]
    if not ended or not _same(fleet, shard, ended[-1].run, place):
        return None
    return [night for night in ended if night.run == ended[-1].run]


def code_of(nights: Sequence[Night]) -> int:
    """The exit code of a run by its nights."""
    if any(night.dirty for night in nights):
        return EXIT_CODES["dirty"]
    words = {night.standing for night in nights}
    if "exposed" in words:
        return EXIT_CODES["exposed"]
    return EXIT_CODES["proven" if words <= {"survived", "covered", "accepted"} else "inconclusive"]


def _history(
    fleet: Fleet, shard: Shard, index: Path | None, place: Callable[[str], Place], *, anyway: bool = False
) -> History:
    """What the records of a shard say of its kill path."""
    where = fleet.place(shard)
    there = fleet.in_bucket or Path(where).is_dir()
    found = gather([place(where)] if there else [], index, anyway=anyway)
    ours = (shard.kill_path, shard.context)
    return replace(found, nights=tuple(night for night in found.nights if (night.kill_path, night.cluster) == ours))


def _same(fleet: Fleet, shard: Shard, run: str, place: Callable[[str], Place]) -> bool:
    """Whether what is in hand is what a run drilled, as far as its record says."""
    where = place(fleet.place(shard))
    was = [subjects_of(_events(where.lines(one.name))) for one in where.listed() if run in Path(one.name).parts]
    now = of_session(chosen(spec=shard.spec, on=shard.context, manifests=shard.manifests, exec_mode=shard.exec_mode))
    return any((one.spec, one.manifests) == (now.spec, now.manifests) for one in was)


def _events(lines: Iterable[str]) -> Iterator[Event]:
    """Those of a record that say what was drilled; the record was read before."""
    for line in lines:
        if line.startswith(f'{{"event":"{Subjects.kind}"'):
            event = from_json(json.loads(line))
            if event is not None:
                yield event
