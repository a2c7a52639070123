"""Pods that ask for a GPU in the hours when there should be none."""

from __future__ import annotations

import json
from collections.abc import Iterable

from killcheck.probes.base import Finding, Probe
from killcheck.probes.schedules import schedule_of
from killcheck.probes.world import World

from killcheck.kube.objects import dig, name_of
from killcheck.kube.workloads import devices_of
from killcheck.text import lazy_re

__all__ = ["GpuAfterOff"]


class GpuAfterOff(Probe):
    """A smoke test or a validator that is no DaemonSet brings a node back, for minutes of work and its idling."""

    id = "gpu-after-off"
    claim = "Nothing asks for a GPU merely to test it in the hours after a layer has fired."
    remedy = "Move it to before the switch, or let a DaemonSet do it on nodes that are there anyway."
    severity = "warning"
    failures = (54,)
    sources = ("NVIDIA/gpu-operator#76",)

    def ask(self, world: World) -> Iterable[Finding]:
        """CronJobs that test GPUs and fire within hours after a layer that is a schedule."""
        stops = [(layer, found) for layer, obj in world.schedules for found in [schedule_of(obj)] if found]
        for obj in world.of("CronJob"):
            start = schedule_of(obj)
            if start is None or dig(obj, "spec", "suspend") or not devices_of(obj, wanted=True):
                continue
            if not _TESTS.search(json.dumps([name_of(obj), dig(obj, "spec", "jobTemplate", default={})])):
                continue
            for layer, stop in stops:
                off = stop.next(world.now)
                begun = start.next(off) if off else None
                if off and begun and (begun - off).total_seconds() < _NIGHT_S:
                    hours = (begun - off).total_seconds() / 3600
                    message = f"asks for a GPU {hours:.1f} h after {layer.name} turned them off: a node comes up for it"
                    yield self.finding(world, obj, ("spec", "schedule"), message)
                    break


_TESTS = lazy_re.compile(r"(?i)valid|smoke|health|diag|vectoradd|cuda-sample|nccl-test|nvidia-smi|gpu-burn|canary")
#: Seconds: a night.
_NIGHT_S = 8 * 3600.0
