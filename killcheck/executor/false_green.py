"""How a program's failure ends as success, and what would make it end as a failure."""

from __future__ import annotations

from msgspec import Struct

__all__ = ["FalseGreen"]


class FalseGreen(Struct, frozen=True):
    """``said``: how, a sentence. ``mend``: what to do about it; empty: no more than is said of all of them."""

    said: str
    mend: str = ""

    def __str__(self) -> str:
        return self.said
