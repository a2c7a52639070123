"""Which night the embedded cluster lives through: the one that the layer's own schedule has to hold."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import TYPE_CHECKING

from killcheck.kube.objects import Obj, dig, namespace_of
from killcheck.kube.workloads import templates
from killcheck.spec.killpath import KillPath, Layer, LayerType, Ref

if TYPE_CHECKING:
    from killcheck.kube.schedule import Schedule
    from killcheck.run.planned import PlannedDrill

__all__ = ["night"]

#: The night that the embedded cluster lives through; the moment is set to just after the layer's slot.
SOME_NIGHT = datetime(2026, 1, 15, 12, 0, tzinfo=UTC)
#: How far, and over how many slots, the longest time between two of them is looked for.
WEEK, SLOTS = timedelta(days=7), 100
#: What is longer than a night and a day: a weekend. What is shorter is the same night still.
PAUSE, SAME_NIGHT = timedelta(hours=36), timedelta(hours=12)


def night(kill_path: KillPath, objects: Sequence[Obj], planned: PlannedDrill | None) -> datetime:
    """Just after the slot of the layer's schedule, so that its own next firing is a night away."""
    from killcheck.kube import schedule

    layer = kill_path.layer(planned.layer) if planned else None
    if layer is not None and layer.schedule:
        due = schedule.parse(layer.schedule, layer.time_zone or None).next(SOME_NIGHT)
        return SOME_NIGHT if due is None else due + timedelta(seconds=1)
    if layer is not None and layer.scaler is not None:
        return _window(objects, layer.scaler)
    if layer is not None and layer.type is LayerType.DEAD_MAN and layer.workload is not None:
        return _in_the_morning(objects, layer.workload)
    if layer is None or layer.cron_job is None:
        return SOME_NIGHT
    name = layer.cron_job.name
    found = (o for o in objects if o.get("kind") == "CronJob" and dig(o, "metadata", "name") == name)
    cron_job = next(found, None)
    try:
        parsed = schedule.parse(
            str(dig(cron_job, "spec", "schedule", default="")), str(dig(cron_job, "spec", "timeZone", default=""))
        )
    except ValueError:
        return SOME_NIGHT
    for fault in planned.made() if planned else ():
        eve = fault.night(cron_job or {}, SOME_NIGHT)
        if eve is not None:
            return _once_others_fired(kill_path, objects, layer, eve, parsed)
    slot = _before_the_longest(parsed, SOME_NIGHT)
    return SOME_NIGHT if slot is None else slot + timedelta(seconds=1)


def _window(objects: Sequence[Obj], scaler: Ref) -> datetime:
    """When the scaler's cron trigger holds its target on, where nothing else does."""
    from killcheck.embedded import keda_triggers

    named = (o for o in objects if o.get("kind") == scaler.kind and dig(o, "metadata", "name") == scaler.name)
    scaled = next((o for o in named if (namespace_of(o) or "default") == scaler.namespace), None)
    if scaled is None or keda_triggers.live(scaled):
        return SOME_NIGHT
    now = keda_triggers.read(scaled, SOME_NIGHT)
    return SOME_NIGHT if now.desired or now.changes is None else now.changes + timedelta(seconds=1)


def _in_the_morning(objects: Sequence[Obj], workload: Ref) -> datetime:
    """When people work, by the clock of a program that knows its hour itself."""
    from killcheck.kube import schedule

    named = (o for o in objects if o.get("kind") == workload.kind and dig(o, "metadata", "name") == workload.name)
    found = next((o for o in named if (namespace_of(o) or "default") == workload.namespace), None)
    told = [
        str(one.get("value"))
        for template in (templates(found) if found else ())
        for container in dig(template.spec, "containers", default=[])
        for one in container.get("env") or ()
        if one.get("name") == "TZ"
    ]
    told += [str(zone) for zone in [dig(found, "spec", "timeZone")] if zone]  # kube-green's
    try:
        zone = schedule.zone(told[0]) if told else UTC
    except ValueError:
        zone = UTC
    return SOME_NIGHT.replace(hour=10, tzinfo=zone).astimezone(UTC)


def _once_others_fired(
    kill_path: KillPath, objects: Sequence[Obj], layer: Layer, eve: datetime, own: Schedule
) -> datetime:
    """``eve``, or just after the last slot of other layers before the layer's own: what they turn off is off.

    Only where the clocks of the layer's own zone do not change in between, which it would not live through then.
    """
    slot = own.next(eve)
    last = eve
    others = {(o.cron_job.namespace, o.cron_job.name) for o in kill_path.layers if o.cron_job and o != layer}
    for obj in objects:
        if obj.get("kind") == "CronJob" and (namespace_of(obj), dig(obj, "metadata", "name")) in others:
            last = max(last, _last_before(obj, eve, slot))
    began, fires = last.astimezone(own.tz), slot.astimezone(own.tz) if slot else None
    before = eve.astimezone(own.tz)
    same = fires is not None and before.utcoffset() == began.utcoffset() == fires.utcoffset()
    return last + timedelta(seconds=1) if same and last > eve else eve


def _before_the_longest(when: Schedule, after: datetime) -> datetime | None:
    """The first slot of the night after which nothing fires for longest, within a week; None: it never fires.

    That night is the one that has to hold: a switch of the weekdays leaves the weekend to itself. Where nights are
    alike it is the next one.
    """
    slots = [slot for slot in [when.next(after)] if slot is not None]
    while slots and len(slots) < SLOTS and slots[-1] - after <= WEEK and (again := when.next(slots[-1])) is not None:
        slots.append(again)
    pauses = [later - slot for slot, later in pairwise(slots)]
    if not pauses or max(pauses) < PAUSE:
        return slots[0] if slots else None
    last = pauses.index(max(pauses))
    while last and pauses[last - 1] < SAME_NIGHT:
        last -= 1
    return slots[last]


def _last_before(cron_job: Obj, after: datetime, slot: datetime | None) -> datetime:
    """The last slot of a CronJob between two moments; the first of them where there is none."""
    from killcheck.kube import schedule

    try:
        parsed = schedule.parse(
            str(dig(cron_job, "spec", "schedule", default="")), str(dig(cron_job, "spec", "timeZone", default=""))
        )
    except ValueError:
        return after
    last = after
    while slot is not None:
        due = parsed.next(last)
        if due is None or due >= slot:
            break
        last = due
    return last
