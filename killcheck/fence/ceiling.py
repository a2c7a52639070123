"""What may be launched at most, as a team states it; everything that is not stated is not bounded."""

from __future__ import annotations

from fnmatch import fnmatchcase

from msgspec import Struct

from killcheck.spec.killpath import FenceCeiling

__all__ = ["Ceiling"]


class Ceiling(Struct, frozen=True):
    """``max_devices_per_node``: GPUs and accelerators of any kind on one node.

    ``max_usd_per_hour``, ``max_devices`` and ``max_nodes`` are of one pool at its largest, and of all pools together;
    ``forbidden_types`` are patterns (``p5*``).
    """

    max_devices_per_node: int | None = None
    max_usd_per_hour: float | None = None
    max_devices: int | None = None
    max_nodes: int | None = None
    forbidden_types: tuple[str, ...] = ()

    @classmethod
    def of(cls, stated: FenceCeiling) -> Ceiling:
        """From the spec's ``fences:``."""
        return cls(
            stated.max_devices_per_node,
            stated.max_usd_per_hour,
            stated.max_devices,
            stated.max_nodes,
            stated.forbidden_types,
        )

    @property
    def stated(self) -> bool:
        """Whether anything is bounded at all."""
        bounds = (self.max_devices_per_node, self.max_usd_per_hour, self.max_devices, self.max_nodes)
        return bool(self.forbidden_types) or any(bound is not None for bound in bounds)

    def forbids(self, instance_type: str) -> bool:
        """Whether a type is named by a forbidden pattern."""
        return any(fnmatchcase(instance_type, pattern) for pattern in self.forbidden_types)
