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
import json
import os
import pickle
import signal
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, wait
from contextlib import contextmanager
from functools import partial
from typing import Any

from msgspec import Struct

from killcheck import faults, layers
from killcheck.capabilities.cluster import Cluster
from killcheck.capabilities.offered import Capability, lacking
from killcheck.drill.sequence import PROVES_NOTHING, Drill, Options
from killcheck.faults.combination import Clash
from killcheck.kube.errors import KubeError
from killcheck.layers.base import LayerError
from killcheck.run import parallel
from killcheck.run.combinations import (
    LIKELIHOOD,
    Covered,
    Explored,
    Found,
    LayerSearch,
    Scenario,
    Search,
    levels,
    weight,
)
from killcheck.run.planned import PlannedDrill
from killcheck.run.session import Session
from killcheck.run.times import shrink
from killcheck.safety.journal import Journal
from killcheck.spec.deadlines import MOMENTS
from killcheck.spec.killpath import KillPath, Layer, LayerType
from killcheck.text import redaction
from killcheck.text.values import replace
from killcheck.verdict import DrillResult, Verdict

__all__ = [
    "LIKELIHOOD",
    "Covered",
    "Explored",
    "Found",
    "Scenario",
    "again",
    "confirm",
    "explore",
    "levels",
    "weight",
]

#: Layers whose flaws are that an executor acted on what it should have left alone: a model does not look first.
LOOKS_FIRST = frozenset({LayerType.IDLE_MONITOR, LayerType.SENTINEL})
#: What a modelled executor does not meet: faults that act on it are left to the matrix.
UNMODELLED = frozenset({Capability.WIRE})


#: Seconds of the wall after which a scenario is given up: nothing is proven of it.
LIMIT_S = 60
#: So many faults, of all layers together, make a search in which rehearsing costs more than it spares.
FEW = 4


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
    known: Mapping[Scenario, Found] | None = None,
    keep: Callable[[Found], None] = lambda found: None,
    times: bool = False,
    part: tuple[int, int] = (1, 1),
) -> Explored:
    """Search; ``budget`` bounds the scenarios that are run, ``seconds`` is a clock, ``heard`` is told of progress.

    ``times``: with what is left of the budget, find when the faults of each minimal set have to be there, too.

    ``known``: what scenarios of an earlier search ended with, which are not run again; ``keep`` is given each that is.
    ``part``: (K, N): of sets of two faults and more only the K-th of N parts is tried; sets larger than those that
    other parts still have to try wait for them.
    Sizes come one after the other, over all layers; what is found does not depend on how many workers there are.
    Raises what reading the session raises.
    """
    kill_path = session.kill_path
    session.objects  # noqa: B018 - read once here, not once in every worker
    workers, began = workers or parallel.processors(), seconds()
    chosen = [x.name for x in kill_path.layers if layers.drillable(x) and (not only_layers or x.name in only_layers)]
    names, skipped = _names(session, chosen, only_faults)
    search = Search({name: LayerSearch(name, names[name]) for name in chosen}, names)
    covered: list[Covered] = []
    left: dict[int, int] = {}
    elsewhere: dict[int, int] = {}
    first = chosen[0] if chosen and kill_path.in_kubernetes else ""
    many = sum(len(names[name]) for name in chosen) > FEW
    with _workers(session, first, workers if budget else 0, rehearse=many) as pool:
        in_worker = partial(_one, pickle.dumps(session), many)
        tries = _Tries(lambda new: _run(pool, in_worker, new, workers, keep), dict(known or {}), budget, part)
        for size in range(max_faults + 1):
            while take := tries.taken(search.wanted(size)):
                for found in tries.ended(take):
                    search.note(found)
                    heard(search.tried, str(found.scenario))
            open_ = search.wanted(size)
            by_layer = Counter(one.layer for one in open_)
            covered += [layer.coverage(size, by_layer[layer.name]) for layer in search.layers.values()]
            own = sum(map(tries.own, open_))
            left[size], elsewhere[size] = own, len(open_) - own
            if elsewhere[size]:
                break
        searched = tries.ran
        minimal = [one for one in search.minimal if tries.told(one.scenario)]
        minimal = _with_times(minimal, kill_path, tries) if times and kill_path.in_kubernetes else minimal
    return Explored(
        search.tried,
        tuple(minimal),
        tuple(one for one in search.doubtful if tries.told(one.scenario)),
        left,
        tuple(sorted(skipped)),
        seconds() - began,
        workers,
        search.refused,
        tuple(covered),
        tries.ran,
        tries.ran - searched,
        sum(one.when is None and bool(one.scenario.faults) for one in minimal) if times else 0,
        {size: count for size, count in elsewhere.items() if count},
        part,
    )


class _Tries(Struct):
    """What scenarios ended with, and how many more may be run. ``run``: runs some, in no order. ``part``: whose."""

    run: Callable[[Sequence[Scenario]], Iterator[Found]]
    known: dict[Scenario, Found]
    budget: int
    part: tuple[int, int] = (1, 1)
    ran: int = 0

    def own(self, scenario: Scenario) -> bool:
        """Whether this part tries it: each tries what all build on, and its share of the rest."""
        return len(scenario.faults) < 2 or self.told(scenario)

    def told(self, scenario: Scenario) -> bool:
        """Whether this part tells of it: what all try is told by one."""
        which, parts = self.part
        return scenario.part_of(parts) == which

    def taken(self, wanted: Collection[Scenario]) -> list[Scenario]:
        """What is known already, and as many others as there is room for."""
        new = [one for one in wanted if one not in self.known and self.own(one)][: max(0, self.budget - self.ran)]
        taken = set(new)
        return [one for one in wanted if one in self.known or one in taken]

    def ended(self, take: Sequence[Scenario]) -> list[Found]:
        """What each of them ended with, in their order."""
        new = sorted(one for one in take if one not in self.known)
        self.ran += len(new)
        self.known.update((found.scenario, found) for found in self.run(new))
        return [self.known[one] for one in take]


def _with_times(minimal: Sequence[Found], kill_path: KillPath, tries: _Tries) -> list[Found]:
    """The same, with when their faults have to be there, as far as there is room."""

    def ask(wanted: Collection[Scenario]) -> dict[Scenario, bool] | None:
        take = tries.taken(wanted)
        if len(take) < len(wanted):
            return None
        return {found.scenario: found.verdict == "exposed" for found in tries.ended(take)}

    horizons = {layer.name: _horizon_s(kill_path, layer) for layer in kill_path.layers}
    when = shrink([one.scenario for one in minimal], horizons, ask)
    return [replace(one, when=when.get(one.scenario)) for one in minimal]


def _names(
    session: Session, chosen: Collection[str], only_faults: Collection[str]
) -> tuple[dict[str, list[str]], set[str]]:
    """By layer, the faults that mean something to it and can be tried; and those that cannot be."""
    kill_path, capabilities = session.kill_path, session.capabilities - UNMODELLED
    found: dict[str, list[str]] = {}
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
        found[layer.name] = [kind.name for kind in meant if not lacking(kind.needs, capabilities)]
        skipped |= {kind.name for kind in meant if layer.name in chosen} - set(found[layer.name])
    # What was named is never left out: where it means nothing, or is a named layer's, its scenario says so.
    unmeant = set(only_faults) - skipped - {name for layer in chosen for name in found[layer]}
    for name in chosen:
        found[name] += sorted(unmeant)
    return found, skipped


@contextmanager
def _workers(session: Session, layer: str, workers: int, *, rehearse: bool) -> Iterator[Any]:
    """Processes that try scenarios; with none nothing is got ready."""
    if not workers:
        yield None
        return
    with _warm(session, layer, rehearse=rehearse), parallel.mortal_workers(workers) as pool:
        yield pool


@contextmanager
def _warm(session: Session, layer: str, *, rehearse: bool) -> Iterator[None]:
    """Get the first layer's drill ready here, for workers that are forks of this process; else each does it itself."""
    if not layer or not parallel.forking():
        yield
        return
    try:
        if rehearse:
            _rehearse(session, layer)
        _READY[layer] = _ready(session, PlannedDrill(layer))
        yield
    finally:
        while _READY:
            _READY.popitem()[1].close()
        gc.unfreeze()


def _run(
    pool: Any,
    one: Callable[[Scenario], Found],
    scenarios: Sequence[Scenario],
    workers: int,
    keep: Callable[[Found], None],
) -> Iterator[Found]:
    """Run them, as many at a time as there are workers; in no order. ``keep`` is given each as it ends."""
    waiting, running = list(reversed(scenarios)), set[Future[Found]]()
    while waiting or running:
        while waiting and len(running) < 2 * workers:
            running.add(pool.submit(one, waiting.pop()))
        done, running = wait(running, return_when=FIRST_COMPLETED)
        for future in done:
            found = future.result()
            keep(found)
            yield found


def confirm(found: Explored, results: Sequence[DrillResult]) -> Explored:
    """The same, with what drills of :func:`again` say of its minimal sets."""
    said = {(one.layer, tuple(sorted(one.faults))): one for one in results}
    judged = []
    for one in found.minimal:
        result = said.get((one.scenario.layer, one.scenario.faults))
        tried = result is not None and result.verdict is not Verdict.INCONCLUSIVE  # else it says nothing of the model
        confirmed = result.verdict is Verdict.EXPOSED if result is not None and tried else None
        why = one.why if result is None else result.cause or result.why
        real = said.get((one.scenario.layer, one.replayed.faults)) if one.when is not None else None
        when_confirmed = real.verdict is Verdict.EXPOSED if real is not None else None
        judged.append(replace(one, confirmed=confirmed, why=why, when_confirmed=when_confirmed))
    return replace(found, minimal=tuple(judged))


def again(found: Explored) -> list[PlannedDrill]:
    """The drills that confirm what was found, with executors that really run."""
    sets = dict.fromkeys(again for one in found.minimal for again in (one.scenario, one.replayed))
    return [PlannedDrill(one.layer, one.faults, expect="exposed") for one in sets]


# -- in a worker -----------------------------------------------------------------------------------------------
#: The drills of this worker, each in its steady state with its cluster, by what makes it another one.
_READY: dict[str, _ScenarioDrill] = {}


def _one(sent: bytes, rehearse: bool, scenario: Scenario) -> Found:
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
        if rehearse and not _READY:
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
    return _ScenarioDrill(
        cluster,
        kill_path,
        layer,
        run="explored",
        options=Options(horizon_s=_horizon_s(kill_path, layer)),
        journal=Journal("explored", cluster.loop, cluster.kube, capabilities=cluster.capabilities),
    )


def _horizon_s(kill_path: KillPath, layer: Layer) -> float:
    """For how long a night is watched after its trigger."""
    deadlines = kill_path.deadlines_for(layer)
    return float(max(getattr(deadlines, name) for name in MOMENTS) + deadlines.held_s)


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
        return Found(scenario, "inconclusive", f"its process died, or took longer than {LIMIT_S} s", died=True)
    return Found(scenario, answer["verdict"], answer["why"], answer["off_by"])
