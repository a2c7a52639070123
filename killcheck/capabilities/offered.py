"""Everything that a place to drill on offers besides its API, by type; and what of it a fault needs."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from enum import StrEnum
from typing import TYPE_CHECKING, Protocol, TypeVar

from msgspec import Struct

from killcheck.capabilities.account import AccountChanges, InstanceStates, SpotPrices, StandIn
from killcheck.capabilities.modelled import Controllers, ModelledCloud, Nodes, Registry, Wire
from killcheck.capabilities.programs import Files, Machine, Programs, Timers
from killcheck.capabilities.rental import RentalMarket

if TYPE_CHECKING:
    from killcheck.cloud.session import Aws

__all__ = ["Capabilities", "Capability", "DockerEngine", "lacking", "present"]

_T = TypeVar("_T")


class Capability(StrEnum):
    """The name of each, as journals, ``killcheck faults`` and its JSON have it."""

    REGISTRY = "registry"
    NODES = "nodes"
    CLOUD = "cloud"
    CONTROLLERS = "controllers"
    WIRE = "wire"
    PROGRAMS = "programs"
    FILES = "files"
    MACHINE = "machine"
    TIMERS = "timers"
    INSTANCES = "instances"
    AWS = "aws"
    HANDS = "hands"
    SPOT_PRICES = "spot-prices"
    STAND_IN = "stand-in"
    MARKET = "market"
    ENGINE = "engine"
    NODE_CONTAINERS = "node-containers"

    @property
    def how(self) -> str:
        """Its name, and how a cluster comes to it where a spec gives it."""
        return f"{self} ({_GIVEN[self]})" if self in _GIVEN else str(self)


#: How a cluster comes to what a spec gives it.
_GIVEN = {
    Capability.STAND_IN: "AWS' on the embedded cluster alone: cloud: {endpoint: stand-in} in the spec, and "
    "pip install 'killcheck[aws-stand-in]'",
    Capability.MARKET: "a stand-in on the embedded cluster alone: machines: {standIn: FILE} of a target",
    Capability.HANDS: "an AWS account: cloud: in the spec",
    Capability.AWS: "an AWS account: cloud: in the spec",
}


class DockerEngine(Protocol):
    """A Docker Engine. ``host``: where it is reached."""

    @property
    def host(self) -> str:
        """Its address, as DOCKER_HOST has it."""


class Capabilities(Struct, frozen=True, eq=False):
    """What faults, layers and witnesses act on or ask besides the API; None: the place has no such thing.

    ``node_containers``: the engine whose containers are the cluster's nodes.
    """

    registry: Registry | None = None
    nodes: Nodes | None = None
    cloud: ModelledCloud | None = None
    controllers: Controllers | None = None
    wire: Wire | None = None
    programs: Programs | None = None
    files: Files | None = None
    machine: Machine | None = None
    timers: Timers | None = None
    instances: InstanceStates | None = None
    aws: Aws | None = None
    hands: AccountChanges | None = None
    spot_prices: SpotPrices | None = None
    stand_in: StandIn | None = None
    market: RentalMarket | None = None
    engine: DockerEngine | None = None
    node_containers: DockerEngine | None = None

    @property
    def names(self) -> frozenset[Capability]:
        """Those that are there."""
        return frozenset(one for one in Capability if self.by_name(one) is not None)

    def by_name(self, name: str) -> object | None:
        """The one of a journal's entry, which names what it takes back and how; None: it is not here, or unknown."""
        field = _FIELDS.get(name)
        return getattr(self, field) if field else None


#: The field of each. Every one has its own: there is nothing else to have.
_FIELDS = {str(one): one.name.lower() for one in Capability}
if set(_FIELDS.values()) != set(Capabilities.__struct_fields__):
    raise TypeError("every Capability is a field of Capabilities, and every field one")


def lacking(needs: Iterable[Capability], offered: Collection[Capability]) -> tuple[Capability, ...]:
    """Those of ``needs`` that are not offered."""
    return tuple(one for one in needs if one not in offered)


def present(found: _T | None) -> _T:
    """What a fault declared that it needs. Raises LookupError where a drill went on without it: a defect."""
    if found is None:
        raise LookupError("a capability is used that was not declared as needed, and is not here")
    return found
