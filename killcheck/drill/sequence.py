"""The drill: consent -> steady state -> sabotage (and bite) -> trigger -> watch -> judge -> heal.

It knows nothing of HTTP, pytest or terminals: it emits events (:mod:`killcheck.events`) and returns a
:class:`~killcheck.verdict.DrillResult`. The same code runs on every cluster, on its clock.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from functools import partial
from itertools import chain

from killcheck import events, layers
from killcheck.capabilities.offered import Capability
from killcheck.drill import waking
from killcheck.drill.attribution import Bystanders
from killcheck.drill.judgement import Judged
from killcheck.drill.pauses import Pauses
from killcheck.drill.progress import Progress
from killcheck.drill.watching import Inconclusive, Options, identity, moments
from killcheck.faults.base import FaultError
from killcheck.faults.combination import in_order, refuse_clashes
from killcheck.kube.errors import Forbidden, Invalid, KubeError, NotFound
from killcheck.kube.objects import name_of
from killcheck.ledger import keeping
from killcheck.safety.journal import Dirty, JournalError
from killcheck.safety.undo import retry
from killcheck.spec.killpath import KillPath, Layer, Proof
from killcheck.text.values import replace
from killcheck.verdict import DrillResult
from killcheck.watch import proven_nodes, steady
from killcheck.watch.queues import queues_of
from killcheck.watch.scene import STEADFAST_S, SceneBroken
from killcheck.watch.timeline import Timeline
from killcheck.witnesses.panel import Unproven

__all__ = ["PROVES_NOTHING", "Drill", "Inconclusive", "Options", "started"]

#: What ends a drill inconclusive.
PROVES_NOTHING = (Inconclusive, FaultError, SceneBroken, JournalError, Unproven)


def _lost(error: KubeError) -> str:
    """What an error of the API says of a drill that it ends."""
    if isinstance(error, Forbidden | Invalid):
        return "the API server refused what the drill itself asked of it (except who drills from what refuses it)"
    return "lost sight of the cluster"


def started(
    kill_path: KillPath, layer: Layer, names: Sequence[str], *, at: datetime, title: str
) -> events.DrillStarted:
    """How a drill of a layer under faults of these names begins."""
    return events.DrillStarted(
        at=at,
        drill=identity(layer, names),
        layer=layer.name,
        layer_type=str(layer.type),
        faults=list(names),
        deadlines=moments(kill_path, layer),
        proof=sorted(kill_path.proof),
        title=title,
    )


class Drill(Judged):
    """One drill of one layer under zero or more faults."""

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
                self._count_items()
                verdict = self._judge()
            except PROVES_NOTHING as why:
                verdict = self._inconclusive(str(why))
            except KubeError as error:
                if self.journal.entries or self.progress:
                    verdict = self._inconclusive(f"{_lost(error)}: {error}")
                else:
                    raise
        finally:
            if verdict is None:  # interrupted
                self.cluster.hurry()
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
        names = [fault.name for fault in self.faults]
        self._tell(started(self.kill_path, self.layer, names, at=self._began, title=self.options.title))

    def _prepare(self) -> None:
        self._kinds_served()
        self.runner = layers.of(self.layer, self.stage)
        loop = self.cluster.loop
        retry(loop, self.runner.prepare, patience_s=STEADFAST_S)
        plans, layer = {}, self.layer
        for fault in self.faults:
            unsuited = fault.unsuited(self.kill_path, layer, offered=self.cluster.capabilities.names)
            if unsuited is not None:
                raise Inconclusive(unsuited.of(fault.name, layer.name, self.cluster.name))
            plans[fault.name] = retry(loop, partial(fault.plan, self.stage, self._layer_run), patience_s=STEADFAST_S)
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
            self.stage.wait("the targets to be on", lambda: all(map(self.scene.replicas, covered)), waking.WOKEN_S)
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
            self.meter.count(node, now, sum(pod.devices for pod in pods if pod.node == name_of(node)))
        for kind in steady.instances(self.scene):
            self.meter.count(kind, now)
        self.charging.look(now, started=False)
        self._usd_per_hour = self.meter.rate()
        self.items.begin()
        spot = self.cluster.capabilities.spot_prices
        if spot is not None and spot.problem:
            self._note(f"{spot.problem}; on-demand prices, an upper bound, stand for them")
        if self.meter.unpriced():
            self._note(f"no price for {', '.join(self.meter.unpriced())}: dollars are unknown (give one under prices:)")
        self._account.open()
        self._all_named()
        self._emit(
            events.SteadyState,
            gpu_pods=[str(p) for p in pods],
            nodes=[name_of(n) for n in nodes],
            devices=sum(p.devices for p in pods),
            usd_per_hour=self.meter.rate(),
            replicas=steady.asked_for(self.scene, self.kill_path, self.layer),
            resources=steady.resources(self.scene),
        )

    def _all_named(self) -> None:
        """Raises Inconclusive where the executor would change what could not be put back, for nobody named it."""
        covered = [target for target in self.kill_path.covered_by(self.layer) if target.kind]
        objects = chain.from_iterable(map(self.scene.objects_of, covered)) if self.cluster.real else ()
        queues = chain.from_iterable(queues_of(self.cluster.kube, obj).items() for obj in objects)
        if unnamed := "; ".join(self._account.unnamed(list(queues))):
            raise Inconclusive(unnamed)

    def _until_steady(self) -> None:
        steady_now = steady.steady(self.scene, self.kill_path, self.layer)
        what = ": ".join(filter(None, ("a steady state", self._unsteady() if self.cluster.real else "")))
        self.stage.wait(
            what, lambda: self._fresh() and (steady_now() or self._never_again()), self.options.steady_timeout_s
        )
        unsteady = self._unsteady()
        if unsteady:
            raise Inconclusive(f"no steady state to begin with: {unsteady}{self._turned_off_before()}")

    def _never_again(self) -> bool:
        return steady.never_again(self.scene, self.kill_path, self.layer)

    def _nodes_to_judge(self) -> None:
        """What of the nodes can be proven here, and what the spec lets stay on. Raises Inconclusive."""
        inside = any(target.kind for target in self.kill_path.covered_by(self.layer))
        wanted = self.kill_path.proof & {Proof.P2, Proof.P3} if inside else frozenset()
        why = proven_nodes.not_judged(self.scene, self.kill_path) if wanted and not self.cluster.real else ""
        if why:
            self._unjudged = why if self.kill_path.proof_said else None
            self.kill_path = replace(self.kill_path, proof=self.kill_path.proof - wanted)
            self._note(why)
        if inside and Proof.P2 in self.kill_path.proof and not self._layer_run.only_node():
            emptied = proven_nodes.emptied(self.scene, self.kill_path)
            if emptied:
                raise Inconclusive(emptied)
            for said in proven_nodes.kept(self.scene, self.kill_path, self.meter):
                self._note(said)

    def _turned_off_before(self) -> str:
        """Who says that it turned a target off before anything was drilled."""
        said = [e for e in self.scene.events.values() if e.get("reason") == "KEDAScaleTargetDeactivated"]
        return f"; KEDA: {said[-1].get('message')} (its triggers were not active then)" if said else ""

    def _unsteady(self) -> str | None:
        return steady.unsteady(self.scene, self.kill_path, self.layer)

    def _sabotage(self) -> None:
        for fault in in_order(self.faults):
            self.journal.owner = fault.name
            changes = fault.inject(self.stage, self._layer_run)
            self.journal.owner = ""
            self._emit(events.FaultInjected, fault=fault.name, changes=list(changes))
            others = [f"{other.name} " for other in self.faults if other is not fault]
            for said in fault.spares(self.stage, self._layer_run):
                if not any(other in said for other in others):  # it is taken from that one too
                    self._note(said)

    def _trigger(self) -> None:
        seen = self._layer_run.before_trigger()
        if seen:
            self._note(seen)
            if self._layer_run.unproven():
                raise Inconclusive(self._layer_run.unproven())
            unsteady = None if self._layer_run.flaw() else self._unsteady()
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
            before = len(self.journal.entries)
            steady.remember(self.scene, self.journal, target, self._account.may_be_deleted)
            self._remembered[target.name] = self.journal.entries[before:]
        before, cloud = len(self.journal.entries), self.cluster.capabilities.cloud
        if cloud is not None and cloud.sizes:
            self.journal.set_attribute(Capability.CLOUD, "the node pools had their sizes", "sizes", cloud.sizes)
        self._sizes = self.journal.entries[before:]
        if not self.cluster.real and self.kill_path.in_kubernetes:
            self._pauses = Pauses(self.cluster.kube, self.kill_path.covered_by(self.layer))
        self._layer_run.remember()
        self._account.remember(self.journal, self._note)
        how = self._layer_run.trigger()
        if not self._layer_run.not_fired():
            timeline.reach("triggered", now, now, "")
        self._emit(events.Triggered, how=how, phases=list(timeline.phases))

    def _heal(self) -> tuple[list[str], list[str]]:
        if not self.journal.entries:
            return [], []
        self._healing = True
        late: str | None = None
        try:
            late = self.runner.makes_up(self._began) if self.runner is not None else None
        finally:  # also where it is interrupted just here
            waking.namespaces_again(self.cluster, self.scene)
            undone, problems = self.journal.undo_all()
        for fault in self.faults:
            left = [entry.problem for entry in self.journal.open if entry.owner == fault.name]
            self._emit(events.FaultHealed, fault=fault.name, problem="; ".join(left))
            if (left_over := fault.leaves(self.stage)) is not None:
                self._note(left_over)
        steady = not problems and not late and self._steady_again()
        if late and not problems:
            self._note(late)
        elif not steady and not problems:
            self._note(f"everything is put back, but the steady state is not: {self._unsteady() or ''}")
        problems += self._account.close(self.stage.run, self.journal.entries, self._note)
        self._emit(events.Healed, undone=undone, problems=problems, steady_again=steady)
        return undone, problems

    def _steady_again(self) -> bool:
        if self.progress is None:
            return True
        self._dirty = True
        self.progress = None
        self.scene.census.again()
        again = steady.steady(self.scene, self.kill_path, self.layer, healed=True)
        self.stage.wait("the GPUs to be on again", lambda: again() or self._never_again(), self.options.heal_timeout_s)
        return again()

    def _finish(self, verdict: DrillResult | None, healed: tuple[list[str], list[str]]) -> DrillResult:
        assert verdict is not None
        for said in self.cluster.assumptions():
            self._note(str(said))
        ledger = self.ledger.and_also(keeping.told_by_cluster(self.cluster.assumptions()))
        self._emit(events.LedgerKept, entries=[entry.to_json() for entry in ledger.telling], counts=ledger.counts)
        return replace(
            verdict,
            healed=tuple(healed[0]),
            problems=tuple(healed[1]),
            notes=tuple(self.notes),
            sandbox=self.cluster.sandbox,
            ledger=ledger,
        )
