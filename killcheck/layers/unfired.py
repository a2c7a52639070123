"""Why a slot of a CronJob came, and nothing fired."""

from __future__ import annotations

from datetime import datetime, timedelta

from killcheck.kube.objects import Obj, dig, name_of
from killcheck.layers.base import Explanation, Hindrance, NotFired, Stage
from killcheck.layers.slots import missing_hour, parsed
from killcheck.watch.scene import event_time

__all__ = ["explain", "moved"]


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
    Hindrance.ADMISSION: "let the policy or the webhook pass the Jobs of this CronJob (by namespace, label or name); "
    "or give them what it asks for in spec.jobTemplate.metadata",
}


def explain(stage: Stage, cron_job: Obj, declared: Obj, why: NotFired | None) -> Explanation | None:
    """Why a slot came and nothing fired; None: other rules know.

    ``cron_job`` as it is, ``declared`` as it was before any fault; ``why``: what kept the slot from firing.
    """
    name, slot = name_of(cron_job), stage.slot
    if why is not None and why.reason is Hindrance.SLOT_MOVED:
        return Explanation(
            f"CronJob {name}: {why}",
            (f"spec.schedule: {cron_job['spec']['schedule']}", why.why),
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
            lasting=True,
        )
    said = sorted(
        (
            e
            for e in stage.scene.events.values()
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
            lasting=True,
        )
    deadline = dig(declared, "spec", "startingDeadlineSeconds")
    if deadline is not None and (stage.cluster.loop.now() - slot).total_seconds() > float(deadline):
        return Explanation(
            f"{why}: nobody looked within startingDeadlineSeconds ({deadline}), and then it was too late: such a slot "
            "is skipped without an event",
            (f"spec.startingDeadlineSeconds: {deadline}", f"no event of CronJob {name} says so"),
            "raise startingDeadlineSeconds (a kill that comes late is better than none), and let something outside the "
            "cluster turn the GPUs off too",
            (9, 15),
            lasting=True,
        )
    return Explanation(
        str(why or "nothing fired"),
        (f"no event of CronJob {name} says why",),
        "see to kube-controller-manager; let something outside the cluster turn the GPUs off too",
        (15,),
    )
