"""What happens to a fleet that is rented machine by machine: work piles up, cheap offers go, its orchestrator dies.

On the embedded cluster's market alone: nobody's money is spent to see how far a fleet would go.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from functools import partial
from typing import ClassVar

from killcheck.capabilities.offered import Capability, present
from killcheck.faults.base import Evidence, Fault, FaultError, Plan
from killcheck.layers.base import LayerRun, Stage
from killcheck.spec.killpath import KillPath, Layer, LayerType, Target

__all__ = ["OffersGone", "OrchestratorDead", "WorkPilesUp"]

_WAITS = (LayerType.IDLE_MONITOR, LayerType.SELF_TERMINATING)


def _fleets(kill_path: KillPath, layer: Layer) -> list[Target]:
    return [target for target in kill_path.covered_by(layer) if target.machines is not None]


class WorkPilesUp(Fault):
    """Reproduces row 58 outside Kubernetes: the queue fills, and what was rented for it does not come up.

    An orchestrator that counts only machines that run rents one more at each look. How far it goes is counted, and
    ``machines.most`` says how far it may. Then the machines come up, and the work is done.
    """

    name = "work-piles-up"
    simulates = "work piles up, and what is rented for it hangs while it loads"
    family = "rivals"
    failures = (58,)
    needs = (Capability.PROGRAMS, Capability.MARKET)
    shows = Evidence.TARGETS
    outside = True
    #: Requests that are made at once; how long the fleet is watched at most, and after it has stopped to grow.
    made_count: ClassVar[int] = 12
    watched_s: ClassVar[float] = 1800.0
    settled_s: ClassVar[float] = 420.0

    def __init__(self) -> None:
        self._before: dict[str, int] = {}
        self._grown: list[str] = []
        self._failed = ""

    def unsuited_layer(self, layer: Layer) -> str | None:
        """Only where something waits for the end of work, and the spec says what work is."""
        if layer.type not in _WAITS:
            return "the layer does not wait for the work to end"
        return None if layer.busy is not None else "the spec gives no busy command that makes work"

    def unsuited_targets(self, kill_path: KillPath, layer: Layer) -> str | None:
        """Only where the spec says how far the fleet may go."""
        bounded = any(t.machines and t.machines.most is not None for t in _fleets(kill_path, layer))
        return None if bounded else "no target says how many machines may be on (machines: {most: N})"

    def plan(self, stage: Stage, layer: LayerRun) -> Plan:
        """The spec's own request, many times."""
        return Plan(
            (f"{layer.layer.busy} is run {self.made_count} times", self.simulates),
            edits=("the stand-in of the market",),
        )

    def inject(self, stage: Stage, layer: LayerRun) -> Sequence[str]:
        """Fill the queue, and watch the fleet grow until it stops; then let it come up."""
        busy, market = layer.layer.busy, present(stage.cluster.capabilities.market)
        if busy is None:
            raise FaultError(f"{self.name}: {self.unsuited_layer(layer.layer)}")
        self._before = self._counts(stage)
        stage.scene.census.meant |= self._before
        self._hinder(stage, layer)
        for _ in range(self.made_count):
            ran = stage.programs.run(busy)
            if not ran.ok:
                self._failed = ran.told
                break
        else:
            self._watch(stage, layer)
        market.stuck(False)
        market.gone.clear()
        return [f"{busy} was run {self.made_count} times: {self._told(stage)}"]

    def _hinder(self, stage: Stage, layer: LayerRun) -> None:
        present(stage.cluster.capabilities.market).stuck(True)

    def _watch(self, stage: Stage, layer: LayerRun) -> None:
        """Until a bound is passed, or nothing has changed for a while."""
        loop, census = stage.cluster.loop, stage.scene.census
        until, last, since = loop.monotonic() + self.watched_s, self._counts(stage), loop.monotonic()
        while loop.monotonic() < until and loop.monotonic() - since < self.settled_s:
            if any(census.peaks.passed(target) for target in census.targets):
                return
            loop.run_until(partial(self._differs, stage, last), self.settled_s)
            if self._counts(stage) != last:
                last, since = self._counts(stage), loop.monotonic()

    def _differs(self, stage: Stage, before: dict[str, int]) -> bool:
        return self._counts(stage) != before

    @staticmethod
    def _counts(stage: Stage) -> dict[str, int]:
        return {name: count.number for name, count in stage.scene.census.counts.items()}

    def _told(self, stage: Stage) -> str:
        peaks = stage.scene.census.peaks.highest
        self._grown = [
            f"{name} grew from {number} to {peaks[name].number}"
            for name, number in self._before.items()
            if name in peaks and peaks[name].number > number
        ]
        return "; ".join(self._grown) or "no machine more was rented"

    def bitten(self, stage: Stage, layer: LayerRun) -> str | None:
        """The fleet grew."""
        return "; ".join(self._grown) or None

    def missed(self) -> str | None:
        """The request failed, or nothing was rented for it."""
        return f"the request failed: {self._failed}" if self._failed else "no machine more was rented for the work"

    def leaves(self, stage: Stage) -> str | None:
        """Work that was not done is the spec's own."""
        return None


class OffersGone(WorkPilesUp):
    """The market has nothing any more at the price that the spec allows: only what is dearer is left.

    What falls back to any price has another bill by the morning; ``machines.maxUsdPerHour`` says what it may pay.
    """

    name = "offers-gone"
    simulates = "work comes, and every offer within the price is rented by others"
    failures = (52,)
    shows = Evidence.CALL

    def unsuited_targets(self, kill_path: KillPath, layer: Layer) -> str | None:
        """Only where the spec says what a machine may cost."""
        bounded = any(t.machines and t.machines.max_usd_per_hour is not None for t in _fleets(kill_path, layer))
        return None if bounded else "no target says what a machine may cost (machines: {maxUsdPerHour: N})"

    def _hinder(self, stage: Stage, layer: LayerRun) -> None:
        market = present(stage.cluster.capabilities.market)
        prices = [t.machines.max_usd_per_hour for t in _fleets(stage.kill_path, layer.layer) if t.machines]
        most = max(price for price in prices if price is not None)
        market.stuck(True)
        market.gone |= {str(one["id"]) for one in market.offers if float(one.get("dph_total") or 0.0) <= most}

    def bitten(self, stage: Stage, layer: LayerRun) -> str | None:
        """Somebody searched, and was not shown what had been there."""
        return next(iter(present(stage.cluster.capabilities.market).missed), None)

    def missed(self) -> str | None:
        """Nobody searched."""
        return f"the request failed: {self._failed}" if self._failed else "nobody searched the market for an offer"


class OrchestratorDead(Fault):
    """Reproduces row 44's other half: the orchestrator has crashed, and the workers alone are left to end the fleet."""

    name = "orchestrator-dead"
    simulates = "whoever else would end the fleet has crashed: its timers do not go off"
    family = "orchestrator"
    failures = (44,)
    needs = (Capability.TIMERS,)
    shows = Evidence.TRIED
    outside = True

    def __init__(self) -> None:
        self._stopped: list[str] = []

    @staticmethod
    def _others(kill_path: KillPath, layer: Layer) -> list[Layer]:
        return [
            one
            for one in kill_path.layers
            if one.name != layer.name and one.command and one.schedule and set(one.covers) & set(layer.covers)
        ]

    def unsuited_layer(self, layer: Layer) -> str | None:
        """Only workers that end themselves are meant to do without."""
        alone = layer.type is LayerType.SELF_TERMINATING and layer.command is not None
        return None if alone else "the layer is no worker that ends its own machine"

    def unsuited_targets(self, kill_path: KillPath, layer: Layer) -> str | None:
        """Only where there is anybody else."""
        return None if self._others(kill_path, layer) else "no timer of another layer would end its machines"

    def plan(self, stage: Stage, layer: LayerRun) -> Plan:
        """The other layers' timers."""
        names = [one.name for one in self._others(stage.kill_path, layer.layer)]
        return Plan(
            tuple(f"the timer of {name} is stopped" for name in names),
            edits=tuple(f"the machine's timer of {name}" for name in names),
        )

    def inject(self, stage: Stage, layer: LayerRun) -> Sequence[str]:
        """Stop them."""
        for one in self._others(stage.kill_path, layer.layer):
            stage.journal.call(
                Capability.TIMERS, f"stopped the timer of {one.name}", ["stop", one.name], ["start", one.name]
            )
            self._stopped.append(one.name)
        return [f"stopped the timer of {name}" for name in self._stopped]

    def bitten(self, stage: Stage, layer: LayerRun) -> str | None:
        """A slot of one has passed since the trigger, and nothing went off."""
        from killcheck.kube import schedule

        start: datetime | None = stage.timeline.start if stage.timeline else None
        if start is None:
            return None
        now = stage.cluster.loop.now()
        for one in self._others(stage.kill_path, layer.layer):
            slots = list(schedule.parse(one.schedule, one.time_zone or None).between(start, now))
            fired = [f for f in stage.programs.firings or () if f.layer == one.name and f.ran.begun >= start]
            if slots and not fired:
                return f"{one.name} was due at {slots[0]:%H:%M:%S}, and did not go off"
        return None

    def react(self, stage: Stage, layer: LayerRun) -> float | None:
        """Look again, for a slot that passes changes nothing."""
        return None if self.bitten(stage, layer) else 60.0
