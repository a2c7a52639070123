"""The drill: consent -> steady state -> sabotage (and bite) -> trigger -> watch -> judge -> heal.

It knows nothing of HTTP, pytest or terminals: it emits events (:mod:`killcheck.events`) and returns a
:class:`~killcheck.verdict.DrillResult`. The same code runs on every cluster, on its clock.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, replace
from datetime import datetime, timedelta
from functools import cached_property, partial
from typing import Any, cast

from killcheck import diagnosis, events, layers
from killcheck.capabilities.cluster import Cluster
from killcheck.drill import waking
from killcheck.drill.attribution import Bystanders, Hand
from killcheck.drill.night import Relight, rest_of
from killcheck.drill.progress import Progress, required, watched_s
from killcheck.entries import Ledger
from killcheck.faults import surviving
from killcheck.faults.base import Fault, FaultError, lacking
from killcheck.faults.combination import in_order, refuse_clashes
from killcheck.kube.errors import KubeError, NotFound
from killcheck.kube.informer import Change
from killcheck.kube.objects import Obj, dig, format_time, name_of
from killcheck.layers.base import UNREAD, LayerError, LayerRun, Stage
from killcheck.ledger import keeping
from killcheck.safety.accounting import Account
from killcheck.safety.journal import Dirty, Journal, JournalError
from killcheck.safety.undo import insist
from killcheck.spec.killpath import KillPath, Layer, Proof
from killcheck.verdict import DrillResult, Verdict
from killcheck.watch import judging, steady
from killcheck.watch.cost import Meter, SpotPrice, bill
from killcheck.watch.scene import STEADFAST_S, Scene, SceneBroken, described, on_since
from killcheck.watch.timeline import PHASES, Timeline
from killcheck.witnesses.panel import Unproven, Witnesses

__all__ = ["Drill", "Inconclusive", "Options"]

#: On a real cluster what is on must already be on; on the embedded one it has to come up first.
STEADY_TIMEOUT_S = 1800.0
#: How long the steady state may take to come back after a drill, in seconds.
HEAL_TIMEOUT_S = 1800.0
#: How long what a list has may take to be shown by a watch that lives, in seconds.
SHOWN_WITHIN_S = 10.0


class Inconclusive(Exception):
    """Nothing is proven; the message says why."""


@dataclass(frozen=True, slots=True)
class Options:
    """How to run a drill.

    ``horizon_s``: how long to watch at most after the trigger when the GPUs stay on (None: until the last deadline
    has passed).
    ``run_out_s``: go on watching until then also when all is proven: it must hold. ``heal``: put the targets back on.
    """

    horizon_s: float | None = None
    run_out_s: float = 0.0
    steady_timeout_s: float = STEADY_TIMEOUT_S
    heal_timeout_s: float = HEAL_TIMEOUT_S
    title: str = ""


class Drill:
    """One drill of one layer under zero or more faults."""

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
        self.id = "-".join([layer.name, *(f.name for f in faults)]) if faults else layer.name
        self._sink = sink
        self.scene = Scene(cluster, kill_path, self._changed, namespaces=_namespaces(layer), layer=layer)
        self.stage = Stage(cluster, kill_path, self.scene, journal, run)
        self.witnesses = Witnesses(cluster, kill_path, layer, self.scene)
        self.runner: LayerRun | None = None
        self.bystanders: Bystanders | None = None
        self.meter = Meter(
            price, dict(kill_path.prices), spot=cast("SpotPrice | None", cluster.levers.get("spot-prices"))
        )
        self._usd_per_hour: float | None = None
        self.progress: Progress | None = None
        self.bites: dict[str, str] = {}
        self.notes: list[str] = []
        self.ledger = Ledger()
        #: Phases whose deadline passed: where it stuck then, why, and whether something had been lit again by then.
        self._late: dict[str, tuple[str, diagnosis.Diagnosis, bool]] = {}
        self._dirty = True
        self._began = cluster.loop.now()
        #: Since when everything is proven: what happens from then on changes nothing of that.
        self._settled: datetime | None = None
        #: What lit the targets again in the rest of the night.
        self._relight: Relight | None = None
        #: GPU pods in scope when everything was proven.
        self._left: tuple[str, ...] | None = None
        self._sample: tuple[int, int, int] | None = None
        self._healing = False
        self._account = Account(cluster, kill_path, layer)
        #: Why what the spec asks for of nodes cannot be proven here; empty: it can, or nobody asks.
        self._unjudged = ""

    # -- the sequence --------------------------------------------------------------------------------------
    def run(self) -> DrillResult:
        """The whole sequence. Always heals, also when interrupted; then re-raises what interrupted it.

        Raises LayerError, ConsentError or KubeError for what is wrong before anything was changed.
        """
        self._started()
        verdict: DrillResult | None = None
        try:
            try:
                self._prepare()
                self._steady_state()
                self._sabotage()
                self._trigger()
                self._watch()
                verdict = self._judge()
            except (Inconclusive, FaultError, SceneBroken, JournalError, Unproven) as why:
                verdict = self._inconclusive(str(why))
            except KubeError as error:
                if self.journal.entries or self.progress:
                    verdict = self._inconclusive(f"lost sight of the cluster: {error}")
                else:
                    raise
        finally:
            try:
                healed = self._heal()
            finally:
                self.scene.close()
            if verdict is None and healed[1]:
                raise Dirty(healed[1])
        result = self._finish(verdict, healed)
        self._emit(events.DrillFinished, result=result.to_json())
        return result

    def refused(self, why: str) -> DrillResult:
        """What is said of a drill that cannot be begun: nothing was changed, and nothing is proven."""
        self._started()
        result = self._finish(self._inconclusive(why), ([], []))
        self._emit(events.DrillFinished, result=result.to_json())
        return result

    def _started(self) -> None:
        self._began = self.cluster.loop.now()
        self._emit(
            events.DrillStarted,
            layer=self.layer.name,
            layer_type=str(self.layer.type),
            faults=[f.name for f in self.faults],
            deadlines=self.deadlines,
            proof=sorted(self.kill_path.proof),
            title=self.options.title,
        )

    # -- 1 and 2: prepare, steady state --------------------------------------------------------------------
    def _prepare(self) -> None:
        self._kinds_served()
        self.runner = layers.of(self.layer, self.stage)
        loop = self.cluster.loop
        insist(loop, self.runner.prepare, patience_s=STEADFAST_S)
        plans, layer = {}, self.layer
        for fault in self.faults:
            why_not = fault.misplaced(layer) or fault.applies(layer) or fault.pointless(self.kill_path, layer)
            if why_not:
                raise Inconclusive(f"{fault.name} means nothing to {self.layer.name}: {why_not}")
            missing = lacking(fault.needs, self.cluster.levers)
            if missing:
                raise Inconclusive(f"{fault.name} cannot be injected on {self.cluster.name}: it needs {missing}")
            plans[fault.name] = insist(loop, partial(fault.plan, self.stage, self._layer_run), patience_s=STEADFAST_S)
        refuse_clashes(plans)
        self.scene.heard_in |= {namespace for plan in plans.values() for namespace in plan.namespaces}
        self.scene.open()
        self.bystanders = Bystanders(self.kill_path, self.layer, self.stage)

    def _kinds_served(self) -> None:
        """Raise Inconclusive for a covered target of a kind that the cluster does not have."""
        for target in self.kill_path.covered_by(self.layer):
            if target.kind:
                try:
                    self.scene.resource_of(target)
                except NotFound:
                    raise Inconclusive(
                        f"{target}: {self.cluster.name} serves no {target.kind} of {target.api_version}"
                        + ("" if self.cluster.real else ": it is not modelled here. Drill it on a cluster that has it")
                    ) from None

    def _steady_state(self) -> None:
        woken = list(waking.wake(self.cluster, self.scene, self.kill_path, self.layer))
        for said in woken:
            self._note(said)
        if woken:
            covered = [t for t in self.kill_path.covered_by(self.layer) if t.kind]
            self.cluster.loop.run_until(lambda: all(map(self.scene.replicas, covered)), waking.WOKEN_S)
        nothing = steady.nothing_on(self.scene, self.kill_path, self.layer)
        if nothing:
            raise Inconclusive(nothing)
        for said in steady.switch_on(self.cluster, self.scene, self.layer):
            self._note(said)
        self._until_steady()
        bed = list(waking.put_to_bed(self.cluster, self.scene, self.kill_path, self.layer))
        for said in bed:
            self._note(said)
        if bed:
            self._until_steady()
        self._nodes_to_judge()
        self.witnesses.preflight()
        pods, nodes = self.scene.gpu_pods(), self.scene.pool_nodes()
        now = self.cluster.loop.now()
        for node in nodes:
            self.meter.count(node, now)
        for kind in steady.instances(self.scene):
            self.meter.count(kind, now)
        self._usd_per_hour = self.meter.rate()
        problem = getattr(self.meter.spot, "problem", "")
        if problem:
            self._note(f"{problem}; on-demand prices, an upper bound, stand for them")
        if self.meter.unpriced():
            self._note(f"no price for {', '.join(self.meter.unpriced())}: dollars are unknown (give one under prices:)")
        self._account.open()
        self._emit(
            events.SteadyState,
            gpu_pods=[str(p) for p in pods],
            nodes=[name_of(n) for n in nodes],
            devices=sum(p.devices for p in pods),
            usd_per_hour=self.meter.rate(),
            replicas=steady.asked_for(self.scene, self.kill_path, self.layer),
        )

    def _until_steady(self) -> None:
        self.cluster.loop.run_until(lambda: self._fresh() and not self._unsteady(), self.options.steady_timeout_s)
        unsteady = self._unsteady()
        if unsteady:
            raise Inconclusive(f"no steady state to begin with: {unsteady}{self._turned_off_before()}")

    def _nodes_to_judge(self) -> None:
        """What of the nodes can be proven here, and what the spec lets stay on. Raises Inconclusive."""
        inside = any(target.kind for target in self.kill_path.covered_by(self.layer))
        wanted = self.kill_path.proof & {Proof.P2, Proof.P3} if inside else frozenset()
        why = judging.not_judged(self.scene, self.kill_path) if wanted and not self.cluster.real else ""
        if why:
            self._unjudged = why if self.kill_path.proof_said else ""
            self.kill_path = replace(self.kill_path, proof=self.kill_path.proof - wanted)
            self._note(why)
        if inside and Proof.P2 in self.kill_path.proof and not self._layer_run.only_node():
            emptied = judging.emptied(self.scene, self.kill_path)
            if emptied:
                raise Inconclusive(emptied)
            for said in judging.kept(self.scene, self.kill_path, self.meter):
                self._note(said)

    def _turned_off_before(self) -> str:
        """Who says that it turned a target off before anything was drilled."""
        said = [e for e in self.scene.events.values() if e.get("reason") == "KEDAScaleTargetDeactivated"]
        return f"; KEDA: {said[-1].get('message')} (its triggers were not active then)" if said else ""

    def _unsteady(self) -> str:
        return steady.unsteady(self.scene, self.kill_path, self.layer)

    # -- 3 and 4: sabotage, trigger ------------------------------------------------------------------------
    def _sabotage(self) -> None:
        for fault in in_order(self.faults):
            self.journal.owner = fault.name
            changes = fault.inject(self.stage, self._layer_run)
            self.journal.owner = ""
            self._emit(events.FaultInjected, fault=fault.name, changes=list(changes))
        self._see_bites()

    def _trigger(self) -> None:
        seen = self._layer_run.before_trigger()
        if seen:
            self._note(seen)
            if self._layer_run.unproven():
                raise Inconclusive(self._layer_run.unproven())
            unsteady = "" if self._layer_run.flaw() else self._unsteady()
            if unsteady:  # what is off already when the trigger is pulled was not turned off by it
                raise Inconclusive(f"when the trigger was to be pulled: {unsteady}")
        now = self.cluster.loop.now()
        if self.stage.slot is not None:
            self.meter.restart(now)
        timeline = Timeline(now, self._phases(), self.deadlines, notice_s=self._layer_run.notice_s)
        self.stage.timeline = timeline
        self.progress = Progress(
            self.scene,
            self.kill_path,
            self.layer,
            timeline,
            hold_s=self.deadlines["held"],
            meter=self.meter,
            holds_from=self._layer_run.holds_from,
            only_node=self._layer_run.only_node(),
        )
        self.witnesses.begin(now)
        for target in self.kill_path.targets:
            steady.remember(self.scene, self.journal, target)
        self._layer_run.remember()
        how = self._layer_run.trigger()
        if not self._layer_run.not_fired():
            timeline.reach("triggered", now, now, "")
        self._emit(events.Triggered, how=how)

    # -- 5: watch ------------------------------------------------------------------------------------------
    def _watch(self) -> None:
        loop = self.cluster.loop
        horizon = self.options.horizon_s
        if horizon is None:
            horizon = watched_s(self.kill_path, self.layer) + self._layer_run.takes_s()
        self._wake_at_deadlines()
        loop.run_until(self._fresh_and_proven, horizon)
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
                self._relight = rest_of(self.stage, self._layer_run, self._settled, self._news, self._note)
            if self._relight is not None and not self._relight.meant:
                return
            for said in self._layer_run.afterwards():
                self._note(said)

    def _news(self) -> bool:
        """Whether anything changed since it was asked last."""
        changed = self._dirty
        return self._fresh() and changed

    def _wake_at_deadlines(self) -> None:
        for seconds in sorted(set(self.deadlines.values())):
            self.cluster.loop.call_later(seconds + 0.001, self._touch)

    def _fresh_and_proven(self) -> bool:
        self._fresh()
        return self.progress is not None and self.progress.proven()

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
            self._sample_now()
        return True

    def _look_at_the_late(self) -> None:
        """Find out why when a deadline passes: later the reason may be gone, with what it was about."""
        if self.progress is None or self.scene.broken():
            return
        timeline = self.progress.timeline
        elapsed = (self.cluster.loop.now() - timeline.start).total_seconds()
        for phase in self.progress.required():
            late = phase not in timeline.reached and phase != "held" and elapsed > self.deadlines[phase]
            if late and phase not in self._late:
                stuck = self.progress.stuck_at(phase)
                self._late[phase] = (stuck, diagnosis.diagnose(self._case(stuck)), self.progress.relit)

    def _case(self, stuck: str) -> diagnosis.Case:
        assert self.progress is not None
        return diagnosis.Case(
            stuck, self._layer_run, self.scene, self.progress.timeline, self.stage.testimony, relit=self.progress.relit
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
        if new.get("kind") == "Event":
            self._overhear(change, new)
        elif new.get("kind") == "Node" and self.progress is not None:
            self.progress.node_changed(change, new, self.cluster.loop.now())
        if self.bystanders is not None:
            self.bystanders.notice(change, old, new)
        if self.runner is not None:
            before = dict(self.stage.testimony.logs)
            self.runner.notice(change, old, new)
            for key, text in self.stage.testimony.logs.items():
                if before.get(key) != text:
                    self._emit(events.LogTaken, pod=key[0], container=key[1], text=text)

    def _overhear(self, change: Change, event: Obj) -> None:
        about = event.get("involvedObject") or {}
        if change == "deleted" or self.progress is None or not self.scene.concerns(event):
            return
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
        if self.runner is None:
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
        if self.progress is None or self.scene.broken():
            return
        self.witnesses.sample(self.cluster.loop.now())
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

    # -- 6: judge ------------------------------------------------------------------------------------------
    def _judge(self) -> DrillResult:
        assert self.progress is not None
        self.scene.assert_sound()
        self.journal.guard()
        if self._layer_run.unproven():
            raise Inconclusive(self._layer_run.unproven())
        unbitten = [f.name for f in self.faults if f.name not in self.bites]
        if unbitten:
            raise Inconclusive(
                f"{', '.join(unbitten)} did not bite: nothing shows that the fault took hold, so nothing is proven"
                + self._unread()
            )
        missing = self.progress.missing()
        if missing:
            return self._exposed(missing)
        self._count_again()
        if self._relight is not None and not self._relight.meant:
            return self._lit_again(self._relight)
        reached = self.progress.timeline.reached
        zero_at = next(
            reached[phase] for phase in ("scale_written", "pods_gone", "instance_gone") if phase in reached
        ).at
        hand = self._hand(zero_at)
        self._bystanders.refuse_own_answers(self._began, own=hand.layer == self.layer.name)
        flaw = self._layer_run.flaw()
        if flaw:
            return self._result(Verdict.EXPOSED, flaw, off_by=hand.layer, cause=flaw, remedy=self._layer_run.remedy)
        for said in self.witnesses.heard(stayed_on=False):
            self._note(said)
        lack = self.witnesses.lack(self.progress.timeline, self.cluster.loop.now())
        if lack is not None:
            return self._result(
                Verdict.EXPOSED,
                f"the GPUs are off, but {lack.cause}",
                off_by=hand.layer,
                stuck_at=lack.stuck_at,
                cause=lack.cause,
                remedy=lack.remedy,
                evidence=lack.evidence,
                failures=lack.failures,
            )
        forecast = self._layer_run.forecast()
        if hand.layer == self.layer.name and forecast is not None and forecast.never:
            cause = f"{forecast.never}: pulled by hand it turned the GPUs off, and nothing ever pulls it"
            return self._result(
                Verdict.EXPOSED, cause, off_by=hand.layer, stuck_at="triggered", cause=cause, remedy=forecast.remedy
            )
        if hand.layer and self._unjudged:
            raise Inconclusive(f"the GPU pods went off ({hand.evidence}), but {self._unjudged}")
        self.ledger = keeping.of_drill(self.cluster, self.kill_path, self.layer) if hand.layer else self.ledger
        if self.ledger.open:
            raise Inconclusive(self.ledger.verdict())
        if hand.layer == self.layer.name:
            return self._result(
                Verdict.SURVIVED, f"{self.layer.name} turned the GPUs off: {hand.evidence}", off_by=hand.layer
            )
        if hand.layer:
            return self._result(
                Verdict.COVERED, f"{self.layer.name} did not, {hand.layer} did: {hand.evidence}", off_by=hand.layer
            )
        raise Inconclusive("; ".join([hand.evidence, *self._bystanders.blind]))

    def _count_again(self) -> None:
        """Zero is listed once more at the end. Raises Inconclusive where the watches had not shown what was on.

        What began after everything was proven is no part of the proof; a live watch shows it in a moment.
        """
        loop = self.cluster.loop
        overlooked = insist(loop, self.scene.overlooked, patience_s=STEADFAST_S)
        if overlooked and not loop.run_until(lambda: self.scene.counts(overlooked), SHOWN_WITHIN_S):
            raise Inconclusive(f"the watch has not shown what a list made now has: {described(overlooked)}")
        # The API server writes whole seconds: what has the very one of the end in it may have come before.
        early = [obj for obj in overlooked if self._settled is None or on_since(obj) <= self._settled]
        if early:
            raise Inconclusive(f"the watch showed too late what was on before zero had been proven: {described(early)}")

    def _unread(self) -> str:
        """What was not run, and a log that could not be read, may be why there is no evidence, and no want of teeth."""
        if self.cluster.unknowns():
            return f" ({'; '.join(self.cluster.unknowns())})"
        unread = next((text for text in self.stage.testimony.logs.values() if text.startswith(UNREAD)), "")
        return f" ({unread.strip('[]')})" if unread else ""

    def _hand(self, zero_at: datetime) -> Hand:
        assert self.progress is not None
        return self._bystanders.judge(self._layer_run, zero_at, self.progress.writer, altered=bool(self.stage.rewrites))

    def _exposed(self, missing: str) -> DrillResult:
        assert self.progress is not None
        unknown = [
            *self.cluster.unknowns(),
            *self._bystanders.own_answers(self._began),
            *self.witnesses.unknown(missing),
        ]
        if unknown:
            raise Inconclusive("; ".join(unknown))
        gap = self.progress.unwatched_until
        if missing == "held" and gap is not None:
            raise Inconclusive(
                f"the watch was interrupted until {gap:%H:%M:%S}: whether it held was not seen for long "
                "enough (--watch goes on for longer)"
            )
        for said in self.witnesses.heard(stayed_on=True):
            self._note(said)
        timeline = self.progress.timeline
        stuck, found = self._why(missing)
        remedy = found.remedy if found.lasting else surviving.remedy(self.faults) or found.remedy
        self._emit(
            events.Diagnosed,
            stuck_at=stuck,
            cause=found.cause,
            evidence=list(found.evidence),
            remedy=remedy,
            failures=list(found.failures),
        )
        at_s = timeline.at_s(missing)
        if at_s is not None:
            why = f"{missing} came after {at_s:.0f} s; its deadline is {self.deadlines[missing]:.0f} s"
        else:
            why = f"stuck before {stuck}"
        now = self.cluster.loop.now()
        chance = self._layer_run.next_chance(now + timedelta(seconds=1))
        rate, usd = self.meter.rate(), self.meter.usd(now)
        until = None
        if chance is not None and rate is not None and usd is not None:
            until = usd + rate * (chance - now).total_seconds() / 3600.0
        return self._result(
            Verdict.EXPOSED,
            why,
            stuck_at=stuck,
            cause=found.cause,
            remedy=remedy,
            evidence=found.evidence,
            failures=found.failures,
            next_chance=format_time(chance) if chance else "",
            usd_until_next_chance=until,
        )

    def _lit_again(self, relight: Relight) -> DrillResult:
        """Off and proven, and then on again in the same night, by nobody who was meant to."""
        self._emit(events.PhaseLost, phase="held", why=relight.cause)
        now = self.cluster.loop.now()
        chance = self._layer_run.next_chance(now + timedelta(seconds=1))
        rate, usd = self.meter.rate(), self.meter.usd(now)
        until = usd + rate * (chance - now).total_seconds() / 3600.0 if chance and rate and usd else None
        return self._result(
            Verdict.EXPOSED,
            f"it went off, and did not hold through the night: {relight.cause}",
            stuck_at="held",
            cause=relight.cause,
            remedy=surviving.remedy(self.faults) or relight.remedy,
            evidence=relight.evidence,
            failures=(55,),
            next_chance=format_time(chance) if chance else "",
            usd_until_next_chance=until,
        )

    def _why(self, missing: str) -> tuple[str, diagnosis.Diagnosis]:
        """Where it stuck and why: what is seen now, unless what was seen when a deadline passed says more."""
        assert self.progress is not None
        first = next(iter(self._late.values()), None)
        if self.progress.timeline.at_s(missing) is not None and missing in self._late:
            return self._late[missing][:2]  # it came too late: why, was seen then
        if first is not None and self.progress.relit and not first[2]:
            return first[:2]  # a new day lit it again, long after it was too late: that is not why
        stuck = self.progress.stuck_at(missing)
        return stuck, diagnosis.diagnose(self._case(stuck))

    def _inconclusive(self, why: str) -> DrillResult:
        return self._result(Verdict.INCONCLUSIVE, why, cause=why)

    def _result(self, verdict: Verdict, why: str, **more: object) -> DrillResult:
        now = self._settled or self.cluster.loop.now()
        timeline = self.progress.timeline if self.progress else None
        forecast = self.runner.forecast() if self.runner else None
        for told in (*forecast.clocks, *forecast.warnings) if forecast else ():
            self._note(told)
        for fault in self.faults:
            stages = timeline.reclaim(*fault.noticed) if timeline and fault.noticed else ""
            if fault.noticed and stages:
                self._note(f"{fault.name} gave {fault.noticed[1]:.0f} s: {stages}")
        self._emit(events.Judged, verdict=str(verdict), off_by=str(more.get("off_by", "")), why=why)
        return DrillResult(
            layer=self.layer.name,
            faults=tuple(f.name for f in self.faults),
            verdict=verdict,
            why=why,
            seconds_to_zero=timeline.zero_s() if timeline else None,
            seconds_to_drained=timeline.at_s("node_drained") if timeline else None,
            watched_s=(now - timeline.start).total_seconds() if timeline else 0.0,
            usd=self.meter.usd(now) if timeline else 0.0,
            usd_per_hour=self.meter.rate(),
            bill=self._bill(now, more.get("usd_until_next_chance")) if timeline else None,
            schedule=forecast.to_json() if forecast else None,
            phases=tuple(timeline.rows()) if timeline else (),
            bites=dict(self.bites),
            title=self.options.title,
            gpu_pods=self._gpu_pods() if timeline else (),
            **more,  # type: ignore[arg-type]
        )

    def _gpu_pods(self) -> tuple[str, ...]:
        meant = self._relight is not None and bool(self._relight.meant)
        return self._left if self._left is not None and meant else tuple(str(p) for p in self.scene.gpu_pods())

    def _bill(self, now: datetime, until_next_chance: object) -> dict[str, Any]:
        return bill(
            usd=self.meter.usd(now),
            gpu_hours=self.meter.gpu_hours(now),
            rate=self._usd_per_hour,
            until_next_chance=cast("float | None", until_next_chance),
            items_per_hour=self.kill_path.items_per_hour,
        )

    # -- 7: heal -------------------------------------------------------------------------------------------
    def _heal(self) -> tuple[list[str], list[str]]:
        if not self.journal.entries:
            return [], []
        self._healing = True
        late = ""
        try:
            late = self.runner.makes_up(self._began) if self.runner is not None else ""
        finally:  # also where it is interrupted just here
            undone, problems = self.journal.undo_all()
        for fault in self.faults:
            left = [entry.problem for entry in self.journal.open if entry.owner == fault.name]
            self._emit(events.FaultHealed, fault=fault.name, problem="; ".join(left))
            if fault.leaves(self.stage):
                self._note(fault.leaves(self.stage))
        steady = not problems and not late and self._steady_again()
        if late and not problems:
            self._note(late)
        elif not steady and not problems:
            self._note(f"everything is put back, but the steady state is not: {self._unsteady()}")
        problems += self._account.close(self.stage.run, self._note)
        self._emit(events.Healed, undone=undone, problems=problems, steady_again=steady)
        return undone, problems

    def _steady_again(self) -> bool:
        if self.progress is None:
            return True
        self._dirty = True
        self.progress = None
        self.scene.census.again()
        return self.cluster.loop.run_until(
            lambda: not steady.unsteady(self.scene, self.kill_path, self.layer, healed=True),
            self.options.heal_timeout_s,
        )

    def _finish(self, verdict: DrillResult | None, healed: tuple[list[str], list[str]]) -> DrillResult:
        assert verdict is not None
        for text in self.cluster.assumptions():
            self._note(text)
        ledger = self.ledger.and_also(keeping.told_by_cluster(self.cluster.assumptions()))
        self._emit(events.LedgerKept, entries=[entry.to_json() for entry in ledger.telling], counts=ledger.counts)
        return replace(
            verdict,
            healed=tuple(healed[0]),
            problems=tuple(healed[1]),
            notes=tuple(self.notes),
            sandbox=str(getattr(self.cluster, "sandbox", "")),
            ledger=ledger,
        )

    # -- small things --------------------------------------------------------------------------------------
    @cached_property
    def deadlines(self) -> dict[str, float]:
        """Seconds after the trigger by phase; ``held`` is a length."""
        own = self.kill_path.deadlines_for(self.layer)
        return {f.name.removesuffix("_s"): getattr(own, f.name) for f in fields(own)}

    @property
    def _layer_run(self) -> LayerRun:
        if self.runner is None:
            raise LayerError(f"layer {self.layer.name} was not prepared")
        return self.runner

    @property
    def _bystanders(self) -> Bystanders:
        assert self.bystanders is not None
        return self.bystanders

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
