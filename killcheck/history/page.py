"""A history as one self-contained page: no network, dark and light, readable on a telephone."""

from __future__ import annotations

from importlib import resources

from killcheck.history.nights import Night
from killcheck.history.series import MOST_CHANGES, Story
from killcheck.history.words import ages, broke, drift, proven, sentence, times
from killcheck.reports.figures import money, span

__all__ = ["page"]

#: Cells of a strip: of more nights each cell is several, and shows the worst of them.
CELLS = 60
_WORST = ("survived", "covered", "accepted", "inconclusive", "unsealed", "unfinished", "exposed")


def page(story: Story) -> str:
    """The document."""
    from jinja2 import Environment, StrictUndefined

    environment = Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    environment.filters |= {"span": span, "money": money}
    rows = [
        {
            "one": one,
            "proven": proven(one, story.now),
            "zero": times(one.to_zero),
            "drained": times(one.to_drained),
            "drift": drift(one),
            "strip": _strip(one.nights),
            "breaks": [(found, broke(found)) for found in reversed(one.breaks)],
        }
        for one in story.series
    ]
    text = resources.files("killcheck.history").joinpath("history.html.j2").read_text(encoding="utf-8")
    style = resources.files("killcheck.reports").joinpath("report.css").read_text(encoding="utf-8")
    return environment.from_string(text).render(
        story=story, rows=rows, sentence=sentence(story), ages=ages(story), style=style, most=MOST_CHANGES, when=_when
    )


def _when(at: float) -> str:
    from datetime import UTC, datetime

    return f"{datetime.fromtimestamp(at, UTC):%Y-%m-%d %H:%M UTC}"


def _strip(nights: tuple[Night, ...]) -> list[tuple[str, str]]:
    """(standing, words) of each cell, oldest first."""
    each = -(-len(nights) // CELLS)
    cells = []
    for begin in range(0, len(nights), each):
        group = nights[begin : begin + each]
        worst = max(group, key=lambda night: _WORST.index(night.standing) if night.standing in _WORST else len(_WORST))
        cells.append((worst.standing, f"{_when(worst.at)}: {worst.standing}"))
    return cells
