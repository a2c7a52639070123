"""Schedules that leave nights out: the one that a drill plays is one of those in which they fire.

A switch that rests at weekends is meant to. One that rests for weeks, or on a single night - the 31st, the one on which
the clocks skip its hour - is not: on that night nothing turns off what is on.
"""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta

from killcheck.entries import Entry, Status
from killcheck.kube import schedule
from killcheck.kube.objects import Obj, dig, ref_of
from killcheck.layers import slots
from killcheck.spec.killpath import KillPath, Layer

__all__ = ["entry"]

#: The longest that a switch may rest: a week, and what a change of clocks adds to it.
RESTS_AT_MOST = timedelta(days=7, hours=1)
_A_DAY = timedelta(days=1)
_YEAR = timedelta(days=366)
_SETTLES = "let it fire on every night of the year, or say under assume: what turns them off in between"


def entry(cron_job: Obj, kill_path: KillPath, layer: Layer, now: datetime) -> Entry | None:
    """An open entry of a CronJob that rests for more than a week of the year to come, or in a night; None: it does not.

    Not where another layer turns off all that this one does: it may be meant for what that one left.
    """
    others = (one for one in kill_path.layers if one.name != layer.name)
    if any(set(layer.covers) <= set(one.covers) for one in others):
        return None
    text = str(dig(cron_job, "spec", "schedule", default=""))
    try:
        when = slots.parsed(cron_job)
        found, night = _rest(when, now), _night_left_out(when, now)
    except schedule.ScheduleError:
        return None
    if found is not None:
        begun, ended = found
        rests = f"between {begun:%Y-%m-%d} and {ended:%Y-%m-%d}" if ended is not None else f"after {begun:%Y-%m-%d}"
    elif night is not None:
        rests = f"on {night:%A, %Y-%m-%d}, and does on other {night:%A}s"
    else:
        return None
    told = f"its schedule {text} does not fire {rests}: nothing turns them off in that time"
    return Entry(ref_of(cron_job), Status.NOT_MODELLED, told, _SETTLES)


def _night_left_out(when: schedule.Schedule, now: datetime) -> date | None:
    """The first day of the year to come without a firing, of a weekday that has one on another; by its own clock."""
    today = now.astimezone(when.tz).date()
    without, weekdays = [], set()
    for day in (today + _A_DAY * ahead for ahead in range(1, _YEAR.days)):
        begun = datetime(day.year, day.month, day.day, tzinfo=when.tz) - timedelta(seconds=1)
        due = when.next(begun.astimezone(UTC))
        if due is not None and due.astimezone(when.tz).date() == day:
            weekdays.add(day.weekday())
        else:
            without.append(day)
    return next((day for day in without if day.weekday() in weekdays), None)


def _rest(when: schedule.Schedule, now: datetime) -> tuple[datetime, datetime | None] | None:
    """The first rest that is too long, of the year to come; its end is None where it has none within five years."""
    last, due = now, when.next(now)
    while last < now + _YEAR:
        if due is None or due - last > RESTS_AT_MOST:
            return last, due
        day = max(due, last + _A_DAY)  # what fires often is not counted through
        after = when.next(day)
        near = after is not None and after - day <= RESTS_AT_MOST - _A_DAY
        last, due = day if near else _last(when, due, day), after
    return None


def _last(when: schedule.Schedule, fired: datetime, until: datetime) -> datetime:
    """The last firing until then, of those that begin with ``fired``."""
    while (due := when.next(fired)) is not None and due <= until:
        fired = due
    return fired
