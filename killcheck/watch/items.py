"""What an item came to in a drill: how many were done, by the spec's own count, and the dollars of that time.

A rate that a spec states prices what should be; this prices what was. A queue that is too sparse, and a machine that
does nothing, show in it and in no utilization.
"""

from __future__ import annotations

from typing import Any

from msgspec import Struct

from killcheck.capabilities.programs import Programs
from killcheck.machine.counting import CountUnknown, counted
from killcheck.spec.items import Items

__all__ = ["ItemsDone"]


class ItemsDone(Struct):
    """Counts at the steady state and at the end of the watch; ``problem``: why it is not known."""

    items: Items | None
    programs: Programs | None
    problem: str = ""
    done: int | None = None
    _first: int | None = None
    _usd: float | None = None

    def begin(self) -> None:
        """The first count."""
        self._first = self._count()

    def end(self, usd: float | None) -> None:
        """The last one, and the dollars since the first; only once."""
        if self._first is None or self.done is not None:
            return
        last = self._count()
        if last is not None and last < self._first:
            self.problem = f"the items that were done went from {self._first} to {last}: they only grow"
        elif last is not None:
            self.done, self._usd = last - self._first, usd

    def _count(self) -> int | None:
        if self.items is None:
            return None
        if self.programs is None:
            self.problem = "nothing here runs the program that counts items"
            return None
        try:
            return counted(self.programs.run(self.items.count))
        except CountUnknown as error:
            self.problem = f"how many items were done is not known: {error}"
            return None

    @property
    def usd_each(self) -> float | None:
        """Dollars an item; None: none was done, or a price is not known."""
        return self._usd / self.done if self.done and self._usd is not None else None

    def bill(self) -> dict[str, Any]:
        """Its part of a drill's bill; empty where nobody counts."""
        if self.items is None:
            return {}
        each = self.usd_each
        return {"items_done": self.done, "usd_per_item_seen": None if each is None else round(each, 8)}

    def told(self) -> str | None:
        """The figure in words; None: nobody counts."""
        if self.items is None or self.done is None:
            return self.problem or None
        if self._usd is None:
            return f"{self.done} item(s) were done; what they cost is not known"
        if not self.done:
            return f"no item was done for ${self._usd:.2f}"
        each, most = self._usd / self.done, self.items.max_usd_per_item
        more = f", more than the ${most:.4g} that the spec allows" if most is not None and each > most else ""
        return f"{self.done} item(s) were done for ${self._usd:.2f}: ${each:.4g} an item{more}"
