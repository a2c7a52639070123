"""A reclaim that ends the work for good."""

from __future__ import annotations

from collections.abc import Iterable

from killcheck.probes.base import Finding, Probe
from killcheck.probes.world import World

from killcheck.discover.spot_pools import is_spot, lands_only_on
from killcheck.kube.objects import Obj, dig

__all__ = ["ReclaimEndsJob"]

_DISRUPTED = "DisruptionTarget"


class ReclaimEndsJob(Probe):
    """A pod that is evicted for a spot notice has failed; a Job without a retry left fails with it, checkpoint or not.

    Sources: kubernetes.io/docs: Jobs, "Pod failure policy" (immutable; action Ignore: not counted towards backoffLimit;
    a pod that is evicted through the API has the condition DisruptionTarget), and "Pod backoff failure policy".
    """

    id = "reclaim-ends-job"
    claim = "A Job on spot machines goes on after a reclaim."
    remedy = "Make it anew with a podFailurePolicy that ignores DisruptionTarget: a reclaim is then no failure."
    severity = "warning"
    failures = (52,)
    sources = ("kubernetes.io/docs: Jobs, pod failure policy", "pkg/controller/job (backoffLimit, podFailurePolicy)")
    needs = ("NodePool",)

    def ask(self, world: World) -> Iterable[Finding]:
        """GPU Jobs whose pods land on spot alone, and what their spec says of a pod that failed."""
        every = list(world.of("NodePool"))
        spot = [pool for pool in every if is_spot(pool)]
        for holder in world.holders if spot else ():
            job = holder.obj
            if job.get("kind") != "Job" or _retried(job) or not lands_only_on(job, spot, every):
                continue
            yield self.finding(
                world,
                job,
                ("spec", "backoffLimit"),
                "has no retry left (backoffLimit: 0) and lands on spot machines alone: the first reclaim ends it",
            )


def _retried(job: Obj) -> bool:
    """Whether a pod that is disrupted is made anew."""
    spec = job.get("spec") or {}
    if "backoffLimit" not in spec or int(spec["backoffLimit"]) > 0:
        return True
    rules = dig(spec, "podFailurePolicy", "rules", default=[])
    first: Obj = next(
        (rule for rule in rules if any(one.get("type") == _DISRUPTED for one in rule.get("onPodConditions") or ())),
        {},
    )
    return first.get("action") == "Ignore"
