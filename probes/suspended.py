"""Schedules that do not fire."""

from __future__ import annotations

from collections.abc import Iterable

from killcheck.probes.base import Finding, Probe, merge_patch
from killcheck.probes.world import World

from killcheck.kube.objects import dig

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
        for _, obj in world.schedules:
            if dig(obj, "spec", "suspend") is True:
                yield self.finding(
                    world,
                    obj,
                    ("spec", "suspend"),
                    "is suspended: it never fires, and says nothing",
                    patch=merge_patch(obj, {"spec": {"suspend": False}}),
                )
