"""A run: one or more drills on one kind of cluster, with a run record, a journal each, and one verdict."""

from __future__ import annotations

import pickle
import secrets
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import chain
from pathlib import Path
from typing import Any, TypeVar

from killcheck import events, faults, layers
from killcheck.capabilities.cluster import Cluster, ClusterError
from killcheck.capabilities.offered import lacking
from killcheck.clock import wall_now
from killcheck.drill.progress import watched_s
from killcheck.drill.sequence import Drill, started
from killcheck.engine.projection import CONTAINERS, NAMESPACE
from killcheck.faults.base import Mismatch, Unsuited
from killcheck.instances.catalogue import shipped
from killcheck.kube import resources as r
from killcheck.kube.errors import Forbidden, KubeError
from killcheck.kube.objects import Obj, name_of
from killcheck.kube.permissions import Permission
from killcheck.kube.preflight import refused
from killcheck.layers.base import LayerRun, Stage
from killcheck.machine.programs import LocalPrograms
from killcheck.results import RunResult
from killcheck.run import kept as kept_runs
from killcheck.run import subjects
from killcheck.run.places import layer_places
from killcheck.run.planned import PlannedDrill
from killcheck.run.record import RecordWriter
from killcheck.run.session import Session
from killcheck.run.snapshot import snapshot
from killcheck.safety import consent, guard, journal, lease, local_locks, orphans
from killcheck.safety.journal import Journal, state_dir
from killcheck.safety.keys import KeyProblem, signing_key
from killcheck.spec.deadlines import MOMENTS
from killcheck.spec.killpath import KillPath, Layer, Outcome
from killcheck.text.redaction import clean, hide_environment
from killcheck.text.values import replace
from killcheck.verdict import EXIT_CODES, DrillResult, overall
from killcheck.version import __version__
from killcheck.watch.cost import Meter
from killcheck.watch.scene import Scene

__all__ = ["Run", "plan_for", "state_dir"]


def plan_for(
    cluster: Cluster, kill_path: KillPath, planned: Sequence[PlannedDrill], run: str, *, at_any_hour: bool = False
) -> consent.Plan:
    """What the drills will touch, found out by reading only. Raises LayerError, KubeError.

    ``at_any_hour``: also what they would touch only close to a firing of their layers' own schedules.

    A fault that cannot be injected here raises FaultError where the drill is the only one; of several it is named in
    the plan's ``impossible``.
    """
    parts: list[consent.Plan] = []
    impossible: list[str] = []
    for drill in planned:
        try:
            parts.append(_part(cluster, kill_path, drill, run, at_any_hour=at_any_hour))
        except faults.FaultError as why:
            if len(planned) == 1:
                raise
            impossible.append(f"{drill.layer} under {'+'.join(drill.faults)}: {why}")
    meter, nodes = Meter(_price, dict(kill_path.prices)), 0
    for node in cluster.kube.list(r.NODES).items if kill_path.in_kubernetes else ():
        if scene_of(cluster, kill_path).in_pool(node):
            meter.count(node, cluster.loop.now())
            nodes += 1
    hours = [_hours(kill_path, drill) for drill in planned]
    return consent.Plan(
        cluster.name,
        _each(part.changes for part in parts),
        tuple(sorted(_each(part.namespaces for part in parts))),
        _each(part.permissions for part in parts),
        usd_per_hour=meter.rate(),
        gpu_nodes=nodes,
        unpriced=tuple(meter.unpriced()),
        hours=sum(hours),
        longest_hours=max(hours, default=0.0),
        commands=_each(part.commands for part in parts),
        impossible=tuple(impossible),
    )


def _part(
    cluster: Cluster, kill_path: KillPath, drill: PlannedDrill, run: str, *, at_any_hour: bool = False
) -> consent.Plan:
    """What one drill will touch. Raises LayerError, FaultError, KubeError; ConsentError with all rights that lack."""
    layer = kill_path.layer(drill.layer)
    scene = scene_of(cluster, kill_path)
    stage = Stage(cluster, kill_path, scene, Journal(run, cluster.loop, cluster.kube), run)
    runner = layers.of(layer, stage)
    try:
        return _planned(kill_path, drill, stage, runner, at_any_hour=at_any_hour)
    except Forbidden as error:  # planning reads too: what else it would have been refused is said with it
        told = refused(str(error))
        asked = [*_undisturbed(cluster, kill_path, layer, runner), *([told] if told else [])]
        consent.refuse_without(cluster, asked)
        raise


def _undisturbed(cluster: Cluster, kill_path: KillPath, layer: Layer, runner: LayerRun) -> list[Permission]:
    """The rights that a drill of the layer takes under no fault."""
    permissions = consent.reading() if kill_path.in_kubernetes else []
    permissions += [*runner.permissions(), *consent.targets(cluster, kill_path, layer)]
    if kill_path.in_kubernetes:
        home = _home(kill_path, layer)
        permissions += journal.permissions(home)
        permissions += [Permission("get", "", "namespaces", name=n) for n in sorted(_touched(kill_path, layer, runner))]
        permissions += lease.permissions(place for place, _, _ in lease.wanted(kill_path, layer, home))
    return permissions


def _touched(kill_path: KillPath, layer: Layer, runner: LayerRun) -> set[str]:
    return set(runner.namespaces()) | {t.namespace for t in kill_path.covered_by(layer) if t.namespace}


def _planned(
    kill_path: KillPath, drill: PlannedDrill, stage: Stage, runner: LayerRun, *, at_any_hour: bool
) -> consent.Plan:
    cluster, layer = stage.cluster, kill_path.layer(drill.layer)
    runner.prepare()
    namespaces = _touched(kill_path, layer, runner)
    permissions = _undisturbed(cluster, kill_path, layer, runner)
    changes = [f"{layer.name}: pull its trigger; its targets go to zero and are put back on afterwards"]
    plans = {}
    for fault in faults.in_order(drill.made()):
        name = fault.name
        unsuited = fault.unsuited(kill_path, layer)
        if unsuited is not None and unsuited.whatever_is_there:
            continue
        missing = lacking(fault.needs, cluster.capabilities.names)
        if missing:
            why = Unsuited(Mismatch.CAPABILITY, ", ".join(one.how for one in missing))
            raise faults.FaultError(why.of(name, layer.name, cluster.name))
        sabotage = plans[name] = fault.plan(stage, runner)
        changes += [f"{name}: {change}" for change in sabotage.changes]
        namespaces |= set(sabotage.namespaces)
        permissions += sabotage.permissions
    faults.refuse_clashes(plans)
    if any(sabotage.on_copy for sabotage in plans.values()):
        beside, needed = runner.set_apart(at_any_hour=at_any_hour)
        changes += beside
        permissions += needed
    # What is taken away again is looked at first: is it still what was made?
    permissions += [replace(right, verb="get") for right in permissions if right.verb == "delete"]
    return consent.Plan(
        cluster.name, tuple(changes), tuple(namespaces), tuple(permissions), commands=tuple(runner.commands())
    )


def guard_by(cluster: Cluster, kill_path: KillPath, plan: consent.Plan, kept: Journal) -> None:
    """From now on nothing is written to the cluster but what a plan names; a Docker Engine's containers say it."""
    if kill_path.in_kubernetes and cluster.own_consent is None:
        scene = scene_of(cluster, kill_path)
        nodes = cluster.kube.list(r.NODES).items if cluster.capabilities.node_containers is not None else []
        guard.guarded(
            cluster.kube,
            guard.Consented(
                kept.run,
                frozenset({*plan.namespaces, kept.home} - {""}),
                plan.permissions,
                scene.in_pool,
                frozenset(("nodepools", name) for name in kill_path.consenting_pools),
                frozenset(CONTAINERS.path(NAMESPACE, name_of(node)) for node in nodes if scene.in_pool(node)),
            ),
        )


_T = TypeVar("_T")
#: What is told of a drill that this process did not tell of while it ran, and what was found.
_Drilled = tuple[list[events.Event], DrillResult]


def _each(found: Iterable[Iterable[_T]]) -> tuple[_T, ...]:
    """All of them, each once, in order."""
    return tuple(dict.fromkeys(chain.from_iterable(found)))


def scene_of(cluster: Cluster, kill_path: KillPath) -> Scene:
    """A scene that nobody has opened: it knows what is in scope."""
    return Scene(cluster, kill_path, lambda change, old, new: None)


def _hours(kill_path: KillPath, drill: PlannedDrill) -> float:
    """How long the GPUs may stay on at most while somebody waits for them to go off."""
    longest = drill.options.horizon_s
    return (watched_s(kill_path, kill_path.layer(drill.layer)) if longest is None else longest) / 3600.0


class Run:
    """Drills one after the other; every event goes to the run record and to the ``sinks``."""

    def __init__(
        self,
        session: Session,
        planned: Sequence[PlannedDrill],
        *,
        sinks: Sequence[events.Sink] = (),
        folder: Path | None = None,
        approve: Callable[[consent.Plan], bool] = lambda plan: True,
        workers: int = 1,
        finished: Callable[[int], None] = lambda count: None,
        findings: Sequence[dict[str, Any]] = (),
        fences: Sequence[dict[str, Any]] = (),
    ) -> None:
        self.session = session
        self.planned = list(planned)
        self.id = f"{wall_now():%Y%m%d-%H%M%S}-{secrets.token_hex(3)}"
        self.folder = (folder or state_dir()) / "runs" / self.id
        self.approve = approve
        #: How many drills at once (on an embedded cluster only), and who is told how many are done.
        self.workers = 1 if session.real else workers
        self.finished = finished
        #: What was found beside the drills, for the record, as the JSON document has it.
        self.findings, self.fences = list(findings), list(fences)
        #: The changes that somebody has said yes to.
        self._approved: set[str] = set()
        self._record: RecordWriter | None = None
        #: That of the drill which is under way in this process, for sinks that look at it.
        self.cluster: Cluster | None = None
        self.sinks = list(sinks)

    def execute(self) -> RunResult:
        """Run them all. Raises what a drill raises, and Declined where the plan is not approved."""
        hide_environment()
        keep = kept_runs.limit()
        kept_runs.own_ignore(self.folder.parents[1])
        results: list[DrillResult] = []
        with RecordWriter(self.folder / "run.jsonl") as record:
            self._record = record
            self._emit(
                events.RunStarted(
                    at=wall_now(),
                    run=self.id,
                    version=__version__,
                    cluster=self.session.on,
                    real=self.session.real,
                    kill_path=self.session.kill_path.name,
                    drills=[d.to_json() for d in self.planned],
                    spec={"places": layer_places(self.session), "example": self.session.example},
                )
            )
            self._emit(events.Subjects(at=wall_now(), **subjects.of_session(self.session).to_json()))
            if not self.session.real:  # read now: what they hold is said before anything runs
                self._remember(self.session.objects)
            notes = clean(tuple(dict.fromkeys(self.session.notes)))
            for note in notes:
                self._emit(events.Noted(at=wall_now(), text=note))
            for finding in self.findings:
                self._emit(events.Found(at=wall_now(), finding=finding))
            for fence in self.fences:
                self._emit(events.Fenced(at=wall_now(), fence=fence))
            if self.session.real and len(self.planned) > 1:
                self._agree_on_all()
            for told, result in self._side_by_side() if self.workers > 1 else self._in_turn():
                for event in told:
                    self._emit(event)
                results.append(clean(result))
            wanted = [_as_wanted(result, drill) for result, drill in zip(results, self.planned, strict=True)]
            verdict, code = overall(results)
            if not any(result.dirty for result in results):
                # The verdict still says what was seen, also where that was the outcome asked for.
                code = 0 if wanted and all(wanted) else code or EXIT_CODES["exposed"]
            self._tell_of_no_key()
            self._emit(events.RunFinished(at=wall_now(), verdict=verdict, exit_code=code))
        kept_runs.tidy(self.folder.parents[1], keep)
        return RunResult(self.id, verdict, code, tuple(results), record.path, notes)

    def _tell_of_no_key(self) -> None:
        """Why the record has no seal; no verdict depends on it."""
        try:
            signing_key()
        except KeyProblem as why:
            self._emit(
                events.Noted(at=wall_now(), text=f"this record is not sealed, and so proves nothing later: {why}")
            )

    def _in_turn(self) -> Iterator[_Drilled]:
        done: dict[int, _Drilled] = {}
        for number, drill in enumerate(self.planned):
            done[number] = self._foregone(number, done) or ([], self.one(number, drill))
            yield done[number]
            self.finished(number + 1)

    def _side_by_side(self) -> Iterator[_Drilled]:
        from killcheck.run import parallel

        self.session.kill_path, self.session.objects  # noqa: B018 - read once here, not once in every worker
        sent = pickle.dumps(self.session)
        tasks = [(sent, number, drill, self.id, self.folder) for number, drill in enumerate(self.planned)]
        second = [number for number, drill in enumerate(self.planned) if drill.second]
        return parallel.side_by_side(
            _in_worker,
            tasks,
            workers=self.workers,
            finished=self.finished,
            second=second,
            instead=self._foregone,
        )

    def _foregone(self, number: int, done: Mapping[int, _Drilled]) -> _Drilled | None:
        """What is told of a drill that need not be done after those that are; None: it has to be done."""
        drill = self.planned[number]
        result = drill.foregone([found for _, found in done.values()]) if drill.second else None
        if result is None:
            return None
        kill_path, now = self.session.kill_path, wall_now()
        layer = kill_path.layer(drill.layer)
        began = started(kill_path, layer, drill.faults, at=now, title=drill.options.title)
        return [began, events.DrillFinished(at=now, drill=began.drill, result=result.to_json())], result

    def one(self, number: int, planned: PlannedDrill) -> DrillResult:
        """The drill with that number; raises what it raises."""
        with self.session.cluster(planned) as (cluster, kill_path):
            self.cluster = cluster
            layer: Layer = kill_path.layer(planned.layer)
            run = f"{self.id}-{number}"
            home = _home(kill_path, layer) if cluster.real else ""
            programs = cluster.capabilities.programs
            if isinstance(programs, LocalPrograms):
                programs.of_run = run
            kept = Journal(
                run,
                cluster.loop,
                cluster.kube,
                home=home,
                capabilities=cluster.capabilities,
                context=self.session.on,
                path=self.folder / f"journal-{number}.jsonl" if cluster.real else None,
                kubeconfig=str(self.session.kubeconfig or ""),
            )
            options = planned.options
            if options.horizon_s is None and not cluster.real:
                horizon_s = _night_s(kill_path, layer, self.session.night_s)
                options = replace(options, horizon_s=horizon_s, nobody_asked=True)
            drill = Drill(
                cluster,
                kill_path,
                layer,
                planned.made(),
                run=run,
                journal=kept,
                sink=lambda event: self._emit(_judged(event, planned)),
                price=_price,
                options=options,
            )
            if not cluster.real:
                return _accepted(drill.run(), planned)
            try:
                plan = plan_for(cluster, kill_path, [planned], self.id)
            except faults.FaultError as why:  # the other drills of the run can be done all the same
                return drill.refused(str(why))
            self._agree_on(cluster, kill_path, plan)
            guard_by(cluster, kill_path, plan, kept)
            result = self._alone(drill, kept)
            if number == 0 and kill_path.in_kubernetes:  # no verdict rests on it: where it cannot be read there is none
                with suppress(KubeError, ClusterError):
                    listed = cluster.inventory().objects
                    self._emit(events.Subjects(at=wall_now(), images=list(subjects.images_of(kill_path, listed))))
                    self._remember(listed, kill_path.namespaces)
            return _accepted(result, planned)

    def _remember(self, objects: Iterable[Obj], namespaces: Collection[str] = ()) -> None:
        """What is around the drills, for the record."""
        found = snapshot(objects, namespaces, self.session.spec)
        if found is not None:
            self._emit(events.Snapshot(at=wall_now(), objects=found))

    def _agree_on_all(self) -> None:
        """What is somebody's is planned whole before the first drill: one refusal, one question."""
        with self.session.cluster(self.planned[0]) as (cluster, kill_path):
            self._agree_on(cluster, kill_path, plan_for(cluster, kill_path, self.planned, self.id))

    def _agree_on(self, cluster: Cluster, kill_path: KillPath, plan: consent.Plan) -> None:
        """Raise ConsentError or Declined; what was approved once is not asked for again."""
        consent.check(cluster, kill_path, plan, any_command=self.session.allow_commands)
        if set(plan.changes) <= self._approved:
            return
        if not self.approve(plan):
            raise Declined("the plan was not approved: nothing was changed")
        self._approved |= set(plan.changes)

    def _alone(self, drill: Drill, kept: Journal) -> DrillResult:
        """Drill while no other run does, after what dead runs left here has been put back."""
        if not drill.kill_path.in_kubernetes:
            return self._alone_here(drill, kept)
        kube, loop = kept.kube, kept.loop
        leases = lease.wanted(drill.kill_path, drill.layer, kept.home)
        places = sorted({kept.home, *(place for place, _, _ in leases)})
        restored = orphans.settle(kube, loop, context=kept.context, namespaces=places, folder=self.folder.parents[1])
        self._tell_of_the_dead(drill, restored)
        claim = lease.Claim(kube, loop, kept.run, leases)
        kept.places = sorted({place for place, _, _ in leases})
        kept.open_locally()
        claim.acquire()
        kept.guard = claim.check
        try:
            return drill.run()
        finally:
            if not kept.open:
                claim.release()
                kept.close()
            else:
                claim.abandon()

    def _alone_here(self, drill: Drill, kept: Journal) -> DrillResult:
        """The same on this machine, where there is no API server to keep a Lease in."""
        state = self.folder.parents[1]
        locks = local_locks.Locks(state, kept.run, lease.wanted(drill.kill_path, drill.layer, ""))
        locks.acquire()
        try:
            restored = local_locks.restore_here(kept.loop, kept.kube, local_locks.orphans_here(state, kept.context))
            if restored.problems:
                raise journal.Dirty(restored.problems)
            self._tell_of_the_dead(drill, restored)
            kept.open_locally()
            result = drill.run()
            if not kept.open:
                kept.close()
            return result
        finally:
            locks.release()

    def _tell_of_the_dead(self, drill: Drill, restored: orphans.Outcome) -> None:
        for said in restored.undone:
            self._emit(events.Noted(at=wall_now(), drill=drill.id, text=f"left by a dead run: {said}"))
        for said in restored.unknown:
            self._emit(events.Noted(at=wall_now(), drill=drill.id, text=f"left alone: {said}"))

    def _emit(self, event: events.Event) -> None:
        event = clean(event)
        if self._record is not None:
            self._record(event)
        for sink in self.sinks:
            sink(event)


def _night_s(kill_path: KillPath, layer: Layer, night_s: float) -> float:
    """How long GPUs that stay on are watched at most on an embedded cluster, in seconds.

    Programs of a machine are processes, its timers' too, for every few minutes of the night: nobody waits for those
    when the last deadline has passed.
    """
    if layer.command is None or not kill_path.beyond(layer):
        return night_s
    deadlines = kill_path.deadlines_for(layer)
    return min(night_s, max(float(getattr(deadlines, name)) for name in MOMENTS) + deadlines.held_s)


def _home(kill_path: KillPath, layer: Layer) -> str:
    """The namespace that keeps the journal: the layer's own, else the first that a target is in."""
    own = layer.ref.namespace if layer.ref else ""
    return own or next((t.namespace for t in kill_path.covered_by(layer) if t.namespace), "")


class Declined(Exception):
    """The person said no."""


def _price(instance_type: str) -> float | None:
    """The shipped catalogue's on-demand price: an upper bound for spot."""
    found = shipped().get(instance_type)
    return found.usd_per_hour if found else None


def _accepted(result: DrillResult, planned: PlannedDrill) -> DrillResult:
    """The result, with what accepts it where it is an exposure that the policy knows."""
    return replace(result, accepted=planned.accepted(result))


def _judged(event: events.Event, planned: PlannedDrill) -> events.Event:
    """The same for the event that has the result, so that every report can tell it."""
    return replace(event, result=planned.judged(event.result)) if isinstance(event, events.DrillFinished) else event


def _as_wanted(result: DrillResult, planned: PlannedDrill) -> bool:
    if planned.expect:
        return result.verdict == planned.expect
    return result.meets(planned.require or Outcome.COVERED, planned.causes)


def _in_worker(sent: bytes, number: int, planned: PlannedDrill, run: str, folder: Path) -> _Drilled:
    """In a worker process: one drill, its events kept."""
    from killcheck.run import parallel

    told: list[events.Event] = []
    session: Session = parallel.received(sent)
    single = Run(session, [planned], sinks=[told.append], folder=folder)
    single.id = run
    return told, single.one(number, planned)
