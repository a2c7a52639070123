"""What an idle monitor, or a worker that ends itself, takes for use never ends."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import ClassVar

from killcheck.capabilities.offered import Capability
from killcheck.capabilities.programs import Ran
from killcheck.faults.base import Evidence, Fault, Plan
from killcheck.layers.base import LayerRun, Stage
from killcheck.spec.killpath import Layer, LayerType

__all__ = ["NeverIdle"]


class NeverIdle(Fault):
    """Reproduces row 40: a monitor whose requests count, a metric whose exporter hangs at its last value.

    The spec's own ``busy`` makes a request of the target: here something makes one every few minutes, and no work.
    """

    name = "never-idle"
    simulates = "what it takes for use never ends: something makes requests all night, and none of them is work"
    family = "rivals"
    shows = Evidence.TARGETS
    failures = (40,)
    needs = (Capability.PROGRAMS,)
    outside = True
    #: Requests in one idle delay: none of them is ever whole.
    in_one_delay_count: ClassVar[int] = 3

    def __init__(self) -> None:
        self._made: list[Ran] = []
        self._failed: Ran | None = None
        self._over = False

    def unsuited_layer(self, layer: Layer) -> str | None:
        """Only where something waits for idleness, and the spec says what use is."""
        if layer.type not in (LayerType.IDLE_MONITOR, LayerType.SELF_TERMINATING) or not layer.idle_s:
            return "the layer waits for no idleness"
        return None if layer.busy is not None else "the spec gives no busy command that makes a request"

    def plan(self, stage: Stage, layer: LayerRun) -> Plan:
        """The spec's own request, again and again."""
        name = layer.layer.name
        return Plan((f"{name}: {layer.layer.busy} is run again and again",), edits=(f"what {name} takes for use",))

    def inject(self, stage: Stage, layer: LayerRun) -> Sequence[str]:
        """Make the first request, and the next ones as time passes."""
        self._again(stage, layer)
        return [f"{layer.layer.busy} is run every {self._every_s(layer):.0f} s"]

    def _every_s(self, layer: LayerRun) -> float:
        return (layer.layer.idle_s or 0.0) / self.in_one_delay_count

    def _again(self, stage: Stage, layer: LayerRun) -> None:
        busy = layer.layer.busy
        if self._over or busy is None:
            return
        stage.programs.start(busy, self._heard)
        stage.cluster.loop.call_later(self._every_s(layer), lambda: self._again(stage, layer))

    def _heard(self, ran: Ran) -> None:
        if ran.ok:
            self._made.append(ran)
        else:
            self._failed = ran

    def bitten(self, stage: Stage, layer: LayerRun) -> str | None:
        """Requests were made up to now, from before the trigger on, and no whole idle delay was between two."""
        ends = [one.ended for one in self._made]
        if stage.timeline is None or self._failed is not None or len(ends) < self.in_one_delay_count:
            return None
        gaps = [(later - earlier).total_seconds() for earlier, later in pairwise(ends)]
        if ends[-1] <= stage.timeline.start or max(gaps) >= (layer.layer.idle_s or 0.0):
            return None
        last = self._made[-1]
        return f"{last.command} was run {len(ends)} times since {ends[0]:%H:%M:%S}, at {ends[-1]:%H:%M:%S} the last"

    def missed(self) -> str | None:
        """A request failed: what it would have been taken for was not seen."""
        return None if self._failed is None else f"a request failed, {self._failed.told}"

    def react(self, stage: Stage, layer: LayerRun) -> float | None:
        """Look again after the next request: that it goes on shows in no change of the cluster's."""
        return None if self._over or self.bitten(stage, layer) else self._every_s(layer)

    def leaves(self, stage: Stage) -> str | None:
        """Nothing: it makes no more requests."""
        self._over = True
        return None
