"""When a CronJob fires."""

from __future__ import annotations

from datetime import datetime, timedelta
from itertools import pairwise

from killcheck.kube.objects import Obj, dig
from killcheck.kube.schedule import Schedule, ScheduleError, parse

__all__ = ["A_NIGHT", "period_s", "schedule_of", "shortest_gap_s"]

#: A day, and what a change of the clocks or another hour at weekends adds to it.
A_NIGHT = timedelta(hours=30)


def schedule_of(cron_job: Obj) -> Schedule | None:
    """Its schedule; None where it cannot be parsed."""
    try:
        return parse(str(dig(cron_job, "spec", "schedule", default="")), dig(cron_job, "spec", "timeZone"))
    except ScheduleError:
        return None


def period_s(cron_job: Obj, now: datetime) -> float | None:
    """Seconds between its next two firings; None where it has none."""
    schedule = schedule_of(cron_job)
    one = schedule.next(now) if schedule else None
    two = schedule.next(one) if schedule and one else None
    return (two - one).total_seconds() if one and two else None


def shortest_gap_s(cron_job: Obj, now: datetime) -> float | None:
    """The fewest seconds between two firings of the coming two days; None where there are not two."""
    schedule = schedule_of(cron_job)
    firings = schedule.between(now, now + timedelta(days=2)) if schedule else ()
    return min(((later - earlier).total_seconds() for earlier, later in pairwise(firings)), default=None)
