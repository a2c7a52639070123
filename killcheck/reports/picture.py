"""The timeline of a drill as a picture to draw: phases against deadlines, and what was on, over time."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from msgspec import Struct

from killcheck import events
from killcheck.reports.figures import money, span
from killcheck.reports.story import DrillStory
from killcheck.spec.phases import words_of

__all__ = ["HEIGHT", "WIDTH", "Lane", "Mark", "Phase", "Picture", "picture"]

#: Width of the plot and height of one lane, in the picture's own units.
WIDTH, HEIGHT = 720.0, 34.0
#: Marks drawn at most: more run into each other.
MOST_MARKS = 60


class Phase(Struct, frozen=True):
    """``at`` and ``deadline`` in the picture's units; None: not reached, or no deadline."""

    name: str
    at: float | None
    at_s: float | None
    deadline: float | None
    late: bool


class Mark(Struct, frozen=True):
    """Something at a moment: ``x`` in the picture's units; ``kind`` warning or fault."""

    x: float
    text: str
    kind: str


class Lane(Struct, frozen=True):
    """A quantity over time as an SVG path within ``HEIGHT``; ``most`` is what the top means, ``last`` how it ended."""

    name: str
    path: str
    most: str
    last: str


class Picture(Struct, frozen=True):
    """What to draw. ``ticks``: positions with their time since the trigger."""

    phases: tuple[Phase, ...]
    lanes: tuple[Lane, ...]
    marks: tuple[Mark, ...]
    ticks: tuple[tuple[float, str], ...]
    #: What came after the right edge, where GPUs were still on; empty: nothing.
    beyond: str = ""


def picture(drill: DrillStory) -> Picture:
    """Scaled so that the last thing that matters is at the right edge."""
    rows = list(drill.result.get("phases", []))
    moments = [row["at_s"] for row in rows if row["at_s"] is not None and row["phase"] != "held"]
    deadlines = [row["deadline_s"] for row in rows if row["deadline_s"] is not None and row["phase"] != "held"]
    end = max([60.0, *moments, *deadlines]) * 1.05

    def x(seconds: float) -> float:
        return float(round(min(1.0, max(0.0, seconds / end)) * WIDTH, 1))

    phases = tuple(
        Phase(
            words_of(row["phase"]),
            None if row["at_s"] is None else x(row["at_s"]),
            row["at_s"],
            None if row["deadline_s"] is None or row["phase"] == "held" else x(row["deadline_s"]),
            _late(row),
        )
        for row in rows
    )
    samples = [(x(drill.since_trigger(s)), s) for s in drill.of(events.Sampled) if drill.since_trigger(s) <= end]
    lanes = (
        _lane("replicas", [(at, s.replicas) for at, s in samples], steps=True),
        _lane("GPU pods", [(at, s.gpu_pods) for at, s in samples], steps=True),
        _lane("nodes", [(at, s.nodes) for at, s in samples], steps=True),
        _lane("dollars", [(at, s.usd) for at, s in samples] + _running(drill, samples, end, x), steps=False),
    )
    faults = [
        Mark(x(drill.since_trigger(event)), f"sabotage: {event.fault}", "fault")
        for event in drill.of(events.FaultInjected)
    ]
    warnings = [
        Mark(x(drill.since_trigger(event)), f"{event.reason}: {event.message}"[:200], "warning")
        for event in drill.of(events.Said)
        if event.type == "Warning" and 0 <= drill.since_trigger(event) <= end
    ]
    ticks = tuple((x(end * part), span(round(end * part))) for part in (0.0, 0.25, 0.5, 0.75))
    shown = tuple(lane for lane in lanes if lane.path)
    return Picture(phases, shown, (*faults, *warnings[:MOST_MARKS]), ticks, _beyond(drill, end))


def _beyond(drill: DrillStory, end: float) -> str:
    """Of an exposed drill that was watched for longer than its deadlines: the picture shows these alone."""
    watched = float(drill.result.get("watched_s") or 0.0)
    if drill.verdict != "exposed" or watched <= end:
        return ""
    usd = money(drill.result.get("usd"))
    return f"The picture ends after {span(round(end))}. The drill was watched for {span(watched)}: {usd}."


def _running(
    drill: DrillStory,
    samples: Sequence[tuple[float, events.Sampled]],
    end: float,
    x: Callable[[float], float],
) -> list[tuple[float, float | None]]:
    """What the dollars came to at the right edge, where nodes were still on at the last change that was seen."""
    rate = drill.result.get("usd_per_hour")
    if not samples or not samples[-1][1].nodes:
        return []
    last = samples[-1][1]
    until = min(end, drill.result.get("watched_s") or 0.0)
    passed = until - drill.since_trigger(last)
    if passed <= 0:
        return []
    return [(x(until), None if last.usd is None or rate is None else last.usd + rate * passed / 3600.0)]


def _late(row: dict[str, object]) -> bool:
    at, limit = row["at_s"], row["deadline_s"]
    if at is None:
        return True
    return isinstance(at, float | int) and isinstance(limit, float | int) and row["phase"] != "held" and at > limit


def _lane(name: str, points: Sequence[tuple[float, float | None]], *, steps: bool) -> Lane:
    """Counts are drawn in steps, dollars as they run; a lane with an unknown value is left out."""
    known = [(at, float(value)) for at, value in points if value is not None]
    if not known or len(known) != len(points):
        return Lane(name, "", "", "")
    most = max(1.0 if steps else 0.01, *(value for _, value in known))

    def y(value: float) -> float:
        return round(HEIGHT - (HEIGHT - 4) * value / most, 1)

    parts = [f"M0 {y(known[0][1])}"]
    for at, value in known:
        parts += [f"H{at:.1f}", f"V{y(value)}"] if steps else [f"L{at:.1f} {y(value)}"]
    if steps:
        parts.append(f"H{WIDTH:.1f}")
    word = (lambda value: str(round(value))) if steps else money
    return Lane(name, " ".join(parts), word(most), word(known[-1][1]))
