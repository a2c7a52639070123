"""Targets that only idleness turns off."""

from __future__ import annotations

from collections.abc import Iterable

from killcheck.probes.base import Finding, Probe
from killcheck.probes.world import World

from killcheck.spec.killpath import LayerType

__all__ = ["IdleAlone"]

#: Layers that wait for something outside the worker to say that nothing is asked of it.
_WAIT = (LayerType.SCALE_TO_ZERO, LayerType.IDLE_MONITOR)


class IdleAlone(Probe):
    """A metric that hangs, a monitor that counts as a visitor, a source that does not answer: all keep it on."""

    id = "idle-alone"
    claim = "What goes off when it idles has a switch beside that asks for no metric."
    remedy = "Add a dead-man's switch that turns it off at a fixed hour, whatever any metric says."
    severity = "note"
    failures = (28, 40)
    sources = ("seed 1: self-terminating workers beside the orchestrator", "rjwalters/loom#4467", "KE#1850")

    def ask(self, world: World) -> Iterable[Finding]:
        """Targets all of whose layers wait for idleness."""
        for target, obj in world.targets:
            layers = [layer for layer in world.kill_path.layers if target.name in layer.covers]
            if layers and all(layer.type in _WAIT for layer in layers):
                names = " and ".join(layer.name for layer in layers)
                message = f"goes off only where {names} finds it idle: a signal that hangs keeps it on for good"
                yield self.finding(world, obj, ("metadata", "name"), message)
