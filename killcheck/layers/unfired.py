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
#: What the controller's events say of a slot that it passed over.
_PASSED_OVER = ("MissSchedule", "TooManyMissedTimes", "FailedNeedsStart")
_NOT_SO_STRICT = (
    "raise startingDeadlineSeconds (a kill that comes late is better than none), and let something outside the "
    "cluster turn the GPUs off too"
)


def explain(stage: Stage, cron_job: Obj, declared: Obj, why: NotFired | None) -> Explanation | None:
    """Why a slot came and nothing fired; None: other rules know.

    ``cron_job`` as it is, ``declared`` as it was before any fault; ``why``: what kept the slot from firing.
    """
    name = name_of(cron_job)
    if why is not None and why.reason is Hindrance.SLOT_MOVED:
        return Explanation(
            f"CronJob {name}: {why}",
            (f"spec.schedule: {cron_job['spec']['schedule']}", why.why),
            "set spec.timeZone, in every copy of the manifest; in UTC nobody has to think",
            (10,),
        )
    if why is not None and why.reason in _NO_JOB:
        return Explanation(why.why, (why.why,), _NO_JOB[why.reason])
    if stage.slot is None:
        return None
    found = (
        _no_such_hour(declared, stage.slot, why)
        or _passed_over(stage, name, why)
        or _too_late(stage, stage.slot, name, declared, why)
    )
    return found or Explanation(
        str(why or "nothing fired"),
        (f"no event of CronJob {name} says why",),
        "see to kube-controller-manager; let something outside the cluster turn the GPUs off too",
        (15,),
    )


def _no_such_hour(declared: Obj, slot: datetime, why: NotFired | None) -> Explanation | None:
    """The slot is in the hour that clocks skip."""
    when = parsed(declared)
    if not missing_hour(when, slot):
        return None
    return Explanation(
        f"{why}: in {dig(declared, 'spec', 'timeZone')} there is no such time on the night on which clocks go "
        "forward, and a time that does not exist is skipped",
        (
            f"spec.schedule: {when.text}",
            f"the clock on the wall goes on at {slot.astimezone(when.tz):%H:%M %Z}",
            f"the next slot: {when.next(slot)}",
        ),
        "keep the schedule out of 01:00 to 03:00, or set spec.timeZone to Etc/UTC",
        (10,),
        lasting=True,
    )


def _passed_over(stage: Stage, name: str, why: NotFired | None) -> Explanation | None:
    """The controller said that it passed the slot over."""
    events = (e for e in stage.scene.events.values() if e.get("reason") in _PASSED_OVER)
    said = sorted((e for e in events if dig(e, "involvedObject", "name") == name), key=event_time)
    if not said:
        return None
    return Explanation(
        f"{why}: {said[-1].get('reason')}: {said[-1].get('message')}",
        tuple(f"event {e.get('type')} {e.get('reason')}: {e.get('message')}" for e in said[-3:]),
        _NOT_SO_STRICT,
        (9, 15),
        lasting=True,
    )


def _too_late(stage: Stage, slot: datetime, name: str, declared: Obj, why: NotFired | None) -> Explanation | None:
    """Nobody looked within the starting deadline: that is passed over in silence."""
    deadline = dig(declared, "spec", "startingDeadlineSeconds")
    if deadline is None or (stage.cluster.loop.now() - slot).total_seconds() <= float(deadline):
        return None
    return Explanation(
        f"{why}: nobody looked within startingDeadlineSeconds ({deadline}), and then it was too late: such a slot "
        "is skipped without an event",
        (f"spec.startingDeadlineSeconds: {deadline}", f"no event of CronJob {name} says so"),
        _NOT_SO_STRICT,
        (9, 15),
        lasting=True,
    )
