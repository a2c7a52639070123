"""How long GPUs stay on before anybody looks."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import timedelta

from killcheck.probes.base import Finding, Probe
from killcheck.probes.schedules import schedule_of
from killcheck.probes.world import World

from killcheck.kube.objects import dig
from killcheck.spec.working_hours import working_hours
from killcheck.text import lazy_re

__all__ = ["Unnoticed"]

#: A weekend is in it.
_LOOKED_AT = timedelta(days=8)
#: Longer than one night, in seconds.
_LONG_S = 20 * 3600.0
_ABOUT = lazy_re.compile(r"(?i)DCGM_|gpu|kube_job_(status_)?failed")


class Unnoticed(Probe):
    """A layer that fails on a Friday night bills until somebody looks on Monday, unless an alert calls them."""

    id = "unnoticed"
    claim = "Where a layer fails, somebody looks, or an alert calls them, before a day is over."
    remedy = "Alert on idle GPUs and on the layer's failed Job (ci/prometheus/gpu-cost.yaml), and prove it by P5."
    severity = "note"
    failures = (15, 48)
    sources = ("killcheck.spec.working_hours: noticed: of a spec",)

    def ask(self, world: World) -> Iterable[Finding]:
        """The longest wait from a firing to the working hours that the spec states, where no alert is about it."""
        said = world.kill_path.noticed
        exprs = [
            str(rule.get("expr", ""))
            for obj in world.of("PrometheusRule")
            for group in dig(obj, "spec", "groups", default=[])
            for rule in group.get("rules") or ()
            if rule.get("alert")
        ]
        if said is None or any(map(_ABOUT.search, exprs)):
            return
        hours = working_hours(said.hours, said.time_zone)
        for _, cron_job in world.schedules:
            schedule = schedule_of(cron_job)
            fires = schedule.between(world.now, world.now + _LOOKED_AT) if schedule else ()
            waits = [(hours.next(at) - at, at) for at in fires]
            wait, at = max(waits, default=(timedelta(), world.now))
            if wait.total_seconds() >= _LONG_S:
                looked = f"{wait.total_seconds() / 3600:.0f} h after {at:%a %H:%M} UTC"
                message = f"where it fails, nobody looks until {looked} (noticed: {said.hours}), and no alert calls"
                yield self.finding(world, cron_job, ("spec", "schedule"), message)
