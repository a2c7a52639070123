"""What a program asks of the calendar, read off its text: one that acts by the day turns nothing off on others.

Read broadly, in any language: what is found here is only tried on more nights, so a word too many costs seconds. What
may *not* live here: when those nights are, and what came of them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from contextlib import suppress
from datetime import tzinfo
from enum import StrEnum

from killcheck.kube.schedule import zone
from killcheck.text import lazy_re
from killcheck.text.redaction import redact

__all__ = [
    "CHANCE",
    "Asked",
    "asked",
    "asks_for",
    "dates_named",
    "days_named",
    "own_clock",
    "shown",
    "tells_time",
    "zones_named",
]


class Asked(StrEnum):
    """What a program looks at: its nights differ by that alone."""

    HOUR = "the hour"
    WEEKDAY = "the day of the week"
    WEEK = "the week"
    DATE = "the date"
    CHANCE = "chance"
    AGE = "how old things are"
    LEFT = "what its firings leave"


#: What tells a program the time: date(1), Python, JavaScript, Go, PowerShell, bash's own printf.
_CLOCK = lazy_re.compile(
    r"\bdate\b|datetime|strftime|localtime|gmtime|\bnew Date\b|Get-Date|time\.Now|%\([^)]{0,80}\)T|EPOCHSECONDS"
)
#: Formats of strftime(3), ``%-d`` and ``%_H`` of GNU too, and what languages call the same.
_ASKING = {
    Asked.HOUR: lazy_re.compile(r"%[-_0^#]?[HIklpPRr]|\.hour\b|getHours|getUTCHours|\.Hour\b"),
    Asked.WEEK: lazy_re.compile(
        r"%[-_0^#]?[GgUVWj]|isocalendar|tm_yday|YearDay|ISOWeek|(?i:\bweek_?(of_?year|number|num|no)\b|\bgetWeek)"
    ),
    Asked.WEEKDAY: lazy_re.compile(
        r"%[-_0^#]?[uwaA]|\b(iso)?weekday\b|isocalendar|tm_wday|day_name|getDay\b|getUTCDay|DayOfWeek|Weekday\("
        r"|\b(Sat|Sun|Mon|Tue|Wed|Thu|Fri)(day|urday|sday|nesday|rsday)?\b|\bweekends?\b",
        re.I,
    ),
    Asked.DATE: lazy_re.compile(
        r"%[-_0^#]?[demjFDxbBhy]|\.(day|month|tm_mon|tm_mday|tm_yday)\b|date\.today|\.date\(\)|getDate|getMonth"
        r"|\.Month\b|\.YearDay|(?i:holiday)|\bdate\b\s*(\)|\||$)",
        re.M,
    ),
}
#: Moments that the API server writes on objects, other than to sort them.
_STAMPED = lazy_re.compile(
    r"(?<!sort-by=)(?<!sort-by=\.metadata\.)(?<!sort-by=\{\.metadata\.)\b(creationTimestamp|startTime|lastScheduleTime"
    r"|lastTransitionTime|cronjob-scheduled-timestamp)\b"
)
#: What says how late it is, to reckon ages from.
_NOW = lazy_re.compile(_CLOCK.pattern + r"|\btime\.time\(|\bstrptime\b|\bnow\b")
#: A part of a moment: its day, its hour.
_PART = lazy_re.compile(r"\bcut\b|\bsubstr|\[\d*:\d*\]|\$\{\w+:\d|strftime|weekday|\.(hour|day|month)\b|%[aAdHjuw]")
#: What compares numbers, or words: with a clock, a day or an age.
_YEARS = lazy_re.compile(
    r"%[-_0^#]?[sYGyF]|EPOCH|\btime\(\)|\.year\b|timestamp|iso(?:format|-8601)|\.(?:utc)?now\(|getTime|getFullYear"
)
_OLDER = lazy_re.compile(r"\s-(?:eq|ne|gt|ge|lt|le)\s|[!=<>]=|\s[=<>]\s")
#: What tosses a coin, with or without a clock.
CHANCE = (
    r"\bS?RANDOM\b|\brand\(\)|\bu?random\b|\bshuf\b|\brandint\b|\brandrange\b|\brandbelow\b"
    r"|\bsort -R\b|Math\.random|Get-Random"
)
_CHANCE = lazy_re.compile(CHANCE)
#: A moment to the second is a stamp: nobody compares one with a day.
_STAMPS = lazy_re.compile(
    r"\+?[\"']?%[YFG][-%md]*[T_ -]?(%H[-:]?%M[-:]?%S|%T)[%zZN]*|\+[\"']?%s\b|-I\w*|--iso-8601\S*|-R\b|--rfc-\S+"
)
#: A number that can be a day of a month, standing by itself.
_DAY = lazy_re.compile(r"(?<![\w.:/%$=-])0?([1-9]|[12]\d|3[01])(?![\w.:/%-])")
_ZONE = lazy_re.compile(
    r"\b(?:Africa|America|Antarctica|Arctic|Asia|Atlantic|Australia|Europe|Indian|Pacific|US)/[A-Z][\w+-]{1,30}(?:/[A-Z]\w{1,30})?"
    r"|(?<=TZ=)[A-Z]\w{1,20}\b"
)
_NAMED = lazy_re.compile(r"(?<![\d.:-])(?:20\d\d-)?(0[1-9]|1[0-2])-(0[1-9]|[12]\d|3[01])(?!-|[.:]?\d)")


def asked(texts: Iterable[str]) -> frozenset[Asked]:
    """What programs look at. ``texts``: their own words, their scripts, their environment's values."""
    known = list(texts)
    chance = frozenset({Asked.CHANCE} if any(map(_CHANCE.search, known)) else ())
    clocked = [_STAMPS.sub("+", text) for text in known if _CLOCK.search(text)]
    stamped = frozenset({Asked.DATE} if _by_stamps(known) else ())
    aged = any(
        _CLOCK.search(text) and (_STAMPED.search(text) or (_YEARS.search(text) and _OLDER.search(text)))
        for text in known
    )
    stamped |= {Asked.AGE} if aged and not stamped else frozenset()
    return chance | stamped | frozenset(what for what, words in _ASKING.items() if any(map(words.search, clocked)))


def tells_time(text: str) -> bool:
    """Whether a program asks what time it is."""
    return _CLOCK.search(text) is not None


def asks_for(what: Asked, text: str) -> bool:
    """Whether one that does asks for a part of the calendar."""
    return _ASKING[what].search(text) is not None


def _by_stamps(texts: list[str]) -> bool:
    """Whether a program takes the time from what the API server wrote: one that has a clock reckons ages from that, but
    where it takes a part of it.
    """
    lines = [line for text in texts for line in text.splitlines() if _STAMPED.search(line)]
    return any(map(_PART.search, lines)) or (bool(lines) and not any(map(_NOW.search, texts)))


#: Characters of a program's own words that are shown.
_SHOWN = 60


def shown(line: str) -> str:
    """What is shown of a program's own words."""
    return redact(line.strip())[:_SHOWN]


def own_clock(texts: Iterable[str]) -> str | None:
    """The words by which a program that goes by the calendar asks this host's clock; None: it does not.

    Where time is virtual, date(1), sleep(1) and Python are told the night's; bash itself, awk, jq and others are not.
    """
    for text in texts:
        plain = _STAMPS.sub("+", text)
        found = next((word for word in _UNTOLD.finditer(plain) if _is_asked(word, plain)), None)
        if found is not None:
            return shown(" ".join(found[0].strip(";&|`( ").split()))
    return None


def _is_asked(word: re.Match[str], text: str) -> bool:
    """Whether a calendar is asked there, rather than how long something takes: seconds only where they are divided."""
    line = text[text.rfind("\n", 0, word.start()) + 1 :].partition("\n")[0]
    return not word[0].startswith("EPOCH") or _DIVIDED.search(line) is not None


#: By what programs ask for the time whose answer is this host's: words of bash, and languages other than Python as
#: the first word of a command (``node`` is a kind of Kubernetes', too). So far behind one its words are looked for.
_UNTOLD = lazy_re.compile(
    r"EPOCH(?:SECONDS|REALTIME)|%\((?!\+\))[^)\n]{0,80}\)T|\b[gmn]?awk\b[^\n]{0,400}?\b(?:strftime|systime)\b"
    r"|\bjq\b[^\n]{0,400}?\b(?:now|strflocaltime)\b|-newer[aBcm]t\b|-daystart\b"
    r"|(?:^|[;&|`(]|\b(?:then|do|else|exec)\b)[ \t]*(?:perl|ruby|node|php|lua)\b[^\n]{0,400}?(?:time|Time|Date|date)",
    re.M,
)
_DIVIDED = lazy_re.compile(r"[/%]\s*\d")


def dates_named(texts: Iterable[str]) -> frozenset[tuple[int, int]]:
    """The days of a year, (month, day), that texts name as ``2026-12-24`` or ``12-24``."""
    return frozenset((int(found[1]), int(found[2])) for text in texts for found in _NAMED.finditer(text))


def zones_named(texts: Iterable[str]) -> tuple[tzinfo, ...]:
    """The time zones that texts name: by ``TZ=``, or as a program names one; what nobody knows is left out."""
    found: dict[tzinfo, None] = {}
    for name in dict.fromkeys(name for text in texts for name in _ZONE.findall(text)):
        with suppress(ValueError):
            found[zone(name)] = None
    return tuple(found)


def days_named(texts: Iterable[str]) -> frozenset[int]:
    """The days of a month that texts name by number, and those beside them: ``-ge 25`` differs on the 24th."""
    named = {int(found[1]) for text in texts for found in _DAY.finditer(text)}
    return frozenset(day for one in named for day in (one - 1, one, one + 1) if 1 <= day <= 31)
