"""When somebody looks, as a spec writes it: ``Mon-Fri 09:00-17:30``; and when that is next."""

from __future__ import annotations

from datetime import UTC, datetime, time, timedelta
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from msgspec import Struct

from killcheck.text import lazy_re

__all__ = ["Noticed", "WorkingHours", "working_hours"]

_DAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
_DAY = "|".join(_DAYS)
_TEXT = lazy_re.compile(rf"((?:{_DAY})(?:[-,](?:{_DAY}))*) (\d\d):(\d\d)-(\d\d):(\d\d)")
_RUN = lazy_re.compile(rf"({_DAY})(?:-({_DAY}))?")


class WorkingHours(Struct, frozen=True):
    """One window of the day on some weekdays (0: Monday), by the clocks of a zone. It ends on the day it begins."""

    days: frozenset[int]
    begin: time
    end: time
    zone: ZoneInfo

    def next(self, after: datetime) -> datetime:
        """The first moment at or after ``after`` that lies in it, in UTC."""
        local = after.astimezone(self.zone)
        for later in range(8):
            day = (local + timedelta(days=later)).date()
            opens = datetime.combine(day, self.begin, self.zone).astimezone(UTC)
            closes = datetime.combine(day, self.end, self.zone).astimezone(UTC)
            if day.weekday() in self.days and after < closes:
                return max(after.astimezone(UTC), opens)
        raise AssertionError("a week has every weekday")


class Noticed(Struct, frozen=True):
    """Who notices that GPUs stayed on: whoever looks in working ``hours``, and whom an alert calls at any hour.

    ``answers_s``: from the alert to somebody who does something about it, in seconds.
    """

    hours: str
    time_zone: str = "Etc/UTC"
    answers_s: float = 900.0


def working_hours(text: str, zone: str) -> WorkingHours:
    """Read them: weekdays and a window. Raises ValueError that says what was expected."""
    found = _TEXT.fullmatch(text)
    if (
        found is None
        or any(int(hour) > 23 for hour in found.group(2, 4))
        or any(int(m) > 59 for m in found.group(3, 5))
    ):
        raise ValueError(f"expected weekdays and hours such as Mon-Fri 09:00-17:30, found {text!r}")
    begin, end = time(int(found[2]), int(found[3])), time(int(found[4]), int(found[5]))
    if begin >= end:
        raise ValueError(f"expected hours that end after they begin, on the same day, found {text!r}")
    days: set[int] = set()
    for first, last in _RUN.findall(found[1]):
        start = _DAYS.index(first)
        length = (_DAYS.index(last or first) - start) % 7
        days |= {(start + step) % 7 for step in range(length + 1)}
    try:
        return WorkingHours(frozenset(days), begin, end, ZoneInfo(zone))
    except (ZoneInfoNotFoundError, ValueError, OSError):
        raise ValueError(f"expected a time zone such as Europe/Berlin or Etc/UTC, found {zone!r}") from None
