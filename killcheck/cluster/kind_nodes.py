"""A small stand-in for a node autoscaler on a kind cluster: an empty GPU node goes, its container with it; a GPU pod
that finds no room brings one back.

It is a client of the API and of the engine as anybody is, and works only while a drill does.
"""

from __future__ import annotations

from killcheck.clock import Loop, Timer
from killcheck.engine.connection import Engine, answered
from killcheck.kube import gpus
from killcheck.kube import resources as r
from killcheck.kube.client import Kube
from killcheck.kube.errors import KubeError, NotFound
from killcheck.kube.objects import Obj, controller_of, dig, name_of

__all__ = ["GPU_LABEL", "NodeKeeper"]

#: Label of the nodes that it keeps.
GPU_LABEL = "killcheck.dev/gpu"
#: How long a node must be empty before it goes, and how often it is looked at, in seconds.
EMPTY_S = 5.0
LOOK_S = 1.0
#: What a node advertises when it comes back.
DEVICES = "8"


class NodeKeeper:
    """Keeps the GPU nodes of one cluster, on ``loop``."""

    def __init__(self, kube: Kube, engine: Engine, loop: Loop) -> None:
        self.kube = kube
        self.engine = engine
        self.loop = loop
        self._empty_since: dict[str, float] = {}
        #: Nodes that it took away, with what they advertised, to bring back.
        self.away: dict[str, Obj] = {}
        self._timer: Timer | None = None

    def start(self) -> None:
        """Begin."""
        self._timer = self.loop.call_later(LOOK_S, self._look)

    def stop(self) -> None:
        """No more; idempotent. Every node that it took away is brought back first."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        for name in list(self.away):
            self._bring_back(name)

    def _look(self) -> None:
        self._timer = self.loop.call_later(LOOK_S, self._look)
        try:
            self.round()
        except KubeError:
            return  # at the next round

    def round(self) -> None:
        """One look at nodes and pods, and what follows from it. Raises KubeError."""
        pods = self.kube.list(r.PODS).items
        for node in self.kube.list(r.NODES, labels=f"{GPU_LABEL}=true").items:
            name = name_of(node)
            if _ready(node) and not gpus.node_devices(node):
                self._advertise(name)
            elif any(_in_the_way(pod, name) for pod in pods):
                self._empty_since.pop(name, None)
            elif (
                _ready(node)
                and self.loop.monotonic() - self._empty_since.setdefault(name, self.loop.monotonic()) >= EMPTY_S
            ):
                self._take_away(node)
        if self.away and any(_waits(pod) for pod in pods):
            self._bring_back(next(iter(self.away)))

    def _take_away(self, node: Obj) -> None:
        """Cordoned, its machine off, then its object: nothing can run any more when it is gone."""
        name = name_of(node)
        self.kube.patch(r.NODES, name, {"spec": {"unschedulable": True}})
        with answered():
            self.engine.api.stop(name)
        self.kube.delete(r.NODES, name)
        self.away[name] = {"devices": dig(node, "status", "capacity", "nvidia.com/gpu", default=DEVICES)}
        self._empty_since.pop(name, None)

    def _bring_back(self, name: str) -> None:
        try:
            with answered():
                self.engine.api.start(name)
        except NotFound:
            self.away.pop(name, None)

    def _advertise(self, name: str) -> None:
        """A kubelet that registers anew knows nothing of devices that are not there."""
        has = {"nvidia.com/gpu": self.away.pop(name, {}).get("devices", DEVICES)}
        self.kube.patch(r.NODES, name, {"status": {"capacity": has, "allocatable": has}}, subresource="status")


def _ready(node: Obj) -> bool:
    return any(
        c.get("type") == "Ready" and c.get("status") == "True" for c in dig(node, "status", "conditions", default=[])
    )


def _in_the_way(pod: Obj, node: str) -> bool:
    """Whether a pod keeps a node: any but a DaemonSet's, a static one, a finished one."""
    owner = controller_of(pod)
    return (
        dig(pod, "spec", "nodeName") == node
        and not (owner and owner["kind"] in ("DaemonSet", "Node"))
        and dig(pod, "status", "phase") not in ("Succeeded", "Failed")
    )


def _waits(pod: Obj) -> bool:
    return (
        not dig(pod, "spec", "nodeName")
        and gpus.devices(pod) > 0
        and dig(pod, "status", "phase") not in ("Succeeded", "Failed")
    )
