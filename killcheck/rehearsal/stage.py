"""The stage: a throw-away cluster that holds the manifests, on which one program is fired and watched."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Executor
from datetime import datetime, timedelta
from functools import partial
from typing import cast

from msgspec import Struct

from killcheck.clock import wall_seconds
from killcheck.embedded import Attributes, Cluster, Decision, HostRuntime
from killcheck.kube import gpus
from killcheck.kube import resources as r
from killcheck.kube.blame import blaming
from killcheck.kube.errors import KubeError, NotFound
from killcheck.kube.objects import Obj, condition, dig, labels_of, name_of, namespace_of
from killcheck.rehearsal import traced
from killcheck.rehearsal.audit import Audit
from killcheck.rehearsal.clouds import Clouds
from killcheck.rehearsal.forks import Forks, forking
from killcheck.rehearsal.ground import booted, empty
from killcheck.rehearsal.holders import Holders, Scene, changes, lit, stands_as_before
from killcheck.rehearsal.images import pull_anyway
from killcheck.rehearsal.left import left_behind, marks, only_counts
from killcheck.rehearsal.nights import others
from killcheck.rehearsal.programs import Program, may_light, programs
from killcheck.rehearsal.reach import parted, together, untouched
from killcheck.rehearsal.record import Ending, Firing, Outcome, Rehearsed, Step
from killcheck.text import lazy_re
from killcheck.text.values import replace

__all__ = ["Stage", "rehearse", "rehearse_one"]

#: Virtual seconds that everything has to come up before the first firing: images of GPU servers have tens of gigabytes.
COMING_UP_S = 900.0
#: Virtual seconds before any other firing, and for what a firing did to take effect.
SETTLE_S = 45.0
AFTER_S = 90.0
#: Virtual seconds that a program may take which has no deadline, and one that has, as a multiple of it.
PATIENCE_S = 1800.0
PATIENCE = 3.0
#: Virtual and wall seconds for which a controller is watched that does not act.
WATCHED_S = 3600.0
WATCHED_WALL_S = 8.0
#: The same, once what it could light again is off: who keeps something on looks often.
DARK_S = 1200.0
DARK_WALL_S = 4.0
#: Virtual seconds that a pod may take to start.
START_S = 300.0
#: Wall seconds after which a firing that is still at work is given up.
WALL_S = 20.0
#: So many programs of one stage are under way at once for each worker: each waits for its processes half of its time.
AT_ONCE = 2
#: From so many forks on it is worth it to do beforehand what each would do.
MANY = 8
#: So many steps of the loop are taken on the way to another firing: a quiet stage takes 40 a day, a busy one 50,000.
MOST_STEPS = 5_000
#: How much of a container's log is kept, in characters; of one that tells where its interpreter is.
LOG_KEPT, LOG_TRACED = 2000, 400_000
#: A shell's exit codes beyond it are of a signal.
SIGNALLED = 128
#: What is turned off and on again by its number of replicas.
_SCALED = {"Deployment": r.DEPLOYMENTS, "StatefulSet": r.STATEFULSETS}
#: Names of two parts that end so are hosts of the internet, though they are looked for as Services first.
_DOMAINS = (".com", ".net", ".org", ".io", ".co", ".eu", ".de", ".uk", ".us", ".fr", ".nl", ".ch")
_WRITING = frozenset({"create", "update", "patch", "delete", "deletecollection"})


def rehearse(
    objects: Sequence[Obj],
    now: datetime,
    *,
    pool: Executor | None = None,
    share: int = 1,
    kubernetes_version: str = "",
) -> dict[str, Rehearsed]:
    """Fire every program among ``objects`` once, alone; by their references.

    ``now``: from when on their schedules are read. ``pool``: who does it side by side, ``share`` of them. Nothing
    outside the sandboxes of the programs is changed. ``kubernetes_version``: which Kubernetes they act on. Raises
    LoadError where what it stands on, and no manifest brought, is refused.
    """
    found = programs(objects)
    groups, work, at_once = together(objects, found), _rehearse_all, AT_ONCE * share
    if len(groups) > 1:  # each on a stage of its own: as many of them a worker
        every = [program for group in groups for program in group]
        groups, work, at_once = [every[number::share] for number in range(share)], _rehearse_apart, AT_ONCE
    tasks = [(objects, group, now, kubernetes_version, at_once) for group in groups if group]
    if pool is None:
        answers = [work(*task) for task in tasks]
    else:
        answers = [future.result() for future in [pool.submit(partial(blaming, work), *task) for task in tasks]]
    seen = {one.program: one for group in answers for one in group}
    return {program.ref: seen[program.ref] for program in found}


def _rehearse_apart(
    objects: Sequence[Obj], group: Sequence[Program], now: datetime, version: str, at_once: int
) -> list[Rehearsed]:
    """Programs that share nothing: each on a stage of its own, in a fork, as it waits for its processes."""
    if len(group) < 2 or not forking():
        return [rehearse_one(objects, program, now, version) for program in group]
    if len(group) >= MANY:
        lazy_re.compile_all()  # else each fork would
    start = min(program.next_slot(now) for program in group) - timedelta(seconds=COMING_UP_S)
    ground = empty(start, version)  # each has it to itself: what it brings comes in its own fork
    try:
        with Forks(at_once) as forks:
            for program in group:
                forks.begin(program.ref, partial(rehearse_one, objects, program, now, version, ground))
            answers = cast("dict[str, Rehearsed]", forks.answers())
    finally:
        ground.close()
    return [answers.get(program.ref) or rehearse_one(objects, program, now, version) for program in group]


def _rehearse_all(
    objects: Sequence[Obj], group: Sequence[Program], now: datetime, version: str, at_once: int
) -> list[Rehearsed]:
    """Programs that may share a stage: it is set up once, and each is fired in a fork of it, which nobody else sees."""
    if len(group) < 2 or not forking():
        return [rehearse_one(objects, program, now, version) for program in group]
    by_slot = sorted(group, key=lambda program: program.next_slot(now))
    with Stage(objects, None, by_slot[0].next_slot(now), version) as stage, Forks(at_once) as forks:
        stage.settle(group)
        for program in by_slot:
            if stage.reaches(program.next_slot(now)):
                forks.begin(program.ref, partial(stage.taken, objects, program))
        answers = cast("dict[str, Rehearsed]", forks.answers())
    return [answers.get(program.ref) or rehearse_one(objects, program, now, version) for program in group]


def rehearse_one(
    objects: Sequence[Obj], program: Program, now: datetime, version: str = "", ground: Cluster | None = None
) -> Rehearsed:
    """One program on a stage of its own. ``ground``: an empty cluster that it may take, and close."""
    slot = program.next_slot(now)
    with Stage(objects, program, slot, version, ground) as stage:
        night = stage.night(objects)
    return _completed(objects, program, slot, night, version)


class _Night(Struct, frozen=True):
    """A program's first firing; the one with its writes refused, and the one a night later, where these could be tried
    at once; what it left; what it did while all was off, where it did nothing before."""

    first: Firing
    refused: Firing | None
    left: list[Obj]
    later: tuple[tuple[datetime, Firing], ...] = ()
    second: Firing | None = None
    dark: Firing | None = None


def _completed(objects: Sequence[Obj], program: Program, slot: datetime, night: _Night, version: str) -> Rehearsed:
    """A program after its first firing: a night later, where that left something; and with its writes refused."""
    first, refused, left = night.first, night.refused, night.left
    second = night.second
    if program.goes_on:
        return Rehearsed(program.ref, program.namespace, program.account, first, dark=night.dark)
    if second is None and left and _is_to_come_again(first):
        with Stage([*objects, *left], program, program.next_slot(slot + timedelta(seconds=1)), version) as stage:
            second = stage.fire()
    if _has_acted(first) and refused is None:
        with Stage(objects, program, slot, version) as stage:
            stage.refuse()
            refused = stage.fire()
    found = Rehearsed(program.ref, program.namespace, program.account, first, second, refused, program.deadline_s)
    steps = _steps(objects, program, slot, first, version)
    return replace(found, later=night.later, dark=night.dark, steps=steps)


def _steps(objects: Sequence[Obj], program: Program, slot: datetime, first: Firing, version: str) -> tuple[Step, ...]:
    """Where the interpreters of a program were when it failed; none where nobody asks, or it cannot be told."""
    told = traced.told(objects, program) if traced.is_wanted(program, first) else None
    if told is None:
        return ()
    with Stage(told.objects, told.program, slot, version) as stage:
        stage.log_kept = LOG_TRACED
        again = stage.fire()
    return traced.steps(again) if traced.same(first, again) else ()


def _is_to_come_again(firing: Firing) -> bool:
    """Whether it did its work, or took it for done: that is what a second night may lack."""
    return firing.outcome is Outcome.ENDED and (firing.exit_code == 0 or bool(firing.off))


def _has_acted(firing: Firing) -> bool:
    acts = bool(firing.clouds) or any(not call.refused for call in firing.writes)
    return firing.outcome is Outcome.ENDED and acts


def _looked_on(firing: Firing) -> bool:
    """Whether it ran and changed nothing: what it is there for may come once something is off."""
    ran = firing.outcome not in (Outcome.UNKNOWN, Outcome.NOT_STARTED)
    return ran and firing.failed is None and not firing.clouds and all(call.refused for call in firing.writes)


class _Refusing(Struct):
    """RBAC, but for one account that may change nothing."""

    authorizer: object
    user: str

    def decide(self, user: object, attributes: Attributes) -> Decision:
        if getattr(user, "name", "") == self.user and attributes.verb in _WRITING:
            return Decision(False)
        return self.authorizer.decide(user, attributes)  # type: ignore[attr-defined,no-any-return]


class Stage:
    """One cluster for one firing; everything of it is gone with its ``with`` block.

    ``program`` None: it is for several, each of which takes it in a fork of its own. ``version``: of the Kubernetes.
    ``ground``: an empty cluster of an earlier time that it stands on, where there is one.
    """

    def __init__(
        self,
        objects: Iterable[Obj],
        program: Program | None,
        slot: datetime,
        version: str = "",
        ground: Cluster | None = None,
    ) -> None:
        self._slot, self._version, self._weary = slot, version, False
        self.log_kept = LOG_KEPT
        within, beyond = [lit(obj) for obj in objects], list[Obj]()
        if program is not None:
            self._program = program
            within, beyond = parted(within, program)
        self._beyond = untouched(beyond)
        self._cluster = booted(within, slot - timedelta(seconds=COMING_UP_S), version, ground)
        self._loop = self._cluster.loop
        self._kube = self._cluster.kube
        self._fired_at = 0.0
        self._audit = Audit(lambda: self._loop.monotonic() - self._fired_at)
        self._fired, self._job_name = 0, ""
        self._holders = Holders(self._cluster.store)
        self._stood: tuple[int, Scene] = (0, Scene({}))
        self._settled = Scene({})
        self._cluster.server.auditors.append(self._audit.heard)
        self._clouds = Clouds()
        runtime = self._cluster.nodes.runtime
        if isinstance(runtime, HostRuntime):
            runtime.clouds = self._clouds

    def __enter__(self) -> Stage:
        return self

    def __exit__(self, *_: object) -> None:
        self._cluster.close()

    def settle(self, group: Sequence[Program] = ()) -> None:
        """Let everything come up that stands on it; no program runs. ``group``: those that will be fired in forks."""
        runtime = self._cluster.nodes.runtime
        if group and isinstance(runtime, HostRuntime):
            runtime.foresee({image for program in group for image in program.images})
        self._cluster.nodes.runs = lambda _: False
        self._pass(until=self._slot - timedelta(seconds=SETTLE_S))
        self._settled = self._standing()

    def reaches(self, slot: datetime) -> bool:
        """Let time pass until shortly before ``slot``; whether what holds GPUs stands as it did when all was up.

        False also where getting there takes too long.
        """
        self._slot = slot
        return self._wait(until=slot - timedelta(seconds=SETTLE_S)) and self._standing() == self._settled

    def taken(self, objects: Sequence[Obj], program: Program) -> Rehearsed:
        """For one program from now on, which is fired at the slot that was reached."""
        self._program, slot = program, self._slot
        with self:
            night = self.night(objects)
        return _completed(objects, program, slot, night, self._version)

    def night(self, objects: Sequence[Obj]) -> _Night:
        """Fire it, and where what it did can be put back: on nights of another kind, and with its writes refused."""
        first = self.fire()
        left = self.left(first)
        later: tuple[tuple[datetime, Firing], ...] = ()
        if not self._program.goes_on and (left or marks(self._program, first)):
            again = self._again(first) if _is_to_come_again(first) else None
            return _Night(first, None, left, later, again)
        lit = not left and first.outcome is Outcome.ENDED and self.relit(first)
        if lit:
            later, lit = self._later(objects)
        if lit and _has_acted(first):
            self.refuse()
            return _Night(first, self.fire(), left, later)
        lights = not left and _looked_on(first) and may_light(self._program, objects)
        return _Night(first, None, left, later, dark=self.dark() if lights else None)

    def _later(self, objects: Sequence[Obj]) -> tuple[tuple[tuple[datetime, Firing], ...], bool]:
        """The firings of other nights, while each could be put back; and whether the last one was."""
        found = []
        for slot in others(self._program, objects, self._slot):
            if self._wait(until=slot - timedelta(seconds=SETTLE_S)):
                self._slot = slot
                firing, lit = self._fired_and_relit()
            else:
                with Stage(objects, self._program, slot, self._version) as stage:
                    firing, lit = stage._fired_and_relit()
            found.append((slot, firing))
            if not lit:
                return tuple(found), False
        return tuple(found), True

    def _fired_and_relit(self) -> tuple[Firing, bool]:
        """One firing, and whether what it did could be put back."""
        firing = self.fire()
        return firing, firing.outcome is Outcome.ENDED and not self.left(firing) and self.relit(firing)

    def _again(self, first: Firing) -> Firing | None:
        """The firing of a night later, with all that the first one left; None: what it turned off is not on by then."""
        if not self._set_back(first):
            return None
        self._slot = self._program.next_slot(self._slot + timedelta(seconds=1))
        there = self._wait(until=self._slot - timedelta(seconds=SETTLE_S))
        return self.fire() if there and stands_as_before(first, self._standing()) else None

    def refuse(self) -> None:
        """From now on the program's account may change nothing, and no cloud does what it is asked."""
        server, program = self._cluster.server, self._program
        server.authorizer = _Refusing(server.authorizer, f"system:serviceaccount:{program.namespace}:{program.account}")
        self._clouds.refusing = True

    def relit(self, firing: Firing) -> bool:
        """Put back what a firing changed, if that was nothing but numbers of replicas; whether it was."""
        changed = {(c.namespace, c.name) for c in firing.changes if c.happened}
        done = [call for call in firing.writes if not call.refused]
        plain = all((call.namespace, call.name) in changed and only_counts(call) for call in done)
        return plain and self._set_back(firing)

    def _set_back(self, firing: Firing) -> bool:
        """Scale up what a firing scaled down; False: not all of it can be."""
        changed = [c for c in firing.changes if c.happened]
        if any(c.gone or c.kind not in _SCALED for c in changed):
            return False
        for change in changed:
            body = {"spec": {"replicas": change.before}}
            self._kube.patch(_SCALED[change.kind], change.name, body, change.namespace)
        return True

    def left(self, firing: Firing) -> list[Obj]:
        """What a firing left in the cluster, as manifests."""
        return left_behind(self._kube, firing)

    def fire(self) -> Firing:
        """Make the Job at its time, and watch until it has ended or nothing more is to be seen."""
        program = self._program
        self._fired += 1
        name = f"{name_of(program.obj)[:48].rstrip('-.')}-{int(self._slot.timestamp()) // 60 + self._fired - 1}"
        self._job_name = name
        standing = {(namespace_of(job), name_of(job)) for job in self._kube.list(r.JOBS).items}
        self._cluster.nodes.runs = lambda pod: _is_new(pod, standing) and not gpus.devices(pod)
        unpulled = tuple(pull_anyway(self._cluster, program, self._slot))
        self._pass(until=max(self._slot, self._loop.now() + timedelta(seconds=SETTLE_S)))
        before = self._standing()
        self._fired_at = self._loop.monotonic()
        self._audit.calls.clear()
        self._clouds.asked.clear()
        try:
            self._kube.create(r.JOBS, program.job(name))
        except KubeError as error:
            return Firing(Outcome.NOT_STARTED, why=str(error))
        return self._seen(before, unpulled)

    def dark(self) -> Firing | None:
        """What it does while what it could light again is off: fired once more, or, where it goes on, watched for
        longer. None: nothing here could be turned off for it."""
        on = [key for key, one in self._standing().holders.items() if one.wanted and key[0] in _SCALED]
        self._audit.calls.clear()
        for kind, namespace, name in on:
            self._kube.patch(_SCALED[kind], name, {"spec": {"replicas": 0}}, namespace)
        if not on:
            return None
        if not self._program.goes_on:
            self._pass(until=self._loop.now() + timedelta(seconds=AFTER_S))
            return self.fire()
        before = self._standing()
        self._fired_at = self._loop.monotonic()
        return self._seen(before, (), DARK_S, DARK_WALL_S)

    def _seen(
        self, before: Scene, unpulled: tuple[tuple[str, str], ...], watched_s: float = 0.0, wall_s: float = 0.0
    ) -> Firing:
        """Watch the Job that was made until it has ended, or nothing more is to be seen. ``watched_s``, ``wall_s``: how
        long one that goes on is watched, where not as a first time."""
        program, name = self._program, self._job_name
        outcome = self._watch(program, name, watched_s or WATCHED_S, wall_s or WATCHED_WALL_S)
        seconds = self._loop.monotonic() - self._fired_at
        endings = tuple(self._endings(program.namespace, name))
        why = self._why(program.namespace, name, outcome)
        services, looked_for = self._looked_up()
        outside = tuple(found for found in looked_for if found not in services)
        firing = Firing(outcome, seconds, tuple(self._audit.calls), endings, (), why, outside, services, unpulled)
        firing = replace(firing, clouds=tuple(self._clouds.asked))
        if any(not call.refused for call in firing.writes):
            self._loop.run_until(lambda: False, AFTER_S)
        return replace(firing, changes=changes(before, self._standing()) + self._beyond)

    @property
    def cluster(self) -> Cluster:
        """What stands on it."""
        return self._cluster

    def outside(self, act: Callable[[], Ending | str]) -> Firing:
        """One run of a program that is no pod: ``act`` answers how it ended, or why it could not be run here."""
        self._cluster.nodes.runs = lambda _: False
        self._pass(until=max(self._slot, self._loop.now() + timedelta(seconds=SETTLE_S)))
        before = self._standing()
        self._fired_at = self._loop.monotonic()
        self._audit.calls.clear()
        self._clouds.asked.clear()
        ended = act()
        seconds = self._loop.monotonic() - self._fired_at
        asked = tuple(self._audit.calls), tuple(self._clouds.asked)
        if isinstance(ended, str):
            return Firing(Outcome.UNKNOWN, seconds, asked[0], why=ended, clouds=asked[1])
        if any(call.writes and not call.refused for call in asked[0]):
            self._loop.run_until(lambda: False, AFTER_S)
        outcome = Outcome.ENDED if ended.code is not None else Outcome.ENDLESS
        _, outside = self._looked_up()
        became = changes(before, self._standing())
        return Firing(outcome, seconds, asked[0], (ended,), became, outside=outside, clouds=asked[1])

    def refuse_clouds(self) -> None:
        """From now on no cloud does what it is asked."""
        self._clouds.refusing = True

    def _pass(self, *, until: datetime) -> None:
        """Let time pass until then."""
        self._loop.sleep(max(0.0, (until - self._loop.now()).total_seconds()))

    def _wait(self, *, until: datetime) -> bool:
        """The same over days; False: it was given up, for autoscalers and the like keep this stage busy all the time.

        A stage that begins shortly before ``until`` is quicker then. It is counted, and not timed: the same everywhere.
        """
        steps = itertools.count()
        self._weary = self._weary or self._loop.run_until(
            lambda: next(steps) > MOST_STEPS, max(0.0, (until - self._loop.now()).total_seconds())
        )
        return not self._weary

    def _standing(self) -> Scene:
        """What holds GPUs now; asked again only where anything has changed since."""
        revision = self._cluster.store.revision
        if self._stood[0] != revision:
            self._stood = revision, self._holders()
        return self._stood[1]

    # -- inside --------------------------------------------------------------------------------------------
    def _watch(self, program: Program, name: str, watched_s: float, watched_wall_s: float) -> Outcome:
        limit_s = max(PATIENCE_S, PATIENCE * program.deadline_s) if program.deadline_s else PATIENCE_S
        wall_s = WALL_S
        if program.goes_on:
            limit_s, wall_s = watched_s, watched_wall_s
        began = wall_seconds()

        def over() -> bool:
            late = wall_seconds() - began > wall_s
            return late or self._is_over(program.namespace, name) or (program.goes_on and self._has_acted())

        self._loop.run_until(lambda: over() or self._has_started(program.namespace, name), START_S)
        started = self._has_started(program.namespace, name)
        if self._cluster.unknowns or (not started and self._cluster.server.limits.met):
            return Outcome.UNKNOWN  # what meets a limit once it runs is judged by how it ends
        if not started and not self._is_over(program.namespace, name):
            return Outcome.NOT_STARTED
        self._loop.run_until(over, limit_s)
        if self._cluster.unknowns:
            return Outcome.UNKNOWN
        if self._is_over(program.namespace, name):
            return Outcome.ENDED
        return Outcome.GIVEN_UP if wall_seconds() - began > wall_s else Outcome.ENDLESS

    def _has_acted(self) -> bool:
        """Whether a change was made that is more than its own bookkeeping (a Lease, an Event)."""
        return any(
            call.writes and not call.refused and call.resource not in ("leases", "events", "configmaps")
            for call in self._audit.calls
        )

    def _looked_up(self) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Services of the cluster whose names containers asked for, and all names beyond their own."""
        runtime = self._cluster.nodes.runtime
        if not isinstance(runtime, HostRuntime):
            return (), ()
        beyond = {name for name in runtime.looked_for if name.endswith(_DOMAINS) and not self._is_space(name)}
        services = tuple(name for name in runtime.services_asked if name not in beyond)
        return services, tuple(runtime.looked_for)

    def _is_space(self, name: str) -> bool:
        """Whether the last part of a name is a namespace here."""
        return self._cluster.store.get(("", "namespaces"), ("", name.rpartition(".")[2])) is not None

    def _is_over(self, namespace: str, name: str) -> bool:
        job = self._job(namespace, name)
        return job is None or any(
            (condition(job, kind) or {}).get("status") == "True" for kind in ("Complete", "Failed")
        )

    def _job(self, namespace: str, name: str) -> Obj | None:
        return self._cluster.store.get(("batch", "jobs"), (namespace, name))

    def _has_started(self, namespace: str, name: str) -> bool:
        return any(
            dig(status, "state", "running") or dig(status, "state", "terminated")
            for pod in self._pods(namespace, name)
            for kind in ("initContainerStatuses", "containerStatuses")
            for status in dig(pod, "status", kind, default=[])
        )

    def _pods(self, namespace: str, name: str) -> list[Obj]:
        try:
            return self._kube.list(r.PODS, namespace, labels=f"batch.kubernetes.io/job-name={name}").items
        except NotFound:
            return []

    def _endings(self, namespace: str, name: str) -> Iterable[Ending]:
        for pod in self._pods(namespace, name):
            sidecars = {
                str(c.get("name"))
                for c in dig(pod, "spec", "initContainers", default=[])
                if c.get("restartPolicy") == "Always"
            }
            for kind in ("initContainerStatuses", "containerStatuses"):
                for status in dig(pod, "status", kind, default=[]):
                    ended = dig(status, "state", "terminated", default={})
                    waits = str(dig(status, "state", "waiting", "reason", default=""))
                    yield Ending(
                        str(status["name"]),
                        str(status.get("image", "")),
                        ended.get("exitCode"),
                        self._killed(pod, str(status["name"]), ended) or str(ended.get("reason", "") or waits),
                        self._log(pod, str(status["name"])) or str(ended.get("message", "")),
                        str(status["name"]) in sidecars,
                    )

    def _killed(self, pod: Obj, container: str, ended: Obj) -> str | None:
        """Why a kubelet ended a container, in its event's words; None: it did not."""
        if ended.get("reason") != "Error" or int(ended.get("exitCode") or 0) <= SIGNALLED:
            return None
        told = [
            str(event.get("message", ""))
            for event in self._kube.list(r.EVENTS, namespace_of(pod)).items
            if event.get("reason") == "Killing" and dig(event, "involvedObject", "name") == name_of(pod)
        ]
        return next((said for said in reversed(told) if said.startswith(f"Container {container} failed ")), None)

    def _log(self, pod: Obj, container: str) -> str:
        path = f"{r.PODS.path(namespace_of(pod), name_of(pod))}/log"
        try:
            body = self._kube.call("GET", path, query={"container": container}).body
        except KubeError:
            return ""
        text = body.decode("utf-8", "replace") if isinstance(body, bytes) else str(body or "")
        return text[-self.log_kept :]

    def _why(self, namespace: str, name: str, outcome: Outcome) -> str:
        if outcome is Outcome.UNKNOWN:
            return "; ".join(self._cluster.unknowns or map(str, self._cluster.server.limits.met.values()))
        if outcome is not Outcome.NOT_STARTED:
            return ""
        told = [
            event
            for event in self._kube.list(r.EVENTS, namespace).items
            if event.get("type") == "Warning" and str(dig(event, "involvedObject", "name", default="")).startswith(name)
        ]
        none = self._program.job_spec.get("parallelism") == 0
        said = "its Job asks for no pod (parallelism: 0)" if none else "its Job made no pod that started"
        return str(told[-1].get("message", "")) if told else said


def _is_new(pod: Obj, standing: set[tuple[str, str]]) -> bool:
    """Whether a pod is of the Job that was fired, or of one that this made: what stood before stands still."""
    job = labels_of(pod).get("batch.kubernetes.io/job-name")
    return job is not None and (namespace_of(pod), job) not in standing
