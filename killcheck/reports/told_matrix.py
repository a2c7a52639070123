"""The matrix of a run that is told again: faults down, layers across, from the record alone."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.text import Text

from killcheck.reports.figures import money, span
from killcheck.reports.grid import grid, pieces
from killcheck.reports.screen import STYLES
from killcheck.reports.story import DrillStory, RunStory

if TYPE_CHECKING:
    from rich.console import RenderableType

__all__ = ["told"]


def told(story: RunStory, width: int) -> RenderableType:
    """The table, in ``width`` columns."""
    rows: dict[str, dict[str, list[Text]]] = {}
    for drill in story.drills:
        rows.setdefault(_under(drill), {})[drill.started.layer] = _cell(drill)
    return grid(list(dict.fromkeys(drill.started.layer for drill in story.drills)), width, rows)


def _under(drill: DrillStory) -> str:
    return drill.started.title or "+".join(drill.started.faults) or "(undisturbed)"


def _cell(drill: DrillStory) -> list[Text]:
    result = drill.result
    word = drill.standing + (f" by {result['off_by']}" if drill.verdict == "covered" else "")
    figures = []
    if drill.verdict in ("survived", "covered"):
        figures = [f"zero {span(result['seconds_to_zero'])}", money(result["usd"])]
    elif drill.verdict == "exposed":
        until = result.get("usd_until_next_chance")
        figures = [money(until if until is not None else result.get("usd"))]
    return pieces(word, STYLES.get(drill.standing, "bold magenta"), figures)
