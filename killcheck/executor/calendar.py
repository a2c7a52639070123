"""What a program asks of the calendar, read off its text: one that acts by the day turns nothing off on others.

Read broadly, in any language: what is found here is only tried on more nights, so a word too many costs seconds. What
may *not* live here: when those nights are, and what came of them.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence
from enum import StrEnum
from itertools import islice

from killcheck.text import lazy_re
from killcheck.text.redaction import redact

__all__ = ["Asked", "asked", "dates_named", "days_named", "own_clock", "tossed"]


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
_CHANCE = lazy_re.compile(
    r"\bRANDOM\b|\brand\(\)|/dev/u?random|\bshuf\b|\brandom\b|\brandint\b|Math\.random|Get-Random"
)
#: A moment to the second is a stamp: nobody compares one with a day.
_STAMPS = lazy_re.compile(
    r"\+?[\"']?%[YFG][-%md]*[T_ -]?(%H[-:]?%M[-:]?%S|%T)[%zZN]*|\+[\"']?%s\b|-I\w*|--iso-8601\S*|-R\b|--rfc-\S+"
)
#: A number that can be a day of a month, standing by itself.
_DAY = lazy_re.compile(r"(?<![\w.:/%$=-])0?([1-9]|[12]\d|3[01])(?![\w.:/%-])")
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


def _by_stamps(texts: list[str]) -> bool:
    """Whether a program takes the time from what the API server wrote: one that has a clock reckons ages from that, but
    where it takes a part of it.
    """
    lines = [line for text in texts for line in text.splitlines() if _STAMPED.search(line)]
    return any(map(_PART.search, lines)) or (bool(lines) and not any(map(_NOW.search, texts)))


#: What else is another one for each pod: its name, a process' number, a clock's least digits but those of a stamp.
_APART = r"(?:\bHOSTNAME\b|\bhostname\b|\buuid(?:gen|4)?\b|\$\$|(?<!%s)%\d?N\b)"
_OWN = lazy_re.compile(_CHANCE.pattern + "|" + _APART)
#: ...as part of a name or a path that is made new each time.
_IN_A_NAME = lazy_re.compile(
    r"/[\w./-]{0,100}(?:\$\$|\$\{?(?:RANDOM|HOSTNAME)\b\}?)|(?<=[\w)}])[-_.](?:\$\$|\$\{?RANDOM\b\}?)"
)
#: What is left of a division: days that are counted off. Of weekdays and weeks by a small number each is tried.
_MODULO = lazy_re.compile(r"(?<=[\s)\w])%\s*(\d{1,9})(?=[\s)\]:=!<>]|$)", re.M)
_FEW = 7
#: What a line does with what was tossed: it compares it, or counts it off.
_COMPARES = lazy_re.compile(
    r"\bif\b|\bcase\b|\btest\s|\[\s|\s[<>]=?\s+[\d.]|(?<=[\s)\w])%\s*\d{1,9}(?=[\s)\]:=!<>]|$)|[!=]=|\s-(?:eq|ne|gt|ge|lt|le)\s"
)
#: ...with what only tells one pod from the next, which is more often told than compared: TOKEN is where that stands.
_COMPARED = (
    r"\bcase\b[^\n]{0,60}TOKEN|\s[!=]=?\s+[\"']?\$?[({]{0,3}TOKEN"
    r"|TOKEN[}\w#:/*+-]{0,20}[\"'`)}\]]{0,4}\s{0,9}(?:[!=]=|=~?\s|-(?:eq|ne|gt|ge|lt|le)\b|%\s*\d|[<>]|\|\s*grep|<<<)"
    r"|\bgrep\b[^\n|]{0,100}<<<\s*[\"']?\$?[({]?TOKEN"
)
#: ...or takes one of several.
_CHOOSES = lazy_re.compile(r"\bchoices?\(|\bsample\(|\bshuf\b(?!.*\s-i)|\bsort -R\b|Get-Random -InputObject")
_SLEEPS = lazy_re.compile(r"\bsleep\b")
_ASSIGNED = lazy_re.compile(r"(?:^|[;&|\s])(\w{1,60})\s{0,9}=(?!=)")
#: How long is waited: numbers, what they are times or divided by, the unit of sleep(1), digits that are cut out.
_NUMBER = lazy_re.compile(r"(?<![\w.])\d{1,9}(?![\w.])")
_TIMES = lazy_re.compile(r"(?<!\*)\*\s{0,9}(\d{1,9})|(\d{1,9})\s{0,9}\*(?!\*)")
_PART_OF = lazy_re.compile(r"RANDOM\}?\s{0,9}/\s{0,9}(\d{1,9})")
_DIGITS = lazy_re.compile(r"RANDOM:\s?\d{1,2}:(\d)\d?\}")
_UNIT = lazy_re.compile(r"(?:[)}]|RANDOM)\"?([mhd])\b")
_UNIT_S = {"m": 60.0, "h": 3600.0, "d": 86400.0}
#: Where a command ends, and how many lines that toss are looked at.
_ENDED, _MOST_TOSSES = lazy_re.compile(r"[\n;]"), 200
#: The most that bash's RANDOM is.
_RANDOM_AT_MOST = 32767


def tossed(texts: Iterable[str], most_s: float) -> str | None:
    """The line by which a program goes by chance; None: it goes by none, or only waits for less than ``most_s``."""
    for text in texts:
        lines = [line for line in _ENDED.split(_IN_A_NAME.sub("", text)) if line.strip()]
        counted = [line for line in lines if _counts_off(line)] if _CLOCK.search(text) else []
        tosses = dict.fromkeys(islice(filter(_OWN.search, lines), _MOST_TOSSES))
        found = next(iter((*counted, *(line for line in tosses if _goes_by(line, lines, most_s)))), None)
        if found is not None:
            return _shown(found)
    return None


def _goes_by(line: str, lines: Sequence[str], most_s: float) -> bool:
    """Whether a program goes by what one of its lines tosses, there or by the name that it gives it."""
    given = _ASSIGNED.search(line) if not _SLEEPS.search(line) else None
    used = [line] if given is None else [one for one in lines if re.search(rf"(?<![\w-]){given[1]}\b", one)]
    waits = [one for one in used if _SLEEPS.search(one)]
    compares = _COMPARES
    if not _CHANCE.search(line):
        compares = re.compile(_COMPARED.replace("TOKEN", _APART if given is None else rf"\b{given[1]}\b"))
    later = any(compares.search(one) for one in used if one is not line and one not in waits)
    if _CHOOSES.search(line) or later or (waits and _longest_s([line, *waits]) > most_s):
        return True
    return not waits and given is None and compares.search(line) is not None


def _longest_s(lines: Sequence[str]) -> float:
    """How long is waited at most by lines that toss a time and sleep for it."""
    said = "\n".join(dict.fromkeys(lines))
    times: float = math.prod(int(one[1] or one[2]) for one in _TIMES.finditer(said))
    times *= max((_UNIT_S[unit] for unit in _UNIT.findall(said)), default=1.0)
    parts, digits = _PART_OF.search(said), _DIGITS.search(said)
    if parts is not None or digits is not None:
        most = _RANDOM_AT_MOST / max(1, int(parts[1])) if parts else 10.0 ** int(digits[1] if digits else 0)
        return most * times
    numbers = [int(one) for one in _NUMBER.findall(_TIMES.sub("", said))]
    if not numbers:
        return times * (_RANDOM_AT_MOST if "RANDOM" in said or times == 1.0 else 1.0)
    return times * (sum(numbers) if "+" in said else max(numbers))


def _counts_off(line: str) -> bool:
    """Whether a line takes what is left of a division, other than to wait and of the few days or weeks of a round."""
    rest = _MODULO.search(line)
    tried = any(_ASKING[one].search(line) for one in (Asked.WEEK, Asked.WEEKDAY))
    return rest is not None and not _SLEEPS.search(line) and not (tried and int(rest[1]) <= _FEW)


#: Characters of a program's own words that are shown.
_SHOWN = 60


def _shown(line: str) -> str:
    return redact(line.strip())[:_SHOWN]


def own_clock(texts: Iterable[str]) -> str | None:
    """The words by which a program that goes by the calendar asks this host's clock; None: it does not.

    Where time is virtual, date(1), sleep(1) and Python are told the night's; bash itself, awk, jq and others are not.
    """
    for text in texts:
        plain = _STAMPS.sub("+", text)
        found = next((word for word in _UNTOLD.finditer(plain) if _is_asked(word, plain)), None)
        if found is not None:
            return _shown(" ".join(found[0].strip(";&|`( ").split()))
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


def days_named(texts: Iterable[str]) -> frozenset[int]:
    """The days of a month that texts name by number, and those beside them: ``-ge 25`` differs on the 24th."""
    named = {int(found[1]) for text in texts for found in _DAY.finditer(text)}
    return frozenset(day for one in named for day in (one - 1, one, one + 1) if 1 <= day <= 31)
