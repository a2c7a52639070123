"""Targets that take too long to stop."""

from __future__ import annotations

from collections.abc import Iterable

from killcheck.probes.base import Finding, Probe
from killcheck.probes.world import World

from killcheck.kube.objects import dig

__all__ = ["SlowStop"]


class SlowStop(Probe):
    """Zero replicas is not zero pods: a Terminating pod holds its GPUs until grace, preStop and finalizers are done."""

    id = "slow-stop"
    claim = "A target's pods are gone well before the deadline for it."
    remedy = "Shorten terminationGracePeriodSeconds and preStop, drop the finalizer, or allow more: deadlines.podsGone."
    failures = (35, 36)
    sources = ("Juniper/contrail-operator#480", "KEP-3973", "KK#127917", "kubernetes-sigs/kueue#13830")

    def ask(self, world: World) -> Iterable[Finding]:
        """Grace against the deadline, one pod after the other for an ordered StatefulSet; finalizers on pods."""
        for obj, template in world.target_templates:
            grace = int(dig(template.spec, "terminationGracePeriodSeconds", default=30))
            ordered = obj.get("kind") == "StatefulSet" and dig(obj, "spec", "podManagementPolicy") != "Parallel"
            total = grace * max(1, template.count if ordered else 1)
            limit = min(world.kill_path.deadlines.pods_gone_s, _LONGEST_S)
            if total >= limit:
                one_by_one = f" ({template.count} pods, one after the other)" if ordered and template.count > 1 else ""
                yield self.finding(
                    world,
                    obj,
                    (*template.path, "terminationGracePeriodSeconds"),
                    f"may hold its GPUs for {total} s after the trigger{one_by_one}; the deadline is {limit:.0f} s",
                )
            finalizers = dig(template.metadata, "finalizers")
            if finalizers:
                yield self.finding(
                    world,
                    obj,
                    (*template.path[:-1], "metadata", "finalizers"),
                    f"its pods wait for {', '.join(finalizers)} before they go: without its owner they stay for ever",
                )


#: Seconds: where no spec says more, no GPU pod should take longer to stop.
_LONGEST_S = 900.0
