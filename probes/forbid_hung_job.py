"""Jobs that can hang and so stop every later firing."""

from __future__ import annotations

from collections.abc import Iterable

from killcheck.probes.base import Finding, Probe, merge_patch
from killcheck.probes.schedules import period_s
from killcheck.probes.world import World

from killcheck.kube.objects import dig

__all__ = ["ForbidHungJob"]


class ForbidHungJob(Probe):
    """A pod that cannot pull never counts as failed: the Job stays active, and Forbid skips every later night."""

    id = "forbid-hung-job"
    claim = "A Job that cannot start ends before the next firing."
    remedy = "Set jobTemplate.spec.activeDeadlineSeconds well below the time between two firings."
    failures = (8,)
    sources = ("KK#101584", "KK#66756", "hystax/optscale#568")

    def ask(self, world: World) -> Iterable[Finding]:
        """Layers with concurrencyPolicy Forbid."""
        for _, obj in world.schedules:
            if dig(obj, "spec", "concurrencyPolicy") != "Forbid":
                continue
            path = ("spec", "jobTemplate", "spec", "activeDeadlineSeconds")
            limit, period = dig(obj, *path), period_s(obj, world.now)
            patch = merge_patch(obj, {"spec": {"jobTemplate": {"spec": {"activeDeadlineSeconds": 900}}}})
            if limit is None:
                message = "Forbid without activeDeadlineSeconds: one Job that cannot start skips every later night"
                yield self.finding(world, obj, ("spec", "concurrencyPolicy"), message, patch=patch, also=[(obj, path)])
            elif period is not None and limit >= period:
                message = f"Forbid with activeDeadlineSeconds {limit}, and the next firing comes after {period:.0f} s"
                yield self.finding(world, obj, path, message, patch=patch if period > 1800 else "")
