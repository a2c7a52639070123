"""The slots of a schedule as people mean them: by the clock on their wall, also on the two nights that it is changed.

Where a wall-clock time does not exist, it is taken for the moment at which it would have been, had the clocks not been
changed yet (PEP 495's first fold): that is when somebody would expect the firing that does not come.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from killcheck.kube import schedule
from killcheck.kube.cron import Every
from killcheck.kube.objects import Obj, dig, name_of, parse_time
from killcheck.layers.base import Explanation, Hindrance, NotFired
from killcheck.watch.scene import event_time

if TYPE_CHECKING:
    from killcheck.layers.dead_man import DeadMan

__all__ = ["change_of_clocks", "explain", "missing_hour", "moved", "next_slot", "overdue", "parsed"]

#: Whose clocks are meant where the schedule's own zone never changes them.
ELSEWHERE = "Europe/Berlin"


def parsed(cron_job: Obj) -> schedule.Schedule:
    """A CronJob's schedule in its time zone. Raises ScheduleError (a ValueError)."""
    return schedule.parse(
        dig(cron_job, "spec", "schedule", default=""), dig(cron_job, "spec", "timeZone", default="") or ""
    )


def next_slot(when: schedule.Schedule, after: datetime) -> datetime | None:
    """The next moment strictly after ``after`` at which the wall clock shows a time of the schedule, or would have."""
    if isinstance(when.rule, Every):
        return when.next(after)
    wall = schedule.Schedule(when.text, when.rule, UTC)
    moment = after.astimezone(when.tz).replace(tzinfo=UTC) - timedelta(hours=3)
    while (shown := wall.next(moment)) is not None:
        meant = shown.replace(tzinfo=when.tz).astimezone(UTC)
        if meant > after:
            return meant
        moment = shown
    return None


def overdue(cron_job: Obj, since: datetime, now: datetime) -> datetime | None:
    """A slot from ``since`` on that passed without a firing, and that the CronJob controller makes up for when it can.

    None: there is none, or its starting deadline is over. Raises ScheduleError.
    """
    spec = dig(cron_job, "spec", default={})
    last = dig(cron_job, "status", "lastScheduleTime") or dig(cron_job, "metadata", "creationTimestamp")
    earliest = parse_time(last) if last else since
    if spec.get("startingDeadlineSeconds") is not None:
        earliest = max(earliest, now - timedelta(seconds=float(spec["startingDeadlineSeconds"])))
    latest = None if spec.get("suspend") else schedule.most_recent(parsed(cron_job), earliest, now).latest
    return latest if latest is not None and latest >= since else None


def missing_hour(when: schedule.Schedule, slot: datetime) -> bool:
    """Whether ``slot`` is a time that the wall clock leaps over."""
    local = slot.astimezone(when.tz)
    return (
        next_slot(when, slot - timedelta(seconds=1)) == slot
        and when.next(slot - timedelta(seconds=1)) != slot
        and (local.utcoffset() != (slot - timedelta(hours=6)).astimezone(when.tz).utcoffset())
    )


def change_of_clocks(name: str, after: datetime, *, forward: bool) -> tuple[str, datetime] | None:
    """(zone, moment) of the next change of clocks in zone ``name``, or elsewhere where it has none.

    ``forward``: in spring; else back, in autumn. None: nowhere within two years.
    """
    for zone_name in (name, ELSEWHERE):
        zone = schedule.zone(zone_name)
        hour = after.replace(minute=0, second=0, microsecond=0)
        for _ in range(2 * 366):
            day = hour + timedelta(days=1)
            before, later = hour.astimezone(zone).utcoffset(), day.astimezone(zone).utcoffset()
            if before is not None and later is not None and before != later and (later > before) == forward:
                while hour.astimezone(zone).utcoffset() == before:
                    hour += timedelta(hours=1)
                return zone_name, hour
            hour = day
    return None


def moved(declared: Obj, now: Obj, at: datetime) -> NotFired | None:
    """How a changed schedule or time zone moves the next slot of a CronJob; None where it does not."""
    try:
        before, after = parsed(declared), parsed(now)
    except ValueError as error:
        return NotFired(Hindrance.UNREADABLE, f"the schedule of CronJob {name_of(now)} cannot be read: {error}")
    due = before.next(at)
    if due is None or (before.text, before.tz) == (after.text, after.tz):
        return None
    fires = after.next(due - timedelta(seconds=1))
    if fires == due:
        return None
    zone = dig(now, "spec", "timeZone") or "none, so that the controller's counts, UTC"
    when = f"comes at {fires:%Y-%m-%d %H:%M} UTC now" if fires else "never comes now"
    why = f"timeZone is {zone}: the slot of {due:%Y-%m-%d %H:%M} UTC {when}"
    return NotFired(Hindrance.SLOT_MOVED, why)


#: What to do where no Job can be made, by what keeps it from being made.
_NO_JOB = {
    Hindrance.QUOTA: "give the executor's namespace quota for one more Job, or move the executor out of it",
    Hindrance.ADMISSION: "let the policy or the webhook pass the Jobs of this CronJob (by namespace, label or name), "
    "or give them what it asks for in spec.jobTemplate.metadata",
}


def explain(layer: DeadMan, declared: Obj) -> Explanation | None:
    """Why a slot came and nothing fired; None: other rules know."""
    name, slot, why = name_of(layer.cron_job), layer.stage.slot, layer.not_fired()
    if why is not None and why.reason is Hindrance.SLOT_MOVED:
        return Explanation(
            f"CronJob {name}: {why}",
            (f"spec.schedule: {layer.cron_job['spec']['schedule']}", why.why),
            "set spec.timeZone, in every copy of the manifest; in UTC nobody has to think",
            (10,),
        )
    if why is not None and why.reason in _NO_JOB:
        return Explanation(why.why, (why.why,), _NO_JOB[why.reason])
    if slot is None:
        return None
    when = parsed(declared)
    if missing_hour(when, slot):
        local = slot.astimezone(when.tz)
        return Explanation(
            f"{why}: in {dig(declared, 'spec', 'timeZone')} there is no such time on the night on which clocks go "
            "forward, and a time that does not exist is skipped",
            (
                f"spec.schedule: {when.text}",
                f"the clock on the wall goes on at {local:%H:%M %Z}",
                f"the next slot: {when.next(slot)}",
            ),
            "keep the schedule out of 01:00 to 03:00, or set spec.timeZone to Etc/UTC",
            (10,),
        )
    said = sorted(
        (
            e
            for e in layer.stage.scene.events.values()
            if e.get("reason") in ("MissSchedule", "TooManyMissedTimes", "FailedNeedsStart")
            and dig(e, "involvedObject", "name") == name
        ),
        key=event_time,
    )
    if said:
        return Explanation(
            f"{why}: {said[-1].get('reason')}: {said[-1].get('message')}",
            tuple(f"event {e.get('type')} {e.get('reason')}: {e.get('message')}" for e in said[-3:]),
            "raise startingDeadlineSeconds (a kill that comes late is better than none), and let something outside the "
            "cluster turn the GPUs off too",
            (9, 15),
        )
    deadline = dig(declared, "spec", "startingDeadlineSeconds")
    if deadline is not None and (layer.stage.cluster.loop.now() - slot).total_seconds() > float(deadline):
        return Explanation(
            f"{why}: nobody looked within startingDeadlineSeconds ({deadline}), and then it was too late: such a slot "
            "is skipped without an event",
            (f"spec.startingDeadlineSeconds: {deadline}", f"no event of CronJob {name} says so"),
            "raise startingDeadlineSeconds (a kill that comes late is better than none), and let something outside the "
            "cluster turn the GPUs off too",
            (9, 15),
        )
    return Explanation(
        str(why or "nothing fired"),
        (f"no event of CronJob {name} says why",),
        "see to kube-controller-manager; let something outside the cluster turn the GPUs off too",
        (15,),
    )
