"""What can be done to the parts of a cluster that are modelled: registry, kubelets, cloud, controllers, wire."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any, Protocol

__all__ = [
    "CloudMachine",
    "Controllers",
    "ImageCache",
    "InstanceType",
    "Kubelet",
    "MessageQueue",
    "ModelledCloud",
    "Nodes",
    "RefusedMachine",
    "Registry",
    "RegistryHost",
    "Wire",
]


class RegistryHost(Protocol):
    """One registry. ``private``: its repositories answer only to ``users`` (name to password and its end)."""

    @property
    def name(self) -> str:
        """As images name it."""

    @property
    def state(self) -> str:
        """``up``, ``refusing``, ``rate-limited``..."""

    @property
    def private(self) -> Iterable[str]:
        """The repositories that are closed."""

    @property
    def users(self) -> Mapping[str, tuple[str, datetime | None]]:
        """To whom they open."""


class ImageCache(Protocol):
    """The images on one node."""

    @property
    def images(self) -> Mapping[str, Any]:
        """By canonical name."""

    def evict(self, image: str) -> bool:
        """Remove one image; whether it was there."""


class Registry(Protocol):
    """Every registry there is, and the nodes' copies of what was pulled.

    The journal calls ``set_state``, ``set_load``, ``delete_tag``, ``restore_tag``, ``make_private``, ``set_access`` and
    ``restore_cache`` by name.
    """

    @property
    def caches(self) -> Mapping[str, ImageCache]:
        """By node."""

    @property
    def loads_s(self) -> Mapping[str, float]:
        """How long what is in an image takes to be ready, in seconds, where it is not run; by image."""

    def host(self, name: str) -> RegistryHost:
        """A registry by its host name; one that nobody spoke of is up."""

    def would_refuse(self, image: str, now: datetime) -> str | None:
        """What a pull of an image would be told at this moment; empty: it would arrive. Nothing is pulled."""


class Kubelet(Protocol):
    """A node's agent."""

    @property
    def stopped(self) -> bool:
        """It is silent; its containers may run on."""

    @property
    def powered_off(self) -> bool:
        """The whole machine is off."""


class Nodes(Protocol):
    """The nodes' kubelets. The journal calls ``pause`` and ``start`` by name."""

    @property
    def kubelets(self) -> Mapping[str, Kubelet]:
        """By node."""


class InstanceType(Protocol):
    """A type of machine."""

    @property
    def name(self) -> str:
        """As its cloud calls it."""

    @property
    def devices(self) -> int:
        """How many GPUs it has."""


class CloudMachine(Protocol):
    """One machine of a modelled cloud."""

    @property
    def instance_id(self) -> str:
        """As the cloud calls it."""

    @property
    def provider_id(self) -> str:
        """As Node.spec.providerID has it."""

    @property
    def type(self) -> InstanceType:
        """What was launched."""

    @property
    def state(self) -> str:
        """``running``, ``shutting-down``, ``terminated``..."""

    @property
    def usd_per_hour(self) -> float | None:
        """On demand; None: not known."""

    @property
    def launched(self) -> datetime:
        """When it was asked for."""

    @property
    def running(self) -> datetime | None:
        """Since when it bills."""

    @property
    def notice(self) -> datetime | None:
        """When it is taken, by the notice that it got."""

    @property
    def node_name(self) -> str:
        """Of the Node that stands for it; empty: none does."""

    @property
    def ended(self) -> datetime | None:
        """When its end began."""

    @property
    def terminated_by(self) -> str:
        """Who ended it."""

    @property
    def rebalance(self) -> datetime | None:
        """When a rebalance was recommended."""

    @property
    def metadata_tells(self) -> bool:
        """Whether its metadata tells of either."""


class RefusedMachine(Protocol):
    """A machine that was asked for and not to be had."""

    @property
    def type(self) -> str:
        """Its type's name."""

    @property
    def devices(self) -> int:
        """How many GPUs that has."""

    @property
    def by(self) -> str:
        """Who asked."""

    @property
    def at(self) -> datetime:
        """When."""


class MessageQueue(Protocol):
    """What the cloud tells a handler of interruptions."""

    @property
    def sent(self) -> Collection[str]:
        """Every message so far."""


class ModelledCloud(Protocol):
    """A cloud that is killcheck's own. ``metadata_blocked``: instance metadata is out of pods' reach.

    ``no_spot``: no spot machine is to be had. ``sizes``: of its node groups, by name, as they are set.
    ``identities_gone``: what command lines in pods are told (exit code, words) without an identity, by program.
    """

    identities_gone: Mapping[str, tuple[int, str]]
    metadata_blocked: bool
    no_spot: bool
    sizes: Any

    @property
    def spot_refused(self) -> Sequence[RefusedMachine]:
        """Who asked for a spot machine all the same."""

    @property
    def identities_refused(self) -> Sequence[str]:
        """Who was told so."""

    @property
    def metadata_unheard(self) -> Collection[str]:
        """Who asked metadata all the same, and got no answer."""

    @property
    def queue(self) -> MessageQueue:
        """Where notices are sent."""

    @property
    def instances(self) -> Mapping[str, CloudMachine]:
        """By instance id."""

    def by_provider_id(self, provider_id: str) -> CloudMachine | None:
        """The machine behind a Node, terminated ones included."""

    def ghosts(self, provider_ids: Iterable[str]) -> Collection[CloudMachine]:
        """Billed machines that none of ``provider_ids`` (of Nodes and NodeClaims) stands for."""

    def leaves_s(self, instance: Any, /) -> float:
        """How long a notice of its cloud leaves, in seconds."""

    def interrupt(
        self, instance_id: str, *, in_s: float | None = None, via: Collection[str] = ("queue", "metadata")
    ) -> CloudMachine:
        """A spot interruption: notice now, reclaim in ``in_s`` seconds (None: what its cloud leaves)."""

    def recommend_rebalance(self, instance_id: str) -> CloudMachine:
        """A rebalance recommendation: a message and metadata, nothing more."""

    def reclaim(self, instance_id: str) -> CloudMachine:
        """A reclaim without notice: the machine stops at once, its Node stays."""


class Controllers(Protocol):
    """Controllers and models that run here. The journal calls both methods by name."""

    @property
    def controllers(self) -> Collection[str]:
        """The names of those that run."""

    @property
    def stopped(self) -> Collection[str]:
        """The names of those that were stopped."""

    def stop_controller(self, name: str) -> None:
        """Stop one. Raises KeyError."""

    def start_controller(self, name: str) -> None:
        """Start again what was stopped; idempotent."""


class Wire(Protocol):
    """The API as it is reached over TLS. ``interceptor`` sees every request first, and may answer in its place.

    ``certificate``: what whoever connects is shown: the server's own, one that has ended, one that is not valid yet.
    ``handshakes`` is asked at each connection whether its handshake comes to nothing, ``names`` how many seconds the
    look-up of a name takes.
    """

    interceptor: Callable[[Any], Any] | None
    certificate: str
    handshakes: Callable[[], bool] | None
    names: Callable[[str], float] | None
