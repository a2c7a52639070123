"""A market that rents machines, as faults and layers see it where one stands in for it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Protocol

__all__ = ["RentalMarket", "RentedMachine", "WentOff"]


class RentedMachine(Protocol):
    """A machine that somebody rented. ``code``: how its own program ended; None: it runs, or has none."""

    id: str
    status: str
    code: int | None


class WentOff(Protocol):
    """That a machine was ended or stopped."""

    @property
    def id(self) -> str:
        """Which."""

    @property
    def at(self) -> datetime:
        """When."""

    @property
    def by_itself(self) -> bool:
        """Whether its own key was used, and not the account's."""

    @property
    def began(self) -> datetime | None:
        """When its program began to run; None: it never did."""


class RentalMarket(Protocol):
    """``gone``: ids of offers that a fault takes away; ``missed``: what was answered with less because of it."""

    gone: set[str]
    missed: list[str]

    def stuck(self, hang: bool) -> None:
        """Let what loads hang, or come up."""

    @property
    def offers(self) -> Sequence[Mapping[str, Any]]:
        """All that it has, rented or not."""

    @property
    def contracts(self) -> Mapping[str, RentedMachine]:
        """The machines that are rented now, by id."""

    @property
    def ended(self) -> Sequence[WentOff]:
        """Those that were ended or stopped, in order."""
