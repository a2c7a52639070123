"""What to mend first: the causes that left GPUs on, each once, the most expensive first."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from msgspec import Struct, field

__all__ = ["Mend", "first"]


class Mend(Struct):
    """One cause: the drills it left exposed (``layer under fault``), what mends it, dollars until the next chance."""

    cause: str
    remedy: str
    drills: list[str] = field(default_factory=list)
    usd: float | None = 0.0

    def add(self, name: str, usd: float | None) -> None:
        """One more drill; a price that is not known makes the sum unknown."""
        self.drills.append(name)
        self.usd = None if usd is None or self.usd is None else self.usd + usd


def first(results: Iterable[dict[str, Any]]) -> list[Mend]:
    """Of drills as the JSON document has them, but for those accepted. Unknown sums come first: they may be largest."""
    found: dict[tuple[str, str], Mend] = {}
    for result in results:
        if result["verdict"] != "exposed" or result.get("accepted") is not None:
            continue
        cause, remedy = result.get("cause") or result.get("why") or "", result.get("remedy") or ""
        under = f" under {', '.join(result['faults'])}" if result["faults"] else ""
        name = result.get("title") or f"{result['layer']}{under}"
        until = result.get("usd_until_next_chance")
        mend = found.setdefault((_kind(cause), remedy), Mend(cause, remedy))
        mend.add(name, until if until is not None else result.get("usd"))
    return sorted(found.values(), key=lambda mend: (mend.usd is not None, -(mend.usd or 0.0), mend.cause))


def _kind(cause: str) -> str:
    """The same cause on another night: names of pods and Jobs end in letters drawn by chance."""
    return " ".join(word for word in cause.split() if "killcheck-" not in word)
