"""Where a drill runs, as the drill sees it: one small protocol."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from datetime import datetime
from typing import Any, Protocol

from killcheck.capabilities.account import InstanceState
from killcheck.capabilities.inventory import Inventory
from killcheck.capabilities.offered import Capabilities
from killcheck.capabilities.ran import Ran
from killcheck.clock import Loop
from killcheck.entries import Assumption, Doubt
from killcheck.kube.client import Kube
from killcheck.kube.machineless import StoodIn
from killcheck.kube.objects import Obj

__all__ = ["Cluster", "ClusterError", "InstanceState", "Keeper", "NotInstalled", "OwnConsent"]


class ClusterError(Exception):
    """The cluster could not be set up or reached; one sentence for a person."""


class NotInstalled(ClusterError):
    """What a spec asks of a cluster needs a package that is not here; the message says which, and how to get it."""


class OwnConsent(Protocol):
    """A place that has no namespaces and pools which could consent: it says itself what may be touched."""

    def objections(self, plan: Any) -> Iterable[str]:
        """Why what a plan would touch may not be, a sentence each."""


class Keeper(Protocol):
    """A place whose objects are no Kubernetes workloads: it says itself how one is put back on."""

    def remember(self, journal: Any, obj: Obj) -> None:
        """Write down in a journal how an object is put back on, before anything is done to it."""


class Cluster(Protocol):
    """A real, kind or embedded cluster. ``capabilities``: what is acted on and asked here besides the API."""

    capabilities: Capabilities

    @property
    def name(self) -> str:
        """As the user named it."""

    @property
    def real(self) -> bool:
        """Whether what is lost when something goes wrong here is somebody's: consent is needed."""

    @property
    def kube(self) -> Kube:
        """The API, with the rights that the user has."""

    @property
    def loop(self) -> Loop:
        """The cluster's time."""

    @property
    def kubernetes(self) -> str:
        """The version of its Kubernetes (``v1.36.2``); empty where there is none, or it does not say."""

    @property
    def sandbox(self) -> str:
        """The level at which what was run here was kept in; empty: nothing was."""

    @property
    def own_consent(self) -> OwnConsent | None:
        """Who says what may be touched; None: the labels of namespaces and pools do."""

    @property
    def keeper(self) -> Keeper | None:
        """Who knows how its objects are put back on; None: they are Kubernetes workloads."""

    def hurry(self) -> None:
        """The drill was interrupted: what programs do here keeps nobody waiting."""

    def instance_state(self, node: Obj) -> InstanceState:
        """What the cloud says of the instance behind a node (also after the Node object has gone)."""

    def assumptions(self) -> Sequence[Assumption]:
        """What the answer rests on without having been seen (images whose contents are assumed...)."""

    def unknowns(self) -> Sequence[str]:
        """What makes an outcome unknown here: processes that were not allowed to run, and why."""

    def doubts(self) -> Sequence[Doubt]:
        """What models here do not know of objects, and which verdicts cannot rest on it."""

    def limits(
        self,
        since: datetime,
        until: int | None = None,
        pods: Collection[str] | None = None,
    ) -> Sequence[str]:
        """Answers since a moment that only this cluster gives, where a real one may have answered otherwise.

        ``until``: those before the write of that resource version alone (several writes may share a moment).
        ``pods``: those to these pods alone (``Pod/NAMESPACE/NAME``), and to whoever is no pod; None: to anybody.
        """

    def author(self, version: int) -> str | None:
        """Who made the write of a resource version, a pod as ``Pod/NAMESPACE/NAME``; None: nobody here knows."""

    def inventory(self) -> Inventory:
        """What there is besides what a drill watches. Raises KubeError where that cannot be listed."""

    def models(self) -> frozenset[str]:
        """The names of the controllers and models that run here in place of real ones."""

    def not_run(self) -> Sequence[tuple[Obj, str]]:
        """Pods whose program was to run here and was not, and why."""

    def ran(self) -> Sequence[Ran]:
        """Pods of the embedded cluster whose own programs ran; none of a real one's, where all of them do."""

    def pulls(self) -> bool:
        """Whether every image that is used here has been pulled from a registry: no node takes it to exist."""

    def stood_in(self) -> Sequence[StoodIn]:
        """Pods of a real cluster on nodes without a machine, whose programs did not run. Raises KubeError."""

    def asked(self) -> int:
        """How many requests programs have made of the API server here; 0 where that costs nobody here anything."""

    def close(self) -> None:
        """Stop what was started; idempotent."""
