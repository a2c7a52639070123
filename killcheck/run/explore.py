"""Exploring: which combinations of faults leave the GPUs on although none of their parts does.

Every fault alone, then pairs, then triples of those that did no harm, the likeliest first. What was exposed by a part
is not tried again in a larger set: what is reported is minimal. Where another layer covered, the next set takes one of
that layer's own parts away too (``image-gone@nightly-off + token-dead@second-switch``), and so on until nobody covers:
sets across layers are found by following who saved the night, not by trying them all.

Scenarios run on the embedded cluster with modelled executors, each in a fork of one drill that is already in its steady
state, so that none pays for getting there, and each only for as long as its verdict is open. What exposes is then
drilled once more with executors that really run, and only that counts as confirmed.

Outside Kubernetes nothing is modelled: each scenario is a drill of its own, in which the machine's programs really run.
"""

from __future__ import annotations

import gc
import itertools
import json
import math
import os
import pickle
import shlex
import signal
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, wait
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

from killcheck import faults, layers
from killcheck.capabilities.cluster import Cluster
from killcheck.capabilities.offered import Capability, lacking
from killcheck.drill.sequence import PROVES_NOTHING, Drill, Options
from killcheck.faults.combination import Clash
from killcheck.faults.other_layer import may_name_a_layer
from killcheck.kube.errors import KubeError
from killcheck.layers.base import LayerError
from killcheck.run import parallel
from killcheck.run.planned import PlannedDrill
from killcheck.run.session import Session
from killcheck.safety.journal import Journal
from killcheck.spec.killpath import MOMENTS, KillPath, LayerType
from killcheck.text import redaction
from killcheck.verdict import DrillResult, Verdict

__all__ = ["LIKELIHOOD", "Explored", "Found", "Scenario", "again", "confirm", "explore", "levels"]

#: How likely a fault of each family is, relative to the others: a judgement, from how often each is told of in the
#: catalogue of failures that this project keeps. Only the order of the search depends on it.
LIKELIHOOD = {
    "image": 8.0,
    "credentials": 7.0,
    "schedule": 6.0,
    "rivals": 5.0,
    "drain": 5.0,
    "admission": 4.0,
    "network": 3.0,
    "orchestrator": 2.0,
    "spot": 2.0,
}
#: Layers whose flaws are that an executor acted on what it should have left alone: a model does not look first.
LOOKS_FIRST = frozenset({LayerType.IDLE_MONITOR, LayerType.SENTINEL})
#: What a modelled executor does not meet: faults that act on it are left to the matrix.
UNMODELLED = frozenset({Capability.WIRE})


#: Seconds of the wall after which a scenario is given up: nothing is proven of it.
LIMIT_S = 60


@dataclass(frozen=True, slots=True)
class Scenario:
    """One layer's trigger under some faults (names, sorted)."""

    layer: str
    faults: tuple[str, ...]

    def __str__(self) -> str:
        return f"{self.layer} under {' + '.join(self.faults)}" if self.faults else self.layer

    @property
    def replay(self) -> str:
        """What drills it again; the caller adds the spec."""
        faults = [word for name in self.faults for word in ("--under", name)]
        return shlex.join(["killcheck", "drill", "--layer", self.layer, *faults])


@dataclass(frozen=True, slots=True)
class Found:
    """What a scenario ended with. ``confirmed``: the same with real executors; None: not tried, or nothing proven."""

    scenario: Scenario
    verdict: str
    why: str
    off_by: str = ""
    confirmed: bool | None = None

    def to_json(self, named: str = "") -> dict[str, Any]:
        """For the JSON document; ``named``: the arguments that name the kill path again, for ``replay``."""
        return {
            "layer": self.scenario.layer,
            "faults": list(self.scenario.faults),
            "verdict": self.verdict,
            "why": self.why,
            "off_by": self.off_by or None,
            "confirmed": self.confirmed,
            "replay": self.scenario.replay + named,
        }


@dataclass(frozen=True, slots=True)
class Explored:
    """What a search found. ``minimal``: exposing sets of which no part exposes; ``left``: sets of each size that the
    budget did not reach; ``unmodelled``: faults that were not tried; ``seconds``: of the wall."""

    tried: int
    minimal: tuple[Found, ...]
    inconclusive: tuple[Found, ...]
    left: dict[int, int]
    unmodelled: tuple[str, ...]
    seconds: float
    workers: int
    refused: int = 0

    @property
    def rate(self) -> float:
        """Scenarios a second and worker."""
        return self.tried / self.seconds / self.workers if self.seconds and self.workers else 0.0

    def to_json(self, named: str = "") -> dict[str, Any]:
        """The ``explored`` of the JSON document; ``named``: what a replay adds to name the kill path."""
        return {
            "scenarios": self.tried,
            "minimal": [one.to_json(named) for one in self.minimal],
            "inconclusive": [one.to_json(named) for one in self.inconclusive],
            "refused": self.refused,
            "left": {str(size): count for size, count in self.left.items() if count},
            "unmodelled": list(self.unmodelled),
            "seconds": round(self.seconds, 2),
            "workers": self.workers,
            "scenarios_a_second_and_worker": round(self.rate, 1),
        }


def weight(names: Iterable[str]) -> float:
    """How likely a set is, as the logarithm of the product of its parts' likelihoods; the more parts, the less so."""
    total = sum(LIKELIHOOD.values())
    return sum(math.log(LIKELIHOOD.get(faults.named(name).family, 1.0) / total) for name in names)


def levels(
    known: Sequence[str],
    exposing: Collection[frozenset[str]],
    size: int,
    tried: Collection[frozenset[str]] = (),
) -> Iterator[tuple[str, ...]]:
    """Sets of ``size`` faults, the likeliest first, none of which holds a set that exposes already, or was tried."""
    sets = sorted(itertools.combinations(sorted(known), size), key=lambda names: (-weight(names), names))
    for names in sets:
        held = frozenset(names)
        if held not in tried and not any(one <= held for one in exposing):
            yield names


@dataclass
class _Search:
    """What is known so far. ``exposing``: sets by layer; ``across``: those across layers, whichever was triggered."""

    kill_path: KillPath
    names: dict[str, list[str]]
    minimal: list[Found] = field(default_factory=list)
    doubtful: list[Found] = field(default_factory=list)
    tried: int = 0
    refused: int = 0
    exposing: list[frozenset[str]] = field(default_factory=list)
    across: list[frozenset[str]] = field(default_factory=list)
    hopeless: set[str] = field(default_factory=set)
    #: Faults of the layer's own executor that stop it, and that another layer covered for: of two of them one hides the
    #: other, and who covers meets neither.
    stopping: set[str] = field(default_factory=set)
    #: Sets across layers that are to be tried next, by size.
    rescued: dict[int, dict[tuple[str, ...], None]] = field(default_factory=dict)

    def begin(self) -> None:
        """Another layer's trigger."""
        self.exposing, self.hopeless, self.stopping, self.rescued = [], set(), set(), {}

    def wanted(self, layer: str, size: int) -> list[Scenario]:
        """Sets of that size to be tried, those across layers first: they are few, and each was nearly one."""
        usable = [name for name in self.names[layer] if name not in self.hopeless]
        alone = (one for one in levels(usable, self.exposing, size) if len(self.stopping & set(one)) < 2)
        sets = [*self.rescued.get(size, ()), *alone]
        known = [*self.exposing, *self.across]
        return [Scenario(layer, one) for one in sets if not any(part <= frozenset(one) for part in known)]

    def note(self, found: Found) -> None:
        """Remember what a scenario ended with."""
        self.tried += 1
        faulty = frozenset(found.scenario.faults)
        if found.verdict == "refused":
            self.refused += 1
        elif found.verdict == "exposed":
            self.minimal.append(found)
            (self.across if any("@" in name for name in faulty) else self.exposing).append(faulty)
        elif found.verdict == "covered":
            self._follow(found)
        elif found.verdict == "inconclusive":
            self.doubtful.append(found)
            if len(faulty) == 1:  # what proves nothing alone proves nothing beside others
                self.hopeless |= faulty

    def _follow(self, found: Found) -> None:
        """Take away what saved the night: first the layer's own later firings, then a part of who covered."""
        layer, names = found.scenario.layer, found.scenario.faults
        if len(names) == 1 and "@" not in names[0] and _movable(names[0]):
            self.stopping.add(names[0])
        everywhere = tuple(sorted(f"{name}@{layer}" if "@" not in name and _movable(name) else name for name in names))
        if everywhere != names:
            self.rescued.setdefault(len(names), {})[everywhere] = None
            return
        if found.off_by not in self.names:
            return
        for name in self.names[found.off_by]:
            if "@" not in name and _movable(name):
                grown = tuple(sorted({*names, f"{name}@{found.off_by}"}))
                self.rescued.setdefault(len(grown), {})[grown] = None


def _movable(name: str) -> bool:
    return may_name_a_layer(type(faults.named(name)))


def explore(
    session: Session,
    *,
    only_layers: Collection[str] = (),
    only_faults: Collection[str] = (),
    max_faults: int = 3,
    budget: int = 500,
    seconds: Callable[[], float],
    workers: int = 0,
    heard: Callable[[int, str], None] = lambda count, text: None,
) -> Explored:
    """Search; ``budget`` bounds the scenarios, ``seconds`` is a clock, ``heard`` is told of progress.

    Raises what reading the session raises.
    """
    kill_path = session.kill_path
    session.objects  # noqa: B018 - read once here, not once in every worker
    workers = workers or parallel.processors()
    began, left = seconds(), dict.fromkeys(range(max_faults + 1), 0)
    capabilities = session.capabilities - UNMODELLED
    chosen = [x for x in kill_path.layers if layers.drillable(x) and (not only_layers or x.name in only_layers)]
    search = _Search(kill_path, {})
    skipped: set[str] = set()
    for layer in kill_path.layers:
        # What is of Docker Engines, or of a cloud that the spec does not name, is nothing that was left out here.
        meant = [
            kind
            for kind in faults.every()
            if faults.there(kind, kill_path, None)
            and (not only_faults or kind.name in only_faults)
            and faults.means_something(kind, kill_path, layer)
        ]
        search.names[layer.name] = [kind.name for kind in meant if not lacking(kind.needs, capabilities)]
        skipped |= {kind.name for kind in meant if layer in chosen} - set(search.names[layer.name])
    # What was named is never left out: where it means nothing, or is a named layer's, its scenario says so.
    unmeant = set(only_faults) - skipped - {name for layer in chosen for name in search.names[layer.name]}
    for layer in chosen:
        search.names[layer.name] += sorted(unmeant)
    first = chosen[0].name if chosen and kill_path.in_kubernetes else ""
    with _warm(session, first), parallel.mortal_workers(workers) as pool:
        for layer in chosen:
            search.begin()
            for size in range(max_faults + 1):
                done: set[Scenario] = set()
                while wanted := [one for one in search.wanted(layer.name, size) if one not in done]:
                    take = wanted[: max(0, budget - search.tried)]
                    left[size] = left.get(size, 0) + len(wanted) - len(take)
                    for found in _run(pool, session, take, workers):
                        search.note(found)
                        heard(search.tried, str(found.scenario))
                    done |= set(wanted)  # what is covered adds to this very size: the same, of all its firings
                if size == 0 and search.exposing:
                    break  # it does not work undisturbed: every set would hold the empty one
    return Explored(
        search.tried,
        tuple(search.minimal),
        tuple(search.doubtful),
        left,
        tuple(sorted(skipped)),
        seconds() - began,
        workers,
        search.refused,
    )


@contextmanager
def _warm(session: Session, layer: str) -> Iterator[None]:
    """Get the first layer's drill ready here, for workers that are forks of this process; else each does it itself."""
    if not layer or not parallel.forking():
        yield
        return
    try:
        _rehearse(session, layer)
        _READY[layer] = _ready(session, PlannedDrill(layer))
        yield
    finally:
        while _READY:
            _READY.popitem()[1].close()
        gc.unfreeze()


def _run(pool: Any, session: Session, scenarios: Sequence[Scenario], workers: int) -> Iterator[Found]:
    """Run them, as many at a time as there are workers; in no order."""
    waiting, running, sent = list(reversed(scenarios)), set[Future[Found]](), pickle.dumps(session)
    while waiting or running:
        while waiting and len(running) < 2 * workers:
            running.add(pool.submit(_one, sent, waiting.pop()))
        done, running = wait(running, return_when=FIRST_COMPLETED)
        for future in done:
            yield future.result()


def confirm(found: Explored, results: Sequence[DrillResult]) -> Explored:
    """The same, with what drills of :func:`again` say of its minimal sets."""
    said = {(one.layer, tuple(sorted(one.faults))): one for one in results}
    judged = []
    for one in found.minimal:
        result = said.get((one.scenario.layer, one.scenario.faults))
        tried = result is not None and result.verdict is not Verdict.INCONCLUSIVE  # else it says nothing of the model
        confirmed = result.verdict is Verdict.EXPOSED if result is not None and tried else None
        why = one.why if result is None else result.cause or result.why
        judged.append(replace(one, confirmed=confirmed, why=why))
    return replace(found, minimal=tuple(judged))


def again(found: Explored) -> list[PlannedDrill]:
    """The drills that confirm what was found, with executors that really run."""
    return [PlannedDrill(one.scenario.layer, one.scenario.faults, expect="exposed") for one in found.minimal]


# -- in a worker -----------------------------------------------------------------------------------------------
#: The drills of this worker, each in its steady state with its cluster, by what makes it another one.
_READY: dict[str, _ScenarioDrill] = {}


def _one(sent: bytes, scenario: Scenario) -> Found:
    """In a worker: one scenario, in a fork of the drill that is ready for its layer, or in a drill of its own."""
    session: Session = parallel.received(sent)
    if not session.kill_path.in_kubernetes:
        return _whole(session, scenario)
    # A fault that wants a night of its own (a change of clocks) cannot begin in somebody else's.
    own_night = tuple(name for name in scenario.faults if type(faults.named(name)).night is not faults.Fault.night)
    if len(own_night) > 1:
        why = f"these faults cannot be there together: each of {', '.join(own_night)} is of a night of its own"
        return Found(scenario, "refused", why)
    key = "+".join([scenario.layer, *own_night])
    if key not in _READY:
        while len(_READY) > 3:
            _READY.pop(next(iter(_READY))).close()
        if not _READY:
            _rehearse(session, scenario.layer)
        _READY[key] = _ready(session, PlannedDrill(scenario.layer, own_night))
    drill = _READY[key]
    return _forked(lambda: _judged(drill, scenario), scenario)


def _whole(session: Session, scenario: Scenario) -> Found:
    """A machine's programs are processes, which a fork would leave behind."""
    try:
        with session.cluster(PlannedDrill(scenario.layer)) as (cluster, _):
            return _judged(_drill(session, scenario.layer, cluster), scenario)
    except (LayerError, KubeError) as error:
        return Found(scenario, "inconclusive", str(error))


def _rehearse(session: Session, layer: str) -> None:
    """One night that works and one that does not, so that no fork has to import and compile what they take."""
    for names in ((), ("suspended",), ("finalizer",)):
        drill = _ready(session, PlannedDrill(layer))
        try:
            _judged(drill, Scenario(layer, names))
        except KubeError:
            continue
        finally:
            drill.close()


def _ready(session: Session, planned: PlannedDrill) -> _ScenarioDrill:
    """A drill whose cluster has come to its steady state, and is watched; what comes of it is left to the forks."""
    drill = _drill(session, planned.layer, session.modelled(planned))
    drill.get_ready()
    redaction.load()
    gc.collect()
    gc.freeze()
    return drill


def _drill(session: Session, name: str, cluster: Cluster) -> _ScenarioDrill:
    kill_path = session.kill_path
    layer = kill_path.layer(name)
    deadlines = kill_path.deadlines_for(layer)
    horizon = max(getattr(deadlines, name) for name in MOMENTS) + deadlines.held_s
    return _ScenarioDrill(
        cluster,
        kill_path,
        layer,
        run="explored",
        options=Options(horizon_s=horizon),
        journal=Journal("explored", cluster.loop, cluster.kube, capabilities=cluster.capabilities),
    )


class _ScenarioDrill(Drill):
    """A drill whose cluster is thrown away: it begins where another left it, and there is nothing to heal."""

    #: Whether its faults cannot be there together.
    clash = False
    _watched = False
    #: Until when, in the loop's seconds, no deadline passes.
    _open_until = 0.0

    def get_ready(self) -> None:
        """Come to the steady state without any fault; where that fails, each scenario finds the same and says it."""
        try:
            self._prepare()
            self._watched = True
            self._steady_state()
        except (*PROVES_NOTHING, LayerError, KubeError):
            pass
        if self._watched:
            self.scene.stay_open()  # each fork goes on with its own copy of what is watched
        else:
            self.scene.close()

    def close(self) -> None:
        """The cluster goes."""
        self.scene.close()
        self.cluster.close()

    def _prepare(self) -> None:
        try:
            super()._prepare()
        except Clash:
            self.clash = True
            raise

    def _watch(self) -> None:
        self.options = replace(self.options, horizon_s=(self.options.horizon_s or 0.0) + self._layer_run.takes_s())
        super()._watch()

    def _fresh_and_proven(self) -> bool:
        return super()._fresh_and_proven() or self._lost()

    def _lost(self) -> bool:
        """Everything has bitten, and a deadline that must be kept was not: nothing that comes later changes that."""
        if self.progress is None or len(self.bites) < len(self.faults):
            return False
        loop = self.cluster.loop
        if loop.monotonic() < self._open_until:  # asked after every callback
            return False
        timeline = self.progress.timeline
        elapsed = (loop.now() - timeline.start).total_seconds()
        bound = [phase for phase in self.progress.required() if phase != "held"]
        due = {phase: timeline.deadline_s(phase) or 0.0 for phase in bound}
        self._open_until = loop.monotonic() + min((at - elapsed for at in due.values() if at >= elapsed), default=0.0)
        return any(elapsed > due[phase] and not timeline.in_time(phase) for phase in bound)

    def _heal(self) -> tuple[list[str], list[str]]:
        return [], []


def _judged(drill: _ScenarioDrill, scenario: Scenario) -> Found:
    """What comes of a scenario; the drill is used up by it."""
    drill.faults = [faults.named(name) for name in scenario.faults]
    result: DrillResult = drill.run()
    if drill.clash:
        return Found(scenario, "refused", result.why)
    flaw = drill.runner.flaw() if drill.runner is not None else ""
    if (
        result.verdict is Verdict.EXPOSED
        and flaw
        and drill.layer.type in LOOKS_FIRST
        and (drill.kill_path.in_kubernetes)
    ):  # elsewhere its own programs ran
        return Found(scenario, "inconclusive", f"a modelled executor acts without looking first: {flaw}")
    return Found(scenario, str(result.verdict), result.cause or result.why, result.off_by)


def _forked(work: Callable[[], Found], scenario: Scenario) -> Found:
    """Do the work in a child, so that this process' cluster stays as it is; only its answer comes back."""
    reading, writing = os.pipe()
    # A SIGTERM in the middle of a fork would be raised where nobody hears it.
    held, parent = {signal.SIGTERM}, os.getpid()
    signal.pthread_sigmask(signal.SIG_BLOCK, held)
    child = os.fork()
    if child == 0:
        code = 1
        try:
            parallel.die_with(parent, signal.SIGKILL)
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
            signal.pthread_sigmask(signal.SIG_UNBLOCK, held)
            signal.signal(signal.SIGALRM, signal.SIG_DFL)
            signal.alarm(LIMIT_S)
            os.close(reading)
            gc.disable()  # it would touch, and so copy, every page of the parent's
            found = work()
            answer = {"verdict": found.verdict, "why": found.why, "off_by": found.off_by}
            with os.fdopen(writing, "w") as out:
                json.dump(answer, out)
            code = 0
        except BaseException as error:  # noqa: BLE001 - a child must never return into its parent's code
            os.write(
                writing,
                json.dumps(
                    {"verdict": "inconclusive", "why": f"{type(error).__name__}: {error}", "off_by": ""}
                ).encode(),
            )
        finally:
            os._exit(code)
    try:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, held)
        os.close(writing)
        with os.fdopen(reading) as answer_of:
            text = answer_of.read()
    except BaseException:
        os.kill(child, signal.SIGKILL)
        raise
    finally:
        os.waitpid(child, 0)
    try:
        answer = json.loads(text)
    except ValueError:
        return Found(scenario, "inconclusive", f"its process died, or took longer than {LIMIT_S} s")
    return Found(scenario, answer["verdict"], answer["why"], answer["off_by"])
