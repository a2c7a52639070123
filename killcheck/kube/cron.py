"""Cron expressions exactly as Kubernetes accepts them, refused in its words.

Source: github.com/robfig/cron/v3 parser.go (``ParseStandard``), which the API server and the CronJob controller use.
What it accepts is wider than crontab(5) in places (``*/90``, a field of commas) and narrower in others (no day 7,
no ``@reboot``, no seconds).
"""

from __future__ import annotations

import re
from typing import NamedTuple

from msgspec import Struct

from killcheck.text import lazy_re

__all__ = ["CronError", "Every", "Fields", "parse_expression", "parse_go_duration"]

_GO_SPACE = " \t\n\v\f\r\x85\xa0"


class CronError(ValueError):
    """The expression is refused; the message is robfig/cron's."""


class _Bounds(NamedTuple):
    least: int
    most: int
    names: dict[str, int]


_MONTHS = ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"]
_DAYS = ["sun", "mon", "tue", "wed", "thu", "fri", "sat"]
_MINUTE = _Bounds(0, 59, {})
_HOUR = _Bounds(0, 23, {})
_DOM = _Bounds(1, 31, {})
_MONTH = _Bounds(1, 12, {name: i for i, name in enumerate(_MONTHS, 1)})
_DOW = _Bounds(0, 6, {name: i for i, name in enumerate(_DAYS)})


class Fields(Struct, frozen=True):
    """The five fields as the values they match.

    ``day_star``: a day field has a star (``*``, ``?``, ``*/1``), so both day fields must match; else one is enough.
    """

    minutes: frozenset[int]
    hours: frozenset[int]
    days: frozenset[int]
    months: frozenset[int]
    weekdays: frozenset[int]
    day_star: bool = False

    def matches_day(self, day: int, weekday: int) -> bool:
        """Whether a day of the month that is ``weekday`` (Sunday is 0) is one of the schedule's."""
        of_month, of_week = day in self.days, weekday in self.weekdays
        return (of_month and of_week) if self.day_star else (of_month or of_week)


class Every(Struct, frozen=True):
    """``@every``: a constant delay, whole seconds, at least one."""

    seconds: int


def parse_expression(text: str) -> Fields | Every:
    """Five fields, a descriptor (``@daily``) or ``@every 1h30m``. Raises CronError."""
    if not text:
        raise CronError("empty spec string")
    if text.startswith("@"):
        return _descriptor(text)
    fields = [part for part in re.split(f"[{_GO_SPACE}]+", text) if part]
    if len(fields) != 5:
        raise CronError(f"expected exactly 5 fields, found {len(fields)}: [{' '.join(fields)}]")
    minutes, _ = _field(fields[0], _MINUTE)
    hours, _ = _field(fields[1], _HOUR)
    days, star = _field(fields[2], _DOM)
    months, _ = _field(fields[3], _MONTH)
    weekdays, other_star = _field(fields[4], _DOW)
    return Fields(minutes, hours, days, months, weekdays, star or other_star)


_DESCRIPTORS = {
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
    "@monthly": "0 0 1 * *",
    "@weekly": "0 0 * * 0",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@hourly": "0 * * * *",
}


def _descriptor(text: str) -> Fields | Every:
    fields = _DESCRIPTORS.get(text)
    if fields is not None:
        return parse_expression(fields)
    if text.startswith("@every "):
        try:
            nanoseconds = parse_go_duration(text.removeprefix("@every "))
        except ValueError as error:
            raise CronError(f"failed to parse duration {text}: {error}") from error
        return Every(max(1, nanoseconds // 10**9))
    raise CronError(f"unrecognized descriptor: {text}")


def _field(text: str, bounds: _Bounds) -> tuple[frozenset[int], bool]:
    values: set[int] = set()
    star = False
    for part in text.split(","):
        if part:  # commas alone match nothing, and are accepted
            found, starred = _range(part, bounds)
            values.update(found)
            star = star or starred
    return frozenset(values), star


def _range(text: str, bounds: _Bounds) -> tuple[range, bool]:
    """``number | number-number [/number]``: the values, and whether it counts as a star."""
    parts = text.split("/")
    ends = parts[0].split("-")
    star = ends[0] in ("*", "?")
    if star:
        start, end = bounds.least, bounds.most
    else:
        start = end = _number_or_name(ends[0], bounds)
        if len(ends) > 2:
            raise CronError(f"too many hyphens: {text}")
        if len(ends) == 2:
            end = _number_or_name(ends[1], bounds)
    if len(parts) > 2:
        raise CronError(f"too many slashes: {text}")
    step = 1
    if len(parts) == 2:
        step = _number(parts[1])
        if len(ends) == 1:
            end = bounds.most
        star = star and step <= 1
    _check_range(text, start, end, step, bounds)
    return range(start, end + 1, step), star


def _check_range(text: str, start: int, end: int, step: int, bounds: _Bounds) -> None:
    if start < bounds.least:
        raise CronError(f"beginning of range ({start}) below minimum ({bounds.least}): {text}")
    if end > bounds.most:
        raise CronError(f"end of range ({end}) above maximum ({bounds.most}): {text}")
    if start > end:
        raise CronError(f"beginning of range ({start}) beyond end of range ({end}): {text}")
    if step == 0:
        raise CronError(f"step of range should be a positive number: {text}")


def _number_or_name(text: str, bounds: _Bounds) -> int:
    named = bounds.names.get(text.lower())
    return _number(text) if named is None else named


#: Digits that no number of 64 bits has.
_MOST_DIGITS = 20


def _number(text: str) -> int:
    """Go's strconv.Atoi, and its words."""
    quoted = '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'
    if not re.fullmatch(r"[+-]?[0-9]+", text):
        raise CronError(f"failed to parse int from {text}: strconv.Atoi: parsing {quoted}: invalid syntax")
    digits = text.lstrip("+-").lstrip("0") or "0"
    value = int(digits) if len(digits) < _MOST_DIGITS else 2**63  # Python takes no number of thousands of digits
    value = -value if text.startswith("-") else value
    if not -(2**63) <= value < 2**63:
        raise CronError(f"failed to parse int from {text}: strconv.Atoi: parsing {quoted}: value out of range")
    if value < 0:
        raise CronError(f"negative number ({value}) not allowed: {text}")
    return value


_UNITS_NS = {
    "ns": 1,
    "us": 10**3,
    "\N{MICRO SIGN}s": 10**3,
    "\N{GREEK SMALL LETTER MU}s": 10**3,
    "ms": 10**6,
    "s": 10**9,
    "m": 60 * 10**9,
    "h": 3600 * 10**9,
}
_DURATION_PART = lazy_re.compile(r"([0-9]*)(\.[0-9]*)?([^.0-9]*)")


def parse_go_duration(text: str) -> int:
    """Nanoseconds of a Go duration (``1h30m``, ``90s``). Raises ValueError in time.ParseDuration's words."""
    quoted = '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'
    rest = text[1:] if text[:1] in ("+", "-") else text
    if rest == "0":
        return 0
    if not rest:
        raise ValueError(f"time: invalid duration {quoted}")
    total = 0
    while rest:
        found = _DURATION_PART.match(rest)
        whole, fraction, unit = (found[1], found[2] or "", found[3]) if found else ("", "", "")
        if found is None or not (whole or fraction.strip(".")):
            raise ValueError(f"time: invalid duration {quoted}")
        if not unit:
            raise ValueError(f"time: missing unit in duration {quoted}")
        if unit not in _UNITS_NS:
            raise ValueError(f'time: unknown unit "{unit}" in duration {quoted}')
        digits = fraction.strip(".")
        total += int(whole or 0) * _UNITS_NS[unit] + int(digits or 0) * _UNITS_NS[unit] // 10 ** len(digits)
        rest = rest[found.end() :]
    if total >= 2**63:
        raise ValueError(f"time: invalid duration {quoted}")
    return -total if text.startswith("-") else total
