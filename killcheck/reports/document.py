"""The JSON document of a run (schema ``killcheck.result/v1``), made again from its record.

``schemas/result-v1.json`` is its published JSON Schema: fields may be added within v1, none is taken away or
changes its meaning.
"""

from __future__ import annotations

import json
from importlib import resources
from typing import Any

from killcheck.reports.base import Place, Written
from killcheck.reports.story import DrillStory, RunStory

__all__ = ["DOCUMENT", "SCHEMAS", "document", "schema"]

#: The published schemas by name: the result document, and a line of the run record.
SCHEMAS = {"result": "result-v1.json", "record": "record-v1.json"}


def document(story: RunStory) -> dict[str, Any]:
    """The document, as ``--json`` prints it; drills that the record ends before are in it as inconclusive."""
    return {
        "schema": "killcheck.result/v1",
        "run": story.started.run,
        "verdict": story.verdict,
        "cluster": story.started.cluster,
        "kill_path": story.started.kill_path,
        "exit_code": story.finished.exit_code if story.finished else None,
        "drills": [drill.result or _unfinished(drill) for drill in story.drills],
        "findings": list(story.findings),
        "fences": list(story.fences),
        "notes": list(story.notes),
    }


def schema(name: str) -> dict[str, Any]:
    """A published JSON Schema by its name in :data:`SCHEMAS`. Raises KeyError for another."""
    text = resources.files("killcheck.reports").joinpath("schemas", SCHEMAS[name]).read_text(encoding="utf-8")
    found: dict[str, Any] = json.loads(text)
    return found


def _unfinished(drill: DrillStory) -> dict[str, Any]:
    """What a record that was cut short says of a drill: nothing is proven."""
    return {
        "layer": drill.started.layer,
        "faults": list(drill.started.faults),
        "title": drill.started.title,
        "verdict": "inconclusive",
        "why": "the record ends before the drill did",
        "off_by": None,
        "stuck_at": None,
        "cause": None,
        "remedy": None,
        "evidence": [],
        "failures": [],
        "seconds_to_zero": None,
        "seconds_to_drained": None,
        "watched_s": None,
        "usd": None,
        "usd_per_hour": None,
        "next_chance": None,
        "usd_until_next_chance": None,
        "noticed": None,
        "phases": [],
        "bites": {},
        "notes": [],
        "healed": [],
        "problems": [],
        "gpu_pods": [],
        "ledger": [],
        "ledger_counts": {},
    }


DOCUMENT = Written(
    "json",
    "The JSON document, schema killcheck.result/v1.",
    lambda told: json.dumps(document(told.story), indent=2) + "\n",
    place=Place.FILE,
)
