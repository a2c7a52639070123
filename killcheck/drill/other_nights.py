"""The nights that an executor tells apart by the calendar: each kind of them is tried once, in the year to come.

A switch whose program looks at the day, the date or the hour may turn everything off in the night that is drilled, and
nothing on a Saturday, on a holiday, or once the clocks were changed. What may *not* live here: playing them, verdicts.
"""

from __future__ import annotations

from calendar import isleap
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import UTC, date, datetime, timedelta, tzinfo
from typing import ClassVar

from msgspec import Struct

from killcheck.drill import left_behind
from killcheck.drill.next_firing import WorksOnce
from killcheck.executor.calendar import Asked, asked, dates_named, days_named, zones_named
from killcheck.kube import resources as r
from killcheck.kube import schedule
from killcheck.kube.client import Kube
from killcheck.kube.objects import Obj, dig, name_of, namespace_of, ref_of
from killcheck.kube.workloads import templates
from killcheck.layers import slots

__all__ = ["Nights", "NotEachNight", "nights", "texts", "told"]

#: The next chance of a layer to act by itself.
Chance = Callable[[datetime], datetime | None]
#: How far ahead is looked: a year has every date.
AHEAD = timedelta(days=366)
#: ...and how far for one that compares moments: what ends after a licence, a project or a trial does so by then.
FAR_AHEAD = timedelta(days=3653)
#: A day of the month that shells take for a bad octal number (``$((08))``).
OCTAL = 8
#: As many nights are tried, at most.
TRIED = 48
#: So many weeks in a row are tried of a program that counts them, and so many days of one that tosses a coin.
WEEKS = 7
#: So many firings in a row are tried of one that may meet what earlier ones left, beyond the Jobs that are kept of it.
MORE_THAN_KEPT, MOST_IN_A_ROW = 2, 12


class NotEachNight(WorksOnce, frozen=True):
    """The layer's own firing at ``at`` left on what was put on again, though others turned it off."""

    remedy: ClassVar[str] = (
        "let it turn off what is on whatever day it is; where nights are left out on purpose, say so in its schedule, "
        "and let something else turn the GPUs off then"
    )

    @property
    def cause(self) -> str:
        """As a diagnosis says it."""
        return (
            f"its firing on {self.at:%A, %Y-%m-%d %H:%M} UTC came and left on what was put on again: {self.left}: its "
            "program does not do the same every night"
        )


class Nights(Struct, frozen=True):
    """The firings in the year to come that a program may tell from the one that was drilled.

    ``looks_at``: what it goes by. ``due``: one firing of each kind, in order; ``left_out``: how many more there are.
    """

    looks_at: frozenset[Asked]
    due: tuple[datetime, ...] = ()
    left_out: int = 0

    @property
    def countable(self) -> bool:
        """Whether the kinds of nights are known to their last."""
        return self.looks_at <= {Asked.WEEKDAY, Asked.HOUR, Asked.LEFT}


def nights(cron_job: Obj, kube: Kube, chance: Chance, after: datetime) -> Nights:
    """One firing of each kind that the program of a CronJob may tell apart. Raises KubeError."""
    said = texts(cron_job, kube)
    what = asked(said) | ({Asked.LEFT} if left_behind.is_met(cron_job, said, kube) else frozenset())
    zones = _zones(cron_job, said)
    found: dict[datetime, None] = {}  # those that say most come first, and stay where there are too many
    if what & {Asked.WEEKDAY, Asked.DATE, Asked.CHANCE}:
        found |= dict.fromkeys(_each_weekday(zones, chance, after))
    if Asked.HOUR in what:
        found |= dict.fromkeys(_other_clocks(zones, chance, after))
    if Asked.WEEK in what:
        found |= dict.fromkeys(_each_week(chance, after))
    if Asked.CHANCE in what:
        found |= dict.fromkeys(_each_day(chance, after, WEEKS))
    if Asked.LEFT in what:
        found |= dict.fromkeys(_in_a_row(cron_job, chance, after))
    if Asked.AGE in what:
        found |= dict.fromkeys(filter(None, [chance(after + AHEAD), chance(after + FAR_AHEAD)]))
    if Asked.DATE in what:
        found |= dict.fromkeys(_on_dates(cron_job, said, kube, chance, after))
    kept = sorted(list(found)[:TRIED])
    return Nights(what, tuple(kept), len(found) - len(kept))


def told(cron_job: Obj, nights: Nights, not_tried: Sequence[str], *, tried: int) -> list[str]:
    """What a reader should know of the nights that were not seen, a sentence; nothing where all are alike, or seen."""
    if not nights.looks_at or (nights.countable and tried == len(nights.due) and not nights.left_out):
        return []
    looks = " and ".join(sorted(nights.looks_at))
    seen = f"{tried} more of the coming year's were tried" if tried else "no night but this one was seen"
    why = "; ".join(dict.fromkeys(not_tried))
    rest = f"; {len(not_tried)} could not be tried: {why}" if not_tried else ""
    return [f"the program of {ref_of(cron_job)} goes by {looks}: {seen}{rest}"]


def _zones(cron_job: Obj, said: Iterable[str]) -> tuple[tzinfo, ...]:
    """Whose days a program may mean: those of its container, those of its schedule, and those that it names."""
    named = str(dig(cron_job, "spec", "timeZone", default="") or "UTC")
    return tuple(dict.fromkeys((UTC, schedule.zone(named), *zones_named(said))))


def _each_day(chance: Chance, after: datetime, days: int) -> Iterator[datetime]:
    """The first firing of each of the next days on which there is one."""
    for day in range(days):
        begun = after + timedelta(days=day)
        due = chance(begun)
        if due is not None and due <= begun + timedelta(days=1):
            yield due


def _in_a_row(cron_job: Obj, chance: Chance, after: datetime) -> Iterator[datetime]:
    """The next firings, until more than all the Jobs that are kept of it are there."""
    kept = int(dig(cron_job, "spec", "successfulJobsHistoryLimit", default=3))
    due = after
    for _ in range(min(kept + MORE_THAN_KEPT, MOST_IN_A_ROW)):
        following = chance(due + timedelta(seconds=1))
        if following is None:
            return
        due = following
        yield due


def _each_weekday(zones: Iterable[tzinfo], chance: Chance, after: datetime) -> Iterator[datetime]:
    """The first firing in the year on each weekday that has one, by any of the clocks."""
    missing = {(zone, weekday) for zone in zones for weekday in range(7)}
    for due in _each_day(chance, after, AHEAD.days):
        new = {(zone, due.astimezone(zone).weekday()) for zone in zones} & missing
        if new:
            yield due
        missing -= new
        if not missing:
            return


def _each_week(chance: Chance, after: datetime) -> Iterator[datetime]:
    """The first firing of each of the next weeks: a rota of two to five is in them, and the turn of the year is not."""
    for week in range(WEEKS):
        begun = after + timedelta(weeks=week)
        due = chance(begun)
        if due is not None and due <= begun + timedelta(weeks=1):
            yield due


def _on_dates(cron_job: Obj, words: Sequence[str], kube: Kube, chance: Chance, after: datetime) -> Iterator[datetime]:
    """Firings on every date that is named to the program, on the first of each month, and on days that it may count."""
    named = dates_named([*words, *_data(kube.list(r.CONFIGMAPS, namespace_of(cron_job)).items)])
    year = [after.date() + timedelta(days=day) for day in range(AHEAD.days + 1)]
    month, counted = year[:32], days_named(words)
    for day in (
        *(day for day in year if (day.month, day.day) in named),
        *(day for day in year if day.day == 1),
        *(day for day in month if day.day in counted | {OCTAL} or (day + timedelta(days=1)).day == 1),
        date(next(filter(isleap, range(after.year + 1, after.year + 9))), 2, 29),
    ):
        yield from _on(day, _zones(cron_job, words), chance, after)


def _on(day: date, zones: Iterable[tzinfo], chance: Chance, after: datetime) -> Iterator[datetime]:
    """The first firing of a day, by the clock of the container and by that of the schedule."""
    for zone in zones:
        begun = datetime(day.year, day.month, day.day, tzinfo=zone)
        due = chance(max(after, begun.astimezone(UTC) - timedelta(seconds=1)))
        if due is not None and due.astimezone(begun.tzinfo).date() == day:
            yield due


def _other_clocks(zones: Iterable[tzinfo], chance: Chance, after: datetime) -> Iterator[datetime]:
    """The first firing after each of the two changes of each of its clocks: the same hour is another one then."""
    for zone in dict.fromkeys(map(str, zones)):
        for forward in (True, False):
            change = slots.change_of_clocks(zone, after, forward=forward)
            due = chance(change[1] + timedelta(days=1)) if change is not None and change[0] == zone else None
            if due is not None:
                yield due


# -- what a program is made of -----------------------------------------------------------------------------------
def texts(cron_job: Obj, kube: Kube) -> list[str]:
    """The words of a CronJob's program, of its environment, and of the ConfigMaps that it names. Raises KubeError."""
    return [*_words(cron_job), *_mounted(cron_job, kube)]


def _containers(cron_job: Obj) -> Iterator[Obj]:
    for template in templates(cron_job):
        yield from (*dig(template.spec, "initContainers", default=[]), *dig(template.spec, "containers", default=[]))


def _words(cron_job: Obj) -> Iterator[str]:
    for container in _containers(cron_job):
        yield "\n".join(map(str, (*(container.get("command") or ()), *(container.get("args") or ()))))
        yield from (f"{entry.get('name')}={entry.get('value') or ''}" for entry in container.get("env") or ())


def _mounted(cron_job: Obj, kube: Kube) -> Iterator[str]:
    """The text of the ConfigMaps that its pods name: scripts lie there."""
    named = str([template.spec for template in templates(cron_job)])
    maps = kube.list(r.CONFIGMAPS, namespace_of(cron_job)).items
    return _data([one for one in maps if repr(name_of(one)) in named])


def _data(config_maps: list[Obj]) -> Iterator[str]:
    for one in config_maps:
        yield from map(str, (one.get("data") or {}).values())
