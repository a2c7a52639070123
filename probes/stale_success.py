"""Switches that have not worked for a while."""

from __future__ import annotations

from collections.abc import Iterable

from killcheck.probes.base import Finding, Probe
from killcheck.probes.schedules import period_s
from killcheck.probes.world import World, namespace_or_default

from killcheck.kube.objects import Obj, annotations_of, dig, name_of, parse_time

__all__ = ["StaleSuccess"]


class StaleSuccess(Probe):
    """lastSuccessfulTime tells when it last ended well - and a Job made by hand from the CronJob advances it too."""

    id = "stale-success"
    claim = "Each layer's CronJob succeeded at its latest firings, by itself."
    remedy = "Look at its Jobs and their pods now; then 'killcheck drill' it."
    failures = (7, 8)
    sources = ("hystax/optscale#568", "recording 01b: a Job made with --from sets lastSuccessfulTime")

    def ask(self, world: World) -> Iterable[Finding]:
        """From the status of the layers' CronJobs."""
        for _, obj in world.schedules:
            scheduled, succeeded = (dig(obj, "status", key) for key in ("lastScheduleTime", "lastSuccessfulTime"))
            period = period_s(obj, world.now)
            if scheduled is None or period is None:
                continue
            path = ("status", "lastSuccessfulTime")
            if succeeded is None:
                yield self.finding(world, obj, path, f"fired at {scheduled} and never succeeded")
                continue
            behind = (parse_time(scheduled) - parse_time(succeeded)).total_seconds()
            late = (world.now - parse_time(scheduled)).total_seconds()
            if behind > period:
                message = f"last succeeded at {succeeded}, and went on firing until {scheduled}"
                yield self.finding(world, obj, path, message, also=[(obj, ("status", "lastScheduleTime"))])
            elif late > 2 * period + 3600:
                yield self.finding(world, obj, ("status", "lastScheduleTime"), f"has not fired since {scheduled}")
            yield from self._masked(world, obj, succeeded)

    def _masked(self, world: World, obj: Obj, succeeded: str) -> Iterable[Finding]:
        """A success that a Job made by hand brought about."""
        for job in world.in_namespace("Job", namespace_or_default(obj)):
            manual = annotations_of(job).get("cronjob.kubernetes.io/instantiate") == "manual"
            if manual and dig(job, "status", "completionTime") == succeeded:
                message = f"its last success, {succeeded}, is that of {name_of(job)}, a Job made by hand"
                yield self.finding(world, obj, ("status", "lastSuccessfulTime"), message, severity="warning")
