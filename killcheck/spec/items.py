"""What a queue's workers get done, as a spec has it: who counts it, and what one may cost.

What may *not* live here: anything that runs a program.
"""

from __future__ import annotations

from typing import Any

from msgspec import Struct

__all__ = ["Items"]


class Items(Struct, frozen=True):
    """``count`` (a :class:`killcheck.spec.killpath.Command`) prints how many items were done; it only grows.

    Above ``max_usd_per_item`` a drill says so; None: no price is too high.
    """

    count: Any
    max_usd_per_item: float | None = None
