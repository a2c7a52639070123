"""A history for a terminal."""

from __future__ import annotations

from itertools import groupby

from rich.text import Text

from killcheck.history.series import MOST_CHANGES, Series, Stand, Story
from killcheck.history.words import ages, broke, drift, proven, sentence, times
from killcheck.reports.figures import money
from killcheck.reports.screen import Screen, fitting

__all__ = ["show"]

_STYLES = {
    Stand.PROVEN: "green",
    Stand.ACCEPTED: "magenta",
    Stand.STALE: "yellow",
    Stand.INCONCLUSIVE: "magenta",
    Stand.EXPOSED: "red",
}
_HEADERS = ["layer", "under", "stands", "last proven", "to zero, p95", "trend", "at risk"]


def show(story: Story, out: Screen) -> None:
    """Print it: one table a kill path and cluster, then what broke and is not mended."""
    out.say(sentence(story))
    if story.series:
        out.say(f"{len(story.nights)} night(s) of {story.runs} run(s); {ages(story)}.")
    ordered = sorted(story.series, key=_place)  # stable: those that need somebody stay first in each
    for (kill_path, cluster), group in groupby(ordered, key=_place):
        out.say(f"\n{kill_path} on {cluster}")
        out.grid(fitting(_HEADERS, [_row(one, story.now) for one in group], out.width, right=frozenset({"at risk"})))
    _broken(story, out)
    for problem in story.unreadable:
        out.say(f"passed over: {problem}", hang=4)


def _place(one: Series) -> tuple[str, str]:
    return one.last.kill_path, one.last.cluster


def _row(one: Series, now: float) -> list[Text]:
    risk = "-" if one.at_risk_usd is None else money(one.at_risk_usd)
    told = [one.last.layer, one.under, one.stand.value, proven(one, now), times(one.to_zero), drift(one), risk]
    return [Text(text, style=_STYLES[one.stand] if n == 2 else "") for n, text in enumerate(told)]


def _broken(story: Story, out: Screen) -> None:
    for one in story.series:
        open_breaks = [found for found in one.breaks if found.mended is None]
        for found in open_breaks[-1:]:
            out.say(f"\n{one.last.layer}, {one.under}: {broke(found)}", hang=4)
            if found.after.cause:
                out.say(f"    cause: {found.after.cause}", hang=11)
            if found.changes is None:
                out.say("    what changed in between is not known: one of the two records has no snapshot", hang=4)
                continue
            out.say(
                "    changed in between:" if found.changes else "    nothing that the records hold changed in between"
            )
            for change in found.changes[:MOST_CHANGES]:
                out.say(f"      {change}", hang=8)
            if len(found.changes) > MOST_CHANGES:
                out.say(f"      and {len(found.changes) - MOST_CHANGES} more (--json has all)")
