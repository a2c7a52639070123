"""One small file a layer type: how its trigger is pulled, which phases it goes through, and whether it was this layer.

What may *not* live here: faults, verdicts, anything about a particular cluster.

What drills a layer is found by its file: a :class:`LayerRun` in a module here that says that it ``drills`` such a one.
"""

from __future__ import annotations

from functools import cache
from importlib import import_module
from inspect import isabstract
from pkgutil import iter_modules

from killcheck.layers.base import LayerError, LayerRun, Stage
from killcheck.spec.killpath import Layer

__all__ = ["LayerRun", "Stage", "drillable", "every", "of"]


def drillable(layer: Layer) -> bool:
    """Whether this version can drill it."""
    return _kind(layer) is not None


def of(layer: Layer, stage: Stage) -> LayerRun:
    """What drills a layer. Raises LayerError for a type that cannot be drilled."""
    kind = _kind(layer)
    if kind is None:
        raise LayerError(f"layer {layer.name}: this version cannot drill a layer of type {layer.type}")
    return kind(layer, stage)


def every() -> list[type[LayerRun]]:
    """All that the modules here define, in the order of files."""
    return [kind for module in _modules() for kind in _in(module)]


def _kind(layer: Layer) -> type[LayerRun] | None:
    """What drills a layer; None: nothing does. The module with the type's own name is asked, and imported, first."""
    own = layer.type.replace("-", "_")
    modules = sorted(_modules(), key=lambda name: name != own)
    return next((kind for module in modules for kind in _in(module) if kind.drills(layer)), None)


def _modules() -> list[str]:
    return sorted(entry.name for entry in iter_modules(__path__))


@cache
def _in(module: str) -> tuple[type[LayerRun], ...]:
    name = f"{__name__}.{module}"
    return tuple(
        kind
        for kind in vars(import_module(name)).values()
        if isinstance(kind, type) and issubclass(kind, LayerRun) and kind.__module__ == name and not isabstract(kind)
    )
