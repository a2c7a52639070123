"""What a drill comes to: proven by whom, or stuck where and why; what was not seen is not proven.

What may *not* live here: waiting for anything.
"""

from __future__ import annotations

import math
from datetime import datetime, timedelta
from typing import Any, cast

from killcheck import diagnosis, events
from killcheck.clock import wall_now
from killcheck.drill.attribution import Attribution, Bystanders
from killcheck.drill.night import Missed, Relight, WorksOnce
from killcheck.drill.watching import Inconclusive, Watched
from killcheck.faults import surviving
from killcheck.faults.base import Evidence
from killcheck.kube import machineless
from killcheck.kube.objects import condition, format_time, name_of, namespace_of, ref_of
from killcheck.ledger import injection, keeping, left_on, unread
from killcheck.spec.killpath import KillPath, Target
from killcheck.spec.phases import stuck_before, words_of
from killcheck.text import lazy_re
from killcheck.text.durations import format_duration
from killcheck.text.problems import folded
from killcheck.verdict import DrillResult, Verdict
from killcheck.watch.cost import MONTH_H, Meter, bill
from killcheck.watch.noticing import noticed
from killcheck.watch.scene import asked_for

__all__ = ["Judged"]


#: How the scheduler says that a claim is not there.
_NO_CLAIM = lazy_re.compile(r'persistentvolumeclaim "([^"]+)" not found')


def _orchestrator(kill_path: KillPath) -> float | None:
    """What the machine costs an hour that starts and stops fleets, however many of them; None: nobody says."""
    said = (t.machines.orchestrator_usd_per_hour for t in kill_path.targets if t.machines)
    return next((price for price in said if price is not None), None)


def _orchestrator_told(usd_per_hour: float | None) -> str | None:
    return None if usd_per_hour is None else f"its orchestrator bills ${usd_per_hour * MONTH_H:.2f} a month by itself"


class Judged(Watched):
    """A drill that says what it saw."""

    # -- 6: judge ------------------------------------------------------------------------------------------
    def _judge(self) -> DrillResult:
        """What it comes to. Raises Inconclusive where that was not seen."""
        self.scene.assert_sound()
        self.journal.guard()
        if self._layer_run.unproven():
            raise Inconclusive(self._layer_run.unproven())
        self._refuse_unbitten()
        return self._too_far() or self._still_on() or self._relit() or self._off()

    def _still_on(self) -> DrillResult | None:
        """A phase did not come; None: all did."""
        assert self.progress is not None
        missing = self.progress.missing()
        nodes_alone = missing in ("node_drained", "node_gone") and "pods_gone" in self.progress.timeline.reached
        hand = self._hand(self._zero_at()) if nodes_alone else None
        left = self._left_on() if hand and hand.layer else []
        if hand and left:
            return self._stays_on(left, hand)
        return self._exposed(missing) if missing else None

    def _relit(self) -> DrillResult | None:
        """It went off, and on again; None: it stays off."""
        self._count_again()
        return self._not_for_long(self._relight) if self._relight is not None and self._failed_later() else None

    def _off(self) -> DrillResult:
        """All came, and it stays off: who did it, and what speaks against that all the same."""
        hand = self._hand(self._zero_at())
        self._bystanders.refuse_own_answers(self._began, own=hand.layer == self.layer.name)
        found = self._flawed(hand) or self._unnoticed(hand) or self._never_pulled(hand)
        if found is not None:
            return found
        if hand.layer and self._unjudged:
            raise Inconclusive(f"the GPU pods went off ({hand.evidence}), but {self._unjudged}")
        left = self._left_on() if hand.layer else []
        if left:
            return self._stays_on(left, hand)
        self._keep_ledger(hand)
        if hand.layer == self.layer.name:
            self._refuse_belied()
            self._note_other_nights()
            return self._result(
                Verdict.SURVIVED, f"{self.layer.name} turned the GPUs off: {hand.evidence}", off_by=hand.layer
            )
        if hand.layer:
            return self._result(
                Verdict.COVERED, f"{self.layer.name} did not, {hand.layer} did: {hand.evidence}", off_by=hand.layer
            )
        raise Inconclusive("; ".join([hand.evidence, *self._bystanders.blind]))

    def _flawed(self, hand: Attribution) -> DrillResult | None:
        """The layer itself did not hold what it promises; None: nothing says so."""
        flaw = self._layer_run.flaw()
        if not flaw:
            return None
        return self._result(Verdict.EXPOSED, flaw, off_by=hand.layer, cause=flaw, remedy=self._layer_run.remedy)

    def _unnoticed(self, hand: Attribution) -> DrillResult | None:
        """A witness that was to speak did not; None: all that were asked did."""
        assert self.progress is not None
        for said in self.witnesses.heard(stayed_on=False):
            self._note(said)
        lack = self.witnesses.lack(self.progress.timeline, self.cluster.loop.now())
        if lack is None:
            return None
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

    def _never_pulled(self, hand: Attribution) -> DrillResult | None:
        """It works when it is pulled by hand, and no schedule ever pulls it; None: one does."""
        forecast = self._layer_run.forecast()
        if hand.layer != self.layer.name or forecast is None or not forecast.never:
            return None
        cause = f"{forecast.never}: pulled by hand it turned the GPUs off, and nothing ever pulls it"
        return self._result(
            Verdict.EXPOSED, cause, off_by=hand.layer, stuck_at="triggered", cause=cause, remedy=forecast.remedy
        )

    def _note_other_nights(self) -> None:
        """That nights go by in which it does not fire, where no other layer of its targets ever does.

        Another that fires may fire in just those nights: lint takes the schedules of all together.
        """
        forecast = self._layer_run.forecast()
        others = [run.forecast() for run in self._bystanders.runs.values()]
        if forecast is None or forecast.nightly or any(one is None or not one.never for one in others):
            return
        gap_h = (forecast.longest_gap_s or 0.0) / 3600.0
        usd = f", ${self._usd_per_hour * gap_h:,.0f} at this drill's rate" if self._usd_per_hour else ""
        self._note(
            f"up to {gap_h:.0f} h pass between two firings: what is turned on after one bills until the next{usd}"
        )

    def _keep_ledger(self, hand: Attribution) -> None:
        """What the verdict rests on, where a layer turned it off. Raises Inconclusive while an entry is open."""
        if hand.layer:
            doubts = list(self._layer_run.doubts())
            if hand.layer in self._bystanders.runs:  # what covers is no surer than it is by itself
                doubts += self._bystanders.runs[hand.layer].doubts()
            by = next((one for one in self.kill_path.layers if one.name == hand.layer), None)
            self.ledger = keeping.of_drill(self.cluster, self.kill_path, self.layer, doubts, by=by)
        if self.ledger.open:
            raise Inconclusive(self.ledger.verdict())

    def _too_far(self) -> DrillResult | None:
        """A fleet that went past what the spec allows it, however it ended; None: none was seen to."""
        census = self.scene.census
        for passed in filter(None, (census.peaks.passed(target) for target in census.targets)):
            return self._result(
                Verdict.EXPOSED,
                passed.cause,
                cause=passed.cause,
                remedy=passed.remedy,
                evidence=passed.evidence,
                failures=(58,),
            )
        return None

    def _count_items(self) -> None:
        """What an item came to, up to now."""
        self.items.end(self.meter.usd(self._settled or self.cluster.loop.now()))
        for said in (self.items.told(), _orchestrator_told(_orchestrator(self.kill_path))):
            if said:
                self._note(said)

    def _refuse_unbitten(self) -> None:
        """Raises Inconclusive where nothing was seen to meet a fault."""
        unbitten = [f for f in self.faults if f.name not in self.bites]
        if not unbitten:
            return
        names, unknown = ", ".join(f.name for f in unbitten), self._not_run()
        if unknown:  # what was not run meets nothing: that is no want of teeth
            raise Inconclusive(f"{'; '.join(unknown)}; so nothing was seen to meet {names}")
        missed = [why for f in unbitten if (why := f.missed()) is not None]
        if missed:
            raise Inconclusive(f"{names} did not bite: {'; '.join(missed)}")
        raise Inconclusive(
            f"{names} did not bite: the fault was put in place, and nothing was seen to meet it "
            f"({' or '.join(dict.fromkeys(f.shows for f in unbitten))}), so nothing is proven{self._unread()}"
        )

    def _refuse_belied(self) -> None:
        """Raises Inconclusive where the layer survived what only its silence spoke for."""
        said = [f"{f.name} did not bite: {why}" for f in self.faults if (why := f.belied(self._layer_run)) is not None]
        if said:
            raise Inconclusive("; ".join(said))

    def _not_run(self) -> list[str]:
        """What was to run here and did not: pods of killcheck's own, and those of the layer's own run."""
        pods = [{"kind": "Pod", **pod} for pod in self.stage.observations.pods.values()]
        own = [f"{ref_of(pod)}: {why}" for pod in pods if (why := machineless.why_not_run(pod)) is not None]
        return list(folded([*self.cluster.unknowns(), *own]))

    def _left_on(self) -> list[Target]:
        """Targets that no layer turns off, that hold GPUs still, and of which nobody says that they are meant to."""
        today = wall_now().date()
        return [
            target
            for target in left_on.uncovered(self.kill_path)
            if target.kind and self.scene.holding(target) and not left_on.meant_to_stay(self.kill_path, target, today)
        ]

    def _stays_on(self, left: list[Target], hand: Attribution) -> DrillResult:
        """The layer turned off what it covers, and the path has targets that nothing turns off."""
        named = ", ".join(map(str, left))
        cause = f"{named} {'hold' if len(left) > 1 else 'holds'} GPUs still: no layer of the kill path turns it off"
        now = self._settled or self.cluster.loop.now()
        firing, rate, usd = self._layer_run.next_chance(now), self._rate_of(left), self.meter.usd(now)
        more = None if firing is None or rate is None else rate * (firing - now).total_seconds() / 3600.0
        return self._result(
            Verdict.EXPOSED,
            f"{hand.layer} turned off what {self.layer.name} covers ({hand.evidence}), but {cause}",
            off_by=hand.layer,
            stuck_at="pods_gone",
            cause=cause,
            remedy="let a layer cover it, or say under assume: why it stays on",
            evidence=tuple(str(pod) for target in left for pod in self.scene.holding(target)),
            failures=(39,),
            next_chance=format_time(firing) if firing else "",
            usd_until_next_chance=None if more is None or usd is None else usd + more,
        )

    def _rate_of(self, left: list[Target]) -> float | None:
        """Dollars an hour of what targets hold that nothing turns off; None: not known."""
        meter = Meter(self.meter.price, self.meter.overrides, spot=self.meter.spot)
        for held in (one for target in left for one in self.scene.holding(target)):
            node = self.scene.nodes.get(held.node)
            if node is not None:
                meter.count(node, self.cluster.loop.now())
        return meter.rate()

    def _unread(self) -> str:
        """A log that could not be read may be why there is no evidence, and no want of teeth."""
        unread = next(iter(self.stage.observations.unread.values()), None)
        return f" (the log could not be read: {unread})" if unread is not None else ""

    @property
    def _bystanders(self) -> Bystanders:
        assert self.bystanders is not None
        return self.bystanders

    def _zero_at(self) -> datetime:
        assert self.progress is not None
        reached = self.progress.timeline.reached
        covered = [target for target in self.kill_path.covered_by(self.layer) if target.kind]
        asking = [obj for target in covered for obj in self.scene.objects_of(target) if asked_for(obj)]
        taken_out = self._bystanders.taken_out_at(asking)
        if "scale_written" not in reached and taken_out is not None:
            return taken_out  # its replicas go on without GPUs: they were rolled one by one after that
        return next(reached[one] for one in ("scale_written", "pods_gone", "instance_gone") if one in reached).at

    def _hand(self, zero_at: datetime) -> Attribution:
        assert self.progress is not None
        return self._bystanders.judge(self._layer_run, zero_at, self.progress.writer, altered=self.stage.altered)

    def _exposed(self, missing: str) -> DrillResult:
        """A phase did not come, or came too late: why. Raises Inconclusive where it may have, unseen."""
        assert self.progress is not None
        self._refuse_unwatched(missing)
        self._refuse_to_guess(missing)
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
            why = f"{missing} came after {at_s:.0f} s; its deadline is {timeline.deadline_s(missing):.0f} s"
        else:
            why = stuck_before(stuck)
        now = self.cluster.loop.now()
        return self._result(
            Verdict.EXPOSED,
            why,
            stuck_at=stuck,
            cause=found.cause,
            remedy=remedy,
            evidence=found.evidence,
            failures=found.failures,
            **self._until_next(now, now),
        )

    def _until_next(self, since: datetime, seen: datetime) -> dict[str, Any]:
        """When the layer gets another chance, and the dollars until then.

        That is what was billed up to ``seen``, and what bills from ``since`` on.
        """
        chance = self._layer_run.next_chance(self.cluster.loop.now() + timedelta(seconds=1))
        rate, usd = self.meter.rate(), self.meter.usd(seen)
        until = None
        if chance is not None and rate is not None and usd is not None:
            until = usd + rate * (chance - since).total_seconds() / 3600.0
        return {"next_chance": format_time(chance) if chance else "", "usd_until_next_chance": until}

    def _refuse_unwatched(self, missing: str) -> None:
        """Raises Inconclusive where a phase may have come elsewhere, or unseen."""
        assert self.progress is not None
        unknown = [
            *self._not_run(),
            *self._bystanders.own_answers(self._began),
            *self.witnesses.unknown(missing),
            *self._not_injected(),
            *self._without_volumes(),
            *self._placeholders(),
        ]
        if unknown:
            raise Inconclusive("; ".join(unknown))
        gap = self.progress.unwatched_until
        if missing == "held" and gap is not None:
            raise Inconclusive(
                f"the watch was interrupted until {gap:%H:%M:%S}: whether it held was not seen for long "
                "enough (--watch goes on for longer)"
            )

    def _not_injected(self) -> list[str]:
        """What an injector would have brought to the layer's pods, where they wrote nothing without it."""
        assert self.progress is not None
        ref = self.layer.cron_job or self.layer.workload
        if self.cluster.real or ref is None or "scale_written" in self.progress.timeline.reached:
            return []
        found = injection.brought(self.cluster.inventory().objects, ref, self.stage.observations.logs.values())
        return [found] if found is not None else []

    def _placeholders(self) -> list[str]:
        """Secrets that the layer's pods read and of which only a placeholder was here, where they wrote nothing.

        A fault that the program itself named is why it failed, whatever it read.
        """
        assert self.progress is not None
        named = any(fault.shows is Evidence.EXECUTOR for fault in self.faults)
        if self.cluster.real or named or "scale_written" in self.progress.timeline.reached:
            return []
        seen = self.stage.observations
        return unread.stood_in(self.cluster.inventory().objects, seen.pods.values(), seen.logs)

    def _without_volumes(self) -> list[str]:
        """PersistentVolumeClaims that the layer's pods wait for and that no manifest holds: state is made by hand."""
        if self.cluster.real:
            return []
        claims = {ref_of(obj) for obj in self.cluster.inventory().objects if obj.get("kind") == "PersistentVolumeClaim"}
        waiting = [
            (pod, _NO_CLAIM.search(str((condition(pod, "PodScheduled") or {}).get("message"))))
            for pod in self.stage.observations.pods.values()
        ]
        needed = {f"PersistentVolumeClaim/{namespace_of(pod)}/{found[1]}": pod for pod, found in waiting if found}
        return [
            f"Pod {namespace_of(pod)}/{name_of(pod)} needs {claim}, which is not among the manifests: add one like it, "
            "or drill it on a real cluster (--on CONTEXT)"
            for claim, pod in needed.items()
            if claim not in claims
        ]

    def _refuse_to_guess(self, missing: str) -> None:
        """A watch that was cut short proves neither that it comes nor that it does not.

        Raises Inconclusive, unless nothing more can come of the layer, or it was seen why nothing does.
        """
        assert self.progress is not None
        layer, timeline, now = self._layer_run, self.progress.timeline, self.cluster.loop.now()
        left_s = self.progress.not_watched_s(missing, now)
        if left_s is None or layer.not_fired() is not None:
            return
        watched_s = (now - timeline.start).total_seconds()
        went = {"scale_written", "pods_terminating", "pods_gone", "instance_gone"} & set(timeline.reached)
        due = watched_s >= (self.layer.idle_s or 0.0)  # before that nobody expects it to act
        stuck = self.progress.stuck_at(missing)
        seen = layer.flaw() or (due and layer.explain(stuck) is not None)
        if seen or (not went and (layer.over() or diagnosis.executor_fails(self._case(stuck)))):
            return
        raise Inconclusive(
            f"the watch ended after {format_duration(watched_s)}, before '{words_of(missing)}' could be told: "
            f"--watch {format_duration(math.ceil(watched_s + left_s))} is long enough"
        )

    def _not_for_long(self, relight: Relight | Missed | WorksOnce) -> DrillResult:
        """Off and proven; then on again in the same night by nobody who was meant to, or not to go off in the next.

        Raises Inconclusive where the next firing met what only this cluster says, or could not be run here.
        """
        if isinstance(relight, Relight):
            self._emit(events.PhaseLost, phase="held", why=relight.cause)
        elif isinstance(relight, WorksOnce):
            unknown = [*self._not_run(), *self._bystanders.own_answers(self._settled or self._began)]
            if unknown:
                raise Inconclusive(f"{relight.cause}, and that rests on {'; '.join(unknown)}")
        now = self.cluster.loop.now()
        # What another night leaves on bills from then, and not for the nights between that were played in between.
        since, seen = (now, now) if isinstance(relight, Relight) else (relight.at, self._settled or now)
        return self._result(
            Verdict.EXPOSED,
            f"it went off, and did not hold through the night: {relight.cause}"
            if isinstance(relight, Relight)
            else f"it went off, and would not the next time: {relight.cause}",
            stuck_at=relight.stuck_at,
            cause=relight.cause,
            remedy=surviving.remedy(self.faults) or relight.remedy,
            evidence=relight.evidence,
            failures=relight.failures,
            **self._until_next(since, seen),
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
            noticed=self._noticed(now) if timeline and verdict is Verdict.EXPOSED and self.meter.rate() != 0 else None,
            schedule=forecast.to_json() if forecast else None,
            phases=tuple(timeline.rows()) if timeline else (),
            bites=dict(self.bites),
            title=self.options.title,
            gpu_pods=self._gpu_pods() if timeline else (),
            kubernetes=self.cluster.kubernetes,
            not_run=tuple(dict.fromkeys(why for _, why in self.cluster.not_run())),
            **more,  # type: ignore[arg-type]
        )

    def _gpu_pods(self) -> tuple[str, ...]:
        later = self._relight is not None and self._failed_later()
        return self._left if self._left is not None and not later else tuple(str(p) for p in self.scene.gpu_pods())

    def _noticed(self, now: datetime) -> dict[str, Any] | None:
        """The dollars until who notices, at what bills now where that is later than what was watched."""
        assert self.progress is not None

        def usd(at: datetime) -> float | None:
            so_far, rate = self.meter.usd(min(at, now)), self.meter.rate()
            if so_far is None or rate is None:
                return None
            return so_far + rate * max(0.0, (at - now).total_seconds()) / 3600.0

        return noticed(self.kill_path.noticed, self.progress.timeline.start, self.witnesses.alert_s(), usd)

    def _bill(self, now: datetime, until_next_chance: object) -> dict[str, Any]:
        return (
            bill(
                usd=self.meter.usd(now),
                gpu_hours=self.meter.gpu_hours(now),
                rate=self._usd_per_hour,
                until_next_chance=cast("float | None", until_next_chance),
                items_per_hour=self.kill_path.items_per_hour,
                orchestrator_usd_per_hour=_orchestrator(self.kill_path),
                spot_share=self.meter.spot_share(now),
            )
            | self.items.bill()
            | self.charging.bill(self.meter.counted(), now)
        )
