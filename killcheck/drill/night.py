"""The rest of the night: virtual time is free, so what went off is watched until something is meant to start it again.

After everything is proven an embedded cluster lives on to the layer's next firing, at least a day, with all that the
manifests schedule. The first thing that lights a target again, or asks for GPUs of the pools, decides: a start that
was declared (the spec's ``starts``, a sentinel's start jobs), or that plainly is the morning's, ends the night; any
other one means that it did not hold. What may *not* live here: verdicts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from datetime import UTC, datetime, timedelta
from typing import ClassVar

from msgspec import Struct

from killcheck import executor
from killcheck.clock import VirtualLoop
from killcheck.drill import left_behind, other_nights
from killcheck.drill.attribution import author
from killcheck.drill.held_loops import Resting
from killcheck.drill.next_firing import FIRED_S, LEAD_S, Missed, NextFiring, NotTried, WorksOnce
from killcheck.entries import Entry, Status
from killcheck.executor.calendar import Asked, zones_named
from killcheck.kube import resources as r
from killcheck.kube.errors import Forbidden, KubeError
from killcheck.kube.objects import (
    Obj,
    controller_of,
    dig,
    format_time,
    labels_of,
    name_of,
    namespace_of,
    parse_time,
    ref_of,
)
from killcheck.kube.plurals import plural_of
from killcheck.kube.workloads import templates
from killcheck.layers.base import LayerRun, Stage, writer_of
from killcheck.layers.rivals import lighter
from killcheck.spec.killpath import Ref, Target
from killcheck.text.numbers import whole
from killcheck.text.values import replace
from killcheck.watch import starts
from killcheck.watch.starts import Start

__all__ = ["Missed", "Night", "Relight", "WorksOnce", "rest_of"]

#: The least that is watched from the trigger on, and the most, in seconds: a weekly switch's next firing is in it.
LEAST_S, MOST_S = 24 * 3600.0, 8 * 24 * 3600.0
#: A firing that far away is the next night's: a drill begins at the slot, and proof takes up to an hour, in seconds.
A_DAY_S = 22 * 3600.0
#: How long what was asked for may take to hold GPUs, in seconds: a node has to come.
COMES_ON_S = 1800.0
#: A Job that ended so long before a target was lit again can have done it, in seconds.
JUST_ENDED_S = 15.0
#: CronJobs that fire more often than this are played a few times, and then held for the rest of the night, in seconds.
OFTEN_S = 3600.0
#: How long before a firing far ahead everything that is scheduled is let go, in seconds.
ALL_AT_WORK_S = 3 * 3600.0
#: How long what was put on again may take until the next day's work lets it come up, in seconds.
AWAKE_S = 14 * 3600.0
#: Who cannot be told.
UNKNOWN = "something"
#: How many firings of such a one are played: the cluster is as it was, so the next would do what these did.
PLAYED = 3


class Relight(Struct, frozen=True):
    """What lit GPUs again after zero was proven.

    ``who`` did ``what`` at ``at``; ``meant``: why that is no failure of the night (None: it is). ``start``: the
    schedule behind it, where there is one.
    """

    at: datetime
    who: str
    what: str
    meant: str | None = None
    evidence: tuple[str, ...] = ()
    start: Start | None = None

    stuck_at: ClassVar[str] = "held"
    failures: ClassVar[tuple[int, ...]] = (55,)
    remedy: ClassVar[str] = (
        "let nothing start it before its time: stop or hold what did; if it is meant to, name it under starts: in the "
        "spec"
    )

    @property
    def cause(self) -> str:
        """As a diagnosis says it."""
        return f"lit again at {self.at:%Y-%m-%d %H:%M} UTC: {self.who} {self.what}"

    def told(self, since: datetime) -> str:
        """As a note says it of a start that was meant."""
        hours = (self.at - since).total_seconds() / 3600.0
        return (
            f"it held for {hours:.1f} h, until {self.at:%Y-%m-%d %H:%M} UTC: then {self.who} {self.what} ({self.meant})"
        )


def rest_of(
    stage: Stage,
    runner: LayerRun,
    since: datetime,
    changed: Callable[[], bool],
    *,
    note: Callable[[str], None],
    put_on: Callable[[], None] | None,
) -> Relight | Missed | WorksOnce | None:
    """Live through the rest of the night where time is virtual; elsewhere what could not be watched is read, and told.

    ``put_on`` puts everything on again before the layer's own next firing; None: that is only waited for. Answers what
    lit it again, or why the next night would not come or not turn it off; None: neither, or nobody could see.
    """
    night = Night(stage, runner, since, put_on)
    if stage.cluster.real and stage.kill_path.in_kubernetes:
        for said in starts.scheduled(stage.cluster.kube, stage.kill_path, since, night.until()):
            note(said)
        for said in night.not_seen():
            note(said)
    if not night.possible():
        return None
    try:
        relight = night.play(changed)
        if relight is not None and not relight.meant:
            return relight
        if relight is not None:
            note(relight.told(since))
        later = night.next_firing()
    finally:
        night.resting.let_go()
    for said in night.told:
        note(said)
    return later or relight


class Night:
    """What happens from ``since``, when everything was proven, to the end of the night, and the layer's firing then."""

    def __init__(
        self, stage: Stage, runner: LayerRun, since: datetime, put_on: Callable[[], None] | None = None
    ) -> None:
        self.stage, self.runner, self.since = stage, runner, since
        #: Puts the targets on again; None: the layer's next firing is only waited for.
        self._put_on = put_on if runner.idles_s() is not None else None
        self.scene, self.loop = stage.scene, stage.cluster.loop
        self.targets = [t for t in stage.kill_path.covered_by(runner.layer) if t.kind]
        self._pods = {pod.uid for pod in self.scene.gpu_pods()}
        self._nodes = len(self.scene.pool_nodes())
        #: Those that are there already, also other layers': they come into scope when what is on them goes.
        self._standing = {name_of(node) for node in self.scene.nodes.values()}
        self._asked = {t.name: self.scene.replicas(t) for t in self.targets}
        #: CronJobs that are held for the rest of it.
        self._paused: list[Obj] = []
        #: Those that were held in it.
        self._held_crons: list[Obj] = []
        #: What is to be said of the nights that were tried, a sentence each.
        self.told: list[str] = []
        self.resting = Resting(stage)
        #: From then on the layer's own loop is at work only shortly before what is tried.
        self._second_day_over = False

    def possible(self) -> bool:
        """Whether it can be played on: the clock is virtual, and no program outside Kubernetes would run all night."""
        return (
            bool(self.targets)
            and not self.runner.only_node()
            and isinstance(self.loop, VirtualLoop)
            and not any(t.count is not None for t in self.stage.kill_path.targets)
        )

    def until(self) -> datetime:
        """When it ends: once the layer's next firing is over, where that is a day away or more; else in a day.

        A firing that is over is waited for because what is healed after it stays on. So is the first one of each layer
        beside this one: what it does while the targets are off it does in no drill of its own.
        """
        least, most = self.since + timedelta(seconds=LEAST_S), self.since + timedelta(seconds=MOST_S)
        due = self._due()
        if due is None or due - self.since < timedelta(seconds=A_DAY_S):
            over = least
        else:
            over = due + timedelta(seconds=FIRED_S) if self._put_on is None else due - timedelta(seconds=LEAD_S)
        beside = [slot + timedelta(seconds=FIRED_S) for slot in self._beside()]
        return min(most, max([over, *(slot for slot in beside if slot <= most)]))

    def _beside(self) -> Iterator[datetime]:
        """The next firings of the other layers' CronJobs."""
        for layer in self.stage.kill_path.layers:
            ref = layer.cron_job
            if ref is None or ref == self.runner.layer.cron_job or self.stage.cluster.real:
                continue
            cron = self.stage.cluster.kube.find(r.CRONJOBS, ref.name, ref.namespace)
            start = starts.of_cron_job(cron)
            slot = start.next(self.since) if start and not dig(cron, "spec", "suspend") else None
            if slot is not None:
                yield slot

    def _due(self) -> datetime | None:
        """The layer's own next firing."""
        return self.runner.comes_again(self.loop.now() + timedelta(seconds=1))

    def play(self, changed: Callable[[], bool]) -> Relight | None:
        """Live on until something is lit again; ``changed`` tells whether anything is new since it was asked last."""
        end = self.until()
        soon = min(end, self.since + timedelta(seconds=self._often_s()))
        try:
            found = self._next(changed, soon)
            if found is None and soon < end:
                self._hold(self._frequent())
                self.told += self.resting.hold()
                found = self._next(changed, end)
        finally:
            self._let_go()
        return found

    def next_firing(self) -> Missed | WorksOnce | None:
        """What the layer's own next firing came to; None: all is well, or nobody could see, which is told."""
        firing, due = NextFiring(self.stage, self.runner, self.targets, self._put_on or (lambda: None)), self._due()
        forecast = self.runner.forecast()
        if self._put_on is None or due is None:
            # The night has gone on past it: what is due now is the one after.
            first = self.runner.next_chance(self.since + timedelta(seconds=1))
            return None if any(self._is_own(cron) for cron in self._held_crons) else firing.missed(first)
        if forecast is not None and forecast.never:
            return None  # that is said anyway, with the reason
        try:
            self._hold(held for held in self._frequent() if self.runner.idles_s() or not self._is_own(held))
            found = self._again(firing, due, own=True)
            if isinstance(found, NotTried):
                self.told.append(found.told)
                if found.refused:
                    name = f"layer {self.runner.layer.name}"
                    self.runner.later.append(Entry(name, Status.NOT_MODELLED, found.told, found.settles))
            return self._on_other_nights(firing) if found is None or isinstance(found, NotTried) else found
        finally:
            self._let_go()

    def _again(self, firing: NextFiring, due: datetime, *, own: bool = False) -> Missed | WorksOnce | NotTried | None:
        """One firing of the layer's own, with everything on again before it; ``own``: it may be held until then."""
        self._until(due)
        firing.prepare()
        if own:
            self._let_go(self._is_own)
        found = firing.again()
        if own and isinstance(found, NotTried) and firing.on_within(AWAKE_S):
            # What comes by night kept them from coming up again: they are on from the day before.
            found = firing.again()
        return found

    def _on_other_nights(self, firing: NextFiring) -> Missed | WorksOnce | None:
        """What came of the firings that the layer's program may tell from those that were seen; None: all is well."""
        cron = self.runner.program
        if not cron:
            return None
        kinds = other_nights.nights(cron, self.stage.cluster.kube, self.runner.comes_again, self.loop.now())
        self._second_day_over = True
        not_tried: list[str] = []
        kept: list[left_behind.Left] = []
        for due in kinds.due:
            left = self._again(firing, due)
            if Asked.LEFT in kinds.looks_at:
                kept = [*kept[-1:], self._left(cron)]
            if isinstance(left, NotTried):
                not_tried.append(left.why)
            elif isinstance(left, WorksOnce):
                return other_nights.NotEachNight(left.at, left.left, left.evidence)
            elif left is not None:
                return left
        self.told += other_nights.told(cron, kinds, not_tried, tried=len(kinds.due) - len(not_tried))
        if len(kept) > 1:
            kube = self.stage.cluster.kube
            self.runner.later += left_behind.unsettled(cron, other_nights.texts(cron, kube), kube, *kept)
        return None

    def _left(self, cron: Obj) -> left_behind.Left:
        """What is kept now of what its program may go by."""
        targets = [obj for target in self.targets for obj in self.scene.objects_of(target)]
        return left_behind.left(cron, targets, self.stage.cluster.kube)

    def not_seen(self) -> list[str]:
        """That other nights may differ, where none but this one can be seen. What is not known is said."""
        cron, kube = self.runner.program, self.stage.cluster.kube
        if not cron:
            return []
        try:
            self.runner.later += left_behind.made(cron, kube)
            kinds = other_nights.nights(cron, kube, self.runner.comes_again, self.loop.now())
        except (KubeError, ValueError) as error:  # a time zone that this host does not know, too
            rule = error.wanting if isinstance(error, Forbidden) else ""
            grant = f"; let the account read it: {rule}" if rule else ""
            return [f"whether {self.runner.layer.name} does the same every night is not known: {error}{grant}"]
        return other_nights.told(cron, kinds, [], tried=0)

    def _until(self, due: datetime) -> None:
        """Live on until shortly before a firing; of a long time before it nothing that is scheduled takes place.

        The first day after the night that was drilled is lived through whole.
        """
        early = due - timedelta(seconds=ALL_AT_WORK_S)
        if self._second_day_over and early > self.loop.now():
            self.resting.hold_own()
        if early - self.loop.now() > timedelta(days=1):
            kube = self.stage.cluster.kube
            self._hold(kube.list(r.CRONJOBS).items)
            self._run(lambda: False, early)
            seen = {"status": {"lastScheduleTime": format_time(early)}}  # nothing of it is made up for
            for cron in self._paused:
                kube.patch(r.CRONJOBS, name_of(cron), seen, namespace_of(cron), subresource="status")
            frequent = {ref_of(cron) for cron in self._frequent()}
            self._let_go(lambda cron: ref_of(cron) not in frequent or self._is_own(cron))
        self._run(lambda: False, early)
        self.resting.let_own_go()
        self._run(lambda: False, due - timedelta(seconds=LEAD_S))

    def _is_own(self, cron: Obj) -> bool:
        ref = self.runner.layer.cron_job
        return ref is not None and (namespace_of(cron), name_of(cron)) == (ref.namespace, ref.name)

    def _next(self, changed: Callable[[], bool], end: datetime) -> Relight | None:
        while self._run(lambda: changed() and bool(self._sign()), end):
            relight = self._who()
            comes = self.loop.now() + timedelta(seconds=COMES_ON_S)
            self._run(lambda: changed() and (self._held() or not self._sign()), comes)
            if self._sign():
                return relight if relight.who != UNKNOWN else replace(self._who(), at=relight.at)
        return None

    def _run(self, done: Callable[[], bool], end: datetime) -> bool:
        return self.loop.run_until(done, max(0.0, (end - self.loop.now()).total_seconds()))

    # -- what is seen --------------------------------------------------------------------------------------
    def _sign(self) -> str | None:
        """What shows that something is on again, or is asked for; None: nothing does."""
        asking = next((t for t in self.targets if self.scene.replicas(t) > self._asked[t.name]), None)
        if asking is not None:
            return f"{asking} asks for {self.scene.replicas(asking)} replica(s)"
        if self._on():
            return "GPUs are held again"
        return None

    def _held(self) -> bool:
        return any(pod.uid not in self._pods for pod in self.scene.gpu_pods())

    def _on(self) -> bool:
        if self._held():
            return True
        nodes = {name_of(node) for node in self.scene.pool_nodes()}
        floor = sum(pool.floor for pool in self.stage.kill_path.nodes)
        return bool(nodes - self._standing) and len(nodes) > max(self._nodes, floor)

    def _who(self) -> Relight:
        """Who did it, and whether it was meant to."""
        now = self.loop.now()
        lit = next((t for t in self.targets if self.scene.replicas(t) > self._asked[t.name]), None)
        objects = self.scene.objects_of(lit) if lit is not None else []
        if lit is not None and objects:
            found = self._of_target(lit, objects[0], now)
            what = f"set {lit.kind} {name_of(objects[0])} to {self.scene.replicas(lit)} replica(s)"
            relight = replace(found, what=what)
        else:
            relight = self._of_holder(now)
        left_on = self._left_on(relight)
        if left_on:
            relight = replace(relight, what=f"{relight.what}: {left_on}")
        return replace(relight, meant=relight.meant or self._meant(relight))

    def _of_holder(self, now: datetime) -> Relight:
        new = next((pod for pod in self.scene.gpu_pods() if pod.uid not in self._pods), None)
        obj = self.scene.pods.get(new.name, new.namespace) if new is not None else None
        if new is None or obj is None:
            return Relight(now, UNKNOWN, "brought a GPU node back")
        kind, name = self.scene.root_owner(obj)
        start, meant = None, None
        if kind == "Job":
            job = self.scene.jobs.get(name, new.namespace)
            owner = controller_of(job) if job else None
            if owner and owner.get("kind") == "CronJob":
                kind, name = "CronJob", owner["name"]
                cron = self.stage.cluster.kube.find(r.CRONJOBS, name, new.namespace)
                start, meant = starts.of_cron_job(cron), starts.bounded(cron, job, now)
        elif any((t.kind, t.namespace, t.object) == (kind, new.namespace, name) for t in self.targets):
            edited = Start(Ref(str(obj.get("apiVersion")), kind, new.namespace, name))
            start = self._declared_before(now) or self._let_go_by(edited, now)
        who = f"{kind} {new.namespace}/{name}"
        what = f"put a pod on {new.devices} GPU(s) itself"
        return Relight(now, who, what, meant, evidence=(str(new),), start=start)

    def _declared_before(self, now: datetime) -> Start | None:
        """A declared start whose Job ran shortly before a target's pods came, which nobody had scaled."""
        for job in self.stage.cluster.kube.list(r.JOBS).items:
            begun = dig(job, "status", "startTime")
            start = starts.of_cron_job(self._cron_job(job))
            if start is None or not begun or not starts.declared(self.stage.kill_path, start):
                continue
            if parse_time(begun) > self.since and (now - parse_time(begun)).total_seconds() <= COMES_ON_S:
                return start
        return None

    def _of_target(self, lit: Target, obj: Obj, now: datetime) -> Relight:
        fresh = self.stage.cluster.kube.find(self.scene.resource_of(lit), name_of(obj), namespace_of(obj))
        manager = writer_of(fresh or obj) or lighter(self.stage, obj, self.since)
        evidence = (f"spec.replicas last written by field manager {manager or 'unknown'}",)
        owner = starts.controller_behind(self.stage.cluster.kube, manager, obj, now) if manager else None
        if owner is not None:
            let_go = self._let_go_by(owner, now)
            who = owner.who if let_go is None else f"{owner.who}, which {let_go.who} had let go,"
            return Relight(now, who, "", evidence=evidence, start=let_go or owner)
        jobs = list(self._at_work(now))
        starting = [job for job in jobs if self._starts(job)] or jobs
        starting = [job for job in starting if self._starts(job, obj)] or starting
        paused = starts.controller_behind(self.stage.cluster.kube, "", obj, now) if not starting else None
        if paused is not None:
            return Relight(now, paused.who, "", evidence=(f"annotation {starts.PAUSED_AT}",), start=paused)
        if not starting:
            nobody = f"field manager {manager}" if manager else UNKNOWN
            who = self._author(obj) or nobody
            return Relight(now, who, "", evidence=evidence, start=self._of_its_own(who, now))
        own = self.runner.job_name
        if any(own and name_of(job) == own for job in starting):
            return Relight(now, f"the executor of {self.runner.layer.name} itself (Job {own})", "", evidence=evidence)
        behind = [self._cron_job(job) for job in starting]
        made = [cron if cron is not None else job for cron, job in zip(behind, starting, strict=True)]
        who = " or ".join(dict.fromkeys(f"{obj['kind']} {namespace_of(obj)}/{name_of(obj)}" for obj in made))
        found = [start for cron in behind if (start := starts.of_cron_job(cron)) is not None]
        # Of several that may have done it one that was not meant to decides.
        relights = [Relight(now, who, "", evidence=evidence, start=start) for start in found]
        unmeant = [one for one in relights if not self._meant(one)]
        told = [*unmeant, *relights] if len(found) == len(behind) else []
        return told[0] if told else Relight(now, who, "", evidence=evidence)

    def _of_its_own(self, who: str, now: datetime) -> Start | None:
        """The daily start that the layer's own loop is, where it did it: what knows an hour may know two."""
        ref = self.runner.layer.workload
        if ref is None or who != f"{ref.kind} {ref.namespace}/{ref.name}":
            return None
        zone = next(iter(zones_named(other_nights.texts(self.runner.program, self.stage.cluster.kube))), UTC)
        local = now.astimezone(zone)
        return Start(ref, f"{local.minute} {local.hour} * * *", str(zone))

    def _author(self, obj: Obj) -> str | None:
        """Whose pod made an object what the scene saw last; None: unknown."""
        version = whole(obj["metadata"].get("resourceVersion"))
        return None if version is None else author(self.stage, version)

    def _let_go_by(self, owner: Start, now: datetime) -> Start | None:
        """The start whose Job wrote to an object - a controller's own, a target - shortly before; None: none did."""
        plural = plural_of(owner.ref.kind)
        for job in self.stage.cluster.kube.list(r.JOBS).items:
            begun, cron = dig(job, "status", "startTime"), self._cron_job(job)
            if cron is None or not begun or (now - parse_time(begun)).total_seconds() > COMES_ON_S:
                continue
            writes = (call for one in templates(job) for call in executor.read(one.spec, namespace_of(job)).writes)
            if parse_time(begun) > self.since and any(call.resource == plural for call in writes):
                return starts.of_cron_job(cron)
        return None

    def _at_work(self, now: datetime) -> Iterator[Obj]:
        """Jobs that run now, or ended just before."""
        for job in self.stage.cluster.kube.list(r.JOBS).items:
            ended = dig(job, "status", "completionTime") or next(
                (
                    c.get("lastTransitionTime")
                    for c in dig(job, "status", "conditions", default=[])
                    if c.get("type") == "Failed"
                ),
                None,
            )
            if dig(job, "status", "startTime") and (
                not ended or (now - parse_time(ended)).total_seconds() <= JUST_ENDED_S
            ):
                yield job

    def _starts(self, job: Obj, lit: Obj | None = None) -> bool:
        """Whether what a Job runs can be read to scale something up; ``lit``: that very object."""
        return any(
            call.replicas and (lit is None or call.about(namespace_of(lit), name_of(lit), labels_of(lit)))
            for template in templates(job)
            for call in executor.read(template.spec, namespace_of(job)).calls
        )

    def _cron_job(self, job: Obj) -> Obj | None:
        owner = controller_of(job)
        if owner is None or owner.get("kind") != "CronJob":
            return None
        return self.stage.cluster.kube.find(r.CRONJOBS, owner["name"], namespace_of(job))

    def _left_on(self, relight: Relight) -> str | None:
        """That a start comes again before any stop of what it lit; None: not known to, or the spec declares it."""
        path, start = self.stage.kill_path, relight.start
        lit = next((t for t in self.targets if self.scene.replicas(t) > self._asked[t.name]), None)
        if start is None or lit is None or not start.text or starts.declared(path, start):
            return None
        return starts.left_on_by(start, relight.at, path, lit, self.stage.cluster.kube.list(r.CRONJOBS).items)

    def _meant(self, relight: Relight) -> str | None:
        start = relight.start
        if start is None:
            return None
        if starts.declared(self.stage.kill_path, start):
            return "the spec declares this start"
        if self._left_on(relight):
            return None
        return starts.of_the_morning(start, relight.at, self.since)

    # -- what fires often ----------------------------------------------------------------------------------
    def _frequent(self) -> list[Obj]:
        return [cron for cron, _ in self._often()]

    def _often(self) -> list[tuple[Obj, float]]:
        """CronJobs that fire often, and all how many seconds."""
        found = []
        for cron in self.stage.cluster.kube.list(r.CRONJOBS).items:
            every = starts.period_s(cron, self.since)
            if every is not None and every < OFTEN_S and not starts.reads_the_clock(cron):
                found.append((cron, every))
        return found

    def _often_s(self) -> float:
        """How long the frequent ones are played."""
        played = [every * (PLAYED + 1) for _, every in self._often()]
        rounds = self.resting.rounds_s(PLAYED + 1)
        return max([*played, *([rounds] if rounds else ())], default=LEAST_S)

    def _hold(self, crons: Iterable[Obj]) -> None:
        for cron in crons:
            if not dig(cron, "spec", "suspend"):
                self._suspend(cron, held=True)
                self._paused.append(cron)
                self._held_crons.append(cron)

    def _let_go(self, which: Callable[[Obj], bool] = lambda _: True) -> None:
        for cron in [held for held in self._paused if which(held)]:
            self._suspend(cron, held=False)
            self._paused.remove(cron)

    def _suspend(self, cron: Obj, *, held: bool) -> None:
        """On a cluster in this process alone: nothing of it outlives the drill."""
        self.stage.cluster.kube.patch(
            r.CRONJOBS, name_of(cron), {"spec": {"suspend": held or dig(cron, "spec", "suspend")}}, namespace_of(cron)
        )
