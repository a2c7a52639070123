"""The nights that an executor tells apart by the calendar: each kind of them is tried once, in the year to come.

A switch whose program looks at the day, the date or the hour may turn everything off in the night that is drilled, and
nothing on a Saturday, on a holiday, or once the clocks were changed. What may *not* live here: playing them, verdicts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta, tzinfo
from typing import ClassVar

from killcheck.drill.next_firing import WorksOnce
from killcheck.executor.calendar import Asked, asked, dates_named
from killcheck.kube import resources as r
from killcheck.kube import schedule
from killcheck.kube.client import Kube
from killcheck.kube.objects import Obj, dig, name_of, namespace_of, ref_of
from killcheck.kube.workloads import templates
from killcheck.layers import slots

__all__ = ["NotEachNight", "nights", "told"]

#: The next chance of a layer to act by itself.
Chance = Callable[[datetime], datetime | None]
#: How far ahead is looked: a year has every date.
AHEAD = timedelta(days=366)
#: As many nights are tried, at most.
TRIED = 32


@dataclass(frozen=True, slots=True)
class NotEachNight(WorksOnce):
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


def _asked_by(cron_job: Obj, kube: Kube) -> frozenset[Asked]:
    """What the program of a CronJob looks at. Raises KubeError."""
    return asked([*_words(cron_job), *_mounted(cron_job, kube)])


def nights(cron_job: Obj, kube: Kube, chance: Chance, after: datetime) -> list[datetime]:
    """One firing of each kind that its program may tell apart, in order. Raises KubeError."""
    what = _asked_by(cron_job, kube)
    found: set[datetime] = set()
    if what & {Asked.WEEKDAY, Asked.DATE, Asked.CHANCE}:
        found |= set(_each_day(chance, after, 7))
    if Asked.DATE in what:
        found |= set(_on_dates(cron_job, kube, chance, after))
    if Asked.HOUR in what:
        found |= set(_other_clocks(cron_job, chance, after))
    return sorted(found)[:TRIED]


def told(cron_job: Obj, kube: Kube, tried: int) -> list[str]:
    """What a reader should know of the nights that were not seen, a sentence; nothing where all are alike.

    Raises KubeError.
    """
    what = _asked_by(cron_job, kube)
    if not what or (tried and what <= {Asked.WEEKDAY, Asked.HOUR}):
        return []  # every kind of night was seen
    looks = " and ".join(sorted(what))
    seen = f"{tried} more of the coming year's were tried" if tried else "no night but this one was seen"
    return [f"the program of {ref_of(cron_job)} goes by {looks}: {seen}"]


def _each_day(chance: Chance, after: datetime, days: int) -> Iterator[datetime]:
    """The first firing of each of the next days."""
    for day in range(days):
        begun = after + timedelta(days=day)
        due = chance(begun)
        if due is not None and due <= begun + timedelta(days=1):
            yield due


def _on_dates(cron_job: Obj, kube: Kube, chance: Chance, after: datetime) -> Iterator[datetime]:
    """Firings on the last day of a month, on the first of each, and on every date that is named to the program."""
    named = dates_named([*_words(cron_job), *_data(kube.list(r.CONFIGMAPS, namespace_of(cron_job)).items)])
    zones: set[tzinfo] = {UTC, schedule.zone(str(dig(cron_job, "spec", "timeZone", default="") or "UTC"))}
    day = after.date()
    firsts = 0
    while day <= (after + AHEAD).date():
        last = (day + timedelta(days=1)).day == 1 and not firsts
        firsts += day.day == 1
        if day.day == 1 or last or (day.month, day.day) in named:
            yield from _on(day, zones, chance, after)
        day += timedelta(days=1)


def _on(day: date, zones: Iterable[tzinfo], chance: Chance, after: datetime) -> Iterator[datetime]:
    """The first firing of a day, by the clock of the container and by that of the schedule."""
    for zone in zones:
        begun = datetime(day.year, day.month, day.day, tzinfo=zone)
        due = chance(max(after, begun.astimezone(UTC) - timedelta(seconds=1)))
        if due is not None and due.astimezone(begun.tzinfo).date() == day:
            yield due


def _other_clocks(cron_job: Obj, chance: Chance, after: datetime) -> Iterator[datetime]:
    """The first firing after each of the two changes of the clocks: the same hour is another one in a container."""
    zone = str(dig(cron_job, "spec", "timeZone", default="") or "UTC")
    for forward in (True, False):
        change = slots.change_of_clocks(zone, after, forward=forward)
        due = chance(change[1] + timedelta(days=1)) if change is not None and change[0] == zone else None
        if due is not None:
            yield due


# -- what a program is made of -----------------------------------------------------------------------------------
def _containers(cron_job: Obj) -> Iterator[Obj]:
    for template in templates(cron_job):
        yield from (*dig(template.spec, "initContainers", default=[]), *dig(template.spec, "containers", default=[]))


def _words(cron_job: Obj) -> Iterator[str]:
    for container in _containers(cron_job):
        yield "\n".join(map(str, (*(container.get("command") or ()), *(container.get("args") or ()))))
        yield from (str(entry.get("value") or "") for entry in container.get("env") or ())


def _mounted(cron_job: Obj, kube: Kube) -> Iterator[str]:
    """The text of the ConfigMaps that its pods name: scripts lie there."""
    named = str([template.spec for template in templates(cron_job)])
    maps = kube.list(r.CONFIGMAPS, namespace_of(cron_job)).items
    return _data([one for one in maps if repr(name_of(one)) in named])


def _data(config_maps: list[Obj]) -> Iterator[str]:
    for one in config_maps:
        yield from map(str, (one.get("data") or {}).values())
