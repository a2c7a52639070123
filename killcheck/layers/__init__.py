"""One small file a layer type: how its trigger is pulled, which phases it goes through, and whether it was this layer.

What may *not* live here: faults, verdicts, anything about a particular cluster.
"""

from __future__ import annotations

from killcheck.killpath import Layer, LayerType
from killcheck.layers.base import LayerError, LayerRun, Stage
from killcheck.layers.command import CommandLayer
from killcheck.layers.container_cron import ContainerCron
from killcheck.layers.dead_man import DeadMan
from killcheck.layers.idle_command import IdleCommand
from killcheck.layers.idle_monitor import IdleMonitor
from killcheck.layers.idle_workload import IdleWorkload
from killcheck.layers.scale_to_zero import ScaleToZero
from killcheck.layers.self_terminating import SelfTerminating
from killcheck.layers.sentinel import SentinelLayer
from killcheck.layers.spot_handler import SpotHandler

__all__ = ["LayerRun", "Stage", "drillable", "of"]

_TYPES: dict[LayerType, type[LayerRun]] = {
    LayerType.DEAD_MAN: DeadMan, LayerType.IDLE_MONITOR: IdleMonitor, LayerType.SELF_TERMINATING: SelfTerminating,
    LayerType.SCALE_TO_ZERO: ScaleToZero, LayerType.COMMAND: CommandLayer, LayerType.SENTINEL: SentinelLayer,
    LayerType.SPOT_HANDLER: SpotHandler,
}


def drillable(layer: Layer) -> bool:
    """Whether this version can drill it."""
    return layer.type in _TYPES


def of(layer: Layer, stage: Stage) -> LayerRun:
    """What drills a layer. Raises LayerError for a type that cannot be drilled."""
    kind = _TYPES.get(layer.type)
    if kind is None:
        known = ", ".join(sorted(_TYPES))
        raise LayerError(f"layer {layer.name}: cannot drill a layer of type {layer.type}; this version drills: {known}")
    if layer.container is not None:
        kind = ContainerCron
    if layer.type is LayerType.IDLE_MONITOR and layer.cron_job is None:
        kind = IdleCommand if layer.command is not None else IdleWorkload
    return kind(layer, stage)
