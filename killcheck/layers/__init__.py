"""One small file a layer type: how its trigger is pulled, which phases it goes through, and whether it was this layer.

What may *not* live here: faults, verdicts, anything about a particular cluster.
"""

from __future__ import annotations

from killcheck.layers.base import LayerError, LayerRun, Stage
from killcheck.spec.killpath import Layer, LayerType

__all__ = ["LayerRun", "Stage", "drillable", "of"]


def drillable(layer: Layer) -> bool:
    """Whether this version can drill it."""
    return _kind(layer) is not None


def of(layer: Layer, stage: Stage) -> LayerRun:
    """What drills a layer. Raises LayerError for a type that cannot be drilled."""
    kind = _kind(layer)
    if kind is None:
        raise LayerError(f"layer {layer.name}: this version cannot drill a layer of type {layer.type}")
    return kind(layer, stage)


def _kind(layer: Layer) -> type[LayerRun] | None:
    """What drills layers of such a type, imported when there is one; None: nothing does."""
    kind: type[LayerRun] | None = None
    match layer.type:
        case LayerType.IDLE_MONITOR if layer.cron_job is None and layer.command is not None:
            from killcheck.layers.idle_command import IdleCommand as kind
        case LayerType.IDLE_MONITOR if layer.cron_job is None:
            from killcheck.layers.idle_workload import IdleWorkload as kind
        case _ if layer.container is not None:
            from killcheck.layers.container_cron import ContainerCron as kind
        case LayerType.DEAD_MAN:
            from killcheck.layers.dead_man import DeadMan as kind
        case LayerType.IDLE_MONITOR:
            from killcheck.layers.idle_monitor import IdleMonitor as kind
        case LayerType.SELF_TERMINATING:
            from killcheck.layers.self_terminating import SelfTerminating as kind
        case LayerType.SCALE_TO_ZERO:
            from killcheck.layers.scale_to_zero import ScaleToZero as kind
        case LayerType.COMMAND:
            from killcheck.layers.command import CommandLayer as kind
        case LayerType.SENTINEL:
            from killcheck.layers.sentinel import SentinelLayer as kind
        case LayerType.SPOT_HANDLER:
            from killcheck.layers.spot_handler import SpotHandler as kind
    return kind
