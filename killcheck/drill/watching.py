"""A drill while it is watched: what it knows, what changes, which phases are reached, until proof or deadline.

What may *not* live here: what that comes to (:mod:`killcheck.drill.judgement`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from contextlib import suppress
from datetime import datetime
from functools import cached_property

from msgspec import Struct, structs

from killcheck import diagnosis, events
from killcheck.capabilities.cluster import Cluster
from killcheck.capabilities.errors import UndoProblem
from killcheck.clock import wall_seconds
from killcheck.drill.attribution import Bystanders
from killcheck.drill.deciding import decided
from killcheck.drill.grown import grow
from killcheck.drill.night import Missed, Relight, WorksOnce, rest_of
from killcheck.drill.pauses import Pauses
from killcheck.drill.progress import Progress, required, watched_s
from killcheck.entries import Ledger
from killcheck.faults.base import Fault
from killcheck.kube import resources as r
from killcheck.kube.errors import KubeError
from killcheck.kube.furniture import is_gitops
from killcheck.kube.informer import Change
from killcheck.kube.objects import Obj, copy, dig, format_time, namespace_of
from killcheck.layers.base import LayerError, LayerRun, Stage
from killcheck.safety.accounting import Account
from killcheck.safety.journal import Entry, Journal
from killcheck.safety.undo import retry, take_back
from killcheck.spec.killpath import KillPath, Layer, Proof
from killcheck.spec.phases import PHASES
from killcheck.text.durations import format_duration
from killcheck.text.values import replace
from killcheck.watch.charged import Charging
from killcheck.watch.cost import Meter
from killcheck.watch.items import ItemsDone
from killcheck.watch.scene import STEADFAST_S, Scene, described, event_time, on_since
from killcheck.witnesses.panel import Witnesses

__all__ = ["Inconclusive", "Options", "Watched", "identity", "moments"]

#: On a real cluster what is on must already be on; on the embedded one it has to come up first.
STEADY_TIMEOUT_S = 1800.0
#: How long the steady state may take to come back after a drill, in seconds.
HEAL_TIMEOUT_S = 1800.0

#: On the embedded cluster: seconds of the wall, and requests of programs, after which more watching has to be needed.
PATIENCE_S = 45.0
MANY_REQUESTS = 200
#: How long what a list has may take to be shown by a watch that lives, in seconds.
SHOWN_WITHIN_S = 10.0
#: How much of a time tells its second: 2026-01-15T03:00:00.
_SECOND = 19


class Inconclusive(Exception):
    """Nothing is proven; the message says why."""


class Options(Struct, frozen=True):
    """How to run a drill.

    ``horizon_s``: how long to watch at most after the trigger when the GPUs stay on (None: until the last deadline
    has passed).
    ``nobody_asked``: the horizon is killcheck's own, so that less is enough where more changes no verdict.
    ``run_out_s``: go on watching until then also when all is proven: it must hold. ``heal``: put the targets back on.
    """

    horizon_s: float | None = None
    nobody_asked: bool = False
    run_out_s: float = 0.0
    steady_timeout_s: float = STEADY_TIMEOUT_S
    heal_timeout_s: float = HEAL_TIMEOUT_S
    title: str = ""


def identity(layer: Layer, names: Sequence[str]) -> str:
    """What a drill of a layer under faults of these names is called in a run's events."""
    return "-".join([layer.name, *names])


def moments(kill_path: KillPath, layer: Layer) -> dict[str, float]:
    """A layer's deadlines, seconds after the trigger, by phase; ``held`` is a length."""
    own = kill_path.deadlines_for(layer)
    return {name.removesuffix("_s"): seconds for name, seconds in structs.asdict(own).items()}


class Watched:
    """A drill of one layer under zero or more faults, as far as it is only looked at."""

    def __init__(
        self,
        cluster: Cluster,
        kill_path: KillPath,
        layer: Layer,
        faults: Sequence[Fault] = (),
        *,
        run: str,
        journal: Journal,
        sink: events.Sink = lambda event: None,
        price: Callable[[str], float | None] = lambda kind: None,
        options: Options | None = None,
    ) -> None:
        self.cluster = cluster
        self.kill_path = kill_path
        self.layer = layer
        self.faults = list(faults)
        self.journal = journal
        self.options = options or Options()
        self.id = identity(layer, [fault.name for fault in faults])
        self._sink = sink
        self.scene = Scene(cluster, kill_path, self._changed, namespaces=_namespaces(layer), layer=layer)
        self.stage = Stage(cluster, kill_path, self.scene, journal, run, tell=self._note, sabotaged=bool(faults))
        self.witnesses = Witnesses(cluster, kill_path, layer, self.scene)
        self.runner: LayerRun | None = None
        self.bystanders: Bystanders | None = None
        self.meter = Meter(price, dict(kill_path.prices), spot=cluster.capabilities.spot_prices)
        self.charging = Charging(self.scene, kill_path.chargeback)
        self.items = ItemsDone(kill_path.items, cluster.capabilities.programs)
        self._usd_per_hour: float | None = None
        self.progress: Progress | None = None
        self.bites: dict[str, str] = {}
        self.notes: list[str] = []
        self.ledger = Ledger()
        #: Phases whose deadline passed: where it stuck then, why, and whether something had been lit again by then.
        self._late: dict[str, tuple[str, diagnosis.Diagnosis, bool]] = {}
        #: Why more watching changes nothing, on somebody's cluster; None: it could.
        self._decided: str | None = None
        #: When (the wall's seconds), and after how many requests, programs that ask on and on have asked enough.
        self._enough = (math.inf, 0)
        self._dirty = True
        self._began = cluster.loop.now()
        #: Since when everything is proven: what happens from then on changes nothing of that.
        self._settled: datetime | None = None
        #: What lit the targets again in the rest of the night, or why the layer did not fire at its end.
        self._relight: Relight | Missed | WorksOnce | None = None
        #: How the targets are put on as they were at the trigger, by their names.
        self._remembered: dict[str, list[Entry]] = {}
        #: How the modelled cloud's node groups get their sizes back.
        self._sizes: list[Entry] = []
        #: What paused the targets' scalers at the trigger; None: nothing was looked at, on somebody's cluster.
        self._pauses: Pauses | None = None
        #: They were put on after everything was proven: what happens from then on is neither billed nor told.
        self._tried_again = False
        #: GPU pods in scope when everything was proven.
        self._left: tuple[str, ...] | None = None
        self._sample: tuple[int, int, int] | None = None
        self._healing = False
        self._account = Account(cluster, kill_path, layer)
        #: Why what the spec asks for of nodes cannot be proven here; None: it can, or nobody asks.
        self._unjudged: str | None = None

    def _watch(self) -> None:
        loop = self.cluster.loop
        self._wake_at_deadlines()
        self._touch()
        self._enough = (wall_seconds() + PATIENCE_S, self.cluster.asked() + MANY_REQUESTS)
        self._watch_until_proven()
        assert self.progress is not None
        if self.progress.proven() and self.options.run_out_s:
            self.progress.holds_on = True
            elapsed = (loop.now() - self.progress.timeline.start).total_seconds()
            loop.run_until(self._fresh_never_done, max(0.0, self.options.run_out_s - elapsed))
        self._fresh(force=True)
        if self.progress.proven() and not self.progress.missing():
            self._settled = loop.now()  # what comes now is not part of the proof
            self._left = tuple(str(p) for p in self.scene.gpu_pods())
            if Proof.P4 in self.kill_path.proof:
                self._count_again()  # before a layer's next firing could turn off what nobody saw
                # Under a fault the schedule may be what is disturbed: that it fires again is asked of the undisturbed,
                # and under what holds the next firing up by what it does to this one.
                again = None if self.faults else self._put_on_again
                later = rest_of(self.stage, self._layer_run, self._settled, self._news, note=self._note, put_on=again)
                disturbed = bool(self.faults) and not any(fault.lingers for fault in self.faults)
                self._relight = None if isinstance(later, Missed) and disturbed else later
            if self._failed_later():
                return
            for said in self._layer_run.afterwards():
                self._note(said)
            self._see_bites()  # what only a wake-up meets

    def _failed_later(self) -> bool:
        """Whether something after the proof takes it back: lit again by nobody who was meant to, or no next firing."""
        return self._relight is not None and not (isinstance(self._relight, Relight) and self._relight.meant)

    def _put_on_again(self) -> None:
        """Put on what is off, as it was at the trigger; what cannot be is left off. The journal does it at the end.

        On a cluster of this process alone: on somebody's nothing is put on but to heal.
        """
        self._tried_again = True
        self._layer_run.tidy()
        if self._pauses is not None:
            with suppress(KubeError):
                self._pauses.take_off()
        self._remake_sources()
        off = [t for t in self.kill_path.covered_by(self.layer) if t.kind and not self.scene.replicas(t)]
        for entry in (
            *self._sizes,
            *(one for target in off for one in reversed(self._remembered.get(target.name, []))),
        ):
            with suppress(KubeError, UndoProblem):
                take_back(self.cluster.kube, self.cluster.loop, entry, self.cluster.capabilities)
        if self.cluster.real:
            return
        with suppress(KubeError):
            grow(self.cluster.kube, [obj for target in off for obj in self.scene.objects_of(target)])

    def _remake_sources(self) -> None:
        """Make what follows Git again where a switch deleted it: by that its targets come back, and go again."""
        for obj in () if self.cluster.real else filter(is_gitops, self.cluster.inventory().objects):
            resource = r.by_kind(str(obj.get("apiVersion")), str(obj.get("kind")))
            if resource is not None:
                with suppress(KubeError):  # it is there still, or nobody serves it
                    self.cluster.kube.create(resource, copy(obj), namespace_of(obj))

    def _watch_until_proven(self) -> None:
        """For as long as the spec says, and as much longer as a node that joined meanwhile has time to go."""
        loop, horizon = self.cluster.loop, self.options.horizon_s
        if horizon is None:
            horizon = watched_s(self.kill_path, self.layer) + self._layer_run.takes_s()
        loop.run_until(self._fresh_and_proven, max(horizon, self._layer_run.acts_within_s()))
        assert self.progress is not None
        later_s = self.progress.joined.longest_s()
        if later_s and not self.progress.proven() and self.options.horizon_s is None:
            loop.run_until(self._fresh_and_proven, later_s)
        if self._decided is not None and not self.progress.proven():
            passed_s = (loop.now() - self.progress.timeline.start).total_seconds()
            self._note(f"watched for {format_duration(math.ceil(passed_s))}, which is enough: {self._decided}")

    def _news(self) -> bool:
        """Whether anything changed since it was asked last."""
        changed = self._dirty
        return self._fresh() and changed

    def _count_again(self) -> None:
        """Zero is listed once more at the end. Raises Inconclusive where the watches had not shown what was on.

        What began after everything was proven is no part of the proof; a live watch shows it in a moment.
        """
        loop = self.cluster.loop
        overlooked = retry(loop, self.scene.overlooked, patience_s=STEADFAST_S)
        if overlooked and not loop.run_until(lambda: self.scene.counts(overlooked), SHOWN_WITHIN_S):
            raise Inconclusive(f"the watch has not shown what a list made now has: {described(overlooked)}")
        # The API server writes whole seconds: what has the very one of the end in it may have come before.
        early = [obj for obj in overlooked if self._settled is None or on_since(obj) <= self._settled]
        if early:
            raise Inconclusive(f"the watch showed too late what was on before zero had been proven: {described(early)}")

    def _wake_at_deadlines(self) -> None:
        for seconds in sorted(set(self.deadlines.values())):
            self.cluster.loop.call_later(seconds + 0.001, self._touch)

    def _fresh_and_proven(self) -> bool:
        self._fresh()
        self._see_who_asks()
        return self.progress is not None and (self.progress.proven() or self._decided is not None)

    def _see_who_asks(self) -> None:
        """Virtual time is free, but for programs that ask all the while: each time takes as long as it takes."""
        at, requests = self._enough
        if self.cluster.asked() < requests or wall_seconds() < at:
            return
        self._enough = (wall_seconds() + PATIENCE_S / 10, requests)
        self._decide(of_our_own=True)

    def _decide(self, *, of_our_own: bool = False) -> None:
        """See whether more watching could change the verdict, where it costs somebody something and nobody asked."""
        asked_for = self.options.horizon_s is not None and not self.options.nobody_asked
        if self.progress is None or asked_for or self._decided or not (self.cluster.real or of_our_own):
            return
        if self.bystanders is not None and self._settled is None:
            self._decided = decided(
                self.progress, self._layer_run, self.bystanders, self.faults, bitten=self.bites, began=self._began
            )

    def _fresh(self, *, force: bool = False) -> bool:
        """Evaluate if anything changed since last time; always True."""
        if self._dirty or force:
            self._dirty = False
            self._see_bites()
            if self.progress is not None and self._settled is None:
                for event in self.progress.evaluate(self.cluster.loop.now(), self._wake_in):
                    self._emit_event(event)
                self._go_on_sabotaging()
            self._look_at_the_late()
            self._decide()
            self._sample_now()
        return True

    def _look_at_the_late(self) -> None:
        """Find out why when a deadline passes: later the reason may be gone, with what it was about."""
        if self.progress is None or self.scene.broken():
            return
        timeline = self.progress.timeline
        elapsed = (self.cluster.loop.now() - timeline.start).total_seconds()
        for phase in self.progress.required():
            late = phase not in timeline.reached and phase != "held" and elapsed > (timeline.deadline_s(phase) or 0.0)
            if late and phase not in self._late:
                stuck = self.progress.stuck_at(phase)
                self._late[phase] = (stuck, diagnosis.diagnose(self._case(stuck)), self.progress.relit)

    def _case(self, stuck: str) -> diagnosis.Case:
        assert self.progress is not None
        return diagnosis.Case(
            stuck,
            self._layer_run,
            self.scene,
            self.progress.timeline,
            self.stage.observations,
            relit=self.progress.relit,
            scaled_by=dict(self.bystanders.scaled_by) if self.bystanders is not None else {},
        )

    def _fresh_never_done(self) -> bool:
        self._fresh()
        return False

    def _wake_in(self, seconds: float) -> None:
        self.cluster.loop.call_later(seconds, self._touch)

    def _touch(self) -> None:
        self._dirty = True

    def _changed(self, change: Change, old: Obj | None, new: Obj) -> None:
        self._dirty = True
        if not self._tried_again:
            self._follow(change, old, new)
        if self.runner is not None:
            before = self.stage.observations.told()
            self.runner.notice(change, old, new)
            for key, text in self.stage.observations.told().items():
                if before.get(key) != text:
                    self._emit(events.LogTaken, pod=key[0], container=key[1], text=text)

    def _follow(self, change: Change, old: Obj | None, new: Obj) -> None:
        """What is told and billed of this drill."""
        if new.get("kind") == "Event":
            self._overhear(change, new)
        elif new.get("kind") == "Node" and self.progress is not None:
            self.progress.node_changed(change, new, self.cluster.loop.now())
        if self.bystanders is not None:
            self.bystanders.notice(change, old, new)

    def _overhear(self, change: Change, event: Obj) -> None:
        about = event.get("involvedObject") or {}
        if change == "deleted" or self.progress is None or not self.scene.concerns(event):
            return
        if event_time(event)[:_SECOND] < format_time(self._began)[:_SECOND]:
            return  # whoever counts occurrences writes down later when the last one was
        self._emit(
            events.Said,
            object="/".join(p for p in (about.get("kind", ""), about.get("namespace", ""), about.get("name", "")) if p),
            type=str(event.get("type")),
            reason=str(event.get("reason")),
            message=str(event.get("message")),
            count=int(event.get("count") or 1),
            component=str(event.get("reportingComponent") or dig(event, "source", "component", default="")),
        )

    def _see_bites(self) -> None:
        """Ask for the evidence, from the trigger on: what is so before it has met nothing of the layer's yet."""
        if self.runner is None or self.stage.timeline is None:
            return
        for fault in self.faults:
            if fault.name not in self.bites:
                evidence = fault.bitten(self.stage, self.runner)
                if evidence:
                    self.bites[fault.name] = evidence
                    self._emit(events.FaultBitten, fault=fault.name, evidence=evidence)

    def _go_on_sabotaging(self) -> None:
        for fault in self.faults:
            self.journal.owner = fault.name
            again_s = fault.react(self.stage, self._layer_run)
            self.journal.owner = ""
            if again_s is not None:
                self._wake_in(again_s)

    def _sample_now(self) -> None:
        if self.progress is None or self._tried_again or self.scene.broken():
            return
        self.witnesses.sample(self.cluster.loop.now())
        self.charging.look(self.cluster.loop.now(), started=True)
        census = self.scene.census
        asked = self.scene.all_replicas() + (census.all_on() if census.targets else 0)
        sample = (len(self.scene.gpu_pods()), len(self.scene.pool_nodes()), asked)
        if census.targets:
            self.progress.instances_changed(self.cluster.loop.now())
        if sample != self._sample:
            self._sample = sample
            self._emit(
                events.Sampled,
                gpu_pods=sample[0],
                nodes=sample[1],
                replicas=sample[2],
                usd=self.meter.usd(self.cluster.loop.now()),
            )

    @cached_property
    def deadlines(self) -> dict[str, float]:
        """See :func:`moments`."""
        return moments(self.kill_path, self.layer)

    @property
    def _layer_run(self) -> LayerRun:
        if self.runner is None:
            raise LayerError(f"layer {self.layer.name} was not prepared")
        return self.runner

    def _phases(self) -> tuple[str, ...]:
        proof = self.kill_path.proof
        wanted = {*self._layer_run.own_phases, *required(self.kill_path, self.layer)}
        if any(t.kind for t in self.kill_path.covered_by(self.layer)):
            wanted |= {"pods_terminating", "pods_gone"}
            if not self._layer_run.only_node():
                wanted.add("scale_written")
            if Proof.P2 in proof:
                wanted.add("node_cordoned")
        return tuple(phase for phase in PHASES if phase in wanted)

    def _note(self, text: str) -> None:
        if text not in self.notes:
            self.notes.append(text)
            self._emit(events.Noted, text=text)

    def _emit(self, kind: type[events.Event], **values: object) -> None:
        self._tell(kind(at=self.cluster.loop.now(), drill=self.id, **values))

    def _emit_event(self, event: events.Event) -> None:
        self._tell(replace(event, drill=self.id))

    def _tell(self, event: events.Event) -> None:
        try:
            self._sink(event)
        except OSError:
            if not self._healing:  # a full disk, a reader that went away: what was changed is put back all the same
                raise


def _namespaces(layer: Layer) -> list[str]:
    return [layer.ref.namespace] if layer.ref and layer.ref.namespace else []
