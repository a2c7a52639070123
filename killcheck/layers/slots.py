"""The slots of a schedule as people mean them: by the clock on their wall, also on the two nights that it is changed.

Where a wall-clock time does not exist, it is taken for the moment at which it would have been, had the clocks not been
changed yet (PEP 495's first fold): that is when somebody would expect the firing that does not come.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from killcheck.kube import schedule
from killcheck.kube.cron import Every
from killcheck.kube.objects import Obj, dig, parse_time

__all__ = ["change_in", "change_of_clocks", "missing_hour", "next_slot", "overdue", "parsed"]

#: Whose clocks are meant where the schedule's own zone never changes them.
ELSEWHERE = "Europe/Berlin"


def parsed(cron_job: Obj) -> schedule.Schedule:
    """A CronJob's schedule in its time zone. Raises ScheduleError (a ValueError)."""
    return schedule.parse(
        dig(cron_job, "spec", "schedule", default=""), dig(cron_job, "spec", "timeZone", default="") or ""
    )


def next_slot(when: schedule.Schedule, after: datetime) -> datetime | None:
    """The next moment strictly after ``after`` at which the wall clock shows a time of the schedule, or would have."""
    if isinstance(when.rule, Every):
        return when.next(after)
    wall = schedule.Schedule(when.text, when.rule, UTC)
    moment = after.astimezone(when.tz).replace(tzinfo=UTC) - timedelta(hours=3)
    while (shown := wall.next(moment)) is not None:
        meant = shown.replace(tzinfo=when.tz).astimezone(UTC)
        if meant > after:
            return meant
        moment = shown
    return None


def overdue(cron_job: Obj, since: datetime, now: datetime) -> datetime | None:
    """A slot from ``since`` on that passed without a firing, and that the CronJob controller makes up for when it can.

    None: there is none, or its starting deadline is over. Raises ScheduleError.
    """
    spec = dig(cron_job, "spec", default={})
    last = dig(cron_job, "status", "lastScheduleTime") or dig(cron_job, "metadata", "creationTimestamp")
    earliest = parse_time(last) if last else since
    if spec.get("startingDeadlineSeconds") is not None:
        earliest = max(earliest, now - timedelta(seconds=float(spec["startingDeadlineSeconds"])))
    latest = None if spec.get("suspend") else schedule.most_recent(parsed(cron_job), earliest, now).latest
    return latest if latest is not None and latest >= since else None


def missing_hour(when: schedule.Schedule, slot: datetime) -> bool:
    """Whether ``slot`` is a time that the wall clock leaps over."""
    local = slot.astimezone(when.tz)
    return (
        next_slot(when, slot - timedelta(seconds=1)) == slot
        and when.next(slot - timedelta(seconds=1)) != slot
        and (local.utcoffset() != (slot - timedelta(hours=6)).astimezone(when.tz).utcoffset())
    )


def change_of_clocks(name: str, after: datetime, *, forward: bool) -> tuple[str, datetime] | None:
    """(zone, moment) of the next change of clocks in zone ``name``, or elsewhere where it has none.

    ``forward``: in spring; else back, in autumn. None: nowhere within two years.
    """
    for zone_name in (name, ELSEWHERE):
        moment = change_in(zone_name, after, forward=forward)
        if moment is not None:
            return zone_name, moment
    return None


def change_in(name: str, after: datetime, *, forward: bool) -> datetime | None:
    """The moment of the next change of clocks in zone ``name``; None: it has none within two years."""
    zone = schedule.zone(name)
    if zone is UTC:
        return None
    hour = after.replace(minute=0, second=0, microsecond=0)
    for _ in range(2 * 366):
        day = hour + timedelta(days=1)
        before, later = hour.astimezone(zone).utcoffset(), day.astimezone(zone).utcoffset()
        if before is not None and later is not None and before != later and (later > before) == forward:
            while hour.astimezone(zone).utcoffset() == before:
                hour += timedelta(hours=1)
            return hour
        hour = day
    return None
