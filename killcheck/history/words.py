"""A history's figures as a person reads them: the same in a terminal, on a page and on a badge."""

from __future__ import annotations

from killcheck.history.series import DAY_S, Break, Series, Stand, Story, Took, day
from killcheck.reports.figures import money, span

__all__ = ["ages", "ago", "badge_of", "broke", "drift", "proven", "sentence", "times"]


def ago(seconds: float) -> str:
    """How long since: by the minute, the hour, the day."""
    if seconds < 0:
        return "in the future"
    for unit, name in ((DAY_S, "day"), (3600.0, "hour"), (60.0, "minute")):
        count = int(seconds // unit)
        if count:
            return f"{count} {name}{'s' if count > 1 else ''} ago"
    return "just now"


def proven(one: Series, now: float) -> str:
    """When it was last proven."""
    return "never" if one.last_proven is None else ago(now - one.last_proven.at)


def ages(story: Story) -> str:
    """How old its proofs were, on average, and how many drills no night has proven."""
    if story.mean_age_s is None:
        return "no night has proven anything"
    never = f", {story.never_proven} drill(s) were never proven" if story.never_proven else ""
    return f"a proof was {story.mean_age_s / DAY_S:.1f} days old on average{never}"


def times(took: Took | None) -> str:
    """Median and 95th percentile."""
    return "-" if took is None else f"{span(took.median_s)} / {span(took.p95_s)}"


def drift(one: Series) -> str:
    """Where the time to zero is heading; nothing where that is not known or it stays as it is."""
    took = one.to_zero
    if took is None or took.per_month_s is None:
        return "-"
    if abs(took.per_month_s) < max(0.05, took.median_s / 100):
        return "steady"
    told = f"{'+' if took.per_month_s > 0 else '-'}{span(abs(took.per_month_s))} a month"
    left = one.deadline_in_s
    if left is not None and left < 365 * DAY_S:
        told += f", at its deadline in {max(1, round(left / DAY_S))} days"
    return told


def sentence(story: Story) -> str:
    """How it stands, for somebody who reads one line."""
    rest = _left_out(story)
    if not story.series:
        return f"No run record says anything of a drill: nothing is proven.{rest}"
    count = {stand: sum(one.stand is stand for one in story.series) for stand in Stand}
    parts = []
    if count[Stand.EXPOSED]:
        risk = f" ({money(story.at_risk_usd)} until the next chance)" if story.at_risk_usd else ""
        parts.append(f"{count[Stand.EXPOSED]} exposed{risk}")
    for stand, word in (
        (Stand.INCONCLUSIVE, "inconclusive"),
        (Stand.STALE, f"not proven for {round(story.stale_after_s / DAY_S, 1):g} days"),
        (Stand.ACCEPTED, "accepted"),
        (Stand.PROVEN, "proven"),
    ):
        if count[stand]:
            parts.append(f"{count[stand]} {word}")
    return f"Of {len(story.series)} drill(s): {', '.join(parts)}.{rest}"


def _left_out(story: Story) -> str:
    """What else there may be to say: of records that cannot be used, and of drills without a night in that time."""
    rest = ""
    if story.unreadable:
        rest += f" {len(story.unreadable)} record(s) could not be used: they may say otherwise."
    if story.earlier:
        exposed = story.earlier.count(Stand.EXPOSED)
        stood = f"; {exposed} stood exposed" if exposed else ""
        rest += f" {len(story.earlier)} more drill(s) had no night in that time{stood}."
    return rest


def broke(one: Break) -> str:
    """What ended: since when, and why."""
    mended = f", mended {day(one.mended.at)}" if one.mended else ""
    what = "left something behind" if one.after.dirty else one.after.standing
    return f"{what} on {day(one.after.at)}, last proven {day(one.before.at)}{mended}"


def badge_of(story: Story) -> tuple[str, str]:
    """(words, colour) of a badge."""
    colours = {
        Stand.PROVEN: "#2da44e",
        Stand.ACCEPTED: "#8250df",
        Stand.STALE: "#bf8700",
        Stand.INCONCLUSIVE: "#6e7781",
        Stand.EXPOSED: "#cf222e",
    }
    words: str = story.stand.value
    if story.stand is Stand.PROVEN:
        oldest = min(one.last.at for one in story.series)
        words = f"proven {ago(story.now - oldest)}"
    return words, colours[story.stand]
