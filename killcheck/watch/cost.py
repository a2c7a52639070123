"""What the nodes in scope cost, second by second; and what it comes to a night, a month, an item."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from datetime import datetime
from typing import Any

from msgspec import Struct, field

from killcheck.capabilities.account import SpotPrices
from killcheck.kube import gpus
from killcheck.kube.objects import Obj, annotations_of, labels_of, name_of
from killcheck.kube.spot_nodes import is_spot

__all__ = ["MONTH_H", "USD_PER_HOUR", "Counted", "Meter", "bill", "instance_type"]

#: Dollars an hour of an instance type ('' capacity type: on demand); None: not known.
Price = Callable[[str], float | None]

#: On what stands for a machine outside Kubernetes: what its list says that it costs.
USD_PER_HOUR = "killcheck.dev/usd-per-hour"
#: Hours of a month as AWS' own calculator has them, and its nights.
MONTH_H, MONTH_NIGHTS = 730.0, 30.0


def instance_type(node: Obj) -> str:
    """The node's instance type by its well-known label."""
    labels = labels_of(node)
    return labels.get("node.kubernetes.io/instance-type") or labels.get("beta.kubernetes.io/instance-type", "")


class Counted(Struct, frozen=True):
    """A node that was counted: from when until when (None: it is on), its devices, its price."""

    name: str
    since: datetime
    until: datetime | None
    devices: int
    usd_per_hour: float | None


class Meter(Struct):
    """Dollars since a node was first counted, until it was gone. One unknown price makes the sum unknown (None).

    ``overrides`` (the spec's, by instance type or by a node's name) go before all; ``spot`` prices spot nodes where it
    is known; else ``price``, an upper bound for them.
    """

    price: Price
    overrides: Mapping[str, float] = field(default_factory=dict)
    spot: SpotPrices | None = None
    _from: dict[str, tuple[datetime, str]] = field(default_factory=dict)
    _until: dict[str, datetime] = field(default_factory=dict)
    _devices: dict[str, int] = field(default_factory=dict)
    _own_usd: dict[str, float] = field(default_factory=dict)
    _spot_nodes: set[str] = field(default_factory=set)

    def usd_per_hour(self, kind: str) -> float | None:
        """The price of an instance type: the spec's override, or the catalogue's."""
        return self.overrides.get(kind, self.price(kind))

    def count(self, node: Obj, since: datetime, held: int = 0) -> None:
        """Count a node from ``since`` on, if it is not counted yet; one that came back is counted on.

        ``held``: how many devices its pods hold, where the node itself does not say (DRA).
        """
        name, kind = name_of(node), instance_type(node)
        said = annotations_of(node).get(USD_PER_HOUR)
        if said is not None and kind not in self.overrides:
            self._own_usd.setdefault(name, float(said))
        if name not in self._from and self.spot is not None and is_spot(node) and kind not in self.overrides:
            asked = self.spot(kind, labels_of(node).get("topology.kubernetes.io/zone", ""))
            if asked is not None:
                self._own_usd[name] = asked
        if is_spot(node):
            self._spot_nodes.add(name)
        self._from.setdefault(name, (since, kind))
        self._devices[name] = max(self._devices.get(name, 0), gpus.node_devices(node), held)
        self._until.pop(name, None)

    def stop(self, name: str, at: datetime) -> None:
        """The node's instance stopped billing."""
        if name in self._from:
            self._until.setdefault(name, at)

    def restart(self, now: datetime) -> None:
        """Count what is on from now: the hours until a schedule's own slot are nobody's doing."""
        self._from = {name: (max(since, now), kind) for name, (since, kind) in self._from.items()}

    def usd(self, now: datetime) -> float | None:
        """Dollars so far."""
        total = 0.0
        for name, (since, kind) in self._from.items():
            price = self._node_usd(name, kind)
            if price is None:
                return None
            total += price * self._hours(name, since, now)
        return total

    def gpu_hours(self, now: datetime) -> float:
        """GPU-hours so far: every device of a node bills with it, in use or not."""
        return sum(
            self._devices.get(name, 0) * self._hours(name, since, now) for name, (since, _) in self._from.items()
        )

    def spot_share(self, now: datetime) -> float | None:
        """The part of the GPU-hours that was spot capacity, 0 to 1; None where no node was."""
        every = self.gpu_hours(now)
        if not self._spot_nodes or not every:
            return None
        spot = sum(
            self._devices.get(name, 0) * self._hours(name, since, now)
            for name, (since, _) in self._from.items()
            if name in self._spot_nodes
        )
        return spot / every

    def rate(self) -> float | None:
        """Dollars an hour of what is still on."""
        prices = [self._node_usd(name, kind) for name, (_, kind) in self._from.items() if name not in self._until]
        return None if any(price is None for price in prices) else sum(p for p in prices if p is not None)

    def counted(self) -> Iterator[Counted]:
        """Every node with its time and its price."""
        for name, (since, kind) in self._from.items():
            devices = self._devices.get(name, 0)
            yield Counted(name, since, self._until.get(name), devices, self._node_usd(name, kind))

    def unpriced(self) -> list[str]:
        """Instance types counted whose price is not known."""
        return sorted(
            {
                kind or f"node {name} (it has no instance type)"
                for name, (_, kind) in self._from.items()
                if self._node_usd(name, kind) is None
            }
        )

    def _node_usd(self, name: str, kind: str) -> float | None:
        return self.overrides.get(name, self._own_usd.get(name, self.usd_per_hour(kind)))

    def _hours(self, name: str, since: datetime, now: datetime) -> float:
        return max(0.0, (min(self._until.get(name, now), now) - since).total_seconds()) / 3600.0


def bill(
    *,
    usd: float | None,
    gpu_hours: float,
    rate: float | None,
    until_next_chance: float | None = None,
    items_per_hour: float | None = None,
    orchestrator_usd_per_hour: float | None = None,
    spot_share: float | None = None,
) -> dict[str, Any]:
    """What a drill's outcome comes to, as the JSON document has it; None: a price is not known.

    ``rate``: dollars an hour of what was on at the trigger. ``usd_per_night``: until the layer's next chance, or until
    the watch ended. ``usd_per_month``: the same every night, at most the whole month. ``usd_per_item``: of a queue
    worker at ``items_per_hour``; ``items_idled``: what this night's dollars would have paid for.
    ``orchestrator_usd_per_month``: what starts and stops them, day and night; it is in none of the others.
    ``spot_share``: the part of the GPU-hours on spot capacity, where there was any.
    """
    night = until_next_chance if until_next_chance is not None else usd
    month = None if night is None or rate is None else min(night * MONTH_NIGHTS, rate * MONTH_H)
    item = None if rate is None or not items_per_hour else rate / items_per_hour
    return {
        "gpu_hours": round(gpu_hours, 3),
        "usd_per_night": _round(night),
        "usd_per_month": _round(month),
        "usd_per_item": None if item is None else round(item, 8),
        "items_idled": None if not item or night is None else round(night / item),
        **(
            {"orchestrator_usd_per_month": _round(orchestrator_usd_per_hour * MONTH_H)}
            if orchestrator_usd_per_hour is not None
            else {}
        ),
        **({} if spot_share is None else {"spot_share": _round(spot_share)}),
    }


def _round(value: float | None) -> float | None:
    return None if value is None else round(value, 4)
