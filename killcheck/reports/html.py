"""One self-contained HTML file per run: no network, opens from disk, dark and light, printable.

A pure function of the run record: the verdict in a sentence, the matrix, per drill a timeline picture, the diagnosis
with its evidence, what was changed and put back.
"""

from __future__ import annotations

from dataclasses import dataclass
from importlib import resources
from typing import Any

from killcheck import events
from killcheck.reports.story import DrillStory, RunStory
from killcheck.reports.terminal import money, span

__all__ = ["html", "sentence"]

#: Width of the timeline picture's plot, in its own units.
WIDTH = 720.0


def html(story: RunStory) -> str:
    """The document."""
    from jinja2 import Environment, StrictUndefined

    environment = Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    environment.filters |= {"span": span, "money": money}
    template = environment.from_string(
        resources.files("killcheck.reports").joinpath("report.html.j2").read_text(encoding="utf-8"))
    layers = list(dict.fromkeys(drill.started.layer for drill in story.drills))
    columns = list(dict.fromkeys(_column(drill) for drill in story.drills))
    cells = {(drill.started.layer, _column(drill)): number for number, drill in enumerate(story.drills)}
    return template.render(
        story=story, sentence=sentence(story), layers=layers, columns=columns, cells=cells,
        pictures=[picture(drill) for drill in story.drills], said=[_telling(drill) for drill in story.drills],
        healed=[_last(drill, events.Healed) for drill in story.drills],
        logs=[drill.of(events.LogTaken) for drill in story.drills],
        injected=[drill.of(events.FaultInjected) for drill in story.drills])


def _column(drill: DrillStory) -> str:
    return drill.started.title or ", ".join(drill.started.faults) or "undisturbed"


def sentence(story: RunStory) -> str:
    """The verdict as a person would say it."""
    exposed = [drill for drill in story.drills if drill.verdict == "exposed"]
    if not story.finished:
        return "The run was cut short: what is below is what it had seen by then, and it proves nothing."
    if not story.drills:
        return "No drill was run: nothing is proven."
    if exposed:
        usd = sum(drill.result.get("usd") or 0.0 for drill in exposed)
        return f"{len(exposed)} of {len(story.drills)} drill(s) left GPUs on: {money(usd)} while they were watched."
    unsure = [drill for drill in story.drills if drill.verdict not in ("survived", "covered")]
    if unsure:
        return f"{len(unsure)} of {len(story.drills)} drill(s) prove nothing."
    slowest = max(drill.result.get("seconds_to_zero") or 0.0 for drill in story.drills)
    return f"Every drill turned the GPUs off; the slowest took {span(slowest)}."


@dataclass(frozen=True, slots=True)
class Mark:
    """Something at a moment: ``x`` in the picture's units."""

    x: float
    text: str
    kind: str


@dataclass(frozen=True, slots=True)
class Picture:
    """A timeline to draw: phases with deadlines, and how many GPU pods and nodes were on."""

    phases: tuple[dict[str, Any], ...]
    pods: str
    nodes: str
    marks: tuple[Mark, ...]
    ticks: tuple[tuple[float, str], ...]
    most: int


def picture(drill: DrillStory) -> Picture:
    """Scaled so that the last thing that matters is at the right edge."""
    rows = list(drill.result.get("phases", []))
    moments = [row["at_s"] for row in rows if row["at_s"] is not None and row["phase"] != "held"]
    deadlines = [row["deadline_s"] for row in rows if row["deadline_s"] is not None and row["phase"] != "held"]
    end = max([60.0, *moments, *deadlines]) * 1.05

    def x(seconds: float) -> float:
        return float(round(min(1.0, max(0.0, seconds / end)) * WIDTH, 1))

    phases = tuple(
        {"name": row["phase"], "at": None if row["at_s"] is None else x(row["at_s"]), "at_s": row["at_s"],
         "deadline": None if row["deadline_s"] is None or row["phase"] == "held" else x(row["deadline_s"]),
         "late": row["at_s"] is None or (row["deadline_s"] is not None and row["phase"] != "held"
                                         and row["at_s"] > row["deadline_s"])}
        for row in rows)
    samples = drill.of(events.Sampled)
    most = max([1, *(s.gpu_pods for s in samples), *(s.nodes for s in samples)])
    marks = tuple(
        Mark(x(drill.since_trigger(event)), f"{event.reason}: {event.message}"[:200], "warning")
        for event in drill.of(events.Said) if event.type == "Warning" and 0 <= drill.since_trigger(event) <= end)
    ticks = tuple((x(end * part), span(round(end * part))) for part in (0.0, 0.25, 0.5, 0.75))
    points = [(drill.since_trigger(s), s) for s in samples]
    return Picture(
        phases, _steps([(x(at), s.gpu_pods) for at, s in points], most),
        _steps([(x(at), s.nodes) for at, s in points], most), marks[:40], ticks, most)


def _steps(points: list[tuple[float, int]], most: int, height: float = 60.0) -> str:
    """An SVG path of a count over time."""
    if not points:
        return ""
    parts = [f"M0 {height - height * points[0][1] / most:.1f}"]
    for at, count in points:
        parts += [f"H{at:.1f}", f"V{height - height * count / most:.1f}"]
    return " ".join([*parts, f"H{WIDTH:.1f}"])


def _last(drill: DrillStory, kind: type[events.Healed]) -> events.Healed | None:
    found = drill.of(kind)
    return found[-1] if found else None


def _telling(drill: DrillStory) -> list[events.Said]:
    """The events worth reading: warnings, and what the executor and the nodes said, each text once."""
    seen: dict[tuple[str, str, str], events.Said] = {}
    for event in drill.of(events.Said):
        seen[event.object, event.reason, event.message] = event
    return list(seen.values())[:200]
