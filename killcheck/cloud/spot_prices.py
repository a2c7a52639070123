"""What spot capacity costs now, asked of EC2's price history; nothing is guessed where it cannot be asked."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta

from msgspec import Struct, field

from killcheck.clock import wall_now
from killcheck.cloud.session import AskError, Aws, pages

__all__ = ["SpotPrices"]

#: How far back a price is looked for; EC2 lists the one in force at the start of the interval too.
LOOK_BACK = timedelta(hours=6)


class SpotPrices(Struct):
    """Dollars an hour of an instance type's spot capacity in a zone (empty: the dearest of them).

    Each pair is asked once. ``problem``: why the last one has no answer.
    """

    aws: Aws
    now: Callable[[], datetime] = wall_now
    problem: str = ""
    _known: dict[tuple[str, str], float | None] = field(default_factory=dict)

    def __call__(self, instance_type: str, zone: str = "") -> float | None:
        """The price in force; None where it is not known."""
        key = (instance_type, zone)
        if key not in self._known:
            try:
                self._known[key] = self._asked(instance_type, zone)
            except AskError as error:
                self.problem = f"spot prices are not known: {error}"
                self._known[key] = None
        return self._known[key]

    def _asked(self, instance_type: str, zone: str) -> float | None:
        latest: dict[str, tuple[datetime, float]] = {}
        where = {"AvailabilityZone": zone} if zone else {}
        for page in pages(
            self.aws,
            "ec2",
            "describe_spot_price_history",
            InstanceTypes=[instance_type],
            ProductDescriptions=["Linux/UNIX"],
            StartTime=self.now() - LOOK_BACK,
            EndTime=self.now(),
            **where,
        ):
            for one in page["SpotPriceHistory"]:
                entry = (one["Timestamp"], float(one["SpotPrice"]))
                latest[one["AvailabilityZone"]] = max(latest.get(one["AvailabilityZone"], entry), entry)
        return max((price for _, price in latest.values()), default=None)
