"""What is scheduled to start targets again: who, when, and whether anybody said that it is meant to.

A start is meant where the spec says so (``starts``, a sentinel's start jobs). Where no spec says anything, a schedule
that plainly is the morning's is taken for meant, and that is said with the verdict: it comes at most once in half a
day, between six and noon on its own clock, and the GPUs had been off for four hours. Any other start in the night is
what keeps the night from holding. What may *not* live here: anything that changes or waits.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from itertools import pairwise

from msgspec import Struct

from killcheck import executor
from killcheck.executor import ApiCall
from killcheck.kube import resources as r
from killcheck.kube import schedule
from killcheck.kube.client import Kube
from killcheck.kube.errors import KubeError
from killcheck.kube.gpus import spec_devices
from killcheck.kube.objects import Obj, annotations_of, dig, name_of, namespace_of, ref_of
from killcheck.kube.workloads import templates
from killcheck.spec.killpath import KillPath, Ref, Target

__all__ = [
    "Start",
    "bounded",
    "controller_behind",
    "declared",
    "is_morning",
    "left_on_by",
    "of_cron_job",
    "of_the_morning",
    "period_s",
    "proposed",
    "reads_the_clock",
    "scheduled",
    "undoes",
    "windows",
]

#: The count that KEDA restores now and then while it is paused.
PAUSED_AT = "autoscaling.keda.sh/paused-replicas"
#: The hours on a start's own clock that are a morning: from, and before.
MORNING = (6, 12)
#: How long it must have been off before a start can be the morning's, in seconds.
NIGHT_S = 4 * 3600.0
#: What comes again sooner is no morning, in seconds.
ONCE_S = 12 * 3600.0
#: A stop so many seconds after a start is that day's: the longest day has 25 hours.
DAY_S = 25 * 3600.0
#: Firings that tell what a schedule is like: those of a week, where there are two a day.
FIRINGS = 15


class Start(Struct, frozen=True):
    """A schedule behind a start: of a CronJob, or of the window of a ScaledObject's cron trigger."""

    ref: Ref
    text: str = ""
    zone: str = ""

    @property
    def who(self) -> str:
        """As it is told: kind, namespace, name."""
        return f"{self.ref.kind} {self.ref.namespace}/{self.ref.name}"

    def next(self, after: datetime) -> datetime | None:
        """When it comes next; None: never, or its schedule cannot be read."""
        try:
            return schedule.parse(self.text, self.zone or None).next(after)
        except ValueError:
            return None


def of_cron_job(cron_job: Obj | None) -> Start | None:
    """The start that a CronJob is."""
    if cron_job is None:
        return None
    ref = Ref("batch/v1", "CronJob", namespace_of(cron_job), name_of(cron_job))
    spec = cron_job.get("spec") or {}
    return Start(ref, str(spec.get("schedule") or ""), str(spec.get("timeZone") or ""))


def windows(scaled: Obj) -> Iterator[Start]:
    """When the windows of a ScaledObject's cron triggers open."""
    ref = Ref(str(scaled.get("apiVersion")), "ScaledObject", namespace_of(scaled), name_of(scaled))
    for trigger in dig(scaled, "spec", "triggers", default=[]):
        if trigger.get("type") == "cron":
            said = trigger.get("metadata") or {}
            yield Start(ref, str(said.get("start") or ""), str(said.get("timezone") or ""))


#: Whose field managers follow Git.
_SOURCES = {"argocd": r.APPLICATIONS, "kustomize-controller": r.KUSTOMIZATIONS, "helm-controller": r.HELMRELEASES}


def controller_behind(kube: Kube, manager: str, target: Obj, now: datetime) -> Start | None:
    """The scaler behind a controller's field manager that wrote a target's replicas; None: it is nobody's known."""
    source = next((one for mark, one in _SOURCES.items() if mark in manager.lower()), None)
    if source is not None:
        found = kube.list(source).items
        return (
            Start(Ref(source.api_version, source.kind, namespace_of(found[0]), name_of(found[0])))
            if (len(found) == 1)
            else Start(Ref(source.api_version, source.kind, "(one of)", str(len(found))))
        )
    if manager and "keda" not in manager.lower():
        return None
    for scaled in kube.list(r.SCALEDOBJECTS, namespace_of(target)).items:
        if dig(scaled, "spec", "scaleTargetRef", "name") != name_of(target):
            continue
        if not manager and PAUSED_AT not in annotations_of(scaled):
            continue
        opened = [s for s in windows(scaled) if _just(s, now)]
        ref = Ref(str(scaled.get("apiVersion")), "ScaledObject", namespace_of(scaled), name_of(scaled))
        return opened[0] if opened else Start(ref)
    return None


def _just(start: Start, now: datetime) -> bool:
    """Whether it came within the last five minutes: a poll, and the slack of one."""
    due = start.next(now - timedelta(minutes=5))
    return due is not None and due <= now


def declared(kill_path: KillPath, start: Start) -> bool:
    """Whether the spec says that this start is meant."""
    held = [job for layer in kill_path.layers if layer.sentinel for job in layer.sentinel.start_jobs]
    return any(
        (ref.kind, ref.namespace, ref.name) == (start.ref.kind, start.ref.namespace, start.ref.name)
        for ref in (*kill_path.starts, *held)
    )


def of_the_morning(start: Start, at: datetime, off_since: datetime) -> str | None:
    """Why a start that nobody declared is plainly the morning's; None: it is not."""
    slot = start.next(at - timedelta(hours=1)) if start.text else None
    if slot is None or slot > at or (slot - off_since).total_seconds() < NIGHT_S:
        return None
    if not _in_the_morning(start, slot):
        return None
    return f"its schedule ({start.text}, {start.zone or 'UTC'}) is taken for the morning's: the spec declares no starts"


def left_on_by(start: Start, at: datetime, kill_path: KillPath, lit: Target, crons: Iterable[Obj]) -> str | None:
    """That a start comes again before anything stops what it lit at ``at``, in a phrase: it leaves nights on.

    None: a stop comes first, or what is no schedule may stop it.
    """
    refs = [layer.cron_job for layer in kill_path.layers if lit.name in layer.covers]
    named = {(one.namespace, one.name) for one in refs if one}
    found = (of_cron_job(cron) for cron in crons if (namespace_of(cron), name_of(cron)) in named)
    stops = [due for stop in found if stop is not None for due in [stop.next(at)] if due is not None]
    again = start.next(at)
    if None in refs or not stops or again is None or again >= min(stops):
        return None
    hours = (min(stops) - at).total_seconds() / 3600.0
    return f"the next stop comes {hours:.0f} h later, on {min(stops):%A}, and it starts again before that"


def bounded(cron_job: Obj | None, job: Obj | None, now: datetime) -> str | None:
    """Why GPU work of a CronJob's own is no failure of the night: its Job is ended soon; None: it is not.

    Soon is a quarter of its period at most, and it fires at most once in half a day: else it keeps GPUs on.
    """
    ends_s = dig(job or {}, "spec", "activeDeadlineSeconds")
    every_s = period_s(cron_job, now) if cron_job else None
    if not ends_s or every_s is None or every_s < ONCE_S or ends_s > every_s / 4:
        return None
    return f"work of its own, ended after {ends_s / 3600.0:.1f} h at the latest (activeDeadlineSeconds)"


def proposed(objects: Iterable[Obj], kill_path: KillPath, now: datetime) -> tuple[list[Start], list[Start]]:
    """What starts targets again by the clock: what plainly is a morning's, and what is not and a drill will not excuse.

    Plainly a morning's is what comes between six and noon on its own clock, all year as long after the stops of the
    path: two clocks that change on different days drift apart. Nor is it one that a stop follows within the day on some
    days and not on others: on a Saturday nobody turns off what a Saturday's morning lit.

    CronJobs that are read to scale a target up or to take back what a switch wrote, and windows of cron triggers on a
    target.
    """
    everything = list(objects)
    own = {(one.namespace, one.name) for layer in kill_path.layers if (one := layer.cron_job)}
    crons = [(o, (namespace_of(o) or "default", name_of(o))) for o in everything if o.get("kind") == "CronJob"]
    written = [call for obj, key in crons if key in own for call in _writes(obj)]
    #: Each with the targets that it is read to light; none: it is not known which.
    found = [
        (start, lit)
        for obj, key in crons
        if key not in own and not dig(obj, "spec", "suspend")
        if (lit := _lit(obj, kill_path)) or any(undoes(call, one) for call in _writes(obj) for one in written)
        if (start := of_cron_job(obj)) is not None
    ]
    for obj in everything:
        name = dig(obj, "spec", "scaleTargetRef", "name")
        led = frozenset(target.name for target in kill_path.targets if target.object == name)
        if r.is_of(obj, r.SCALEDOBJECTS) and led:
            found += [(start, led) for start in windows(obj)]
    stops = {key: stop for obj, key in crons if key in own and (stop := of_cron_job(obj)) is not None}
    mornings = [
        start
        for start, lit in found
        if _only_mornings(start, now)
        and not _soon_after(start, stops.values(), now)
        and not any(_left_on(start, each, now) for each in _stops_of(kill_path, stops, lit))
    ]
    return mornings, [start for start, _ in found if start not in mornings]


def _stops_of(
    kill_path: KillPath, stops: Mapping[tuple[str, str], Start], lit: Collection[str]
) -> Iterator[Sequence[Start]]:
    """The stops of each target that a start lights: another target's do not end its day. All, where none is known."""
    if not lit:
        yield list(stops.values())
    for name in lit:
        refs = [layer.cron_job for layer in kill_path.layers if name in layer.covers]
        yield [stops[key] for one in refs if one and (key := (one.namespace, one.name)) in stops]


def _lit(cron: Obj, kill_path: KillPath) -> frozenset[str]:
    """The targets that a CronJob is read to scale up."""
    home = namespace_of(cron) or "default"
    raised = [call for one in templates(cron) for call in executor.read(one.spec, home).calls if call.replicas]
    return frozenset(
        one.name
        for call in raised
        for one in kill_path.targets
        if one.kind and call.resource.startswith(one.kind.lower()) and call.about(one.namespace, one.object, {})
    )


def _writes(cron: Obj) -> Iterator[ApiCall]:
    home = namespace_of(cron) or "default"
    for template in templates(cron):
        yield from executor.read(template.spec, home).writes


def undoes(call: ApiCall, written: ApiCall) -> bool:
    """Whether a call takes back what a switch wrote: it deletes what that made (the API has no name for it then), makes
    what that deleted, or edits the same object again."""
    if (call.group, call.resource, call.namespace) != (written.group, written.resource, written.namespace):
        return False
    if {call.verb, written.verb} == {"create", "delete"}:
        return True
    if call.marks and written.replicas is not None:
        return False  # a label or an annotation takes no number back
    edits = {call.verb, written.verb} <= {"patch", "update"}
    return edits and call.name == written.name


def _only_mornings(start: Start, now: datetime) -> bool:
    slots = _firings(start, now)
    return bool(slots) and all(_in_the_morning(start, slot) for slot in slots)


def is_morning(start: Start, stops: Sequence[Start], now: datetime) -> bool:
    """Whether a start plainly is the morning's, all year as long after these stops, and ended by them each day."""
    if not _only_mornings(start, now) or _left_on(start, stops, now):
        return False
    night, slots = timedelta(seconds=NIGHT_S), schedule.parse(start.text, start.zone or None).of_a_year(now)
    last = [(slot, stop.next(slot - night)) for slot in slots for stop in stops]
    return not any(stopped is not None and stopped <= slot for slot, stopped in last)


def _soon_after(start: Start, stops: Iterable[Start], now: datetime) -> bool:
    """Whether it comes within a night after a stop on some days of the coming year, and not on all of them."""
    night = timedelta(seconds=NIGHT_S)
    for stop in stops:
        soon = set()
        for slot in schedule.parse(start.text, start.zone or None).of_a_year(now):
            stopped = stop.next(slot - night)
            soon.add(stopped is not None and stopped <= slot)
        if len(soon) > 1:
            return True
    return False


def _left_on(start: Start, stops: Sequence[Start], now: datetime) -> bool:
    """Whether a stop of a target ends the same day on some days of the coming year, and not on all of them."""
    ended = set()
    for slot in schedule.parse(start.text, start.zone or None).of_a_year(now) if stops else ():
        nexts = [later for stop in stops for later in [stop.next(slot)] if later is not None]
        ended.add(bool(nexts) and (min(nexts) - slot).total_seconds() < DAY_S)
    return len(ended) > 1


def _in_the_morning(start: Start, slot: datetime | None) -> bool:
    """Whether a firing is between six and noon on its own clock, and comes at most once in half a day."""
    again = start.next(slot) if slot else None
    if slot is None or again is None or (again - slot).total_seconds() < ONCE_S:
        return False
    return MORNING[0] <= slot.astimezone(schedule.zone(start.zone)).hour < MORNING[1]


def period_s(cron_job: Obj, now: datetime) -> float | None:
    """Fewest seconds between two firings of a CronJob; None: it does not fire twice, or cannot be read."""
    start = of_cron_job(cron_job)
    if start is None or dig(cron_job, "spec", "suspend"):
        return None
    return min(((later - one).total_seconds() for one, later in pairwise(_firings(start, now))), default=None)


def _firings(start: Start, now: datetime) -> list[datetime]:
    """The next firings: so many that what is found of them is the same at any hour."""
    found: list[datetime] = []
    slot: datetime | None = now
    while slot is not None and len(found) < FIRINGS:
        slot = start.next(slot)
        found += [slot] if slot is not None else []
    return found


def reads_the_clock(cron_job: Obj) -> bool:
    """Whether what it runs may do another thing at another hour."""
    return any(
        "date" in str(word) or "time" in str(word)
        for template in templates(cron_job)
        for container in dig(template.spec, "containers", default=[])
        for word in (*(container.get("command") or ()), *(container.get("args") or ()))
    )


def scheduled(kube: Kube, kill_path: KillPath, since: datetime, until: datetime) -> list[str]:
    """What is scheduled between two moments and may light a target, one sentence each: read, where nobody can watch.

    Never raises: what cannot be listed is said.
    """
    told: list[str] = []
    try:
        told += _cron_jobs(kube.list(r.CRONJOBS).items, kill_path, since, until)
    except KubeError as error:
        told.append(f"what CronJobs may light the targets again is not known: {error}")
    try:
        for scaled in kube.list(r.SCALEDOBJECTS).items:
            told += [
                f"{start.who} opens a window at {due:%Y-%m-%d %H:%M} UTC: it scales its target up then"
                for start in windows(scaled)
                if (due := start.next(since)) is not None and due <= until
            ]
    except KubeError:
        pass  # no KEDA here, or none that may be read: the ledger's matter
    return told


def _cron_jobs(found: Iterable[Obj], kill_path: KillPath, since: datetime, until: datetime) -> Iterator[str]:
    stoppers = {(layer.cron_job.namespace, layer.cron_job.name) for layer in kill_path.layers if layer.cron_job}
    for cron in found:
        start = of_cron_job(cron)
        due = start.next(since) if start and not dig(cron, "spec", "suspend") else None
        if start is None or due is None or due > until or (namespace_of(cron), name_of(cron)) in stoppers:
            continue
        does = _does(cron)
        if does:
            meant = " (the spec declares it)" if declared(kill_path, start) else ""
            yield f"not watched: {ref_of(cron)} fires at {due:%Y-%m-%d %H:%M} UTC and {does}{meant}"


def _does(cron: Obj) -> str | None:
    """What a CronJob does that may light something; None: nothing that can be read."""
    for template in templates(cron):
        if spec_devices(template.spec):
            return "asks for GPUs itself"
        reading = executor.read(template.spec, namespace_of(cron))
        ups = [call for call in reading.calls if call.replicas]
        if ups:
            return f"scales up ({ups[0]})"
        if reading.not_understood:
            return f"what it does could not be read ({reading.not_understood[0]})"
    return None
