"""Schedules that do not fire."""

from __future__ import annotations

from collections.abc import Iterable

from killcheck.probes.base import Finding, Probe, merge_patch
from killcheck.probes.world import World

from killcheck.kube.objects import dig
from killcheck.spec.killpath import Layer

__all__ = ["Suspended"]


class Suspended(Probe):
    """suspend: true raises no event and no warning; the switch simply never fires again."""

    id = "suspended"
    claim = "No layer's CronJob is suspended."
    remedy = "Set suspend: false. Beware: the latest slot that was missed may fire at once."
    failures = (7,)
    sources = ("kubernetes pkg/controller/cronjob/cronjob_controllerv2.go", "recording 18")

    def ask(self, world: World) -> Iterable[Finding]:
        """The layers' CronJobs."""
        for layer, obj in world.schedules:
            if dig(obj, "spec", "suspend") is True:
                beside = self._beside(world, layer)
                yield self.finding(
                    world,
                    obj,
                    ("spec", "suspend"),
                    "is suspended: it never fires, and says nothing"
                    + (f" ({beside} turns off what it would)" if beside else ""),
                    severity="note" if beside else None,
                    patch=merge_patch(obj, {"spec": {"suspend": False}}),
                )

    @staticmethod
    def _beside(world: World, layer: Layer) -> str:
        """A schedule that lives and covers all that the suspended one does; empty: there is none."""
        for other, obj in world.schedules:
            living = other.name != layer.name and dig(obj, "spec", "suspend") is not True
            if living and other.type is layer.type and set(layer.covers) <= set(other.covers):
                return other.name
        return ""
