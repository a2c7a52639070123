"""What systemd makes of a service's lines: whose failure it passes over, and how long a program may take.

Sources: systemd.service(5), "Command lines", ``SuccessExitStatus=``, ``TimeoutStartSec=``, ``RuntimeMaxSec=``;
systemd.time(7), "Parsing time spans". What may *not* live here: where a program lies.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Sequence

from killcheck.text import lazy_re
from killcheck.text.numbers import whole

__all__ = ["bare", "heeded", "limit_s", "passed_over", "span_s"]

#: What may stand before a program; ``-`` has its failure passed over.
_PREFIXES = "-@+!:|"
#: From this exit code on a shell tells of a program that is not there.
_NOT_THERE = 126
_SPAN = lazy_re.compile(r"(\d+(?:\.\d+)?)\s*([a-zµ]*)", re.IGNORECASE)
_UNITS = {
    "": 1.0, "s": 1.0, "sec": 1.0, "second": 1.0, "seconds": 1.0, "ms": 0.001, "msec": 0.001,
    "m": 60.0, "min": 60.0, "minute": 60.0, "minutes": 60.0, "h": 3600.0, "hr": 3600.0, "hour": 3600.0,
    "hours": 3600.0, "d": 86400.0, "day": 86400.0, "days": 86400.0,
}  # fmt: skip
#: (section, key, value) of each line of a unit.
_Lines = Sequence[tuple[str, str, str]]


def bare(line: str) -> str:
    """A command line without what stands before its program."""
    return line.lstrip(_PREFIXES)


def passed_over(line: str) -> bool:
    """Whether a command line has its failure passed over: ``ExecStart=-/usr/bin/...``."""
    return "-" in line[: len(line) - len(bare(line))]


def heeded(argv: Sequence[str], line: str, unit: _Lines) -> str:
    """A program as a line of shell that ends as its unit takes it to end; one that is not there is told."""
    allowed = [value for _, key, value in unit if key == "SuccessExitStatus" for value in value.split()]
    codes = [code for code in allowed if 0 < (whole(code) or 0) < _NOT_THERE]
    text = shlex.join(argv)
    if passed_over(line):
        return f"{text} || {{ code=$?; [ $code -lt {_NOT_THERE} ] || exit $code; }}"
    return f"{text} || case $? in {'|'.join(codes)}) ;; *) exit 1 ;; esac" if codes else text


def limit_s(unit: _Lines) -> float | None:
    """After how many seconds a service's program is stopped; None: never.

    One of ``Type=oneshot`` is at its start until it has ended; of any other, what it runs is bounded by itself.
    """
    values = {key: value for _, key, value in unit}
    if values.get("Type") == "oneshot":
        return _first(values.get(key) for key in ("TimeoutStartSec", "TimeoutSec"))
    return _first([values.get("RuntimeMaxSec")])


def _first(values: Iterable[str | None]) -> float | None:
    return next((span for value in values if value and (span := span_s(value))), None)


def span_s(text: str) -> float | None:
    """A time span in seconds (``1min 30s``); None: none, as ``infinity`` and ``0`` are no limit, or not understood."""
    found = _SPAN.findall(text)
    if not found or _SPAN.sub("", text).strip() or any(unit.lower() not in _UNITS for _, unit in found):
        return None
    return sum(float(number) * _UNITS[unit.lower()] for number, unit in found) or None
