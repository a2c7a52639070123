"""When a CronJob fires: Kubernetes' schedules, with time zones and both edges of daylight saving time.

Source: robfig/cron v3 spec.go ``Next`` (its walk, field by field, is followed step by step: where clocks change, its
answers depend on how it walks) and ``mostRecentScheduleTime`` of the CronJob controller v2. So a 02:30 that does not
exist is skipped, and one that comes twice fires twice where the schedule's hours and minutes say so.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta, tzinfo
from itertools import islice
from pathlib import Path
from zoneinfo import ZoneInfo

from msgspec import Struct

from killcheck.kube.cron import CronError, Every, Fields, parse_expression

__all__ = ["Missed", "Schedule", "ScheduleError", "most_recent", "parse", "zone"]

_EPOCH_DAY = date(1970, 1, 1).toordinal()
#: How far robfig/cron looks ahead before it gives up.
_YEARS = 5
#: So many firings of a year are looked at: one a day, and a few.
_OF_A_YEAR = 400


class ScheduleError(ValueError):
    """A schedule or time zone that Kubernetes refuses; the message is what it would say."""


@functools.cache
def _zone_names() -> frozenset[str]:
    import tzdata

    return frozenset(Path(tzdata.__file__).with_name("zones").read_text("utf-8").split())


@functools.cache
def zone(name: str) -> tzinfo:
    """An IANA time zone, by its exact name. Raises ScheduleError: ``unknown time zone Mars/Phobos``.

    ``Local`` is the controller manager's zone: UTC in any cluster worth the name.
    """
    if name in ("", "UTC", "Local"):
        return UTC
    if name not in _zone_names():
        raise ScheduleError(f"unknown time zone {name}")
    return ZoneInfo(name)


class Schedule(Struct, frozen=True):
    """A parsed schedule. ``text`` is what was parsed, ``tz`` the zone that its fields are read in."""

    text: str
    rule: Fields | Every
    tz: tzinfo

    def next(self, after: datetime) -> datetime | None:
        """The first firing strictly after ``after`` (timezone-aware), in UTC; None: never within five years."""
        moment = int(after.timestamp() // 1)
        if isinstance(self.rule, Every):
            return datetime.fromtimestamp(moment + self.rule.seconds, UTC)
        found = _next(self.rule, self.tz, moment)
        return None if found is None else datetime.fromtimestamp(found, UTC)

    def of_a_year(self, after: datetime) -> Iterator[datetime]:
        """The firings of the year after a moment: all of what comes daily or less often, else the first ones."""
        slots = self.between(after, after + timedelta(days=366))
        return islice(slots, _OF_A_YEAR)

    def between(self, after: datetime, until: datetime) -> Iterator[datetime]:
        """The firings after ``after`` up to and including ``until``."""
        moment = self.next(after)
        while moment is not None and moment <= until:
            yield moment
            moment = self.next(moment)


@functools.lru_cache(maxsize=512)
def parse(text: str, tz: str | None = None) -> Schedule:
    """A CronJob's ``spec.schedule`` and ``spec.timeZone`` (None: the controller's, UTC). Raises ScheduleError.

    A ``TZ=`` or ``CRON_TZ=`` in front is understood, as the controller does for CronJobs older than ``timeZone``.
    """
    rest, where = text, tz or ""
    if text.startswith(("TZ=", "CRON_TZ=")):
        head, space, rest = text.partition(" ")
        where = head.partition("=")[2]
        if not space:
            low, length = text.index("=") + 1, -1
            raise ScheduleError(f"invalid schedule format: runtime error: slice bounds out of range [{low}:{length}]")
        rest = rest.strip()
    try:
        location = zone(where)
    except ScheduleError as error:
        if tz is None:
            raise ScheduleError(f"provided bad location {where}: {error}") from error
        raise
    try:
        return Schedule(text, parse_expression(rest), location)
    except CronError as error:
        raise ScheduleError(str(error)) from error


class Missed(Struct, frozen=True):
    """``latest``: the last firing that is due, if any; ``count``: about how many are."""

    latest: datetime | None
    count: int


def most_recent(schedule: Schedule, earliest: datetime, now: datetime) -> Missed:
    """What has fallen due after ``earliest`` up to ``now``, as the CronJob controller reckons it.

    ``earliest`` is the last scheduled time, else the CronJob's creation, or the start of the starting deadline's
    window if that is later. Raises ScheduleError for a schedule that never comes (31 February).
    """
    first = schedule.next(earliest)
    second = None if first is None else schedule.next(first)
    if first is None or second is None:
        raise ScheduleError("time difference between two schedules is less than 1 second")
    if now < first:
        return Missed(None, 0)
    if now < second:
        return Missed(first, 1)
    interval = int((second - first).total_seconds())
    count = int((now - first).total_seconds()) // interval + 1
    latest = None
    for moment in schedule.between(first + timedelta(seconds=(count - 2) * interval), now):
        latest = moment
    return Missed(latest, count)


# -- robfig/cron's walk ----------------------------------------------------------------------------------------
@functools.lru_cache(maxsize=4096)
def _next(rule: Fields, tz: tzinfo, after: int) -> int | None:
    """Month, day, hour, minute, second: each is moved on until it matches; one that wraps around starts it all again.

    Seconds since the epoch, in and out. The same few moments are asked for again and again: by the controller, by
    every drill of a night, and by what reads a year of firings.
    """
    moment = after + 1
    limit = _local(moment, tz).year + _YEARS
    moved = False
    while (local := _local(moment, tz)).year <= limit:
        for matches, start_of, advance in _WALK:
            if matches(rule, local):
                continue
            if not moved:
                moved = True
                moment = start_of(moment, tz)
            moment, wrapped = advance(rule, tz, moment)
            if wrapped:
                break
            local = _local(moment, tz)
        else:
            if moment % 60 == 0:
                return moment
            moved = True
            moment += 60 - moment % 60
    return None


def _in_month(rule: Fields, local: datetime) -> bool:
    return local.month in rule.months


def _on_day(rule: Fields, local: datetime) -> bool:
    return rule.matches_day(local.day, local.isoweekday() % 7)


def _in_hour(rule: Fields, local: datetime) -> bool:
    return local.hour in rule.hours


def _in_minute(rule: Fields, local: datetime) -> bool:
    return local.minute in rule.minutes


def _month_start(moment: int, tz: tzinfo) -> int:
    local = _local(moment, tz)
    return _date(tz, local.year, local.month, 1, 0)


def _day_start(moment: int, tz: tzinfo) -> int:
    local = _local(moment, tz)
    return _date(tz, local.year, local.month, local.day, 0)


def _hour_start(moment: int, tz: tzinfo) -> int:
    local = _local(moment, tz)
    return _date(tz, local.year, local.month, local.day, local.hour)


def _minute_start(moment: int, _: tzinfo) -> int:
    return moment - moment % 60


def _next_month(rule: Fields, tz: tzinfo, moment: int) -> tuple[int, bool]:
    local = _local(moment, tz)
    while local.month not in rule.months:
        year, month = (local.year, local.month + 1) if local.month < 12 else (local.year + 1, 1)
        moment = _date(tz, year, month, local.day, local.hour, minute=local.minute)
        local = _local(moment, tz)
        if local.month == 1:
            return moment, True
    return moment, False


def _next_day(rule: Fields, tz: tzinfo, moment: int) -> tuple[int, bool]:
    """Midnight may not exist: then the hour is put right, as robfig/cron does it (east of Greenwich, not quite)."""
    local = _local(moment, tz)
    while not _on_day(rule, local):
        moment = _date(tz, local.year, local.month, local.day + 1, local.hour, minute=local.minute)
        local = _local(moment, tz)
        if local.hour:
            moment += (24 - local.hour if local.hour > 12 else -local.hour) * 3600
            local = _local(moment, tz)
        if local.day == 1:
            return moment, True
    return moment, False


def _next_hour(rule: Fields, tz: tzinfo, moment: int) -> tuple[int, bool]:
    local = _local(moment, tz)
    following = min((hour for hour in rule.hours if hour > local.hour), default=24)
    there = moment + (following - local.hour) * 3600
    if _local(there, tz).utcoffset() == local.utcoffset():
        return there, following == 24
    while True:  # the clocks change on the way
        moment += 3600
        hour = _local(moment, tz).hour
        if hour == 0 or hour in rule.hours:
            return moment, hour == 0


def _next_minute(rule: Fields, tz: tzinfo, moment: int) -> tuple[int, bool]:
    local = _local(moment, tz)
    following = min((minute for minute in rule.minutes if minute > local.minute), default=60)
    there = moment + (following - local.minute) * 60
    if _local(there, tz).utcoffset() == local.utcoffset():
        return there, following == 60
    while True:  # the clocks change on the way
        moment += 60
        minute = _local(moment, tz).minute
        if minute == 0 or minute in rule.minutes:
            return moment, minute == 0


_WALK = (
    (_in_month, _month_start, _next_month),
    (_on_day, _day_start, _next_day),
    (_in_hour, _hour_start, _next_hour),
    (_in_minute, _minute_start, _next_minute),
)


def _local(moment: int, tz: tzinfo) -> datetime:
    return datetime.fromtimestamp(moment, tz)


def _offset(moment: int, tz: tzinfo) -> int:
    delta = datetime.fromtimestamp(moment, tz).utcoffset()
    return 0 if delta is None else int(delta.total_seconds())


def _date(tz: tzinfo, year: int, month: int, day: int, hour: int, *, minute: int = 0) -> int:
    """Go's time.Date: ``day`` may run over the month's end; a time that does not exist gets a neighbour's offset."""
    days = date(year, month, 1).toordinal() - _EPOCH_DAY + day - 1
    wall = days * 86400 + hour * 3600 + minute * 60
    return wall - _offset(wall - _offset(wall, tz), tz)
