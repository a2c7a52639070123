"""What the scheduler knows of nodes and of the pods on them, kept current pod by pod."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from fractions import Fraction
from functools import lru_cache
from itertools import count
from math import ceil, floor

from msgspec import Struct, field

from killcheck.embedded.api.pod_resources import pod_resources
from killcheck.kube.objects import Obj, controller_of, dig, labels_of, name_of, namespace_of, uid_of
from killcheck.kube.quantities import parse

__all__ = ["NodeInfo", "PodInfo", "Reject", "Snapshot", "amounts"]

#: Requested by a container that says nothing, for scoring: 100 m of CPU, 200 MB.
DEFAULT_CPU_M = 100
DEFAULT_MEMORY = 200 * 1024 * 1024


#: No two states of a node have the same, of a node that was tried out neither.
_STAMPS = count(1)


class Reject(Struct, frozen=True):
    """Why a node does not do. ``resolvable``: removing other pods from it might help."""

    plugin: str
    reasons: tuple[str, ...]
    resolvable: bool = False


def amounts(resources: dict[str, Fraction]) -> dict[str, int]:
    """What is asked for as whole numbers: CPU in thousandths, all else in units; rounded up."""
    return {name: ceil(value * 1000) if name == "cpu" else ceil(value) for name, value in resources.items()}


@lru_cache(maxsize=4096)
def _allocatable(name: str, text: str) -> int:
    value = parse(text)
    return floor(value * 1000) if name == "cpu" else floor(value)


class PodInfo:
    """A pod, read once."""

    __slots__ = (
        "affinity",
        "anti_affinity",
        "key",
        "labels",
        "namespace",
        "owner",
        "pod",
        "ports",
        "priority",
        "requests",
        "scored",
        "shape",
        "signature",
        "uid",
    )

    def __init__(self, pod: Obj) -> None:
        spec = pod["spec"]
        self.pod = pod
        self.uid = uid_of(pod)
        self.namespace = namespace_of(pod)
        self.key = (self.namespace, name_of(pod))
        self.labels = labels_of(pod)
        owner = controller_of(pod)
        self.owner = str(owner["uid"]) if owner else ""
        self.priority = int(spec.get("priority") or 0)
        self.requests = {
            name: value
            for name, value in amounts(
                {name: amount.value for name, amount in pod_resources(pod, "requests").items()}
            ).items()
            if value
        }
        self.scored = (self.requests.get("cpu", DEFAULT_CPU_M), self.requests.get("memory", DEFAULT_MEMORY))
        self.ports = tuple(_host_ports(spec))
        affinity = spec.get("affinity") or {}
        self.affinity = _required(affinity.get("podAffinity"))
        self.anti_affinity = _required(affinity.get("podAntiAffinity"))
        static = (spec.get("nodeSelector"), affinity.get("nodeAffinity"), spec.get("tolerations"), spec.get("nodeName"))
        self.signature = json.dumps(static, sort_keys=True)
        #: What a node alone judges a pod by.
        self.shape = (self.signature, self.scored, tuple(sorted(self.requests.items())))


def _required(affinity: Obj | None) -> list[Obj]:
    return list((affinity or {}).get("requiredDuringSchedulingIgnoredDuringExecution") or ())


def _host_ports(spec: Obj) -> Iterator[tuple[str, str, int]]:
    """(protocol, address, port) that a pod takes on its node."""
    for container in (*spec.get("initContainers", ()), *spec.get("containers", ())):
        for port in container.get("ports") or ():
            number = port.get("hostPort") or (port["containerPort"] if spec.get("hostNetwork") else 0)
            if number:
                yield str(port.get("protocol") or "TCP"), str(port.get("hostIP") or "0.0.0.0"), int(number)  # noqa: S104


class NodeInfo(Struct):
    """One node and what has been put on it. ``node`` is None where only its pods are known."""

    name: str
    node: Obj | None = None
    #: Changes with everything about the node that does not depend on its pods.
    version: int = 0
    #: Changes with everything about the node, its pods too.
    stamp: int = 0
    labels: dict[str, str] = field(default_factory=dict)
    allocatable: dict[str, int] = field(default_factory=dict)
    requested: dict[str, int] = field(default_factory=dict)
    #: (CPU, memory) as scoring counts them: pods that ask for nothing count something.
    scored: tuple[int, int] = (0, 0)
    pods: dict[str, PodInfo] = field(default_factory=dict)
    repelling: dict[str, PodInfo] = field(default_factory=dict)
    #: How many pods of each controller are here.
    siblings: dict[str, int] = field(default_factory=dict)
    #: Its PreferNoSchedule taints.
    discouraged: list[Obj] = field(default_factory=list)

    def set_node(self, node: Obj) -> None:
        """The node object as it is now."""
        self.node = node
        self.version += 1
        self.stamp = next(_STAMPS)
        self.labels = labels_of(node)
        taints = dig(node, "spec", "taints", default=[])
        self.discouraged = [taint for taint in taints if taint["effect"] == "PreferNoSchedule"]
        found = dig(node, "status", "allocatable", default={})
        self.allocatable = {name: _allocatable(name, str(text)) for name, text in found.items()}

    def add(self, info: PodInfo) -> None:
        """A pod is on the node, or about to be."""
        self.pods[info.uid] = info
        self.stamp = next(_STAMPS)
        if info.anti_affinity:
            self.repelling[info.uid] = info
        if info.owner:
            self.siblings[info.owner] = self.siblings.get(info.owner, 0) + 1
        for name, amount in info.requests.items():
            self.requested[name] = self.requested.get(name, 0) + amount
        self.scored = (self.scored[0] + info.scored[0], self.scored[1] + info.scored[1])

    def remove(self, uid: str) -> PodInfo | None:
        """A pod has left the node."""
        info = self.pods.pop(uid, None)
        if info is None:
            return None
        self.stamp = next(_STAMPS)
        self.repelling.pop(uid, None)
        if info.owner:
            self.siblings[info.owner] -= 1
            if not self.siblings[info.owner]:
                del self.siblings[info.owner]
        for name, amount in info.requests.items():
            self.requested[name] -= amount
        self.scored = (self.scored[0] - info.scored[0], self.scored[1] - info.scored[1])
        return info

    def copy(self) -> NodeInfo:
        """One to try things out on."""
        return NodeInfo(
            self.name,
            self.node,
            self.version,
            self.stamp,
            self.labels,
            self.allocatable,
            dict(self.requested),
            self.scored,
            dict(self.pods),
            dict(self.repelling),
            dict(self.siblings),
            self.discouraged,
        )


class Snapshot:
    """All nodes and all pods on them."""

    def __init__(self) -> None:
        self.nodes: dict[str, NodeInfo] = {}
        self.where: dict[str, str] = {}
        #: Pods that were promised a node by preemption and are not on it yet, by node and uid.
        self.nominated: dict[str, dict[str, PodInfo]] = {}

    def present(self) -> list[NodeInfo]:
        """The nodes that exist."""
        return [info for info in self.nodes.values() if info.node is not None]

    def set_node(self, node: Obj) -> None:
        """A node appeared or changed."""
        name = name_of(node)
        self.nodes.setdefault(name, NodeInfo(name)).set_node(node)

    def drop_node(self, name: str) -> None:
        """A node has gone; its pods may still be there."""
        info = self.nodes.get(name)
        if info is not None:
            info.node = None
            if not info.pods:
                del self.nodes[name]

    def place(self, info: PodInfo, node: str) -> None:
        """A pod is on a node (known before or not)."""
        self.lift(info.uid)
        self.where[info.uid] = node
        self.nodes.setdefault(node, NodeInfo(node)).add(info)
        self.withdraw(info.uid)

    def lift(self, uid: str) -> PodInfo | None:
        """A pod is on no node any more."""
        name = self.where.pop(uid, None)
        node = self.nodes.get(name) if name is not None else None
        if node is None:
            return None
        info = node.remove(uid)
        if node.node is None and not node.pods:
            del self.nodes[node.name]
        return info

    def nominate(self, info: PodInfo, node: str) -> None:
        """Keep room for a pod on a node."""
        self.withdraw(info.uid)
        self.nominated.setdefault(node, {})[info.uid] = info

    def withdraw(self, uid: str) -> None:
        """Keep it no longer."""
        for node in [node for node, pods in self.nominated.items() if uid in pods]:
            self.nominated[node].pop(uid)
            if not self.nominated[node]:
                del self.nominated[node]

    def promised(self, node: str, info: PodInfo) -> Iterable[PodInfo]:
        """The pods for which room is kept on a node against ``info``: those that matter at least as much."""
        return [
            other
            for uid, other in self.nominated.get(node, {}).items()
            if uid != info.uid and other.priority >= info.priority
        ]
