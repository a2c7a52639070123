"""The next firings that a program may tell apart from its first by the calendar: each weekday, a month's turn, a rota.

A drill plays the kinds of nights of a whole year; here it is the few that most programs tell apart.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta

from killcheck.executor.calendar import Asked, asked
from killcheck.kube.objects import Obj, dig, name_of, namespace_of
from killcheck.rehearsal.programs import Program

__all__ = ["others"]

_DAY = timedelta(days=1)
#: So many more firings at most, so many weeks of a rota, and so many days of a program that tosses a coin.
MOST, WEEKS, TOSSES = 10, 4, 3


def others(program: Program, objects: Sequence[Obj], slot: datetime) -> list[datetime]:
    """Its firings after ``slot`` that are of another kind, in order; none where it does not look at the calendar."""
    if program.obj.get("kind") != "CronJob":
        return []
    what = asked([*_words(program), *_mounted(program, objects)])
    found = set[datetime]()
    if Asked.WEEKDAY in what:
        found |= set(_days(program, slot, 6))
    elif Asked.CHANCE in what:
        found |= set(_days(program, slot, TOSSES))
    if Asked.WEEK in what:
        found |= {program.next_slot(slot + timedelta(weeks=week)) for week in range(1, WEEKS + 1)}
    if Asked.DATE in what:
        found |= set(_turns(program, slot))
    return sorted(one for one in found if one > slot)[:MOST]


def _days(program: Program, slot: datetime, days: int) -> Iterator[datetime]:
    """Its firings on the days that follow, one a day."""
    for day in range(days):
        due = program.next_slot(slot + day * _DAY + timedelta(minutes=1))
        if due - slot <= (day + 2) * _DAY:
            yield due


def _turns(program: Program, slot: datetime) -> Iterator[datetime]:
    """The first firing in the coming month, and the one a day before."""
    first = (slot.replace(day=1) + timedelta(days=32)).replace(day=1, hour=0, minute=0)
    yield program.next_slot(first)
    yield program.next_slot(first - _DAY)


def _words(program: Program) -> Iterator[str]:
    for kind in ("initContainers", "containers"):
        for container in dig(program.pod_spec, kind, default=[]):
            yield "\n".join(map(str, (*(container.get("command") or ()), *(container.get("args") or ()))))
            yield from (str(entry.get("value") or "") for entry in container.get("env") or ())


def _mounted(program: Program, objects: Sequence[Obj]) -> Iterator[str]:
    """The ConfigMaps that its pods name: scripts lie there."""
    named = repr(program.pod_spec)
    for obj in objects:
        home = namespace_of(obj) or "default"
        if obj.get("kind") == "ConfigMap" and home == program.namespace and repr(name_of(obj)) in named:
            yield from map(str, (obj.get("data") or {}).values())
