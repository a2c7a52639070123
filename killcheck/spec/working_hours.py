"""When somebody looks, as a spec writes it: ``Mon-Fri 09:00-17:30; Sat 22:00-06:00``; and when that is next."""

from __future__ import annotations

from datetime import UTC, date, datetime, time, timedelta
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from msgspec import Struct

from killcheck.text import lazy_re

__all__ = ["Noticed", "WorkingHours", "working_hours"]

_DAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
_DAY = "|".join(_DAYS)
_TEXT = lazy_re.compile(rf"((?:{_DAY})(?:[-,](?:{_DAY}))*) (\d\d):(\d\d)-(\d\d):(\d\d)")
_RUN = lazy_re.compile(rf"({_DAY})(?:-({_DAY}))?")
_DAY_S = 86400


class Window(Struct, frozen=True):
    """Seconds of the day, on the weekdays (0: Monday) on which it begins; a shift of the night ends the day after."""

    days: frozenset[int]
    begin_s: int
    end_s: int

    def next(self, after: datetime, zone: ZoneInfo) -> datetime:
        """The first moment at or after ``after`` that lies in it, by the clocks of ``zone``, in UTC."""
        local = after.astimezone(zone)
        for later in range(-1, 8):
            day = (local + timedelta(days=later)).date()
            closes = _moment(day, self.end_s if self.begin_s < self.end_s else self.end_s + _DAY_S, zone)
            if day.weekday() in self.days and after < closes:
                return max(after.astimezone(UTC), _moment(day, self.begin_s, zone))
        raise AssertionError("a week has every weekday")


class WorkingHours(Struct, frozen=True):
    """Windows of the week, by the clocks of a zone."""

    windows: tuple[Window, ...]
    zone: ZoneInfo

    def next(self, after: datetime) -> datetime:
        """The first moment at or after ``after`` that lies in one of them, in UTC."""
        return min(window.next(after, self.zone) for window in self.windows)


class Noticed(Struct, frozen=True):
    """Who notices that GPUs stayed on: whoever looks in working ``hours``, and whom an alert calls at any hour.

    ``answers_s``: from the alert to somebody who does something about it, in seconds.
    """

    hours: str
    time_zone: str = "Etc/UTC"
    answers_s: float = 900.0


def working_hours(text: str, zone: str) -> WorkingHours:
    """Read them: weekdays and a window, more of these after a semicolon. Raises ValueError: what was expected."""
    windows = tuple(_window(part.strip()) for part in text.split(";"))
    try:
        return WorkingHours(windows, ZoneInfo(zone))
    except (ZoneInfoNotFoundError, ValueError, OSError):
        raise ValueError(f"expected a time zone such as Europe/Berlin or Etc/UTC, found {zone!r}") from None


def _window(text: str) -> Window:
    found = _TEXT.fullmatch(text)
    begin_s, end_s = (-1, -1) if found is None else (_second(found[2], found[3]), _second(found[4], found[5]))
    if found is None or not 0 <= begin_s < _DAY_S or not 0 <= end_s <= _DAY_S or begin_s == end_s:
        raise ValueError(f"expected weekdays and hours such as Mon-Fri 09:00-17:30 or Sat 22:00-06:00, found {text!r}")
    days: set[int] = set()
    for first, last in _RUN.findall(found[1]):
        start = _DAYS.index(first)
        length = (_DAYS.index(last or first) - start) % 7
        days |= {(start + step) % 7 for step in range(length + 1)}
    return Window(frozenset(days), begin_s, end_s)


def _second(hour: str, minute: str) -> int:
    """Of the day; -1: there is no such minute."""
    return int(hour) * 3600 + int(minute) * 60 if int(minute) < 60 else -1


def _moment(day: date, second: int, zone: ZoneInfo) -> datetime:
    """A second of a day by its clocks, in UTC; beyond a day's end it is of the next one."""
    midnight = datetime.combine(day + timedelta(days=second // _DAY_S), time(), zone)
    return (midnight + timedelta(seconds=second % _DAY_S)).astimezone(UTC)
