"""What a spec allows to be launched at most: the ceiling that fences are judged by."""

from __future__ import annotations

from msgspec import Struct

__all__ = ["FenceCeiling"]


class FenceCeiling(Struct, frozen=True):
    """The most that may ever be launched; None: not bounded.

    ``max_devices``, ``max_usd_per_hour`` and ``max_nodes`` are of everything together; ``forbidden_types`` are shell
    patterns (``p5*``). ``catalogues`` are files of a team's own types and prices, relative to the spec's folder.
    """

    max_devices_per_node: int | None = None
    max_usd_per_hour: float | None = None
    max_nodes: int | None = None
    max_devices: int | None = None
    forbidden_types: tuple[str, ...] = ()
    catalogues: tuple[str, ...] = ()
