"""What a kubelet is to its pods: its node, the API, images and back-offs, the runtime, addresses.

What may *not* live here: pods. Each part of a pod's life knows this, and never the :class:`~kubelet.Kubelet` above it.
"""

from __future__ import annotations

import random
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import TYPE_CHECKING

from msgspec import Struct

from killcheck.clock import Loop
from killcheck.embedded.controllers.events import EventRecorder
from killcheck.embedded.nodes import commands
from killcheck.embedded.nodes.backoff import Backoff
from killcheck.embedded.nodes.execution import ASSUMED, Launch, NetworkPolicy, Runtime
from killcheck.embedded.nodes.registry import Cache, Cached, Registry, credentials
from killcheck.kube import releases
from killcheck.kube import resources as r
from killcheck.kube.client import Kube
from killcheck.kube.errors import KubeError
from killcheck.kube.machineless import HOLLOW, POD_ADDRESSES
from killcheck.kube.objects import Obj, annotations_of, dig, labels_of, name_of, namespace_of

if TYPE_CHECKING:
    from killcheck.embedded.nodes.registry import Credentials

__all__ = ["Dependencies", "NodeAgent"]

#: Names in ``node.status.images``: the kubelet's ``--node-status-max-images``.
MAX_IMAGES = 50


class Dependencies(Struct, frozen=True):
    """What all kubelets of a cluster share (kubelet.Dependencies).

    ``runs``: whether a pod's programs are run. ``unknown`` and ``lacks`` are told of a pod whose outcome is not known
    here, and of what it has not; ``ran`` of every container that was started. ``vouched``: whether the node controller
    here takes a Lease's word for it that it is renewed; a real one does not.
    """

    registry: Registry
    runtime: Runtime
    rng: random.Random
    runs: Callable[[Obj], bool]
    network: Callable[[Obj], NetworkPolicy]
    unknown: Callable[[Obj, str], None]
    lacks: Callable[[Obj, str], None]
    ran: Callable[[Launch], None]
    #: Ask to be told what changes of what pods refer to; whether that can be had.
    references: Callable[[], bool]
    version: str = releases.DEFAULT.version
    vouched: bool = True


class NodeAgent(ABC):
    """A kubelet without its pods. ``index`` tells its pods' addresses from other nodes'."""

    def __init__(self, node: Obj, kube: Kube, loop: Loop, shared: Dependencies, index: int) -> None:
        self.node = node
        self.name = name_of(node)
        self.kube = kube
        self.loop = loop
        self.index = index
        self.registry, self.runtime, self.rng = shared.registry, shared.runtime, shared.rng
        self.runs, self.network, self.ran = shared.runs, shared.network, shared.ran
        self.unknown, self.lacks = shared.unknown, shared.lacks
        self.references = shared.references
        self.images.on_arrival = self.stir
        self.version, self.vouched = shared.version, shared.vouched
        self.stopped = False
        #: The machine itself has ended, and not only its kubelet.
        self.powered_off = False
        self.events = EventRecorder(kube, loop, "kubelet", host=self.name)
        self.image_backoff = Backoff()
        self.crash_backoff = Backoff()
        self.pulls_free_at = 0.0
        self._addresses = 0
        self._images_due = False

    @abstractmethod
    def others(self, uid: str) -> list[Obj]:
        """The pods of this node that are not over, but for one."""

    @abstractmethod
    def dropped(self, uid: str) -> None:
        """Nothing is left of a pod."""

    @abstractmethod
    def stir(self, namespace: str | None = None) -> None:
        """Something came that pods may wait for (None: those of every namespace): they look again."""

    @property
    def images(self) -> Cache:
        """The images on this node."""
        return self.registry.cache(self.name)

    @property
    def host_ip(self) -> str:
        """The node's own address."""
        addresses = {a["type"]: a["address"] for a in dig(self.node, "status", "addresses", default=[])}
        return addresses.get("InternalIP") or f"10.0.{self.index // 250}.{self.index % 250 + 4}"

    def next_pod_ip(self, pod: Obj) -> str:
        """A fresh address for a pod; the node's own for one on the host's network.

        On a cluster that is somebody's it is one of RFC 2544, which are routed nowhere: no Service of theirs may send
        to a pod of theirs that happens to have the same.
        """
        if pod["spec"].get("hostNetwork"):
            return self.host_ip
        self._addresses += 1
        if HOLLOW in labels_of(self.node):
            said = annotations_of(self.node).get(POD_ADDRESSES, "")  # those of no other process's node
            own = int(said) if said.isdecimal() else self.index
            return f"198.{18 + own // 256 % 2}.{own % 256}.{self._addresses % 254 + 1}"
        return f"10.244.{self.index % 256}.{self._addresses % 254 + 1}"

    def hex_id(self) -> str:
        """A container's id."""
        return f"{self.rng.getrandbits(256):064x}"

    def pull_secrets(self, pod: Obj) -> Credentials:
        """The logins in the pod's imagePullSecrets; one that is not there is an event, and no more."""
        found: list[Obj] = []
        missing: list[str] = []
        for ref in pod["spec"].get("imagePullSecrets") or ():
            try:
                secret = self.kube.find(r.SECRETS, ref.get("name", ""), namespace_of(pod))
            except KubeError:
                secret = None
            if secret is None:
                missing.append(ref.get("name", ""))
            else:
                found.append(secret)
        if missing:
            self.events.emit(
                pod,
                "Warning",
                "FailedToRetrieveImagePullSecret",
                f"Unable to retrieve some image pull secrets ({', '.join(missing)}); attempting to pull the image may "
                "not succeed.",
                api_version="v1",
                object_kind="Pod",
            )
        return credentials(found)

    def image_arrived(self, cached: Cached) -> None:
        """An image was pulled: the node's status says so a little later."""
        self.images.put(cached)
        if not self._images_due:
            self._images_due = True
            self.loop.call_later(1.0, self.show_images)

    def show_images(self) -> None:
        """Write ``status.images``, largest first."""
        self._images_due = False
        if self.stopped:
            return
        images = sorted(self.images.images.values(), key=lambda c: (-c.size, c.image))[:MAX_IMAGES]
        listed = [
            {"names": [c.image_id, c.image] if c.image != c.image_id else [c.image], "sizeBytes": c.size}
            for c in images
        ]
        try:
            self.kube.patch(r.NODES, self.name, {"status": {"images": listed}}, subresource="status")
        except KubeError:
            return

    def services(self) -> dict[str, str]:
        """``name.namespace`` of every Service with a cluster IP, and the IP."""
        listed = self.kube.list(r.SERVICES).items
        addresses = {f"{name_of(s)}.{namespace_of(s)}": dig(s, "spec", "clusterIP", default="") for s in listed}
        return {name: ip for name, ip in addresses.items() if ip and ip != "None"}

    def check_command(self, launch: Launch) -> None:
        """Raises StartError where the modelled image has no such program."""
        commands.check(launch)

    @property
    def described(self) -> bool:
        """Whether somebody described the node: what is on one that was made here nobody knows."""
        return ASSUMED not in labels_of(self.node)
