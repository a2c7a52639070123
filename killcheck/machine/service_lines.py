"""What systemd makes of a service's lines: whose failure it passes over, and how long a program may take.

Sources: systemd.service(5), "Command lines", ``SuccessExitStatus=``, ``TimeoutStartSec=``, ``RuntimeMaxSec=``;
systemd.time(7), "Parsing time spans". What may *not* live here: where a program lies.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Mapping, Sequence

from killcheck.text import lazy_re
from killcheck.text.numbers import whole

__all__ = ["bare", "commands", "emptied", "heeded", "limit_s", "passed_over", "span_s"]

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
#: What a backslash stands for before these (systemd.syntax(7), "Quoting"); before any other character it stays.
_ESCAPES = {
    "a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v", "s": " ",
    "\\": "\\", '"': '"', "'": "'",
}  # fmt: skip
_CODED = lazy_re.compile(r"x([0-9a-fA-F]{2})|([0-7]{3})|u([0-9a-fA-F]{4})")
_VARIABLE = lazy_re.compile(r"\$\$|\$\{(\w+)\}")
_ALONE = lazy_re.compile(r"\$([A-Za-z_]\w*)")
#: What systemd itself tells a program, of which nothing is known here: it stays as it is written.
_OWN = frozenset(
    "PATH LANG USER LOGNAME HOME SHELL INVOCATION_ID MAINPID MANAGERPID RUNTIME_DIRECTORY STATE_DIRECTORY "
    "CACHE_DIRECTORY LOGS_DIRECTORY CONFIGURATION_DIRECTORY CREDENTIALS_DIRECTORY TZ SERVICE_RESULT EXIT_CODE".split()
)


def bare(line: str) -> str:
    """A command line without what stands before its program."""
    return line.lstrip(_PREFIXES)


def commands(line: str, env: Mapping[str, str]) -> list[list[str]]:
    """The words of each program that a command line starts, as systemd has them: quotes and escapes its own, ``${X}``
    filled in everywhere and ``$X`` where it is a word, from the unit's environment alone; ``$$`` is a dollar sign.

    Raises ValueError where a quote is open.
    """
    found: list[list[str]] = [[]]
    for word in _words(bare(line)):
        if word == ";":
            found.append([])
        else:
            found[-1].append(";" if word == "\\;" else word)
    return [words if _as_written(line) else _filled(words, env) for words in found if words]


def emptied(line: str, env: Mapping[str, str]) -> list[str]:
    """The variables of a shell's own text that systemd replaces by nothing before the shell sees them."""
    if _as_written(line):
        return []
    names = [found[1] for found in _VARIABLE.finditer(line) if found[1] and found[1] not in env]
    own = [name for name in names if re.search(rf"\b(?:for|read)\b[^;|&]*\b{name}\b|\b{name}=", line)]
    return list(dict.fromkeys(own))


def _as_written(line: str) -> bool:
    """Whether a command line has its variables left alone: ``ExecStart=:/bin/sh -c ...``."""
    return ":" in line[: len(line) - len(bare(line))]


def _filled(words: list[str], env: Mapping[str, str]) -> list[str]:
    def value(found: re.Match[str]) -> str:
        name = found[1]
        return "$" if name is None else found[0] if name in _OWN and name not in env else env.get(name, "")

    filled = words[:1]
    for word in words[1:]:
        alone = _ALONE.fullmatch(word)
        if alone and (alone[1] in env or alone[1] not in _OWN):
            filled += env.get(alone[1], "").split()
        else:
            filled.append(_VARIABLE.sub(value, word))
    return filled


def _words(line: str) -> list[str]:
    """A line's words, quotes taken off; a semicolon that is escaped is left so."""
    found, word, quote, at = list[str](), None, "", 0
    while at < len(line):
        char = line[at]
        at += 1
        if not quote and char.isspace():
            found += [word] if word is not None else []
            word = None
        elif quote and char == quote:
            quote = ""
        elif not quote and char in "\"'":
            quote, word = char, word or ""
        elif char == "\\" and at < len(line):
            said, length = _escaped(line, at)
            word, at = (word or "") + said, at + length
        else:
            word = (word or "") + char
    if quote:
        raise ValueError(f"a quote is open in {line[:80]!r}")
    return [*found, word] if word is not None else found


def _escaped(line: str, at: int) -> tuple[str, int]:
    """(what the characters behind a backslash stand for, how many they are)."""
    coded = _CODED.match(line, at)
    if coded:
        digits = coded[1] or coded[3]
        return chr(int(digits, 16) if digits else int(coded[2], 8)), len(coded[0])
    return _ESCAPES.get(line[at], "\\" + line[at]), 1


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
