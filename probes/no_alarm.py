"""Nobody would hear of it."""

from __future__ import annotations

import re
from collections.abc import Iterable

from killcheck.probes.base import Finding, Probe
from killcheck.probes.world import World

from killcheck.discover.deadlines import go_duration_s
from killcheck.kube.objects import dig

__all__ = ["NoAlarm"]


class NoAlarm(Probe):
    """Where everything fails, an alert on idle GPUs or on a failed Job is what ends the bill in the morning."""

    id = "no-alarm"
    claim = "An alert fires when GPUs idle or a layer's Job fails."
    remedy = "Alert on kube_job_status_failed of the layer's Job, and on DCGM_FI_DEV_GPU_UTIL of an idle night."
    severity = "note"
    failures = (15, 48)
    sources = ("github.com/NVIDIA/dcgm-exporter: metrics", "kube-state-metrics: CronJob and Job metrics")
    needs = ("PrometheusRule",)

    def ask(self, world: World) -> Iterable[Finding]:
        """PrometheusRules, where there are any: one about the layers or the GPUs, that can fire before the morning."""
        rules = [
            (obj, (i, j), rule) for obj in world.of("PrometheusRule")
            for i, group in enumerate(dig(obj, "spec", "groups", default=[]))
            for j, rule in enumerate(group.get("rules") or ()) if rule.get("alert")]
        about = [(obj, at, rule) for obj, at, rule in rules if _ABOUT.search(str(rule.get("expr", "")))]
        if rules and not about and world.schedules:
            message = "no alert among the rules here is about idle GPUs or about this Job"
            yield self.finding(world, world.schedules[0][1], (), message)
        for obj, (i, j), rule in about:
            seconds = go_duration_s(str(rule.get("for", "0s")))
            if seconds is not None and seconds >= _TOO_LATE_S:
                message = f"{rule['alert']} waits {rule['for']} before it fires: the night is over"
                yield self.finding(
                    world, obj, ("spec", "groups", i, "rules", j, "for"), message, severity="warning",
                    remedy="Let it fire within an hour.")


_ABOUT = re.compile(r"DCGM_|gpu|kube_(cron)?job_|nvidia|neuron", re.IGNORECASE)
#: Seconds: a night.
_TOO_LATE_S = 6 * 3600.0
