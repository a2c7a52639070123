"""What to mend first: what one change would mend of what is exposed, the most expensive first."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from msgspec import Struct, field

from killcheck.reports.figures import money
from killcheck.text.remedies import in_common, of_all

__all__ = ["HANDFUL", "Mend", "first", "rest"]

#: So many are told before the rest is counted.
HANDFUL = 5


class Mend(Struct):
    """One change: what it mends (causes), the drills that were exposed by them, dollars until the next chance."""

    causes: list[str] = field(default_factory=list)
    remedies: list[str] = field(default_factory=list)
    drills: list[str] = field(default_factory=list)
    usd: float | None = 0.0

    def add(self, name: str, cause: str, remedy: str, usd: float | None) -> None:
        """One more drill; a price that is not known makes the sum unknown."""
        self.drills.append(name)
        self.usd = None if usd is None or self.usd is None else self.usd + usd
        if _kind(cause) not in map(_kind, self.causes):
            self.causes.append(cause)
        if remedy not in self.remedies:
            self.remedies.append(remedy)

    @property
    def cause(self) -> str:
        """The cause, or how many there are and one of them."""
        return self.causes[0] if len(self.causes) == 1 else f"{len(self.causes)} causes, such as {self.causes[0]}"

    @property
    def remedy(self) -> str:
        """What mends all of them."""
        return of_all(self.remedies)


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
        common = in_common(remedy)
        one = found.setdefault((common, _kind(cause) if common == remedy else ""), Mend())
        one.add(name, cause, remedy, until if until is not None else result.get("usd"))
    return sorted(found.values(), key=lambda mend: (mend.usd is not None, -(mend.usd or 0.0), mend.cause))


def rest(mends: Sequence[Mend]) -> str | None:
    """What of them is beyond a handful, in a phrase; None: nothing is."""
    left = mends[HANDFUL:]
    if not left:
        return None
    usd = None if any(one.usd is None for one in left) else sum(one.usd or 0.0 for one in left)
    return f"and {len(left)} more, {money(usd)}, {sum(len(one.drills) for one in left)} drill(s): each says its remedy"


def _kind(cause: str) -> str:
    """The same cause on another night: names of pods and Jobs end in letters drawn by chance."""
    return " ".join(word for word in cause.split() if "killcheck-" not in word)
