"""NodeOverlays: prices and extended resources that a team lays over types (Karpenter v1.14, behind a feature gate).

A price overlay changes what Karpenter believes, and so what it tries first: neither what it may launch nor the bill. A
capacity overlay changes what limits count: one that says a type has no ``nvidia.com/gpu`` lets it past a limit on them.
Source: kubernetes-sigs/karpenter pkg/apis/v1alpha1/nodeoverlay.go and pkg/controllers/nodeoverlay/store.go: by resource
the overlay of the greatest weight counts; of two of the same weight that give one resource to one type, neither may.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from msgspec import Struct, field

from killcheck.instances.amounts import amounts
from killcheck.instances.launchable import Launchable, well_known
from killcheck.instances.requirements import Requirement, RequirementError, Requirements
from killcheck.kube.objects import Obj, dig, name_of

__all__ = ["Effect", "Overlay", "price_notes", "read_overlays", "under_overlays"]

_POOL = "karpenter.sh/nodepool"


class Overlay(Struct, frozen=True):
    """Which types (requirements; None: cannot be read, so any), and the capacity that it gives them."""

    name: str
    requirements: Requirements | None
    capacity: Mapping[str, float]
    weight: int = 0


class Effect(Struct):
    """What overlays make of a pool's types: masks of those that surely and possibly pass its limits, and the limits
    that some type is counted differently for. ``doubts`` say what could not be evaluated."""

    sure: int
    possible: int
    loose: frozenset[str] = frozenset()
    #: Whether a type is counted as more than it has: then less can be reached than it seems.
    raised: bool = False
    doubts: list[str] = field(default_factory=list)


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
            weight = int(dig(one, "spec", "weight", default=0))
        except (RequirementError, TypeError, ValueError):
            requirements, weight = None, 0
            capacity = dict.fromkeys(dig(one, "spec", "capacity", default={}), 0.0)
        if capacity:
            found.append(Overlay(name_of(one), requirements, capacity, weight))
    return found


def price_notes(objects: Iterable[Obj]) -> list[str]:
    """What to say of overlays that give a price."""
    return [
        f"NodeOverlay/{name_of(one)} tells Karpenter a price: it changes what is tried first, not what can be "
        "launched, and not the bill"
        for one in objects
        if one.get("kind") == "NodeOverlay" and (dig(one, "spec", "price") or dig(one, "spec", "priceAdjustment"))
    ]


def under_overlays(
    overlays: Sequence[Overlay],
    types: Launchable,
    masks: tuple[int, int],
    limits: Mapping[str, float],
    prefix: str,
    *,
    pool: str,
    labels: Mapping[str, str],
) -> Effect:
    """What of ``masks`` (surely, possibly let through by requirements) passes ``limits``, overlays on."""
    sure, possible = masks
    effect = Effect(types.within(sure, limits), types.within(possible, limits))
    touching = [
        (one, *_matching(one, types, prefix, pool, labels)) for one in overlays if set(one.capacity) & set(limits)
    ]
    touching = [(one, matched, maybe) for one, matched, maybe in touching if maybe & possible]
    if not touching:
        return effect
    for index, (one, matched, maybe) in enumerate(touching):
        if one.requirements is None or matched != maybe:
            effect.doubts.append(f"which types NodeOverlay/{one.name} is for cannot be evaluated")
        if any(
            other.weight == one.weight and set(other.capacity) & set(one.capacity) & set(limits) and theirs & maybe
            for other, _, theirs in touching[index + 1 :]
        ):
            effect.doubts.append(f"NodeOverlay/{one.name} and another of its weight give the same resource")
    effect.loose = frozenset(name for one, _, _ in touching for name in one.capacity if name in limits)
    effect.sure = effect.possible = 0
    for kind in types.members(possible):
        bit = types.bits[kind.name]
        laid = [one.capacity for one, _, maybe in sorted(touching, key=lambda entry: entry[0].weight) if bit & maybe]
        own: dict[str, float] = {**kind.capacity, "nodes": 1}
        counted = dict(own)
        for capacity in laid:
            counted |= capacity
        least = {name: min([own.get(name, 0), *(one[name] for one in laid if name in one)]) for name in limits}
        effect.raised |= any(counted.get(name, 0) > kind.capacity.get(name, 0) for name in effect.loose)
        passes = _within(counted, limits)
        if passes or (effect.doubts and _within(least, limits)):
            effect.possible |= bit
        if passes and not effect.doubts:
            effect.sure |= bit & sure
    return effect


def _within(counted: Mapping[str, float], limits: Mapping[str, float]) -> bool:
    return all(counted.get(name, 0) <= most for name, most in limits.items())


def _matching(
    overlay: Overlay,
    types: Launchable,
    prefix: str,
    pool: str,
    labels: Mapping[str, str],
) -> tuple[int, int]:
    """(types it surely is for, types it possibly is for) in a pool with that name and these template labels."""
    if overlay.requirements is None:
        return 0, types.all
    for key, one in overlay.requirements.items():
        held = (pool,) if key == _POOL else (labels[key],) if key in labels else ()
        if (key == _POOL or key not in well_known(prefix)) and not one.allows(held):
            return 0, 0
    of_types: dict[str, Requirement] = {
        key: one for key, one in overlay.requirements.items() if key != _POOL and key in well_known(prefix)
    }
    found = types.select(of_types, prefix)
    return found.certain, found.possible
