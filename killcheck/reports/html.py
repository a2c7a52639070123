"""One self-contained HTML file per run: no network, opens from disk, dark and light, printable, usable by keyboard.

A pure function of the run record: the verdict in a sentence, what to mend first, the matrix, findings and fences, per
drill a timeline picture, the diagnosis with its evidence, what was changed and put back; and what changed since an
earlier run.
"""

from __future__ import annotations

from importlib import resources

from killcheck import events
from killcheck.reports import mend, rests
from killcheck.reports.base import Written
from killcheck.reports.compare import Comparison
from killcheck.reports.figures import money, span, still_on, who_notices
from killcheck.reports.outcome import headline, sentence
from killcheck.reports.picture import picture
from killcheck.reports.story import DrillStory, RunStory
from killcheck.spec.phases import words_of

__all__ = ["HTML", "html"]

#: Events shown for one drill: more are not read, and a page must open.
MOST_EVENTS = 200


def html(story: RunStory, comparison: Comparison | None = None) -> str:
    """The document. ``comparison``: with the run that it is compared to, see :mod:`killcheck.reports.compare`."""
    from jinja2 import Environment, StrictUndefined

    environment = Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    environment.filters |= {
        "span": span,
        "money": money,
        "still_on": still_on,
        "who_notices": who_notices,
        "was": _was,
        "words": words_of,
    }
    template = environment.from_string(_text("report.html.j2"))
    layers = list(dict.fromkeys(drill.started.layer for drill in story.drills))
    columns = list(dict.fromkeys(_column(drill) for drill in story.drills))
    cells = {(drill.started.layer, _column(drill)): number for number, drill in enumerate(story.drills)}
    mends = mend.first(drill.result for drill in story.drills if drill.result)
    order = {"error": 0, "warning": 1, "note": 2}
    return template.render(
        story=story,
        headline=headline(story),
        sentence=sentence(story),
        layers=layers,
        columns=columns,
        cells=cells,
        comparison=comparison,
        mends=mends,
        most_mends=mend.HANDFUL,
        mends_left=mend.rest(mends),
        findings=sorted(story.findings, key=lambda f: (bool(f.get("unproven")), order.get(f["severity"], 3))),
        style=_text("report.css"),
        script=_text("report.js"),
        pictures=[picture(drill) for drill in story.drills],
        said=[_telling(drill) for drill in story.drills],
        healed=[_last(drill, events.Healed) for drill in story.drills],
        logs=[drill.of(events.LogTaken) for drill in story.drills],
        rests=[rests.of_drill(drill.result) for drill in story.drills],
        injected=[drill.of(events.FaultInjected) for drill in story.drills],
    )


def _text(name: str) -> str:
    return resources.files("killcheck.reports").joinpath(name).read_text(encoding="utf-8")


def _column(drill: DrillStory) -> str:
    return drill.started.title or ", ".join(drill.started.faults) or "undisturbed"


def _was(value: str | float | None) -> str:
    return span(value) if isinstance(value, float | int) else str(value or "-")


def _last(drill: DrillStory, kind: type[events.Healed]) -> events.Healed | None:
    found = drill.of(kind)
    return found[-1] if found else None


def _telling(drill: DrillStory) -> list[events.Said]:
    """The events worth reading: each text once, as it was last said."""
    seen: dict[tuple[str, str, str], events.Said] = {}
    for event in drill.of(events.Said):
        seen[event.object, event.reason, event.message] = event
    return list(seen.values())[:MOST_EVENTS]


HTML = Written("html", "One self-contained HTML file.", lambda told: html(told.story, told.comparison))
