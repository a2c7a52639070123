"""When a systemd timer goes off, as a cron schedule: of its calendar expressions those that a day or a week repeats.

systemd.time(7). Seconds are left out. What cron cannot say (years, ``~``, several expressions) is None: nobody here
knows its hour.
"""

from __future__ import annotations

import re

from killcheck.text import lazy_re

__all__ = ["as_cron", "impossible", "is_over"]

_WORDS = {
    "minutely": "* * * * *",
    "hourly": "0 * * * *",
    "daily": "0 0 * * *",
    "weekly": "0 0 * * 1",
    "monthly": "0 0 1 * *",
    "quarterly": "0 0 1 1,4,7,10 *",
    "semiannually": "0 0 1 1,7 *",
    "yearly": "0 0 1 1 *",
    "annually": "0 0 1 1 *",
}
_DAYS = ("sun", "mon", "tue", "wed", "thu", "fri", "sat")
_YEARS = lazy_re.compile(r"(?<![\d-])\d{4}[\d,./]*(?=-)")
_EXPRESSION = lazy_re.compile(
    r"(?:(?P<days>[A-Za-z][A-Za-z,.-]*)\s+)?(?:(?:\*-)?(?P<month>[\d*,]+)-(?P<day>[\d*,/]+)\s+)?"
    r"(?P<hour>[\d*,/]+|\d+\.\.\d+):(?P<minute>[\d*,/]+|\d+\.\.\d+)(?::[0-5]?\d)?(?:\s+(?P<zone>[A-Z][\w/+-]*))?"
)
#: The least and the most of each component.
_RANGES = {"month": (1, 12), "day": (1, 31), "hour": (0, 23), "minute": (0, 59)}
#: So many digits a number has at most that is looked at as one.
_DIGITS = 9


def as_cron(expression: str) -> tuple[str, str] | None:
    """(cron schedule, time zone or nothing); None: it cannot be said in cron's words."""
    text = " ".join(expression.split())
    if text.lower() in _WORDS:
        return _WORDS[text.lower()], ""
    found = _EXPRESSION.fullmatch(text)
    if found is None:
        return None
    weekdays = _weekdays(found["days"] or "")
    if weekdays is None or impossible(text):
        return None
    fields = [_field(found[name] or "*") for name in ("minute", "hour", "day", "month")]
    return " ".join([*fields, weekdays]), found["zone"] or ""


def impossible(expression: str) -> str | None:
    """What of an expression systemd refuses because no clock or calendar has it, in half a sentence; None: nothing.

    Source: src/shared/calendarspec.c, the range of each component.
    """
    found = _EXPRESSION.fullmatch(" ".join(expression.split()))
    for name, (least, most) in _RANGES.items() if found else ():
        said = re.sub(r"/\d+", "", (found and found[name]) or "")  # how often it repeats has no range
        for number in re.findall(r"\d+", said):
            if len(number) > _DIGITS or not least <= int(number) <= most:
                return f"there is no {name} {number[:_DIGITS]}"
    return None


def is_over(expression: str, year: int) -> bool:
    """Whether every year that an expression names has passed before ``year``: it never elapses again."""
    found = _YEARS.search(expression)
    text = found[0] if found else "/"
    return "/" not in text and max(map(int, re.findall(r"\d{4}", text))) < year


def _field(text: str) -> str:
    """Numbers as cron has them: ``05`` is 5, ``8..17`` is 8-17, ``0/15`` is every 15 from 0 on."""
    text = re.sub(r"\b(\d+)/(\d+)", lambda m: f"{int(m[1])}-59/{m[2]}" if int(m[1]) else f"*/{m[2]}", text)
    return re.sub(r"\d+", lambda m: str(int(m[0])), text.replace("..", "-"))


def _weekdays(text: str) -> str | None:
    """Days of the week as cron's numbers; None: a word that is no day."""
    parts = []
    for part in filter(None, text.lower().split(",")):
        ends = [name[:3] for name in part.split("..")]
        if any(name not in _DAYS for name in ends) or len(ends) > 2:
            return None
        first, last = _DAYS.index(ends[0]), _DAYS.index(ends[-1])
        if last < first:  # Fri..Sun: cron's week begins with Sunday, which is 7 too
            last += 7
        days = [str(day % 7) for day in range(first, last + 1)]
        parts += days
    return ",".join(dict.fromkeys(parts)) or "*" if len(set(parts)) < 7 else "*"
