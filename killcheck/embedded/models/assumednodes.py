"""Nodes that no manifest describes, made as pods ask for them: what a cluster has that lives in somebody's Terraform.

Each fits the pod that it is made for, whatever came before it, carries the labels that the pod selects, and is tainted
as nodes with GPUs are: no other pod lands on it. Nothing here removes one, unless the spec says who does and by when
(:class:`Described`). What a drill says of them is said of an assumption: they carry the label :data:`ASSUMED`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import ClassVar

from msgspec import Struct

from killcheck.embedded.api.admission.request import AdmissionRequest
from killcheck.embedded.api.http import Request, Response
from killcheck.embedded.controllers.runtime import Controller
from killcheck.embedded.controllers.scheduler.claims import claim_names
from killcheck.embedded.models import assumeddevices
from killcheck.embedded.models.karpenter.pods import is_active, is_daemon, is_provisionable, requests
from killcheck.embedded.nodes.execution import ASSUMED
from killcheck.entries import Assumption
from killcheck.kube import gpus
from killcheck.kube import resources as r
from killcheck.kube.errors import Conflict, NotFound
from killcheck.kube.informer import Change
from killcheck.kube.objects import Obj, dig, labels_of, name_of, namespace_of, owners, uid_of
from killcheck.kube.selectors import labels_selected

__all__ = ["ASSUMED", "AssumedNodes", "Assumptions", "Described", "DeviceTolerations", "node"]

#: EC2 types by how many GPUs one pod asks for; prices and sizes are the catalogue's.
GPU_TYPES = {1: "g6.4xlarge", 4: "g6.12xlarge", 8: "p4d.24xlarge"}
#: The CPU pool's nodes, and the largest that is made for a pod: no bigger machine is commonly rented.
CPU_TYPE, MOST_CPU, MOST_MEMORY_GIB = "m6i.xlarge", 96, 384
#: How long an autoscaler that is described gets to make room itself before a CPU node is assumed, in seconds.
AFTER_OTHERS_S = 120.0
_HOST = "kubernetes.io/hostname"
_TYPE = "node.kubernetes.io/instance-type"
_ZONE = "topology.kubernetes.io/zone"
#: The name of a DRA device as an extended resource: by it a node is known to have some.
_OF_CLASS = "deviceclass.resource.kubernetes.io/"
#: Labels that every kubelet gives its node.
_EVERYWHERE = frozenset({"kubernetes.io/arch", "kubernetes.io/os"})
#: Resources that every node has.
_OF_EVERY_NODE = frozenset({"cpu", "memory", "pods", "ephemeral-storage"})


class Described(Struct, frozen=True):
    """What a spec says of nodes that no manifest describes: their labels, their type, who takes empty ones away."""

    labels: Mapping[str, str]
    instance_type: str = ""
    by: str = ""
    after_s: float | None = None
    floor: int = 0

    def suits(self, selected: Mapping[str, str]) -> bool:
        """Whether a pod that selects these labels could be on one of them."""
        return all(selected.get(key, value) == value for key, value in self.labels.items())


class Assumptions(Struct):
    """What may be made: nodes with GPUs, others; and what was, in words."""

    gpu_nodes: bool = False
    cpu_nodes: bool = False
    pools: tuple[Described, ...] = ()
    made: dict[str, str] = {}
    #: Labels (``key=value``) that no manifest gives a node and that a pod without GPUs selects: in which namespace.
    selected: dict[str, str] = {}
    #: Devices that are assumed on nodes, by driver, and DeviceClasses that no manifest has.
    devices: dict[str, int] = {}
    classes: set[str] = set()
    #: Pods that share a device by annotation, and were given a whole one.
    shares: int = 0

    def notes(self) -> list[Assumption]:
        """What was assumed of nodes, one sentence a kind."""
        count = {kind: list(self.made.values()).count(kind) for kind in dict.fromkeys(self.made.values())}
        told = []
        if count.get("gpu"):
            told.append(
                f"no node pool is in the manifests: {count['gpu']} node(s) with GPUs are assumed, one for each "
                "pod, tainted as such nodes are; " + self._removed()
            )
        told += [
            f"no ResourceSlice is in the manifests: {number} device(s) of {driver} are assumed, as the claims ask"
            for driver, number in self.devices.items()
        ]
        told += [f"DeviceClass {name} is assumed, as its driver's chart has it" for name in sorted(self.classes)]
        if self.shares:
            told.append("parts of GPUs by annotation are billed as whole ones: what pods share may cost less")
        if count.get("cpu"):
            told.append(f"{count['cpu']} CPU node(s) more are assumed, with the room and labels that pods ask for")
        selected = [
            Assumption(
                f"node label {label} is in no manifest, and pods in namespace {namespace} select it: a node with it is "
                "assumed, and without one they stay Pending",
                f"node label {label}",
            )
            for label, namespace in self.selected.items()
        ]
        return [*map(Assumption, told), *selected]

    def guessed(self, request: Request, response: Response) -> tuple[str, str] | None:
        """(what of an answer was guessed, what to do): nodes selected by labels, and none of those made here has them.

        The nodes that they stand for may well have; who is told of none goes home with nothing done.
        """
        selector = request.param("labelSelector")
        if request.path != "/api/v1/nodes" or not selector or not isinstance(response.body, dict):
            return None
        rows = response.body.get("items") or response.body.get("rows") or ()
        found = {name_of(row.get("object", row)) for row in rows}
        gpu_nodes = {name for name, kind in self.made.items() if kind == "gpu"}
        if response.status != 200 or not gpu_nodes or found & gpu_nodes:
            return None
        return (
            f"it selects nodes by {selector}, and what labels the nodes with GPUs have is in no manifest",
            f"if they have these, say so in the spec (nodes: selector: {selector})",
        )

    def _removed(self) -> str:
        said = [f"{one.by} takes an empty one away after {one.after_s:.0f} s" for one in self.pools if one.after_s]
        return f"as the spec says, {' and '.join(said)}" if said else "nothing here removes them"


@dataclass(eq=False, repr=False)
class AssumedNodes(Controller):
    """Makes a node for each pod that fits nowhere, once; removes empty ones where the spec says who would."""

    assumptions: Assumptions

    name: ClassVar[str] = "assumed-nodes"
    takes: ClassVar[tuple[str, ...]] = ("assumptions",)

    def setup(self) -> None:
        """Follow the pods."""
        self._served: set[str] = set()
        self._emptied: dict[str, float] = {}
        #: The names of all nodes that there ever were: one that has left comes back for no pod.
        self._were: set[str] = set()
        self.nodes = self.listen(r.NODES, self._node)
        self.node_pools = self.informers.of(r.NODEPOOLS, optional=True)
        self.claims = self.follow(r.RESOURCECLAIMS, self._claim, optional=True)
        self.classes = self.informers.of(r.DEVICECLASSES, optional=True)
        #: Claims that devices were made for, by uid: pods may share one.
        self._claims_served: set[str] = set()
        self.pods = self.follow(r.PODS, self._pod)

    def _node(self, _change: Change, _old: Obj | None, new: Obj) -> None:
        self._were.add(name_of(new))

    def _claim(self, _change: Change, _old: Obj | None, claim: Obj) -> list[tuple[str, str]]:
        """The pod that a claim was made for."""
        return [(namespace_of(claim), str(one.get("name"))) for one in owners(claim) if one.get("kind") == "Pod"]

    def _pod(self, change: Change, old: Obj | None, new: Obj) -> list[tuple[str, str]]:
        ours = self.assumptions
        if not (ours.gpu_nodes or ours.cpu_nodes):
            return []
        if ours.pools and (node := dig(new, "spec", "nodeName")) and not (change == "modified" and is_active(new)):
            self.queue.add(("", node), 0.001)
        if change == "deleted" or uid_of(new) in self._served or not is_provisionable(new):
            return []
        return [(namespace_of(new), name_of(new))]

    def reconcile(self, key: tuple[str, str]) -> None:
        """Make the node of one pod, or (without a namespace) look whether a node has been empty for long enough."""
        if not key[0]:
            self._look_at(key[1])
            return
        pod = self.pods.get(key[1], key[0])
        if pod is None or uid_of(pod) in self._served or not is_provisionable(pod):
            return
        asked = gpus.requests(pod["spec"])
        if asked and self.assumptions.gpu_nodes:
            selected = labels_selected(pod["spec"])
            pool = next((one for one in self.assumptions.pools if one.suits(selected)), Described({}))
            self._make(pod, "gpu", _gpu_node(pod, asked, self._number("gpu"), pool))
        elif not asked and self.assumptions.gpu_nodes and pod["spec"].get("resourceClaims"):
            self._devices_for(key, pod)
        elif not asked and self.assumptions.cpu_nodes:
            self._room_for(key, pod)

    def _devices_for(self, key: tuple[str, str], pod: Obj) -> None:
        """Make a node with the devices that a pod's claims ask for, and DeviceClasses that drivers' charts bring."""
        claims = assumeddevices.claims_at(self.claims.values(), key[0], claim_names(pod))
        if claims is None:
            return  # they are made from their templates: then it comes again
        fresh = [claim for claim in claims if not dig(claim, "status", "allocation")]
        if not fresh or any(uid_of(claim) in self._claims_served for claim in fresh):
            return
        found = assumeddevices.devices_for(fresh, self._class)
        if not found:
            return
        self._claims_served |= {uid_of(claim) for claim in fresh}
        made = _device_node(pod, found, self._number("gpu"))
        for devices in found:
            self.kube.create(r.RESOURCESLICES, assumeddevices.slice_of(devices, name_of(made)))
            known = self.assumptions.devices
            known[devices.driver] = known.get(devices.driver, 0) + len(devices.entries)
        self._make(pod, "gpu", made)

    def _class(self, name: str) -> Obj | None:
        """A DeviceClass; one that is not there and that a driver's chart brings is made."""
        found = self.classes.get(name)
        if found is not None or name not in assumeddevices.KNOWN_CLASSES:
            return found
        body = assumeddevices.device_class(name)
        if name not in self.assumptions.classes:
            self.assumptions.classes.add(name)
            self.kube.create(r.DEVICECLASSES, body)
        return body

    def _room_for(self, key: tuple[str, str], pod: Obj) -> None:
        needs = requests(pod["spec"])
        if needs.get("cpu", 0.0) > MOST_CPU or needs.get("memory", 0.0) > MOST_MEMORY_GIB * 2**30:
            return
        if labels_selected(pod["spec"]).get(_HOST) in self._were:
            return
        offered = {label for pool in self.node_pools.values() for label in _offered(pool)}
        if offered & set(labels_selected(pod["spec"])):
            return  # of a pool that is described: its own matter
        since = self._emptied.setdefault(uid_of(pod), self.loop.monotonic())
        left = AFTER_OTHERS_S - (self.loop.monotonic() - since)
        if self.node_pools.values() and left > 0:
            self.queue.add(key, left)
            return
        selected = {f"{key}={value}" for key, value in labels_selected(pod["spec"]).items() if key not in _EVERYWHERE}
        self.assumptions.selected |= dict.fromkeys(sorted(selected), namespace_of(pod))
        self._make(pod, "cpu", _cpu_node(pod, self._number("cpu")))

    def _number(self, kind: str) -> int:
        number = 1
        while self.nodes.get(f"{kind}-{number}") is not None or f"{kind}-{number}" in self.assumptions.made:
            number += 1
        return number

    def _make(self, pod: Obj, kind: str, made: Obj) -> None:
        self._served.add(uid_of(pod))
        try:
            self.kube.create(r.NODES, made)
        except Conflict:
            return
        self.kube.patch(r.NODES, name_of(made), {"status": made["status"]}, subresource="status")
        self.assumptions.made[name_of(made)] = kind

    # -- away ----------------------------------------------------------------------------------------------
    def _look_at(self, name: str) -> None:
        node = self.nodes.get(name)
        pool = (
            None
            if node is None
            else next((one for one in self.assumptions.pools if one.labels.items() <= labels_of(node).items()), None)
        )
        if pool is None or pool.after_s is None or self.assumptions.made.get(name) != "gpu":
            return
        if any(dig(p, "spec", "nodeName") == name and not is_daemon(p) for p in self.pods.values()):
            self._emptied.pop(name, None)
            return
        since = self._emptied.setdefault(name, self.loop.monotonic())
        left = pool.after_s - (self.loop.monotonic() - since)
        if left > 0.001:
            self.queue.add(("", name), left)
            return
        members = [
            one
            for one in self.nodes.values()
            if pool.labels.items() <= labels_of(one).items() and self.assumptions.made.get(name_of(one)) == "gpu"
        ]
        if len(members) <= pool.floor:
            return
        try:
            self.kube.patch(r.NODES, name, {"spec": {"unschedulable": True}})
            self.kube.delete(r.NODES, name)
        except NotFound:
            return
        self._emptied.pop(name, None)


class DeviceTolerations:
    """ExtendedResourceToleration, which GKE and others turn on: who asks for a device tolerates its nodes' taint.

    Source: plugin/pkg/admission/extendedresourcetoleration. Here it works only while nodes are assumed: a manifest
    that says no toleration runs somewhere, and these nodes stand for that place.
    """

    def __init__(self, assumptions: Assumptions) -> None:
        self.assumptions = assumptions

    def mutate(self, request: AdmissionRequest) -> None:
        """Add the tolerations to a pod that is created."""
        obj = request.obj
        if not self.assumptions.gpu_nodes or obj is None or obj.get("kind") != "Pod" or request.operation != "CREATE":
            return
        given = obj["spec"].setdefault("tolerations", [])
        known = {one.get("key") for one in given}
        given += [
            {"key": name, "operator": "Exists", "effect": "NoSchedule"}
            for name in (*gpus.requests(obj["spec"]), *([ASSUMED] if obj["spec"].get("resourceClaims") else []))
            if name not in known
        ]


# -- what they look like -------------------------------------------------------------------------------------
def _offered(pool: Obj) -> Iterable[str]:
    """The labels that a Karpenter pool gives its nodes."""
    yield "karpenter.sh/nodepool"
    template = dig(pool, "spec", "template", default={})
    yield from dig(template, "metadata", "labels", default={})
    yield from (
        str(one.get("key"))
        for one in dig(template, "spec", "requirements", default=[])
        if not str(one.get("key")).startswith(("kubernetes.io/", "topology.kubernetes.io/"))
    )


def _gpu_node(pod: Obj, asked: Mapping[str, int], number: int, pool: Described) -> Obj:
    count = max(asked.values())
    known = any(name.startswith("nvidia.com/") for name in asked)  # of other vendors no price is guessed
    kind = GPU_TYPES[min((c for c in GPU_TYPES if c >= count), default=8)] if known else ""
    kind = pool.instance_type or kind
    needs = requests(pod["spec"])
    taints = [{"key": name, "value": "present", "effect": "NoSchedule"} for name in asked]
    return node(
        f"gpu-{number}",
        kind,
        cpu=_at_least(96, needs.get("cpu", 0.0)),
        memory=f"{_gib(1152, needs)}Gi",
        devices={**_others(needs), **asked},
        labels={**pool.labels, **_labels(pod, number)},
        taints=taints,
    )


def _device_node(pod: Obj, found: Collection[assumeddevices.Devices], number: int) -> Obj:
    """A node whose devices are a DRA driver's."""
    count = max(len(one.entries) for one in found)
    known = any(one.driver.endswith("nvidia.com") for one in found)
    needs = requests(pod["spec"])
    return node(
        f"gpu-{number}",
        GPU_TYPES[min((c for c in GPU_TYPES if c >= count), default=8)] if known else "",
        cpu=_at_least(96, needs.get("cpu", 0.0)),
        memory=f"{_gib(1152, needs)}Gi",
        devices={**_others(needs), **{f"{_OF_CLASS}{one.driver}": len(one.entries) for one in found}},
        labels=_labels(pod, number),
        taints=[{"key": ASSUMED, "value": "devices", "effect": "NoSchedule"}],
    )


def _cpu_node(pod: Obj, number: int) -> Obj:
    needs = requests(pod["spec"])
    tolerated = [
        {"key": one["key"], "value": one.get("value", ""), "effect": one.get("effect") or "NoSchedule"}
        for one in pod["spec"].get("tolerations") or ()
        if one.get("key")
        and not str(one["key"]).startswith("node.kubernetes.io/")
        and labels_selected(pod["spec"])
        and one.get("effect") != "NoExecute"
    ]
    return node(
        f"cpu-{number}",
        CPU_TYPE,
        cpu=_at_least(4, needs.get("cpu", 0.0) + 1),
        memory=f"{_gib(16, needs)}Gi",
        devices=_others(needs),
        labels=_labels(pod, number),
        taints=tolerated,
    )


def _labels(pod: Obj, number: int) -> dict[str, str]:
    return {_ZONE: f"assumed-{'abc'[number % 3]}", ASSUMED: "true", **labels_selected(pod["spec"])}


def _others(needs: Mapping[str, float]) -> dict[str, int]:
    """What else a pod asks its node for: huge pages (bytes), network interfaces, devices that are no accelerators."""
    return {name: int(count) for name, count in needs.items() if name not in _OF_EVERY_NODE and count}


def _at_least(usual: int, needed: float) -> int:
    return max(usual, int(-(-needed // 1)) + 1) if needed else usual


def _gib(usual: int, needs: Mapping[str, float]) -> int:
    return max(usual, int(needs.get("memory", 0.0) // 2**30) + 2)


def node(
    name: str,
    instance_type: str,
    *,
    cpu: int,
    memory: str,
    devices: dict[str, int] | None = None,
    labels: dict[str, str] | None = None,
    taints: list[Obj] | None = None,
) -> Obj:
    """A Node as a kubelet would register it."""
    capacity = {"cpu": str(cpu), "memory": memory, "pods": "110", "ephemeral-storage": "10Ti"}
    capacity |= {key: str(count) for key, count in (devices or {}).items()}
    typed = {_TYPE: instance_type} if instance_type else {}
    chosen = labels or {}
    own = chosen.get(_HOST) or name
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": own,
            "labels": {"kubernetes.io/arch": "amd64", "kubernetes.io/os": "linux", _HOST: own, **typed, **chosen},
        },
        "spec": {"taints": taints} if taints else {},
        "status": {"capacity": capacity, "allocatable": dict(capacity)},
    }
