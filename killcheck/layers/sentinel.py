"""The sentinel: while it is set nobody starts anything, and everybody still stops.

The drill sets it, pulls a stop path, waits for zero, fires every starter alone, and sees that nothing comes on. Then
the other stop paths are pulled under it; and where the spec bounds it (``stoppedWithin``), it is lifted and each
starter is fired alone and unhindered: what it starts must be stopped by then. That also shows that a refusal was one.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime
from functools import partial
from pathlib import Path

from msgspec import Struct

from killcheck.capabilities.programs import Ran
from killcheck.entries import Entry, Status
from killcheck.kube import resources as r
from killcheck.kube.errors import KubeError
from killcheck.kube.informer import Change
from killcheck.kube.objects import Obj, dig, name_of
from killcheck.kube.permissions import Permission
from killcheck.layers.base import Explanation, LayerError, LayerRun, Stage, is_controller
from killcheck.layers.manual_job import job_from
from killcheck.layers.marks import Mark, mark_of
from killcheck.layers.rivals import lighter
from killcheck.machine import units
from killcheck.spec.killpath import Command, Layer, LayerType, Ref, Target

__all__ = ["SentinelLayer"]

#: How long what a starter asked for may take to be seen, in seconds.
APPEARS_S = 30.0
#: Between two looks of the drill at what it waits for, in seconds.
LOOK_S = 1.0
#: Between two counts while something is waited for, in seconds.
EVERY_S = 10.0
RARER_S = 60.0
#: Limit of a starter under the sentinel, whatever its own: to refuse is quick.
REFUSAL_S = 600.0


class _Way(Struct, frozen=True):
    """Something that can be fired: a program, or a CronJob by a Job of its template. ``found``: how it is known."""

    name: str
    command: Command | None = None
    cron_job: Ref | None = None
    found: str = ""


class SentinelLayer(LayerRun):
    """One drill of a sentinel."""

    own_phases = ("triggered", "starts_refused")
    acts_unasked = False
    remedy = (
        "check the sentinel before the first call that starts anything, in every starter; keep one controller, "
        "and mask the others"
    )

    @staticmethod
    def drills(layer: Layer) -> bool:
        """What nothing may start past."""
        return layer.type is LayerType.SENTINEL and layer.container is None

    def __init__(self, layer: Layer, stage: Stage) -> None:
        super().__init__(layer, stage)
        if layer.sentinel is None:
            raise LayerError(f"layer {layer.name}: a sentinel layer names its sentinel")
        self.sentinel = layer.sentinel
        self.mark: Mark = mark_of(layer.name, self.sentinel, stage)
        self.starters: list[_Way] = []
        self._notes: list[str] = []
        #: Units that start what could not be followed.
        self._unread: tuple[str, ...] = ()
        self._flaw: str | None = None
        #: Whether that is that somebody no longer stops.
        self._held_back = False
        self._failures: tuple[int, ...] = (56,)
        self._unproven: str | None = None
        self._refused_at: datetime | None = None
        self._stop: _Way | None = None
        self._stopped = ""
        self._at = ""
        self._steps: Iterator[None] | None = None
        self._made = 0
        #: The stop path's Job, and whether the targets were ever told to go.
        self._job: tuple[str, str] | None = None
        self._written = False
        self._pulled_at: datetime | None = None

    # -- before --------------------------------------------------------------------------------------------
    def prepare(self) -> None:
        """Find everybody who can start, and see that the sentinel is not set for real."""
        self.mark.prepare()
        if self.mark.is_set():
            raise LayerError(
                f"layer {self.layer.name}: {self.mark} is set already: somebody holds the starters back for real"
            )
        self.starters = list(self._starters())
        if not self.starters:
            raise LayerError(f"layer {self.layer.name}: nobody who could start its targets was named or found")
        self._stop = next(iter(self._stop_paths()), None)
        if self._stop is None:
            raise LayerError(
                f"layer {self.layer.name}: no command or dead-man layer covers the same targets, so nothing could stop "
                "them while the sentinel is set"
            )

    def _starters(self) -> Iterator[_Way]:
        named: set[tuple[str, ...]] = set()
        for command in self.sentinel.starters:
            named.add(command.argv)
            yield _Way(str(command), command, found="named in the spec")
        for ref in self.sentinel.start_jobs:
            yield _Way(str(ref), cron_job=ref, found="named in the spec")
        if not self.sentinel.units:
            return
        here = Path(self.stage.kill_path.folder)
        try:
            found = units.read(
                [here / folder for folder in self.sentinel.units], beside=here, deployed=self.stage.cluster.real
            )
        except OSError as error:
            raise LayerError(
                f"layer {self.layer.name}: units cannot be read: {error.filename}: {error.strerror}"
            ) from error
        self._unread = found.unread
        self._notes += [f"not followed: {told}" for told in found.unread]
        self._notes += [f"masked, so it starts nothing: {name}" for name in found.masked]
        self._notes += [f"found by reading: {starter.found}" for starter in found.starters]
        yield from (_Way(s.name, s.command, found=s.found) for s in found.starters if s.command.argv not in named)

    def _stop_paths(self) -> Iterator[_Way]:
        """The layers that can be pulled at any time, the path's order."""
        for other in self.stage.kill_path.layers:
            if not set(other.covers) >= set(self.layer.covers):
                continue
            if other.type is LayerType.COMMAND and other.command is not None:
                yield _Way(other.name, other.command)
            elif other.type is LayerType.DEAD_MAN and other.cron_job is not None:
                yield _Way(other.name, cron_job=other.cron_job)

    def stand_by(self) -> None:
        """A sentinel never turns anything off by itself."""

    def permissions(self) -> Sequence[Permission]:
        """Setting it, and the Jobs of starters and stop paths in Kubernetes."""
        jobs = {w.cron_job.namespace for w in (*self.starters, *self._stop_paths()) if w.cron_job}
        return [
            *self.mark.permissions(),
            *(
                Permission(verb, "batch", kind, namespace=ns)
                for ns in sorted(jobs)
                for verb, kind in (("get", "cronjobs"), ("create", "jobs"), ("delete", "jobs"))
            ),
        ]

    def commands(self) -> Sequence[Command]:
        """Also those that were found by reading, and the stop paths."""
        return [*super().commands(), *(w.command for w in (*self.starters, *self._stop_paths()) if w.command)]

    def namespaces(self) -> Sequence[str]:
        """Where it changes something."""
        own = [w.cron_job.namespace for w in (*self.starters, *self._stop_paths()) if w.cron_job]
        return sorted({*own, *super().namespaces()})

    def before_trigger(self) -> str | None:
        """What was found by reading."""
        return "; ".join(self._notes)

    def takes_s(self) -> float:
        """The starters, one after the other."""
        return sum((w.command.timeout_s if w.command else REFUSAL_S) + 2 * APPEARS_S for w in self.starters)

    # -- the trigger ---------------------------------------------------------------------------------------
    def trigger(self) -> str:
        """Set the sentinel; the rest happens step by step while the drill watches."""
        self._pulled_at = self.stage.cluster.loop.now()
        self.mark.set()
        assert self._stop is not None
        self._steps = self._sequence()
        self.stage.cluster.loop.call_soon(self._step)
        return f"set {self.mark}; {self._stop.name} is pulled under it, then every starter is fired alone"

    def _step(self) -> None:
        assert self._steps is not None
        if next(self._steps, self) is self:
            return
        self.stage.cluster.loop.call_later(LOOK_S, self._step)

    def _sequence(self) -> Iterator[None]:
        """Stop under the sentinel, wait for zero, fire each starter; yields while there is something to wait for."""
        assert self._stop is not None
        self._at = f"{self._stop.name} was pulled with {self.mark} set"
        ended: list[str] = []
        self._fire(self._stop, ended)
        late: float | None = None
        while not ended or not self._zero():
            if ended:
                self._stopped = ended[0]
                late = self._monotonic() + self._patience_s() if late is None else late
                if self._monotonic() > late and self._lit() and not self._written and not self._rival():
                    self._no_longer_stops(self._stop.name, ended[0])
                    self.stage.scene.wake()
                    return
            yield
        self._stopped = ended[0]
        for way in self.starters:
            self._at = f"{way.name} was fired with {self.mark} set"
            ended = []
            self._fire(way, ended)
            while not ended and not self._lit():
                yield
            until = self._monotonic() + APPEARS_S
            asked = self.stage.cluster.loop.now()
            self.stage.scene.census.again()
            while not self._lit() and (self._monotonic() < until or not self._counted_since(asked)):
                yield
            if self._lit() and self._rival():
                self._notes.append(
                    f"{self._rival()} lit {self._lit()} again: whether {way.name} is refused cannot be told"
                )
                self.stage.scene.wake()
                return
            if self._lit():
                why = (
                    f"although {self.mark} is set"
                    if self._still_set()
                    else (f"once {self.mark} was gone: it does not outlast what took it away")
                )
                self._flaw = f"{way.name} started {self._lit()} {why}" + (f" ({way.found})" if way.found else "")
                self.stage.scene.wake()
                return
            self._notes.append(f"{way.name} started nothing: {ended[0]}" if ended else f"{way.name} started nothing")
        self._refused_at = self.stage.cluster.loop.now()
        if self.stage.timeline is not None:
            told = f"{len(self.starters)} starter(s) fired alone with {self.mark} set: nothing came on"
            self.stage.timeline.reach("starts_refused", self._refused_at, self._refused_at, told)
        self.stage.scene.wake()

    def _patience_s(self) -> float:
        """How long after the stop path has ended its targets may still be asked for: whoever turns them off later than
        that is somebody else.
        """
        if all(target.kind for target in self._targets()):
            return APPEARS_S
        return self.stage.kill_path.deadlines_for(self.layer).instance_gone_s

    def _still_set(self) -> bool:
        try:
            return self.mark.is_set()
        except (LayerError, KubeError):
            return True  # nobody is known to have lifted it

    def holds_from(self) -> datetime | None:
        """Since the last starter was refused."""
        return self._refused_at

    # -- firing --------------------------------------------------------------------------------------------
    def _fire(self, way: _Way, ended: list[str]) -> None:
        if way.command is not None:

            def told(ran: Ran) -> None:
                self.stage.observations.logs[(self.layer.name, str(ran.command))] = "\n".join((ran.output, ran.errors))
                self.stage.scene.census.again()
                ended.append(ran.told)

            self.stage.programs.start(way.command, told)
            return
        assert way.cron_job is not None
        self._made += 1
        cron_job = self.stage.cluster.kube.get(r.CRONJOBS, way.cron_job.name, way.cron_job.namespace)
        name = f"{way.cron_job.name[:36]}-killcheck-{self.stage.run[-6:]}-{self._made}"
        created = self.stage.journal.create(r.JOBS, job_from(cron_job, name, self.stage.run))
        self._job = self._job or (name, way.cron_job.namespace)
        self._wait_for_job(name_of(created), way.cron_job.namespace, ended)

    def _wait_for_job(self, name: str, namespace: str, ended: list[str]) -> None:
        job = self.stage.scene.jobs.get(name, namespace) or {}
        over = [
            str(c.get("type"))
            for c in dig(job, "status", "conditions", default=[])
            if c.get("type") in ("Complete", "Failed") and c.get("status") == "True"
        ]
        if over:
            ended.append(f"Job {name} is {over[0]}")
        else:
            self.stage.cluster.loop.call_later(LOOK_S, self._wait_for_job, name, namespace, ended)

    def _monotonic(self) -> float:
        return self.stage.cluster.loop.monotonic()

    def _targets(self) -> tuple[Target, ...]:
        return self.stage.kill_path.covered_by(self.layer)

    def _lit(self) -> str:
        """What is on, in words; empty: nothing that was counted."""
        scene = self.stage.scene
        on = [str(t) for t in self._targets() if t.kind and scene.replicas(t)]
        if scene.census.broken() is None:
            on += [t.name for t in scene.census.targets if scene.census.on(t)]
        return ", ".join(on)

    def _rival(self) -> str | None:
        """Who lights the targets, if that is seen to be a controller, or somebody whom a fault plays; no starter."""
        for target in self._targets():
            for obj in self.stage.scene.objects_of(target) if target.kind else ():
                writer = lighter(self.stage, obj, self._pulled_at or self.stage.cluster.loop.now())
                if (
                    writer
                    and self.stage.scene.replicas(target)
                    and (is_controller(writer) or writer == self.stage.rival)
                ):
                    return writer
        return None

    def _zero(self) -> bool:
        return not self._lit() and not self.stage.scene.broken() and not self.stage.scene.gpu_pods()

    def _counted_since(self, moment: datetime) -> bool:
        census = self.stage.scene.census
        return not census.targets or (census.broken() is None and census.asked_since(moment))

    def notice(self, change: Change, old: Obj | None, new: Obj) -> None:
        """Whether zero was written, however short it was; for the rest the steps look for themselves."""
        if change == "deleted" or not dig(old or {}, "spec", "replicas") or dig(new, "spec", "replicas") != 0:
            return
        if any(t.kind == new.get("kind") and new in self.stage.scene.objects_of(t) for t in self._targets()):
            self._written = True

    # -- afterwards ----------------------------------------------------------------------------------------
    def afterwards(self) -> Sequence[str]:
        """Pull the other stop paths under the sentinel; then lift it, and fire each starter unhindered."""
        if self._flaw:
            return self._notes
        try:
            for way in list(self._stop_paths())[1:]:
                self._still_stops(way)
            if self.sentinel.stopped_within_s is None:
                self._notes.append(
                    "whether its starters start anything without it was not tried (sentinel.stoppedWithin)"
                )
            elif not self._flaw:
                self.mark.lift()
                for way in self.starters:
                    if self._flaw or self._unproven:
                        break
                    self._alone(way, self.sentinel.stopped_within_s)
        except KubeError as error:
            self._unproven = f"lost sight of the cluster: {error}"
        except LayerError as error:  # somebody else has changed it meanwhile
            self._unproven = f"{self.mark} could not be lifted: {error}"
        return self._notes

    def _still_stops(self, way: _Way) -> None:
        starts = [t.start for t in self._targets() if t.start is not None]
        if len(starts) != len(self._targets()):
            self._notes.append(f"{way.name} was not pulled under it: the spec does not say how to start the targets")
            return
        for start in starts:
            self.stage.programs.run(start)
        limit = self.stage.kill_path.deadlines_for(self.layer).instance_gone_s
        if not self._wait(lambda: bool(self._lit()), APPEARS_S + limit):
            self._unproven = f"the targets could not be put on again to see whether {way.name} stops them"
            return
        ended: list[str] = []
        self._fire(way, ended)
        if not self._wait(self._zero, limit):
            told = ended[0] if ended else "it is still at it"
            self._no_longer_stops(way.name, told)
        else:
            self._notes.append(f"{way.name} stops with {self.mark} set")

    def _no_longer_stops(self, stop: str, told: str) -> None:
        self._flaw, self._held_back = f"with {self.mark} set, {stop} no longer stops: {told}", True

    def _alone(self, way: _Way, bound_s: float) -> None:
        """What a starter starts, alone and unhindered, must be stopped within the bound - whoever does that."""
        begun = self._monotonic()
        ended: list[str] = []
        self._fire(way, ended)
        if not self._wait(lambda: bool(self._lit()), bound_s if not ended else APPEARS_S, or_else=ended):
            self._unproven = (
                f"{way.name} starts nothing without the sentinel either, so its refusal shows nothing: "
                + (ended[0] if ended else "it was still at it")
            )
            return
        if not self._wait(self._zero, max(0.0, bound_s - (self._monotonic() - begun))):
            self._flaw = (
                f"{way.name}, fired alone, started {self._lit()}, and {bound_s / 60:.0f} min later nobody "
                "had stopped it: two starters, one stopper"
            )
            self._failures = (55,)
        else:
            took = self._monotonic() - begun
            self._notes.append(f"what {way.name} started alone was off again {took / 60:.0f} min later")

    def _wait(self, done: object, limit: float, or_else: list[str] | None = None) -> bool:
        """Let time pass until something is so; with ``or_else`` only a little longer once that has ended."""
        assert callable(done)
        loop, census = self.stage.cluster.loop, self.stage.scene.census
        begun = loop.monotonic()
        until = begun + limit
        while not done():
            if or_else:
                until, or_else = min(until, loop.monotonic() + APPEARS_S), None
            if loop.monotonic() >= until:
                census.again()
                now = loop.now()
                loop.run_until(partial(self._counted_since, now), APPEARS_S)
                return bool(done())
            loop.sleep(LOOK_S)
            waited = loop.monotonic() - begun
            if waited % (EVERY_S if waited < RARER_S else RARER_S) < LOOK_S:
                census.look()
        return True

    # -- judging -------------------------------------------------------------------------------------------
    def acted(self, zero_at: datetime) -> str | None:
        """It held: a stop path stopped under it, and every starter was refused."""
        if self._refused_at is None or self._stop is None:
            return None
        return (
            f"with {self.mark} set {self._stop.name} still stopped, and none of {len(self.starters)} starter(s) "
            "started anything"
        )

    def doubts(self) -> Sequence[Entry]:
        """Units that start what nobody could follow: it may be a starter that was never held back."""
        name = f"StartAuthority/{self.layer.name}"
        settles = "name it under sentinel: starters: or startJobs:, or say under assume: why it starts no target"
        said = "a unit or timer was found that may start its targets, and could not be followed"
        unread = [Entry(name, Status.NOT_MODELLED, f"{said}: {told}", settles) for told in self._unread]
        return [*super().doubts(), *unread]

    def unproven(self) -> str | None:
        """What could not be tried."""
        return self._unproven

    def flaw(self) -> str | None:
        """Somebody started, or nobody stopped."""
        return self._flaw

    def explain(self, stuck_at: str) -> Explanation | None:
        """Who did it."""
        if self._flaw:
            return Explanation(
                self._flaw,
                tuple(self._notes[-5:]),
                "check the sentinel before starting only: stopping is never held back"
                if self._held_back
                else self.remedy,
                self._failures,
                lasting=True,
            )
        if stuck_at in ("starts_refused", "instance_gone", "pods_gone", "scale_written", "pods_terminating"):
            if self._written or self._rival():
                return None  # it stopped: what stays, or comes back, is not held by the sentinel
            job = self.stage.scene.jobs.get(*self._job) if self._job else None
            if job is not None and not job.get("status"):
                return Explanation(
                    f"{self._at}: its Job {name_of(job)} has no status, no pod and no event: the job controller does "
                    "not work",
                    ("status: {}",),
                    "see to kube-controller-manager; let something outside the cluster turn the GPUs off too",
                    (15,),
                )
            if not self._zero() and self._stopped:
                return Explanation(
                    f"with {self.mark} set, {self._stop.name if self._stop else ''} no longer stops: {self._stopped}",
                    tuple(self._notes[-5:]),
                    "check the sentinel before starting only: stopping is never held back",
                    (56,),
                    lasting=True,
                )
            return Explanation(f"it did not get further than this: {self._at}", tuple(self._notes[-5:]), "", (56,))
        return None
