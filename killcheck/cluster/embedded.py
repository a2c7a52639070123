"""The embedded cluster as a place to drill on."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from datetime import datetime
from typing import TYPE_CHECKING

from killcheck.capabilities.cluster import ClusterError, InstanceState, Keeper, OwnConsent
from killcheck.capabilities.inventory import Inventory
from killcheck.capabilities.offered import Capabilities
from killcheck.capabilities.ran import Ran
from killcheck.embedded import Cluster, HostRuntime
from killcheck.entries import Assumption, Doubt
from killcheck.kube.machineless import StoodIn
from killcheck.kube.objects import Obj, dig, name_of, namespace_of, ref_of

if TYPE_CHECKING:
    from killcheck.machine.modelled import Machine

__all__ = ["EmbeddedDrillCluster"]


def _embedded(start: datetime, seed: int, exec_mode: str, kubernetes_version: str) -> Cluster:
    """Raises ClusterError where strangers' programs are to be kept in and this machine cannot."""
    from killcheck.embedded import NoSandbox

    try:
        cluster = Cluster(start=start, seed=seed, exec_mode=exec_mode, kubernetes_version=kubernetes_version)
    except NoSandbox as error:
        raise ClusterError(str(error)) from error
    runtime = cluster.nodes.runtime
    if exec_mode == "host" and isinstance(runtime, HostRuntime):
        try:
            runtime.settle()
        except NoSandbox as error:
            cluster.close()
            raise ClusterError(str(error)) from error
    return cluster


class EmbeddedDrillCluster:
    """An :class:`~killcheck.embedded.cluster.Cluster` with manifests loaded, under the drill's protocol."""

    name = "embedded"
    real = False
    own_consent: OwnConsent | None = None
    keeper: Keeper | None = None

    def __init__(
        self,
        objects: Iterable[Obj],
        *,
        exec_mode: str,
        start: datetime,
        seed: int = 1,
        inventory: Inventory | None = None,
        kubernetes_version: str = "",
    ) -> None:
        objects = list(objects)
        self._inventory = inventory or Inventory(objects)
        self.embedded = _embedded(start, seed, exec_mode, kubernetes_version)
        self.kubernetes = self.embedded.release.version
        #: What is outside Kubernetes, where the kill path has any such thing.
        self.machine: Machine | None = None
        #: What was started beside the cluster, and how it ends.
        self.closing: list[Callable[[], None]] = []
        self.kube = self.embedded.kube
        self.loop = self.embedded.loop
        self.capabilities = Capabilities(
            registry=self.embedded.registry,
            nodes=self.embedded.nodes,
            cloud=self.embedded.cloud,
            controllers=self.embedded,
            wire=self.embedded.wire,
        )
        if self._inventory.loaded is not None:
            self.embedded.git.files = {
                (str(one.obj.get("kind")), namespace_of(one.obj) or "default", name_of(one.obj)): one.file
                for one in self._inventory.loaded.manifests
            }
        try:
            self.embedded.load(objects)
        except BaseException:
            self.embedded.close()
            raise

    @property
    def sandbox(self) -> str:
        """The level at which what was run was kept in (see ``isolation.Level``); empty: nothing was run."""
        return self.embedded.nodes.runtime.level or ""

    def hurry(self) -> None:
        """The drill was interrupted: what programs do here keeps nobody waiting."""
        self.embedded.nodes.runtime.hurry()

    def instance_state(self, node: Obj) -> InstanceState:
        """What the model cloud says of the instance behind a node."""
        asked = self.capabilities.instances
        if asked is not None:
            return asked.state(dig(node, "spec", "providerID", default=""))
        return self.embedded.instance_state(node)

    def assumptions(self) -> Sequence[Assumption]:
        """What was assumed about images and missing objects."""
        return self.embedded.assumptions

    def unknowns(self) -> Sequence[str]:
        """Executors and programs that were not allowed to run."""
        return [*self.embedded.unknowns, *(self.machine.unknowns if self.machine else ())]

    def doubts(self) -> Sequence[Doubt]:
        """What the models do not know, and what a machine's programs did that could not be run."""
        return [*self.embedded.doubts, *(Doubt("", said) for said in (self.machine.unknowns if self.machine else ()))]

    def limits(
        self,
        since: datetime,
        until: int | None = None,
        pods: Collection[str] | None = None,
    ) -> Sequence[str]:
        """What executors were answered that only this cluster answers so."""
        return self.embedded.limits.between(since, until, pods)

    def author(self, version: int) -> str | None:
        """By the token that the request was made with."""
        return self.embedded.server.authors.get(version)

    def inventory(self) -> Inventory:
        """The manifests, also those of kinds that nothing here knows."""
        return self._inventory

    def models(self) -> frozenset[str]:
        """Controllers and models, those that a fault has stopped among them."""
        return frozenset(self.embedded.controllers) | self.embedded.stopped

    def not_run(self) -> Sequence[tuple[Obj, str]]:
        """Executors' pods that were not allowed to run, or could not."""
        return list(self.embedded.nodes.not_run)

    def ran(self) -> Sequence[Ran]:
        """What was really started on a hollow node, with what it asked that nothing here answers."""
        met = self.embedded.limits.met.values()
        return [
            Ran(pod, tuple(one.what for one in met if one.who == ref_of({"kind": "Pod"} | pod)))
            for pod in self.embedded.nodes.ran
        ]

    def pulls(self) -> bool:
        """False: a model of a registry answers."""
        return False

    def stood_in(self) -> Sequence[StoodIn]:
        """None: what does not run here :meth:`not_run` has, and the ledger knows what was modelled."""
        return ()

    def asked(self) -> int:
        """Over the wire: controllers here need none."""
        return self.embedded.wire.asked

    def close(self) -> None:
        """Stop everything; idempotent."""
        if self.machine is not None:
            self.machine.close()
        self.embedded.close()
        while self.closing:
            self.closing.pop()()
