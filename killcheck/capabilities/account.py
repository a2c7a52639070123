"""What can be asked of a cloud account, and done in it: the spec's own, or a stand-in of one."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import TYPE_CHECKING, Any, Literal, Protocol

if TYPE_CHECKING:  # an account is a value; how it is asked is the cloud's room
    from killcheck.cloud.session import Aws

__all__ = ["AccountChanges", "InstanceState", "InstanceStates", "Portal", "SpotPrices", "StandIn"]

InstanceState = Literal["running", "stopping", "terminated", "unknown"]


class InstanceStates(Protocol):
    """What a cloud says of the machines behind Nodes."""

    @property
    def word(self) -> Any:
        """Who is asked."""

    @property
    def problem(self) -> str | None:
        """Why the last question has no answer; empty: it had one."""

    @property
    def gone(self) -> Collection[str]:
        """Every machine that was off at some time, by provider id."""

    def state(self, provider_id: str) -> InstanceState:
        """The state of one machine; ``unknown`` with :attr:`problem` set where the cloud could not be asked."""

    def on_again(self) -> list[str]:
        """Those that were off and are not any more, asked anew; look at :attr:`problem` first."""


class SpotPrices(Protocol):
    """Dollars an hour of an instance type's spot capacity."""

    @property
    def problem(self) -> str | None:
        """Why the last one has no answer; empty: it had one."""

    def __call__(self, instance_type: str, zone: str = "", /) -> float | None:
        """The price in force in a zone (empty: the dearest of them); None where it is not known."""


class AccountChanges(Protocol):
    """What a drill does in an account. Everything raises AskError."""

    @property
    def aws(self) -> Aws:
        """Whose account it is."""

    def account(self) -> str:
        """Whose credentials these are."""

    def instances(self, ids: Iterable[str]) -> list[Mapping[str, Any]]:
        """EC2's description of instances."""

    def queue_is_there(self, url: str) -> None:
        """Raises AskError where it is not, or may not be looked at."""

    def send(self, url: str, body: Mapping[str, Any]) -> str:
        """Put a message into a queue; returns its id."""

    def terminate(self, ids: Iterable[str]) -> None:
        """End instances."""

    def role_trusts_fis(self, arn: str) -> bool:
        """Whether FIS may assume a role at all."""

    def alarms(self, arns: Iterable[str]) -> dict[str, str]:
        """ARN to state of the CloudWatch alarms that exist."""

    def create_template(
        self, run: str, *, role: str, alarms: Iterable[str], instances: Iterable[str], minutes: int
    ) -> str:
        """A template that interrupts these very instances; returns its id."""

    def start(self, template: str, run: str) -> str:
        """Start an experiment; returns its id."""

    def experiment(self, name: str) -> tuple[str, str]:
        """(status, reason) of an experiment."""


class Portal(Protocol):
    """Where people sign in."""

    @property
    def cut_off(self) -> list[str]:
        """Requests that were refused to somebody whose session had been ended."""

    def cut_short(self) -> Collection[str]:
        """The sessions that ended before their own time."""


class StandIn(Protocol):
    """AWS on loopback.

    The journal calls ``lapse``, ``restore``, ``limit_sessions`` and ``end_pull_tokens`` by name.
    """

    def environment(self) -> Mapping[str, str]:
        """The variables by which a client of AWS finds it, and is taken for somebody."""

    @property
    def queue_url(self) -> str:
        """URL of the interruption queue; empty: there is none."""

    @property
    def portal(self) -> Portal:
        """Where people sign in to it."""
