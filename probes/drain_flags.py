"""Drains that kubectl refuses to do."""

from __future__ import annotations

import re
from collections.abc import Iterable

from killcheck.probes.base import Finding, Probe
from killcheck.probes.where import command_path
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
        """kubectl drain in executors."""
        for one in world.executors:
            for found in _DRAIN.finditer(one.text.replace("\\\n", " ")):
                missing = [flag for flag in ("--ignore-daemonsets", "--delete-emptydir-data") if flag not in found[0]]
                if missing:
                    message = f"kubectl drain without {' and '.join(missing)}: it refuses, and drains nothing"
                    yield self.finding(world, one.owner, command_path(one), message)
                elif "--timeout" not in found[0]:
                    message = "kubectl drain without --timeout: it waits for ever on a disruption budget"
                    yield self.finding(world, one.owner, command_path(one), message, severity="warning")


_DRAIN = re.compile(r"kubectl\s+(-\S+\s+\S+\s+)*drain\b[^\n;|&]*")
