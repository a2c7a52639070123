"""What faults of a machine outside Kubernetes have in common: where they apply. What may *not* live here: faults."""

from __future__ import annotations

from killcheck.capabilities.offered import Capability
from killcheck.faults.base import Fault
from killcheck.spec.killpath import Layer, LayerType

__all__ = ["MachineFault"]


class MachineFault(Fault):
    """A fault of what a program on a machine outside Kubernetes depends on."""

    outside = True
    needs = (Capability.MACHINE,)

    def unsuited_layer(self, layer: Layer) -> str | None:
        """Only where the layer is a program that stops something."""
        if layer.command is None or layer.type not in (LayerType.COMMAND, LayerType.IDLE_MONITOR):
            return "the layer is no program of a machine"
        return None
