"""The schedule fires, but not when it should: another time zone, the two nights on which clocks change, missed slots.

Of these only the zone can be changed by hand; for the others the schedule itself must fire (or not), so the trigger is
left to it, and the cluster has to live through that very night.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import ClassVar

from killcheck.capabilities.offered import Capability, present
from killcheck.faults.base import Evidence, FaultError, Plan
from killcheck.faults.kubernetes.executor import COPY, ExecutorFault, cron_job_of, path_of
from killcheck.kube import resources as r
from killcheck.kube.objects import Obj, copy, dig, name_of, namespace_of
from killcheck.kube.permissions import Permission
from killcheck.kube.schedule import Schedule
from killcheck.kube.schedule import zone as zone_of
from killcheck.layers import slots, unfired
from killcheck.layers.base import Hindrance, LayerRun, Stage
from killcheck.spec.killpath import Layer, LayerType

__all__ = ["ClocksBack", "ClocksForward", "MissedFirings", "ZoneChanged"]

_UTC = (
    "",
    "UTC",
    "Local",
    "Etc/UTC",
    "Etc/UCT",
    "Etc/Universal",
    "Etc/Zulu",
    "UCT",
    "Universal",
    "Zulu",
    "Etc/GMT",
    "GMT",
)


class _ScheduleFault(ExecutorFault):
    """A fault of the moment at which a dead-man's schedule fires."""

    family = "schedule"

    def unsuited_layer(self, layer: Layer) -> str | None:
        """Only where a certain hour matters."""
        return super().unsuited_layer(layer) or (
            None if layer.type is LayerType.DEAD_MAN else "it fires every few minutes, whatever the hour"
        )

    @staticmethod
    def _schedule(layer: LayerRun) -> Schedule:
        try:
            return slots.parsed(cron_job_of(layer))
        except ValueError as error:
            raise FaultError(f"the CronJob's schedule cannot be read: {error}") from error


class ZoneChanged(_ScheduleFault):
    """Reproduces row 10: timeZone got lost on the way, or has the wrong sign - Etc/GMT+8 is valid, and means UTC-8."""

    name = "zone-changed"
    simulates = "the CronJob's time zone was dropped, or set to another: the same hour, somewhere else"
    failures = (10,)
    shows = Evidence.TRIGGER

    #: What somebody writes who means UTC+8.
    WRONG: ClassVar[str] = "Etc/GMT+8"

    def _zone(self, stage: Stage, layer: LayerRun) -> str | None:
        """The zone to set (None: drop it). Raises FaultError where the slots would stay where they are."""
        cron_job = cron_job_of(layer)
        had = dig(cron_job, "spec", "timeZone", default="") or ""
        for zone in (self.WRONG,) if had in _UTC else (None, self.WRONG):
            changed = copy(cron_job)
            changed["spec"]["timeZone"] = zone
            if unfired.moved(cron_job, changed, stage.cluster.loop.now()) is not None:
                return zone
        raise FaultError(f"schedule {cron_job['spec']['schedule']!r} fires at the same moments in every zone tried")

    def plan(self, stage: Stage, layer: LayerRun) -> Plan:
        """The CronJob itself is edited: only an edit will do."""
        cron_job = cron_job_of(layer)
        zone = self._zone(stage, layer)
        namespace, name = namespace_of(cron_job), name_of(cron_job)
        verbs = tuple(Permission(v, "batch", "cronjobs", "", namespace, name) for v in ("get", "patch"))
        return Plan(
            (f"CronJob {namespace}/{name} has timeZone {zone or 'no more'} for the length of the drill",),
            namespaces=(namespace,),
            permissions=verbs,
            edits=(path_of(cron_job, "spec.timeZone"),),
        )

    def inject(self, stage: Stage, layer: LayerRun) -> Sequence[str]:
        """Set or drop spec.timeZone."""
        cron_job = cron_job_of(layer)
        zone = self._zone(stage, layer)
        what = f"CronJob {namespace_of(cron_job)}/{name_of(cron_job)}: timeZone {zone or 'dropped'}"
        stage.journal.merge(r.CRONJOBS, name_of(cron_job), namespace_of(cron_job), {"spec": {"timeZone": zone}}, what)
        return [what]

    def bitten(self, stage: Stage, layer: LayerRun) -> str | None:
        """The trigger met a CronJob whose slot has moved."""
        held = layer.not_fired()
        return held.why if held is not None and held.reason is Hindrance.SLOT_MOVED else None


class _OwnSlot(_ScheduleFault):
    """A fault that only the schedule's own firing can show."""

    needs = (Capability.CONTROLLERS,)

    def _slot(self, stage: Stage, layer: LayerRun) -> datetime:
        slot = slots.next_slot(self._schedule(layer), stage.cluster.loop.now())
        if slot is None:
            raise FaultError("the CronJob's schedule never fires")
        return slot


class _ChangeOfClocks(_OwnSlot):
    """The night on which clocks change."""

    forward: ClassVar[bool]
    #: How long before the slot, or the change, the embedded cluster's clock begins, in seconds.
    before_s: ClassVar[float] = 3600.0
    #: How long after the change the first slot may come: clocks change on Sundays, many schedules rest until Monday.
    weekend: ClassVar[timedelta] = timedelta(days=3)
    shows = Evidence.TRIGGER

    def _the_night(self, cron_job: Obj, after: datetime) -> tuple[str, datetime, datetime]:
        """(zone, moment of the change, the first slot of that day). Raises FaultError, ScheduleError."""
        zone = dig(cron_job, "spec", "timeZone", default="") or ""
        change = slots.change_of_clocks(zone, after, forward=self.forward)
        if change is None:
            raise FaultError("no clock changes within two years")
        where, moment = change
        wall = moment.astimezone(zone_of(where)) - timedelta(seconds=1)
        midnight = moment - timedelta(hours=wall.hour, minutes=wall.minute, seconds=wall.second + 1)
        slot = slots.next_slot(slots.parsed(cron_job), midnight - timedelta(seconds=1))
        if slot is None:
            raise FaultError("the CronJob's schedule never fires")
        if slot - moment > self.weekend:
            raise FaultError(
                f"the clocks of {where} change at {moment:%Y-%m-%d %H:%M} UTC, and the schedule's first "
                f"slot after it is at {slot:%Y-%m-%d %H:%M} UTC only"
            )
        return where, moment, slot

    def _tonight(self, stage: Stage, layer: LayerRun) -> tuple[str, datetime, datetime]:
        """The night that it is, also after the change itself as long as the slot is to come; else the next one."""
        now, cron_job = stage.cluster.loop.now(), cron_job_of(layer)
        found = self._the_night(cron_job, now - timedelta(days=1))
        return found if found[2] > now else self._the_night(cron_job, now)

    def night(self, cron_job: Obj, after: datetime) -> datetime | None:
        """An hour before the slot, or the change of clocks if that comes first."""
        _, moment, slot = self._the_night(cron_job, after)
        return min(moment, slot) - timedelta(seconds=self.before_s)

    def plan(self, stage: Stage, layer: LayerRun) -> Plan:
        """Nothing is changed: it is that night."""
        now = stage.cluster.loop.now()
        where, moment, slot = self._tonight(stage, layer)
        if min(moment, slot) - now > timedelta(days=1):
            raise FaultError(
                f"the clocks of {where} change at {moment:%Y-%m-%d %H:%M} UTC, not tonight: killcheck drill --under "
                f"{self.name} makes an embedded cluster that lives through that night"
            )
        return Plan(
            (
                f"wait for the schedule's own slot at {slot:%Y-%m-%d %H:%M} UTC: the clocks of {where} change "
                f"at {moment:%H:%M} UTC",
            ),
            edits=(COPY,),
        )

    def inject(self, stage: Stage, layer: LayerRun) -> Sequence[str]:
        """Leave the trigger to the schedule."""
        _, _, slot = self._tonight(stage, layer)
        stage.slot = slot
        return [f"the trigger is left to the schedule's own slot at {slot:%Y-%m-%d %H:%M} UTC"]

    def bitten(self, stage: Stage, layer: LayerRun) -> str | None:
        """The slot that was waited for is the first from the day on which clocks change."""
        if stage.slot is None or stage.timeline is None:
            return None
        cron_job = cron_job_of(layer)
        where, moment, slot = self._the_night(cron_job, stage.slot - self.weekend - timedelta(days=1))
        if slot != stage.slot:
            return None
        zone = dig(cron_job, "spec", "timeZone", default="") or "UTC"
        read = "" if zone == where else f"; the schedule is read in {zone}, whose clocks do not change"
        return f"the clocks of {where} change at {moment:%Y-%m-%d %H:%M} UTC{read}"


class ClocksForward(_ChangeOfClocks):
    """Reproduces row 10: in spring a night lacks an hour, and a slot in it is skipped."""

    name = "clocks-forward"
    simulates = "it is the night on which clocks go forward, and an hour is missing"
    failures = (10,)
    forward = True


class ClocksBack(_ChangeOfClocks):
    """Reproduces row 10: in autumn an hour comes twice, and a slot in it may fire twice."""

    name = "clocks-back"
    simulates = "it is the night on which clocks go back, and an hour comes twice"
    failures = (10,)
    forward = False


class MissedFirings(_OwnSlot):
    """Reproduces rows 9 and 15: nobody looks when the slot comes, and when somebody does it is too late for it.

    Down past ``startingDeadlineSeconds``. Without one it is down until more than a hundred slots were missed, where
    that takes less than a day. Else it is down for an hour: then the last missed slot runs at once, late.
    """

    name = "missed-firings"
    simulates = "the controller that fires CronJobs is down when the slot comes, and too long after it"
    failures = (9, 15)
    rank = 2
    shows = Evidence.TRIGGER

    #: How much longer than the starting deadline it is down, in seconds.
    beyond_s: ClassVar[float] = 60.0
    #: How long where there is no starting deadline, in seconds.
    without_deadline_s: ClassVar[float] = 3600.0
    #: How many missed slots make the controller warn, and the longest that they may take, in seconds.
    many_count: ClassVar[int] = 101
    longest_s: ClassVar[float] = 86_400.0

    CONTROLLER: ClassVar[str] = "cronjob-controller"

    def _down_s(self, layer: LayerRun, slot: datetime) -> float:
        deadline = dig(cron_job_of(layer), "spec", "startingDeadlineSeconds")
        if deadline is not None:
            return float(deadline) + self.beyond_s
        last = slot
        for _ in range(self.many_count):
            following = self._schedule(layer).next(last)
            if following is None or (following - slot).total_seconds() > self.longest_s:
                return self.without_deadline_s
            last = following
        return (last - slot).total_seconds() + 1.0

    def plan(self, stage: Stage, layer: LayerRun) -> Plan:
        """The CronJob controller stops before the slot, and comes back too late."""
        slot = self._slot(stage, layer)
        if self.CONTROLLER not in present(stage.cluster.capabilities.controllers).controllers:
            raise FaultError(f"{self.CONTROLLER} does not run here")
        return Plan(
            (
                f"{self.CONTROLLER} is stopped until {self._down_s(layer, slot):.0f} s after the slot at "
                f"{slot:%Y-%m-%d %H:%M} UTC",
            ),
            edits=(COPY, f"controller {self.CONTROLLER}"),
        )

    def inject(self, stage: Stage, layer: LayerRun) -> Sequence[str]:
        """Stop it, and leave the trigger to the schedule."""
        stage.slot = self._slot(stage, layer)
        what = f"{self.CONTROLLER} stopped"
        stage.journal.call(
            Capability.CONTROLLERS, what, ("stop_controller", self.CONTROLLER), ("start_controller", self.CONTROLLER)
        )
        return [f"{what} until {self._down_s(layer, stage.slot):.0f} s after the slot at {stage.slot:%H:%M} UTC"]

    def bitten(self, stage: Stage, layer: LayerRun) -> str | None:
        """The slot has come while the controller was down."""
        running = present(stage.cluster.capabilities.controllers)
        if stage.slot is None or stage.timeline is None or self.CONTROLLER not in running.stopped:
            return None
        return f"{self.CONTROLLER} was down when the slot of {stage.slot:%H:%M} UTC came"

    def react(self, stage: Stage, layer: LayerRun) -> float | None:
        """Bring it back when it is too late."""
        running = present(stage.cluster.capabilities.controllers)
        if stage.slot is None or self.CONTROLLER not in running.stopped:
            return None
        left_s = self._down_s(layer, stage.slot) - (stage.cluster.loop.now() - stage.slot).total_seconds()
        if left_s <= 0:
            running.start_controller(self.CONTROLLER)
            return None
        return left_s
