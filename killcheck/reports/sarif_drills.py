"""A run's drills and findings as SARIF 2.1.0, from its record: what left GPUs on, and what reading found.

Source: OASIS Static Analysis Results Interchange Format 2.1.0, sections 3.20 (invocation), 3.27 (result), 3.49
(reportingDescriptor), 3.58 (notification).
"""

from __future__ import annotations

import hashlib
import json
from pathlib import PurePath
from typing import Any

from killcheck.reports import rests
from killcheck.reports.base import Written
from killcheck.reports.places import uri
from killcheck.reports.story import DrillStory, RunStory

__all__ = ["SARIF", "document"]

_SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"
_RULES = {
    "drill/exposed": "A layer's trigger was pulled and the GPUs stayed on.",
    "drill/accepted": "The GPUs stayed on, and the policy accepts that.",
    "drill/inconclusive": "A drill proved nothing.",
    "drill/dirty": "Something that killcheck changed could not be put back.",
}


def document(story: RunStory) -> dict[str, Any]:
    """The SARIF log of a run."""
    names = [*_RULES, *dict.fromkeys(f["probe"] for f in story.findings)]
    rules = [{"id": name, "shortDescription": {"text": _RULES.get(name, name)}} for name in names]
    results = [_drill(story, drill, names) for drill in story.drills if _rule(drill)]
    results += [_finding(finding, names) for finding in story.findings]
    driver = {"name": "killcheck", "version": story.started.version, "rules": rules}
    run = {
        "tool": {"driver": driver},
        "results": results,
        "columnKind": "unicodeCodePoints",
        "invocations": [
            {
                "executionSuccessful": story.finished is not None,
                "toolExecutionNotifications": [_note(text) for text in _told(story)],
            }
        ],
    }
    return {"$schema": _SCHEMA, "version": "2.1.0", "runs": [run]}


def _told(story: RunStory) -> list[str]:
    """What is no result: each drill's verdict, and what it rests on."""
    said = [
        f"{drill.name}: {drill.verdict}" + "".join(f"; rests on: {line}" for line in rests.of_drill(drill.result))
        for drill in story.drills
    ]
    return [*story.notes, *said]


def _note(text: str) -> dict[str, Any]:
    return {"level": "note", "message": {"text": text}}


def _rule(drill: DrillStory) -> str:
    if drill.result.get("problems"):
        return "drill/dirty"
    if drill.verdict in ("survived", "covered"):
        return ""
    if drill.standing == "accepted":
        return "drill/accepted"
    return "drill/exposed" if drill.verdict == "exposed" else "drill/inconclusive"


#: What code scanning shows of a rule: an accepted exposure is no alert.
_LEVELS = {"drill/inconclusive": "warning", "drill/accepted": "note"}


def _drill(story: RunStory, drill: DrillStory, names: list[str]) -> dict[str, Any]:
    rule, result = _rule(drill), drill.result
    why = result.get("cause") or result.get("why") or "the record ends before the drill did"
    if result.get("problems"):
        why = "; ".join(result["problems"])
    text = f"{drill.name}: {why}. {result.get('remedy') or ''}".strip()
    where = f"{story.started.kill_path}/{drill.started.layer}"
    suppressed = [{"kind": "external", "status": "accepted", "justification": drill.acceptance}]
    return {
        **({"suppressions": suppressed} if drill.acceptance else {}),
        "ruleId": rule,
        "ruleIndex": names.index(rule),
        "level": _LEVELS.get(rule, "error"),
        "kind": "fail",
        "message": {"text": text},
        "partialFingerprints": {"killcheck/v1": _print(rule, drill.name)},
        "locations": [
            {"logicalLocations": [{"fullyQualifiedName": where, "kind": "object"}], **_physical(story, drill)}
        ],
    }


def _physical(story: RunStory, drill: DrillStory) -> dict[str, Any]:
    """The line that declares the layer; code scanning refuses a result that has none."""
    place = (story.started.spec.get("places") or {}).get(drill.started.layer)
    if not place:
        return {"physicalLocation": {"artifactLocation": {"uri": "killcheck.yaml"}, "region": {"startLine": 1}}}
    region = {"startLine": max(1, int(place["line"]))}
    return {"physicalLocation": {"artifactLocation": {"uri": uri(str(place["file"]))}, "region": region}}


def _finding(finding: dict[str, Any], names: list[str]) -> dict[str, Any]:
    name = finding["object"] or "kill path"
    location: dict[str, Any] = {"logicalLocations": [{"fullyQualifiedName": name, "kind": "object"}]}
    if finding.get("file"):
        region = {"region": {"startLine": finding["line"]}} if finding.get("line") else {}
        uri = PurePath(finding["file"]).as_posix()
        location["physicalLocation"] = {"artifactLocation": {"uri": uri}, **region}
    unproven = bool(finding.get("unproven"))
    return {
        "ruleId": finding["probe"],
        "ruleIndex": names.index(finding["probe"]),
        "level": "none" if unproven else finding["severity"],
        "kind": "open" if unproven else "fail",
        "message": {"text": f"{finding['object']}: {finding['message']}. {finding['remedy']}".removeprefix(": ")},
        "partialFingerprints": {"killcheck/v1": _print(finding["probe"], f"{finding['object']}|{finding['message']}")},
        "locations": [location],
    }


def _print(*parts: str) -> str:
    return hashlib.sha256("|".join(parts).encode()).hexdigest()[:32]


SARIF = Written("sarif", "SARIF 2.1.0.", lambda told: json.dumps(document(told.story), indent=2) + "\n")
