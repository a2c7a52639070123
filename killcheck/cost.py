"""What the nodes in scope cost, second by second."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime

from killcheck.kube.objects import Obj, labels_of, name_of

__all__ = ["Meter", "instance_type"]

#: Dollars an hour of an instance type ('' capacity type: on demand); None: not known.
Price = Callable[[str], float | None]


def instance_type(node: Obj) -> str:
    """The node's instance type by its well-known label."""
    labels = labels_of(node)
    return labels.get("node.kubernetes.io/instance-type") or labels.get("beta.kubernetes.io/instance-type", "")


@dataclass
class Meter:
    """Dollars since a node was first counted, until it was gone. One unknown price makes the sum unknown (None)."""

    price: Price
    overrides: Mapping[str, float] = field(default_factory=dict)
    _from: dict[str, tuple[datetime, str]] = field(default_factory=dict)
    _until: dict[str, datetime] = field(default_factory=dict)

    def usd_per_hour(self, kind: str) -> float | None:
        """The price of an instance type: the spec's override, or the catalogue's."""
        return self.overrides.get(kind, self.price(kind))

    def count(self, node: Obj, since: datetime) -> None:
        """Count a node from ``since`` on, if it is not counted yet; one that came back is counted on."""
        name = name_of(node)
        self._from.setdefault(name, (since, instance_type(node)))
        self._until.pop(name, None)

    def stop(self, name: str, at: datetime) -> None:
        """The node's instance stopped billing."""
        if name in self._from:
            self._until.setdefault(name, at)

    def usd(self, now: datetime) -> float | None:
        """Dollars so far."""
        total = 0.0
        for name, (since, kind) in self._from.items():
            price = self.usd_per_hour(kind)
            if price is None:
                return None
            until = self._until.get(name, now)
            total += price * max(0.0, (until - since).total_seconds()) / 3600.0
        return total

    def rate(self) -> float | None:
        """Dollars an hour of what is still on."""
        prices = [self.usd_per_hour(kind) for name, (_, kind) in self._from.items() if name not in self._until]
        return None if any(price is None for price in prices) else sum(p for p in prices if p is not None)

    def unpriced(self) -> list[str]:
        """Instance types counted whose price is not known."""
        return sorted({kind or "(no instance-type label)" for _, kind in self._from.values()
                       if self.usd_per_hour(kind) is None})
