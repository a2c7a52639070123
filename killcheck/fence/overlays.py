"""NodeOverlays: prices and extended resources that a team lays over types (Karpenter v1.14, behind a feature gate).

A price overlay changes what Karpenter believes, not the bill. A capacity overlay changes what limits count: one that
says a type has no ``nvidia.com/gpu`` lets it past a limit on them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from killcheck.cloud.amounts import amounts
from killcheck.cloud.launchable import Launchable
from killcheck.cloud.requirements import RequirementError, Requirements
from killcheck.kube.objects import Obj, dig, name_of

__all__ = ["Overlay", "read_overlays", "under_overlays"]


@dataclass(frozen=True)
class Overlay:
    """Which types (requirements; None: cannot be read, so any), and the capacity that it gives them."""

    name: str
    requirements: Requirements | None
    capacity: Mapping[str, float]


def read_overlays(objects: Iterable[Obj]) -> list[Overlay]:
    """The NodeOverlays among ``objects`` that give a capacity."""
    found = []
    for one in objects:
        if one.get("kind") != "NodeOverlay":
            continue
        requirements: Requirements | None
        try:
            requirements = Requirements.of(dig(one, "spec", "requirements", default=()))
            capacity: Mapping[str, float] = amounts(dig(one, "spec", "capacity"))
        except (RequirementError, ValueError):
            requirements, capacity = None, dict.fromkeys(dig(one, "spec", "capacity", default={}), 0.0)
        if capacity:
            found.append(Overlay(name_of(one), requirements, capacity))
    return found


def under_overlays(
    overlays: Sequence[Overlay], types: Launchable, mask: int, limits: Mapping[str, float], prefix: str,
) -> int:
    """The types of ``mask`` that pass ``limits`` with an overlay's capacity instead of their own."""
    lifted = 0
    for overlay in overlays:
        changed = {name: amount for name, amount in overlay.capacity.items() if name in limits}
        if not changed:
            continue
        touched = mask if overlay.requirements is None else mask & types.select(overlay.requirements, prefix).possible
        if any(amount > limits[name] for name, amount in changed.items()):
            continue
        lifted |= types.within(touched, {name: most for name, most in limits.items() if name not in changed})
    return lifted
