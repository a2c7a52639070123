"""Whatever starts GPUs beside what stops them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from killcheck.probes.base import Evidence, Finding, Probe
from killcheck.probes.schedules import schedule_of
from killcheck.probes.where import command_path
from killcheck.probes.world import World, namespace_or_default

from killcheck.discover.machines import asked_by
from killcheck.executor import calendar
from killcheck.executor.api_calls import ApiCall
from killcheck.kube.downtimes import is_downscaler
from killcheck.kube.objects import Obj, annotations_of, dig, name_of
from killcheck.kube.plurals import plural_of
from killcheck.kube.schedule import Schedule, ScheduleError, parse
from killcheck.kube.workloads import devices_of
from killcheck.text.yamlfile import Path

if TYPE_CHECKING:
    from killcheck.rehearsal.record import Call

__all__ = ["SecondStarter"]


class SecondStarter(Probe):
    """Two starters, one stopper: what starts after the last stop of the night runs until the next one."""

    id = "second-starter"
    claim = "Nothing starts GPUs after the last layer of the night has fired."
    remedy = "Move the start to the morning, or pair it with a stop of its own."
    failures = (34, 55)
    sources = ("seed 3", "hjacobs/kube-downscaler#69", "cloudposse/terraform-aws-eks-node-group#12")

    def ask(self, world: World) -> Iterable[Finding]:
        """Schedules that scale a target up, or make Jobs with GPUs; uptime annotations of downscalers."""
        for one in world.executors:
            if one.owner.get("kind") == "CronJob":
                writes = one.reading.writes
                ups = [
                    call
                    for call in writes
                    if call.replicas and _is_target(world, call) and not _is_step_down(world, call, writes)
                ]
                if ups:
                    what, lit = f"{ups[0]} to {ups[0].replicas}", _names(world, ups)
                    yield from self._scheduled(world, one.owner, what, command_path(one), lit)
        for obj in world.of("CronJob"):
            limit = dig(obj, "spec", "jobTemplate", "spec", "activeDeadlineSeconds")
            if devices_of(obj, wanted=True) and (limit is None or limit > _LONG_H * 3600):
                yield from self._scheduled(world, obj, "starts a Job with GPUs", ("spec", "schedule"))
        yield from self._in_the_dark(world)
        yield from self._of_machines(world)
        for target, obj in world.targets:
            for key in ("downscaler/uptime", "downscaler/force-uptime"):
                if key in annotations_of(obj) and world.zeroes(target) and not any(map(is_downscaler, world.objects)):
                    message = f"{key}: kube-downscaler lights {target} again in its window"
                    yield self.finding(world, obj, ("metadata", "annotations", key), message, severity="warning")

    def _scheduled(
        self, world: World, obj: Obj, what: str, path: Path, lit: Iterable[str | None] = (None,)
    ) -> Iterable[Finding]:
        """An error where a start of the coming year comes within hours of a stop, and the next stop much later.

        ``lit``: the targets that it starts, each with stops of its own; None: it is not known which.
        """
        for name in lit:
            told = _too_long(world, schedule_of(obj), what, obj, name)
            if told:
                yield self.finding(world, obj, path, f"{told}{_elsewhere(world, obj)}")
                return

    def _in_the_dark(self, world: World) -> Iterable[Finding]:
        """Who turns a target on because it is off: seen in a rehearsal, or read in a controller that goes on."""
        meant = {(ref.kind, ref.namespace, ref.name) for ref in world.kill_path.starts}
        for one in world.executors:
            goes_on = one.owner.get("kind") != "CronJob"
            if (one.owner.get("kind"), one.namespace, name_of(one.owner)) in meant or (goes_on and one.layer):
                continue
            if one.seen is None:
                ups = [call for call in one.reading.writes if call.replicas and _is_target(world, call)]
                if goes_on and ups and all(call.replicas for call in one.reading.writes):
                    told = f"{ups[0]} to {ups[0].replicas} for as long as it runs: what a layer turns off, it turns on"
                    yield self.finding(world, one.owner, command_path(one), told, remedy=_LOOK, severity="warning")
                continue
            lights = [c for c in one.seen.dark.writes if c.replicas and _is_named(world, c)] if one.seen.dark else []
            if not lights:
                continue
            what = f"{lights[0].method} {lights[0].path} writes {lights[0].replicas} once it finds that off"
            if not goes_on:
                yield from self._scheduled(world, one.owner, what, command_path(one))
            elif calendar.asked([one.text]):
                yield self.unproven(world, one.owner, f"{what}, and it looks at the clock: when is not known")
            else:
                when = f"{lights[0].at_s:.0f} s after" if lights[0].at_s >= 1 else "as soon as"
                told = f"{what}: {when} a layer turned it off"
                yield self.finding(world, one.owner, command_path(one), told, remedy=_LOOK, seen=True)

    def _of_machines(self, world: World) -> Iterable[Finding]:
        """The timers and crontab lines beside the manifests that were seen to scale a target up."""
        for ref, one in world.rehearsed.items():
            if one.beside is None:
                continue
            ups = [call for call in one.first.writes if call.replicas and _is_named(world, call)]
            names = {target.name for target in world.kill_path.targets if target.outside}
            lit = next((machine.name for machine in asked_by(one) if not machine.stops and machine.name in names), None)
            if not ups and lit is None:
                continue
            what = f"{ups[0].method} {ups[0].path} writes {ups[0].replicas}" if ups else f"starts {lit}"
            told = _too_long(world, _schedule_beside(one.beside.schedule, one.beside.time_zone), what, None, lit)
            if told:
                started = Evidence(ref, "command", " ".join(one.beside.argv)[:_SHOWN])
                yield Finding(
                    self.id,
                    self.severity,
                    ref,
                    told,
                    self.remedy,
                    (started,),
                    "",
                    one.beside.file,
                    one.beside.line,
                    failures=self.failures,
                    basis="seen",
                )


def _too_long(world: World, start: Schedule | None, what: str, own: Obj | None, lit: str | None = None) -> str | None:
    """What is wrong with a start: a stop comes many hours later, or never. None: nothing, or it is not known when.

    A target that no schedule turns off (``lit``; an idle monitor may) is measured by those of the others.
    """
    stops = _stops(world, own, lit) or _stops(world, own, None)
    first = start.next(world.now) if start else None
    if start is None or first is None:
        return None
    lit_at = [moment for moment in start.of_a_year(world.now) if not _begins_a_week(moment, start, stops)]
    gaps = [(_hours(moment, stops), moment) for moment in lit_at]
    if stops and not gaps:
        return None
    if not gaps or any(hours is None for hours, _ in gaps):
        return None if _goes_on(world, lit) else f"{what}, and no schedule stops it"
    long = [(hours or 0.0, moment) for hours, moment in gaps if (hours or 0.0) > _most_h(start, moment)]
    if not long:
        return None
    hours, moment = max(long, key=lambda gap: gap[0])
    on = "" if long[0][1] == gaps[0][1] else f", on {moment:%Y-%m-%d} for one"
    return f"{what}: the next stop comes {hours:.0f} h later{on}"


def _most_h(start: Schedule, moment: datetime) -> float:
    """The most hours until the next stop: what starts in the morning is for a day, which may end in the night."""
    return _WHOLE_DAY_H if _MORNING[0] <= moment.astimezone(start.tz).hour < _MORNING[1] else _LONG_H


def _goes_on(world: World, lit: str | None) -> bool:
    """Whether a layer without a known schedule turns a target off (None: any): drills see when."""
    return any(one.workload is not None and (lit is None or lit in one.covers) for one in world.kill_path.layers)


def _elsewhere(world: World, obj: Obj) -> str:
    """That a start has no time zone and a stop has one: their hours are not of one day."""
    zones = {str(dig(o, "spec", "timeZone", default="")) for _, o in world.schedules if o is not obj}
    other = next((zone for zone in sorted(zones) if zone and zone not in _UTC), "")
    if obj.get("kind") != "CronJob" or dig(obj, "spec", "timeZone") or not other:
        return ""
    return f" (it has no timeZone, so its hours are UTC's, and the stop's are {other}'s)"


def _stops(world: World, own: Obj | None, lit: str | None) -> list[Schedule]:
    """The schedules that turn a target off (None: any)."""
    made = [(layer, schedule_of(o)) for layer, o in world.schedules if o is not own]
    made += [(one, _schedule_beside(one.schedule, one.time_zone)) for one in world.kill_path.layers if one.command]
    return [found for layer, found in made if found and (lit is None or lit in layer.covers)]


def _schedule_beside(cron: str | None, zone: str | None) -> Schedule | None:
    """The schedule of a machine's program; None: it has none that is known."""
    try:
        return parse(cron, zone or None) if cron else None
    except ScheduleError:
        return None


def _begins_a_week(moment: datetime, start: Schedule, stops: Sequence[Schedule]) -> bool:
    """Whether a start comes after a day off and more, and a stop before it comes again: a week's end is what is off."""
    rested = all((stop.next(moment - _DAY) or moment) >= moment for stop in stops)
    nexts = [later for stop in stops for later in [stop.next(moment)] if later]
    again = start.next(moment)
    return rested and bool(nexts) and (again is None or again > min(nexts))


def _hours(moment: datetime, stops: Sequence[Schedule]) -> float | None:
    """Hours from a start to the next stop; None: there is none."""
    nexts = [later for stop in stops for later in [stop.next(moment)] if later]
    return (min(nexts) - moment).total_seconds() / 3600 if nexts else None


def _is_target(world: World, call: ApiCall) -> bool:
    return bool(_names(world, [call]))


def _is_step_down(world: World, call: ApiCall, writes: Sequence[ApiCall]) -> bool:
    """Whether a call leaves fewer replicas than are asked for, on the way to a zero of the same program."""
    later = writes[writes.index(call) + 1 :]
    ended = any(one.replicas == 0 and (one.name, one.namespace) == (call.name, call.namespace) for one in later)
    asked = [dig(obj, "spec", "replicas", default=1) for target, obj in world.targets if name_of(obj) == call.name]
    return ended and all(isinstance(number, int) and (call.replicas or 0) < number for number in asked)


def _names(world: World, calls: Sequence[ApiCall]) -> list[str]:
    """The targets that some calls are about."""
    return [
        target.name
        for target, obj in world.targets
        if any(name_of(obj) == call.name and call.namespace in ("", namespace_or_default(obj)) for call in calls)
    ]


def _is_named(world: World, call: Call) -> bool:
    """Whether a request that was seen is about a target."""
    return any(
        call.about[1:] == (plural_of(target.kind), target.namespace, target.object)
        for target in world.kill_path.targets
    )


_DAY = timedelta(hours=24)
_UTC = frozenset({"Etc/UTC", "UTC", "Etc/GMT", "GMT"})
#: What to do about who lights a target because it is off.
_LOOK = "Let it look at what the layer leaves behind (an annotation, a ConfigMap), or let the layer stop it first."
#: Characters of a command that are shown.
_SHOWN = 200
#: Hours: longer than any working day from a start to the next stop.
_LONG_H = 18.0
#: ...and where it starts in the morning (local hours): a stop at three in the night is its end.
_WHOLE_DAY_H = 21.0
_MORNING = (5, 12)
