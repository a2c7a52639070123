"""Drains that kubectl refuses to do."""

from __future__ import annotations

from collections.abc import Iterable

from killcheck.probes.base import Finding, Probe
from killcheck.probes.where import command_path, kubectl
from killcheck.probes.world import World

__all__ = ["DrainFlags"]


class DrainFlags(Probe):
    """kubectl drain refuses DaemonSet pods, pods with emptyDir and bare pods, unless it is told to go on."""

    id = "drain-flags"
    claim = "kubectl drain is told to go on where it would refuse, and to end."
    remedy = "kubectl drain NODE --ignore-daemonsets --delete-emptydir-data --timeout=10m"
    failures = (42,)
    sources = ("k8s.io/kubectl pkg/drain/filters.go",)

    def ask(self, world: World) -> Iterable[Finding]:
        """kubectl drain in executors, by its argument vector."""
        for one in world.executors:
            for found in kubectl(one, "drain"):
                missing = [flag for flag in ("ignore-daemonsets", "delete-emptydir-data") if not found.switch(flag)]
                if missing:
                    flags = " and ".join(f"--{flag}" for flag in missing)
                    message = f"kubectl drain without {flags}: it refuses, and drains nothing"
                    yield self.finding(world, one.owner, command_path(one), message)
                elif not found.flag("timeout"):
                    message = "kubectl drain without --timeout: it waits for ever on a disruption budget"
                    yield self.finding(world, one.owner, command_path(one), message, severity="warning")
