"""Programs whose kill needs something outside the cluster."""

from __future__ import annotations

from collections.abc import Iterable

from killcheck.probes.base import Finding, Probe
from killcheck.probes.rehearsed import telling
from killcheck.probes.where import command_path
from killcheck.probes.world import World

__all__ = ["OutsideHost"]


class OutsideHost(Probe):
    """Fired once in a rehearsal, where no host beyond the cluster answers: with it down, nothing goes off."""

    id = "outside-host"
    rehearsed = True
    claim = "An executor turns off what it should also when no host outside the cluster answers."
    remedy = "Keep what it needs to know in the cluster (a ConfigMap), and turn off first."
    failures = (25,)
    sources = ("pangeo-data/pangeo-binder#194", "KBVE/kbve#14223")

    def ask(self, world: World) -> Iterable[Finding]:
        """Where it looked for such a host: an error if nothing went off then; of a cloud's own, not proven."""
        for one in world.watched:
            first = one.seen.first if one.seen else None
            if first is None or not first.outside:
                continue
            hosts = ", ".join(first.outside)
            if first.off and first.exit_code == 0:
                yield self.finding(
                    world,
                    one.owner,
                    command_path(one),
                    f"asks {hosts}, outside the cluster; it works without",
                    severity="note",
                )
            elif all(host.endswith(_CLOUDS) for host in first.outside):
                yield self.unproven(world, one.owner, f"it asks {hosts}, which a rehearsal has not")
            elif not first.off:
                said = f": {telling(first.failed)}" if first.failed else ""
                yield self.finding(
                    world,
                    one.owner,
                    command_path(one),
                    f"needs {hosts}, outside the cluster: without it nothing goes off{said}",
                )
            else:
                yield self.finding(
                    world,
                    one.owner,
                    command_path(one),
                    f"needs {hosts}, outside the cluster, to end well",
                    severity="warning",
                )


_CLOUDS = (
    ".amazonaws.com",
    ".googleapis.com",
    ".azure.com",
    ".microsoftonline.com",
    ".google.internal",
    ".oraclecloud.com",
    ".aliyuncs.com",
)
