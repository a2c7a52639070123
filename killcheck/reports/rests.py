"""What verdicts rest on, for every report alike: open entries of the ledger, assumptions, and notes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from killcheck.entries import Status, lines
from killcheck.reports.story import RunStory

__all__ = ["assumed_by_hand", "of_drill", "of_run", "shown_apart"]


def of_drill(result: Mapping[str, Any] | None) -> list[str]:
    """A line for each thing that a drill's verdict rests on; ``result`` is its JSON document."""
    return [*lines(result or {}), *_sandbox(result or {}), *_kubernetes(result or {})]


def _sandbox(result: Mapping[str, Any]) -> list[str]:
    """How well the programs of a drill were kept in, where any were run on this machine."""
    level = result.get("sandbox")
    if not level:
        return []
    return ["programs ran unisolated" if level == "unisolated" else f"programs ran in the sandbox: {level}"]


def _kubernetes(result: Mapping[str, Any]) -> list[str]:
    """The release that was drilled on: on another one gates, defaults and types may be others."""
    return [f"Kubernetes {result['kubernetes']}"] if result.get("kubernetes") else []


def of_run(story: RunStory) -> list[str]:
    """The same of a whole run, each line once, after what was noted about the run itself."""
    return list(dict.fromkeys([*story.notes, *(line for drill in story.drills for line in of_drill(drill.result))]))


def shown_apart(result: Mapping[str, Any]) -> list[str]:
    """Those lines that nobody has read as a note while the drill went on."""
    return [line for line in of_drill(result) if line not in (result.get("notes") or ())]


def assumed_by_hand(results: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """The entries that a person vouches for, each once."""
    found = [
        entry
        for result in results
        for entry in result.get("ledger") or ()
        if entry["status"] == Status.ASSUMED and entry.get("until")
    ]
    return [entry for i, entry in enumerate(found) if entry not in found[:i]]
