"""Quotas on objects that the finished Jobs of a schedule fill."""

from __future__ import annotations

from collections.abc import Iterable

from killcheck.probes.base import Finding, Probe
from killcheck.probes.world import World, namespace_or_default

from killcheck.kube.objects import Obj, dig, ref_of
from killcheck.kube.quantities import parse

__all__ = ["QuotaHistory"]

#: What a CronJob keeps where it does not say (pkg/apis/batch/v1/defaults.go): Jobs that succeeded, that failed.
_KEPT = (3, 1)
#: Quotas that count Jobs, or their pods, also when they have ended (plugin: quota/v1/generic, object counts).
_COUNTS = ("count/jobs.batch", "count/pods")


class QuotaHistory(Probe):
    """Finished Jobs count: a quota that the history fills refuses the next night's Job (exceeded quota)."""

    id = "quota-history"
    claim = "The Jobs that schedules keep leave room in the quota for the one that turns GPUs off."
    remedy = "Raise the quota, keep fewer (successfulJobsHistoryLimit), or set ttlSecondsAfterFinished."
    failures = (11,)
    sources = ("kubernetes pkg/quota/v1/generic/evaluator.go", "pkg/controller/cronjob/cronjob_controllerv2.go")
    needs = ("ResourceQuota",)

    def ask(self, world: World) -> Iterable[Finding]:
        """Quotas without scopes, in namespaces of switches: what their schedules and Jobs keep, and one more."""
        spaces = {namespace_or_default(obj) for _, obj in world.schedules}
        for quota in world.of("ResourceQuota"):
            space = namespace_or_default(quota)
            if space not in spaces or dig(quota, "spec", "scopes") or dig(quota, "spec", "scopeSelector"):
                continue
            for name, hard in dig(quota, "spec", "hard", default={}).items():
                if name in _COUNTS:
                    yield from self._told(world, quota, name, int(parse(str(hard))), space)

    def _told(self, world: World, quota: Obj, name: str, hard: int, space: str) -> Iterable[Finding]:
        schedules = [obj for obj in world.of("CronJob") if namespace_or_default(obj) == space]
        stand = sum(namespace_or_default(obj) == space for obj in world.of("Job")) if name == _COUNTS[0] else 0
        well = sum(_kept(obj, 0) for obj in schedules) + stand
        failed = sum(_kept(obj, 1) for obj in schedules)
        if well + failed < hard:
            return
        switch = next(ref_of(obj) for _, obj in world.schedules if namespace_or_default(obj) == space)
        kept = f"{well} finished" if well >= hard else f"{well} finished and {failed} failed"
        yield self.finding(
            world,
            quota,
            ("spec", "hard", name),
            f"allows {hard} of {name}, and {kept} Jobs are kept: the next of {switch} is refused (exceeded quota)",
            severity="error" if well >= hard else "warning",
        )


def _kept(cron_job: Obj, failed: int) -> int:
    """How many of its Jobs a schedule keeps; none where they go by themselves after they have ended."""
    field = ("successfulJobsHistoryLimit", "failedJobsHistoryLimit")[failed]
    if dig(cron_job, "spec", "jobTemplate", "spec", "ttlSecondsAfterFinished") is not None:
        return 0
    found = dig(cron_job, "spec", field)
    return found if isinstance(found, int) else _KEPT[failed]
