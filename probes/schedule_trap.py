"""Schedules that skip nights or never come."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from killcheck.probes.base import Finding, Probe, Severity, merge_patch
from killcheck.probes.schedules import A_NIGHT, period_s, schedule_of
from killcheck.probes.world import World, namespace_or_default

from killcheck.kube.objects import Obj, dig
from killcheck.kube.schedule import Schedule, ScheduleError, parse
from killcheck.spec.killpath import Layer, LayerType
from killcheck.text import lazy_re

__all__ = ["ScheduleTrap"]


class ScheduleTrap(Probe):
    """A zone with daylight saving skips 02:30 once a year; startingDeadlineSeconds drops a late firing, silently."""

    id = "schedule-trap"
    claim = "The schedule fires once every night, also late and also when the clocks change."
    remedy = "Use timeZone: Etc/UTC (or an hour outside 01 to 03), and startingDeadlineSeconds: 3600."
    failures = (9, 10)
    sources = ("KK#121594", "argoproj/argo-workflows#8137", "recordings 19 and 19b")

    def ask(self, world: World) -> Iterable[Finding]:
        """Schedule, zone and starting deadline of the layers' CronJobs."""
        for layer, obj in world.schedules:
            zone = dig(obj, "spec", "timeZone")
            try:
                schedule = parse(str(dig(obj, "spec", "schedule", default="")), zone)
            except ScheduleError as error:
                wrong = "timeZone" if "zone" in str(error) else "schedule"
                yield self.finding(world, obj, ("spec", wrong), str(error), remedy=_UNREAD[wrong])
                continue
            if schedule.next(world.now) is None:
                yield self.finding(world, obj, ("spec", "schedule"), f"{schedule.text} never comes")
                continue
            signed = _ETC.fullmatch(str(zone))
            if signed:
                yield self._turned_round(world, obj, str(zone), signed)
            if layer.type is LayerType.DEAD_MAN:
                yield from self._clocks(world, obj, schedule)
                yield from self._seldom(world, layer, obj)
            yield from self._late(world, obj)

    def _turned_round(self, world: World, obj: Obj, zone: str, signed: re.Match[str]) -> Finding:
        utc = f"UTC{'-' if signed[1] == '+' else '+'}{signed[2]}"
        meant = timedelta(hours=int(signed[1] + signed[2]))
        beside = next((other for other in _zones_beside(world, obj) if meant in _offsets(other)), None)
        also = f"; {beside}, beside it, is UTC{signed[1]}{signed[2]}" if beside else ""
        return self.finding(
            world,
            obj,
            ("spec", "timeZone"),
            f"{zone} is {utc}: the signs of Etc/GMT are turned round (POSIX){also}",
            remedy="Name a place (Europe/Lisbon), or use Etc/UTC.",
            severity="warning" if beside else "note",
        )

    def _clocks(self, world: World, obj: Obj, schedule: Schedule) -> Iterable[Finding]:
        """Nights of the coming year on which it fires more or less often than on the others."""
        if schedule.tz is UTC or str(schedule.tz) in _UNCHANGED:
            return
        firings = list(schedule.between(world.now, world.now + timedelta(days=366)))
        gaps = [later - earlier for earlier, later in pairwise(firings)]
        usual = Counter(gaps).most_common(1)[0][0] if gaps else timedelta()
        if usual != timedelta(days=1):
            return
        found = [i for i, gap in enumerate(gaps) if gap > usual + _SHIFT or gap < usual - _SHIFT]
        if 0 < len(found) <= _CHANGES:  # more of them are weekends
            odd = found[0]
            what = "is skipped" if gaps[odd] > usual else "comes twice"
            night = (firings[odd] + usual).astimezone(schedule.tz)
            yield self.finding(
                world,
                obj,
                ("spec", "schedule"),
                f"when the clocks change ({night:%Y-%m-%d}) it {what}",
                severity="warning",
                also=[(obj, ("spec", "timeZone"))],
            )

    def _seldom(self, world: World, layer: Layer, obj: Obj) -> Iterable[Finding]:
        """Nights on which no layer of the same targets fires, told once of all of them."""
        beside = [one for one in world.kill_path.layers if set(one.covers) & set(layer.covers)]
        known = {one.name: schedule_of(job) for one, job in world.schedules}
        schedules = [known.get(one.name) for one in beside]
        if beside[0].name != layer.name or None in schedules:
            return
        moments = sorted({at for one in schedules if one for at in one.of_a_year(world.now)})
        gaps = [(later - earlier, earlier) for earlier, later in pairwise(moments)]
        gap, since = max(gaps, key=lambda one: one[0], default=(timedelta(), world.now))
        if gap > A_NIGHT:
            message = (
                f"up to {gap / timedelta(hours=1):.0f} h pass without a firing, from {since:%a %Y-%m-%d %H:%M} UTC for "
                "one: what is turned on then bills until the next"
            )
            severity: Severity = "warning" if gap > _DAYS_OFF else "note"
            yield self.finding(world, obj, ("spec", "schedule"), message, remedy=_NIGHTLY, severity=severity)

    def _late(self, world: World, obj: Obj) -> Iterable[Finding]:
        path = ("spec", "startingDeadlineSeconds")
        limit, period = dig(obj, *path), period_s(obj, world.now)
        if limit is None or period is None:
            return
        patch = merge_patch(obj, {"spec": {"startingDeadlineSeconds": 3600}})
        if limit <= 0:
            message = "startingDeadlineSeconds 0: it never fires, silently"
            yield self.finding(world, obj, path, message, remedy=_LATER, patch=patch)
        elif limit < min(600, period / 2) and period >= 6 * 3600:
            message = f"a firing that is {limit} s late is dropped until the next one, {period / 3600:.0f} h later"
            severity: Severity = "warning" if limit < _FAILOVER_S else "note"
            yield self.finding(world, obj, path, message, remedy=_LATER, severity=severity, patch=patch)


def _zones_beside(world: World, obj: Obj) -> list[str]:
    """The zones of places that the other CronJobs of a namespace name."""
    jobs = [job for job in world.in_namespace("CronJob", namespace_or_default(obj)) if job is not obj]
    zones = [str(dig(job, "spec", "timeZone", default="")) for job in jobs]
    return [zone for zone in zones if zone and not zone.startswith("Etc/")]


def _offsets(zone: str) -> set[timedelta | None]:
    """How far a zone is from UTC, in winter and in summer; empty for one that is not known."""
    try:
        place = ZoneInfo(zone)
    except (ZoneInfoNotFoundError, ValueError):
        return set()
    return {datetime(2026, month, 1, tzinfo=place).utcoffset() for month in (1, 7)}


#: What to do about a zone and a schedule that nobody can read, and about a deadline that is too short.
_UNREAD = {
    "timeZone": "Name a zone of the tz database (Europe/Berlin), or use Etc/UTC.",
    "schedule": 'Write the five fields of cron ("0 3 * * *": every night at three).',
}
_NIGHTLY = "Fire every night: one that finds nothing on costs nothing."
#: A weekend with a day off before or after it.
_DAYS_OFF = timedelta(days=4, hours=2)
_LATER = "Set startingDeadlineSeconds: 3600."
#: Seconds that a control plane may take until another of its controllers has the lease, or an API server is back.
_FAILOVER_S = 60
#: Zones whose clocks do not change.
_UNCHANGED = frozenset({"Etc/UTC", "UTC", "Etc/GMT", "GMT"})
_ETC = lazy_re.compile(r"Etc/GMT([+-])([1-9]\d?)")
#: How far the clocks move, and how often in a year.
_SHIFT, _CHANGES = timedelta(hours=2), 2
