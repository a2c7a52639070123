"""Allure results of a run, from its record: a test result a drill, with steps, attachments and an environment.

Written as files in a folder that ``allure generate`` reads; ids are made from what a drill is, not from when it ran, so
that Allure's history follows a drill from night to night. Source: Allure's documentation of the result files
(``*-result.json``, ``environment.properties``, ``categories.json``); times are Unix milliseconds.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from killcheck import events
from killcheck.reports import rests
from killcheck.reports.base import Delivery, Place
from killcheck.reports.figures import span
from killcheck.reports.story import DrillStory, RunStory
from killcheck.spec.phases import words_of
from killcheck.text.accelerators import named_in

__all__ = ["ALLURE", "CATEGORIES", "phase_steps", "write", "write_shared"]

_STATUS = {"survived": "passed", "covered": "passed", "exposed": "failed", "accepted": "skipped"}
_SEVERITY = {"survived": "critical", "covered": "critical", "exposed": "blocker"}

#: How Allure groups what did not pass: by what somebody has to do.
CATEGORIES: list[dict[str, Any]] = [
    {"name": "Exposed: GPUs were left on", "matchedStatuses": ["failed"], "messageRegex": "(?s)exposed.*"},
    {
        "name": "Accepted: GPUs were left on, as the policy knows",
        "matchedStatuses": ["skipped"],
        "messageRegex": "(?s)accepted.*",
    },
    {"name": "Inconclusive: nothing is proven", "matchedStatuses": ["broken"], "messageRegex": "(?s)inconclusive.*"},
    {
        "name": "Dirty: something was not put back",
        "matchedStatuses": ["failed", "broken"],
        "messageRegex": "(?s)dirty.*",
    },
    {"name": "Cut short", "matchedStatuses": ["broken"], "messageRegex": "(?s)unfinished.*"},
]


def write(story: RunStory, folder: Path) -> list[Path]:
    """Write the results into ``folder`` (made where it is missing); returns the files. Raises OSError."""
    folder.mkdir(parents=True, exist_ok=True)
    made = [path for drill in story.drills for path in _drill(story, drill, folder)]
    return [
        *made,
        *write_shared(
            folder,
            {
                "cluster": story.started.cluster,
                "kill_path": story.started.kill_path,
                "killcheck": story.started.version,
                "run": story.started.run,
            },
        ),
    ]


def write_shared(folder: Path, environment: dict[str, str]) -> list[Path]:
    """``environment.properties`` and ``categories.json``, beside results that somebody else may have written."""
    properties, categories = folder / "environment.properties", folder / "categories.json"
    properties.write_text(
        "".join(f"{key}={_property(value)}\n" for key, value in environment.items()), encoding="utf-8"
    )
    categories.write_text(json.dumps(CATEGORIES, indent=1) + "\n", encoding="utf-8")
    return [properties, categories]


def _drill(story: RunStory, drill: DrillStory, folder: Path) -> list[Path]:
    name = f"{story.started.kill_path}/{story.started.cluster}/{drill.name}"
    uid = _id(f"{story.started.run}/{name}")
    files = []
    attachments = []
    for title, kind, suffix, text in _attachments(drill):
        path = folder / f"{_id(f'{uid}/{title}')}-attachment.{suffix}"
        path.write_text(text, encoding="utf-8")
        files.append(path)
        attachments.append({"name": title, "source": path.name, "type": kind})
    lines = [*story.notes, *rests.of_drill(drill.result)]
    start = drill.triggered or drill.started.at
    stop = drill.events[-1].at if drill.events else start
    labels = {
        "suite": story.started.kill_path,
        "parentSuite": story.started.cluster,
        "feature": drill.started.layer,
        "story": ", ".join(drill.started.faults) or "undisturbed",
        "framework": "killcheck",
        "language": "python",
        "severity": _SEVERITY.get(drill.standing, "normal"),
    }
    result = {
        "uuid": uid,
        "historyId": _id(name),
        "testCaseId": _id(name),
        "fullName": name,
        "name": drill.name,
        "status": _status(drill),
        "statusDetails": _details(drill),
        "stage": "finished",
        "start": _ms(start),
        "stop": _ms(stop),
        "steps": list(_steps(drill, start)),
        "attachments": attachments,
        "labels": [{"name": key, "value": value} for key, value in labels.items()],
        "description": "\n".join(["Rests on:", *(f"- {line}" for line in lines)]) if lines else "",
        "parameters": [{"name": "faults", "value": ", ".join(drill.started.faults)}] if drill.started.faults else [],
    }
    path = folder / f"{uid}-result.json"
    path.write_text(json.dumps(named_in(result), indent=1) + "\n", encoding="utf-8")
    return [*files, path]


def _status(drill: DrillStory) -> str:
    return "failed" if drill.result.get("problems") else _STATUS.get(drill.standing, "broken")


def _details(drill: DrillStory) -> dict[str, str]:
    result = drill.result
    if result.get("problems"):
        return {"message": "dirty: " + "; ".join(result["problems"])}
    if _status(drill) == "passed":
        return {"message": str(result.get("why", ""))}
    why = result.get("cause") or result.get("why") or "the record ends before the drill did"
    trace = [*result.get("evidence", []), f"remedy: {result['remedy']}" if result.get("remedy") else ""]
    told = drill.acceptance or drill.verdict
    return {"message": f"{told}: {why}", "trace": "\n".join(filter(None, trace))}


def _steps(drill: DrillStory, start: datetime) -> list[dict[str, Any]]:
    steps = [
        _step(
            f"sabotage: {event.fault}",
            "passed" if event.fault in drill.result.get("bites", {}) else "broken",
            event.at,
            event.at,
        )
        for event in drill.of(events.FaultInjected)
    ]
    before = start
    rows = drill.result.get("phases", [])
    for row, (name, status) in zip(rows, phase_steps(rows), strict=True):
        at = before if row["at_s"] is None else start + timedelta(seconds=row["at_s"])
        steps.append(_step(name, status, min(before, at), at))
        before = max(before, at)
    return steps


def phase_steps(rows: Iterable[Mapping[str, Any]]) -> list[tuple[str, str]]:
    """Each phase of a result as a step: its name with the time, and ``failed`` where it came late or never."""
    return [(_name(row), "failed" if _late(row) else "passed") for row in rows]


def _name(row: Mapping[str, Any]) -> str:
    return f"{words_of(row['phase'])}: {'never' if row['at_s'] is None else span(row['at_s'])}"


def _late(row: Mapping[str, Any]) -> bool:
    if row["at_s"] is None:
        return True
    limit = row["deadline_s"]
    return bool(limit is not None and row["phase"] != "held" and row["at_s"] > limit)


def _step(name: str, status: str, start: datetime, stop: datetime) -> dict[str, Any]:
    return {"name": name, "status": status, "stage": "finished", "start": _ms(start), "stop": _ms(stop)}


def _attachments(drill: DrillStory) -> list[tuple[str, str, str, str]]:
    said = "\n".join(
        f"{event.at:%H:%M:%S} {event.type} {event.reason} {event.object}: {event.message}"
        for event in drill.of(events.Said)
    )
    found = [("result", "application/json", "json", json.dumps(drill.result, indent=1))]
    if said:
        found.append(("events", "text/plain", "txt", said + "\n"))
    found += [(f"log of {log.pod}/{log.container}", "text/plain", "txt", log.text) for log in drill.of(events.LogTaken)]
    return found


def _id(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:32]


def _ms(moment: datetime) -> int:
    return round(moment.timestamp() * 1000)


def _property(value: str) -> str:
    """A value of a Java properties file."""
    return value.replace("\\", "\\\\").replace("\n", "\\n")


ALLURE = Delivery(
    "allure", "Allure results, into a folder.", into=lambda told, folder: write(told.story, folder), place=Place.FOLDER
)
