"""Timers of a machine that may start what a kill path turns off, beside its one controller."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from killcheck.probes.base import Evidence, Finding, Probe
from killcheck.probes.world import World

from killcheck.executor import scripts
from killcheck.machine import units

__all__ = ["StartAuthority"]


class StartAuthority(Probe):
    """Two timers that may start one machine: whichever fires last leaves it on, and only one of them ever stops it."""

    id = "start-authority"
    claim = "One controller starts the machines of a path outside Kubernetes, and it stops them."
    remedy = "Move the start into the controller's own cycle and mask this timer; at the least, check the sentinel."
    failures = (55,)
    sources = ("seed 3", "systemd.timer(5)")

    def ask(self, world: World) -> Iterable[Finding]:
        """Timers, services of the boot and crontabs beside the spec: the calls that start something, by whom."""
        path = world.kill_path
        if not path.folder or all(target.count is None for target in path.targets):
            return
        has_sentinel = any(layer.sentinel for layer in path.layers)
        if not has_sentinel and any(one.beside for one in world.rehearsed.values()):
            return  # the path was found in the timers: second-starter asks when each starts, and what stops it then
        root, own = Path(path.folder), units.own_programs(path)
        try:
            found = units.read(list(units.folders_below(root)), beside=root)
        except OSError as error:
            yield self.unproven(world, None, f"who starts machines: {error.filename}: {error.strerror}")
            return
        marks = [layer.sentinel.path for layer in path.layers if layer.sentinel and layer.sentinel.path]
        for one in found.starters:
            if own & {Path(word).name for word in one.command.argv}:
                continue
            texts = [text for _, text in scripts.texts(one.command, root)]
            asks = any(mark in text for mark in marks for text in texts)
            how = "asks the sentinel, and nothing of it stops what it starts" if asks else "and asks no sentinel"
            yield Finding(
                self.id,
                "warning" if asks else "error",
                f"Timer/{one.name.partition(' -> ')[0]}",
                f"starts something beside the one controller, {how} ({one.found})",
                self.remedy,
                (Evidence(one.name, "ExecStart", " ".join(one.command.argv)),),
                failures=self.failures,
            )
        for told in found.unread:
            if not any(name in told for name in own):
                yield self.unproven(world, None, f"whether a timer starts something: {told}")
