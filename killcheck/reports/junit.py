"""JUnit XML: one test case a drill. Exposed is a failure, inconclusive an error (nothing is proven),
dirty another; an exposure that the policy accepts is skipped: it neither passed nor failed.

``ElementTree`` writes and escapes it. A JUnit library would add names for six elements, and no check of what they say.
"""

from __future__ import annotations

from xml.etree.ElementTree import Element, SubElement, indent, tostring

from killcheck.reports import rests
from killcheck.reports.base import Written
from killcheck.reports.story import DrillStory, RunStory
from killcheck.text import lazy_re

__all__ = ["JUNIT", "junit"]

#: Characters that XML 1.0 cannot hold.
_FORBIDDEN = lazy_re.compile(r"[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def junit(story: RunStory) -> str:
    """The document; times are wall-clock-free: seconds on the cluster's clock that the drill watched."""
    began = f"{story.started.at:%Y-%m-%dT%H:%M:%S}"
    suite = Element("testsuite", name=f"killcheck {story.started.kill_path}", timestamp=began)
    for drill in story.drills:
        suite.append(_case(story, drill))
    kinds = [("tests", None), ("failures", "failure"), ("errors", "error"), ("skipped", "skipped")]
    for name, tag in kinds:
        suite.set(name, str(len(story.drills) if tag is None else len(suite.findall(f"testcase/{tag}"))))
    root = Element("testsuites")
    root.append(suite)
    indent(root)
    return '<?xml version="1.0" encoding="utf-8"?>\n' + tostring(root, encoding="unicode") + "\n"


def _case(story: RunStory, drill: DrillStory) -> Element:
    case = Element(
        "testcase",
        classname=f"killcheck.{story.started.kill_path}",
        name=drill.name,
        time=f"{drill.result.get('watched_s') or 0:.3f}",
    )
    _judge(case, drill)
    lines = [*story.notes, *rests.of_drill(drill.result)]
    if lines:
        SubElement(case, "system-out").text = _clean("\n".join(f"rests on: {line}" for line in lines))
    return case


def _judge(case: Element, drill: DrillStory) -> None:
    problems = drill.result.get("problems")
    if problems:
        SubElement(case, "error", type="dirty", message=_clean("not put back: " + "; ".join(problems)))
        return
    if drill.verdict in ("survived", "covered"):
        return
    if drill.acceptance:
        said = f"{drill.acceptance}; {drill.result.get('cause') or drill.result.get('why')}"
        SubElement(case, "skipped", type="accepted", message=_clean(said))
        return
    tag = "failure" if drill.verdict == "exposed" else "error"
    message = drill.result.get("cause") or drill.result.get("why") or "the record ends before the drill did"
    problem = SubElement(case, tag, type=drill.verdict, message=_clean(str(message)))
    lines = [*drill.result.get("evidence", []), f"remedy: {drill.result.get('remedy') or '-'}"]
    problem.text = _clean("\n".join(lines))


def _clean(text: str) -> str:
    return _FORBIDDEN.sub("\N{REPLACEMENT CHARACTER}", text)


JUNIT = Written("junit", "JUnit XML.", lambda told: junit(told.story))
