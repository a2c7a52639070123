"""Sentinels that stop the stopping."""

from __future__ import annotations

from collections.abc import Iterable

from killcheck.probes.base import Finding, Probe
from killcheck.probes.where import command_path
from killcheck.probes.world import Executor, World

from killcheck.text import lazy_re

__all__ = ["SentinelTrap"]


class SentinelTrap(Probe):
    """A hold that ends the whole cycle also ends what turns GPUs off; through subPath it is never refreshed."""

    id = "sentinel-trap"
    claim = "A sentinel keeps GPUs from being started, and never from being stopped."
    remedy = "Check the sentinel only before starting; mount its ConfigMap as a folder, without subPath."
    failures = (56,)
    sources = ("seed 3", "KK#92296")

    def ask(self, world: World) -> Iterable[Finding]:
        """Executors that end well when a file or a value is there, before they write; subPath mounts of ConfigMaps."""
        for one in world.layer_executors:
            found = _HELD.search(one.text)
            if found and _WRITES.search(one.text, found.end()):
                message = f"'{' '.join(found[0].split())}' ends it with 0 before it turns anything off"
                yield self.finding(world, one.owner, command_path(one), message)
            if one.owner.get("kind") != "CronJob":
                yield from self._sub_path(world, one)

    def _sub_path(self, world: World, one: Executor) -> Iterable[Finding]:
        maps = {v.get("name") for v in one.spec.get("volumes") or () if v.get("configMap")}
        for path, container in one.containers:
            for index, mount in enumerate(container.get("volumeMounts") or ()):
                if mount.get("name") in maps and mount.get("subPath") and _SENTINEL.search(str(mount)):
                    message = "mounts its sentinel by subPath: a change of the ConfigMap never reaches the pod"
                    yield self.finding(world, one.owner, (*path, "volumeMounts", index, "subPath"), message)


_SENTINEL = lazy_re.compile(r"(?i)hold|sentinel|maintenance|freeze|pause|keep|off\b|no-?start")
_HELD = lazy_re.compile(
    r"(?i)(\[\[?|test)\s+-[efs]\s+[^\n;]*(hold|sentinel|maintenance|freeze|pause|keep)[^\n]*?"
    r"(&&|then)\s*(\{\s*)?(echo[^\n;]*[;&\n]+\s*)?exit\s+0"
    r"|if\s+os\.path\.exists\([^)]*(hold|sentinel|maintenance|freeze|pause|keep)[^)]*\):\s*sys\.exit\((0|)\)"
)
_WRITES = lazy_re.compile(r"PATCH|scale|delete|terminate|replicas|HoldAndDrain")
