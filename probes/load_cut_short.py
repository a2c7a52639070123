"""Probes that have less patience than a model takes to load."""

from __future__ import annotations

from collections.abc import Iterable

from killcheck.probes.base import Finding, Probe
from killcheck.probes.world import World

from killcheck.kube.container_probes import patience
from killcheck.kube.objects import dig
from killcheck.kube.workloads import templates

__all__ = ["LoadCutShort"]


class LoadCutShort(Probe):
    """What is ended while it loads begins anew, for good: it wakes, bills, and answers nobody."""

    id = "load-cut-short"
    claim = "No probe ends a container within the cold start that the spec allows."
    remedy = "Give its startupProbe failureThreshold * periodSeconds of what the spec says under coldStart, or more."
    severity = "warning"
    failures = (27,)
    sources = ("kubernetes.io/docs: startup probes", "pkg/kubelet/prober/worker.go")

    def ask(self, world: World) -> Iterable[Finding]:
        """The startupProbe, or the livenessProbe where there is none, against coldStart."""
        for target, obj in world.targets:
            allowed_s = max(
                (one.cold_start_s or 0.0 for one in world.kill_path.layers if target.name in one.covers), default=0.0
            )
            for template in templates(obj):
                for i, container in enumerate(dig(template.spec, "containers", default=[])):
                    kind, lets_s = patience(container)
                    if kind is None or lets_s >= allowed_s:
                        continue
                    yield self.finding(
                        world,
                        obj,
                        (*template.path, "containers", i, f"{kind}Probe"),
                        f"its {kind}Probe ends it {lets_s:.0f} s after its start, and a cold start may take "
                        f"{allowed_s:.0f} s: a model that loads for longer never answers",
                    )
