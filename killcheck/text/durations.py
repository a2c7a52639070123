"""Durations as people write them (``5m``, ``90s``, ``1h30m``) and as seconds."""

from __future__ import annotations

import re

from killcheck.text import lazy_re

__all__ = ["PATTERN", "format_duration", "go_duration", "parse_duration"]

_UNITS = {"d": 86400.0, "h": 3600.0, "m": 60.0, "s": 1.0, "ms": 0.001}
#: What a duration looks like, largest unit first; also for the JSON Schema.
PATTERN = r"^(\d+(\.\d+)?d)?(\d+(\.\d+)?h)?(\d+(\.\d+)?m)?(\d+(\.\d+)?s)?(\d+ms)?$"
#: Longer than anything that anybody waits for, in seconds: ten years.
_MOST_S = 3650 * 86400.0
_PART = lazy_re.compile(r"(\d+(?:\.\d+)?)(ms|[dhms])")


def parse_duration(text: str) -> float:
    """Seconds. Raises ValueError, with what was expected, for anything else (a bare number has no unit)."""
    if not text or not re.match(PATTERN, text):
        raise ValueError(f"expected a duration such as 90s, 5m or 1h30m, found {text!r}")
    seconds = sum(float(number) * _UNITS[unit] for number, unit in _PART.findall(text))
    if seconds > _MOST_S:
        raise ValueError(f"expected a duration of at most 3650d, found {text!r}")
    return round(seconds, 6)


def format_duration(seconds: float) -> str:
    """Exact down to milliseconds: 300 is ``5m``, 90 is ``90s``, 5400 is ``90m``, 2130 is ``35m30s``."""
    millis = round(seconds * 1000)
    if millis % 1000:
        return f"{millis}ms"
    whole = millis // 1000
    if whole and whole % 3600 == 0:
        return f"{whole // 3600}h"
    if whole % 60 == 0 and whole:
        return f"{whole // 60}m"
    return f"{whole}s" if whole < 120 else f"{whole // 60}m{whole % 60}s"


def go_duration(seconds: float) -> str:
    """A whole number of seconds as Go prints a duration: ``1m20s``, ``5m0s``."""
    whole = int(seconds)
    hours, minutes, rest = whole // 3600, whole % 3600 // 60, whole % 60
    return (f"{hours}h" if hours else "") + (f"{minutes}m" if hours or minutes else "") + f"{rest}s"
