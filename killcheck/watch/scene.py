"""What a drill watches: targets, GPU pods, nodes, and what Kubernetes says about them - live, from informers.

Zero is counted here, never inferred: an answer is only given while every informer is synced and unbroken, and a
pod that vanished while its containers were still running counts as running until its node is gone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import datetime
from typing import cast

from msgspec import Struct

from killcheck.capabilities.cluster import Cluster
from killcheck.kube import gpus, selectors, workloads
from killcheck.kube import resources as r
from killcheck.kube.errors import KubeError, NotFound
from killcheck.kube.informer import Change, Informer
from killcheck.kube.objects import Obj, controller_of, dig, key_of, labels_of, name_of, namespace_of, parse_time, uid_of
from killcheck.kube.resources import Resource
from killcheck.machine.census import Census
from killcheck.safety.undo import retry
from killcheck.spec.killpath import KillPath, Layer, NodePool, Target
from killcheck.watch.claimed import Claimed

__all__ = ["GpuPod", "Scene", "SceneBroken", "described", "on_since"]

#: How long the first look is tried while the API answers badly, in seconds.
STEADFAST_S = 30.0
#: The label of nodes that the embedded cluster made because no manifest describes any.
ASSUMED = "killcheck.dev/assumed"
#: Kinds whose absent ``spec.replicas`` is one.
_REPLICATED = frozenset({"Deployment", "StatefulSet", "ReplicaSet", "ReplicationController"})
#: As many owners, one above the other, are followed at most.
_LINE = 8


class SceneBroken(Exception):
    """What is here may be stale: nothing may be concluded. The message says since what."""


class GpuPod(Struct, frozen=True):
    """A pod that holds GPUs in scope. ``ghost``: its object has gone, but its containers were still running then."""

    namespace: str
    name: str
    uid: str
    node: str
    devices: int
    terminating: bool
    ghost: bool = False

    def __str__(self) -> str:
        state = " (object force-deleted, processes unaccounted for)" if self.ghost else ""
        return f"{self.namespace}/{self.name}{state or (' (Terminating)' if self.terminating else '')}"


class Scene:
    """Live state of one kill path on one cluster; ``on_change(change, old, new)`` is called for every difference."""

    def __init__(
        self,
        cluster: Cluster,
        kill_path: KillPath,
        on_change: Callable[[Change, Obj | None, Obj], None],
        *,
        namespaces: Iterable[str] = (),
        layer: Layer | None = None,
    ) -> None:
        self.cluster = cluster
        self.kill_path = kill_path
        self._on_change = on_change
        #: Targets that the drilled layer does not cover: their pods may stay on.
        self._spared = [t for t in kill_path.targets if layer and t.name not in layer.covers]
        self._ghosts: dict[str, GpuPod] = {}
        #: What :meth:`gpu_pods` answers until something changes.
        self._holders: list[GpuPod] | None = None
        #: By pod's uid: how many devices its spec asks for. A spec that nobody has written since is the same object.
        self._asked: dict[str, tuple[Obj, int]] = {}
        self._claimed = Claimed(cluster.kube)
        self._owner_roots: dict[str, tuple[str, str]] = {}
        #: By owner's uid: what belongs to whom, above ReplicaSets; None: it cannot be read.
        self._owners: dict[str, Obj | None] = {}
        #: By pod's uid: what it belongs to.
        self._lines: dict[str, list[tuple[str, str]]] = {}
        #: Names of targets whose kind is not served.
        self._absent: set[str] = set()
        #: Nodes that pods of the drilled layer's own targets have been on.
        self._own_nodes: set[str] = set()
        #: What :meth:`spared_nodes` answers until something changes.
        self._spared_on: set[str] | None = None
        self.gone_at: dict[str, datetime] = {}
        #: Nodes in scope that were seen, by name: what they were when last seen.
        self.known_nodes: dict[str, Obj] = {}
        self.namespaces = sorted({t.namespace for t in kill_path.targets if t.namespace} | {n for n in namespaces if n})
        #: Namespaces of which it matters what Kubernetes says: other layers' too, and a drill adds those of its faults.
        starts = [job for one in kill_path.layers if one.sentinel for job in one.sentinel.start_jobs]
        held = [ref for one in kill_path.layers if (ref := one.ref)]
        self.heard_in = {*self.namespaces, *(ref.namespace for ref in (*held, *starts))} - {""}
        #: How often anything that is shown here has changed.
        self._changes = 0
        self._informers: dict[str, Informer] = {}
        self._stays_open = False
        #: By target's name: which informer has its objects.
        self._informer_names: dict[str, str] = {}
        counted = kill_path.covered_by(layer) if layer else kill_path.targets
        #: What is on outside Kubernetes.
        self.census = Census(cluster.capabilities.programs, counted, self._woken)

    # -- life ----------------------------------------------------------------------------------------------
    def open(self) -> Scene:
        """Start watching; what stays open is gone on with. Raises KubeError."""
        if self._stays_open:
            return self
        self.census.open()
        if not self.kill_path.in_kubernetes:
            nothing = cast("Informer", _NoInformer())
            self.pods = self.nodes = self.claims = self.jobs = self.replicasets = self.events = nothing
            return self
        self.pods = self._follow("pods", r.PODS)
        self.nodes = self._follow("nodes", r.NODES)
        self.claims = self._follow("nodeclaims", r.NODECLAIMS, optional=True)
        self.jobs = self._follow("jobs", r.JOBS)
        self.replicasets = self._follow("replicasets", r.REPLICASETS)
        self.events = self._follow("events", r.EVENTS)
        for target in self.kill_path.targets:
            if target.kind and _followed_anyway(target) is None:
                try:
                    resource = self.resource_of(target)
                except NotFound:
                    if target not in self._spared:
                        raise
                    self._absent.add(target.name)  # another layer's matter, and of a kind that nobody serves here
                    continue
                if resource.qualified not in self._informers:
                    self._follow(resource.qualified, resource)
        for node in self.nodes.values():
            if self.in_pool(node):
                self.known_nodes[name_of(node)] = node
        self._holders = self._spared_on = None
        return self

    def stay_open(self) -> None:
        """What is watched now is what the next :meth:`open` goes on with: a drill begins where another has left off."""
        self._stays_open = True

    def close(self) -> None:
        """Stop watching; idempotent."""
        self.census.close()
        for informer in self._informers.values():
            informer.stop()
        self._informers.clear()

    def _follow(self, name: str, resource: Resource, *, optional: bool = False) -> Informer:
        informer = Informer(
            self.cluster.kube,
            self.cluster.loop,
            resource,
            optional=optional,
            on_broken=lambda _: self._woken(),
        )
        self._informers[name] = informer
        retry(self.cluster.loop, informer.start, patience_s=STEADFAST_S)
        informer.handlers.append(self._changed)
        return informer

    def wake(self) -> None:
        """Something that is not in Kubernetes has changed: have it looked at."""
        self._woken()

    def when_changed(self, holds: Callable[[], bool]) -> Callable[[], bool]:
        """``holds``, a question about nothing but what is shown here: asked anew only where that has changed.

        For :meth:`~killcheck.clock.Loop.run_until`, which asks after every callback of everybody's.
        """
        asked, said = -1, False

        def told() -> bool:
            nonlocal asked, said
            if asked != self._changes:
                asked = self._changes
                said = holds()
            return said

        return told

    def _woken(self) -> None:
        self._changes += 1
        self._on_change("modified", None, {"kind": "Watch"})

    def _changed(self, change: Change, old: Obj | None, new: Obj) -> None:
        self._changes += 1
        kind = new.get("kind")
        if kind != "Event":  # what is said changes nothing of what is there, and is most of what happens
            self._holders = self._spared_on = None
        if kind == "Pod" and change == "deleted":
            self._pod_gone(old, new)
        elif kind == "Node":
            self._node_changed(change, new)
        self._on_change(change, old, new)

    def _pod_gone(self, old: Obj | None, new: Obj) -> None:
        pod = self._as_gpu_pod(new) or (self._as_gpu_pod(old) if old else None)
        nodes = self._informers.get("nodes")
        # Whatever pool its node is of: as long as the node is there, so may be the processes.
        alive = still_running(new) or (old is not None and _never_told(old))
        if pod and alive and nodes is not None and nodes.get(pod.node) is not None:
            self._ghosts[pod.uid] = GpuPod(
                pod.namespace, pod.name, pod.uid, pod.node, pod.devices, terminating=True, ghost=True
            )

    def _node_changed(self, change: Change, node: Obj) -> None:
        name = name_of(node)
        if change != "deleted" and self.in_pool(node):
            self.known_nodes[name] = node
            self.gone_at.pop(name, None)
        elif change == "deleted":
            if name in self.known_nodes:
                self.known_nodes[name] = node
                self.gone_at[name] = self.cluster.loop.now()
            self._ghosts = {uid: ghost for uid, ghost in self._ghosts.items() if ghost.node != name}

    # -- can it be trusted ---------------------------------------------------------------------------------
    def broken(self) -> KubeError | None:
        """The error of a watch that is down right now."""
        return next((i.broken for i in self._informers.values() if i.broken), None) or self.census.broken()

    def assert_sound(self) -> None:
        """Raise SceneBroken unless everything shown here is current."""
        error = self.broken()
        if error is not None:
            down = "what is on is not known" if error is self.census.broken() else "the watch is down"
            raise SceneBroken(f"{down}: {error}")
        watched = bool(self._informers) or not self.kill_path.in_kubernetes
        if not watched or not all(i.synced for i in self._informers.values()):
            raise SceneBroken("the watches are not synced yet")

    def followed_since(self) -> datetime | None:
        """Since when nothing that holds GPUs can have come and gone unseen: the last time a watch began anew."""
        said = ("events", "nodeclaims")
        times = [i.followed_since for name, i in self._informers.items() if name not in said]
        return max((t for t in times if t is not None), default=None)

    def overlooked(self) -> list[Obj]:
        """GPU pods and nodes in scope that a list made now has and that are not counted here.

        A watch that died without a word shows nothing new for as long as nobody asks. Raises KubeError.
        """
        if not self.kill_path.in_kubernetes:
            return []
        pods = [
            obj
            for obj in self.cluster.kube.list(r.PODS).items
            if self._as_gpu_pod(obj) is not None and not (self._spared and self._is_spared(obj))
        ]
        others = self.nodes_of_others()
        nodes = [
            node for node in self.cluster.kube.list(r.NODES).items if self.in_pool(node) and name_of(node) not in others
        ]
        return [obj for obj in (*pods, *nodes) if not self.counts([obj])]

    def counts(self, objects: Iterable[Obj]) -> bool:
        """Whether all of these pods and nodes are among those that are counted."""
        counted = {pod.uid for pod in self.gpu_pods()} | {uid_of(node) for node in self.pool_nodes()}
        return counted >= {uid_of(obj) for obj in objects}

    # -- targets -------------------------------------------------------------------------------------------
    def resource_of(self, target: Target) -> Resource:
        """The API resource of a target. Raises NotFound where the server has no such kind."""
        return self.cluster.kube.resource_for(target.api_version, target.kind)

    def objects_of(self, target: Target) -> list[Obj]:
        """The objects that a target names, as last seen."""
        if target.name in self._absent:
            return []
        informer = self._informer_of(target)
        if target.object and target.namespace:
            named = informer.get(target.object, target.namespace)
            return [named] if named is not None else []
        found = [o for o in informer.values() if namespace_of(o) == target.namespace or not target.namespace]
        if target.object:
            return [o for o in found if name_of(o) == target.object]
        return [o for o in found if target.selector and _labelled(target.selector, o)]

    def _informer_of(self, target: Target) -> Informer:
        name = self._informer_names.get(target.name)
        if name is None:
            own = _followed_anyway(target)
            name = self._informer_names[target.name] = own or self.resource_of(target).qualified
        return self._informers[name]

    def replicas(self, target: Target) -> int:
        """How many replicas a target asks for (``spec.replicas``, a Job's parallelism; absent objects: none)."""
        return sum(asked_for(obj) for obj in self.objects_of(target))

    def all_replicas(self) -> int:
        """Over all targets in Kubernetes."""
        return sum(self.replicas(t) for t in self.kill_path.targets if t.kind)

    # -- pods and nodes ------------------------------------------------------------------------------------
    def gpu_pods(self) -> list[GpuPod]:
        """Every pod that holds GPUs in scope: in the targets' namespaces or on the pools' nodes, DaemonSets excepted.

        Terminating pods count, and so do ghosts. Pods not yet on a node hold nothing. Those of targets that the drilled
        layer does not cover are another layer's matter.
        """
        if self._holders is None:
            found = [
                pod
                for obj in self.pods.values()
                if (pod := self._as_gpu_pod(obj)) is not None and not (self._spared and self._is_spared(obj))
            ]
            self._holders = found + list(self._ghosts.values())
        return list(self._holders)

    def _is_spared(self, pod: Obj) -> bool:
        line = self._line(pod)
        return any(self._is_of(target, pod, line) for target in self._spared)

    def _line(self, pod: Obj) -> list[tuple[str, str]]:
        known = self._lines.get(uid_of(pod))
        if known is None:
            found = self.line_of(pod)
            known = [*found, self.root_owner(pod)]
            # A ReplicaSet may not have been shown yet when its first pod is.
            if found[-1][0] != "ReplicaSet" or self.replicasets.get(found[-1][1], namespace_of(pod)) is not None:
                self._lines[uid_of(pod)] = known
        return known

    def _is_of(self, target: Target, pod: Obj, line: list[tuple[str, str]]) -> bool:
        if target.namespace != namespace_of(pod):
            return False
        for kind, name in line:
            if target.kind == kind:
                if target.object == name or (kind == "Pod" and target.selector and _labelled(target.selector, pod)):
                    return True
                if target.selector and any(name_of(o) == name for o in self.objects_of(target)):
                    return True
        return False

    def pods_of(self, target: Target) -> list[Obj]:
        """The pods that belong to a target, through whatever is in between, and hold GPUs."""
        held = (self.pods.get(pod.name, pod.namespace) for pod in self.gpu_pods() if pod.namespace == target.namespace)
        return [pod for pod in held if pod is not None and self.is_of(target, pod)]

    def holding(self, target: Target) -> list[GpuPod]:
        """The pods of a target that hold GPUs now, also of one that the drilled layer does not cover."""
        return [
            held
            for pod in self.pods.values()
            if (held := self._as_gpu_pod(pod)) is not None and self.is_of(target, pod)
        ]

    def is_of(self, target: Target, pod: Obj) -> bool:
        """Whether a pod belongs to a target, through whatever is in between."""
        return self._is_of(target, pod, self._line(pod))

    def line_of(self, pod: Obj) -> list[tuple[str, str]]:
        """(kind, name) of a pod and of everything that it belongs to, up to the root."""
        line, obj = [("Pod", name_of(pod))], pod
        while len(line) <= _LINE:
            owner = controller_of(obj)
            if owner is None:
                return line
            line.append((str(owner["kind"]), str(owner["name"])))
            found = self._owner(owner, namespace_of(pod))
            if found is None:
                return line
            obj = found
        return line

    def _owner(self, owner: Obj, namespace: str) -> Obj | None:
        known = {"ReplicaSet": self.replicasets, "Job": self.jobs, "Pod": self.pods}.get(str(owner["kind"]))
        if known is not None:
            return known.get(str(owner["name"]), namespace)
        uid = str(owner.get("uid"))
        if uid not in self._owners:
            try:
                resource = self.cluster.kube.resource_for(str(owner["apiVersion"]), str(owner["kind"]))
                self._owners[uid] = self.cluster.kube.find(resource, str(owner["name"]), namespace)
            except KubeError:
                self._owners[uid] = None
        return self._owners[uid]

    def _as_gpu_pod(self, obj: Obj) -> GpuPod | None:
        node = dig(obj, "spec", "nodeName", default="")
        if not node or (namespace_of(obj) not in self.namespaces and node not in self.known_nodes):
            return None
        devices = self._devices(obj)
        if not devices:
            return None
        ended = dig(obj, "status", "phase") in ("Succeeded", "Failed") and not still_running(obj)
        if ended and "deletionTimestamp" not in obj["metadata"]:
            return None  # its containers are dead: it holds nothing; one that is being deleted still counts (P1)
        owner = controller_of(obj)
        if owner and owner.get("kind") == "DaemonSet" and not self._is_meant(owner, namespace_of(obj)):
            return None
        return GpuPod(
            namespace_of(obj), name_of(obj), uid_of(obj), node, devices, "deletionTimestamp" in obj["metadata"]
        )

    def _is_meant(self, owner: Obj, namespace: str) -> bool:
        own = ("DaemonSet", namespace, owner.get("name"))  # any other's pods go with their nodes
        return own in [(target.kind, target.namespace, target.object) for target in self.kill_path.targets]

    def _devices(self, pod: Obj) -> int:
        spec = pod.get("spec") or {}
        if spec.get("resourceClaims"):  # of these the status speaks too
            return self._claimed.devices(pod)
        known = self._asked.get(uid_of(pod))
        if known is None or known[0] is not spec:
            known = self._asked[uid_of(pod)] = (spec, gpus.devices(pod) or self._reached(pod))
        return known[1]

    def _reached(self, pod: Obj) -> int:
        """1 for a pod that reaches devices past all accounting, where there are any: on a node that has some."""
        if not gpus.unaccounted(pod.get("spec") or {}):
            return 0
        node = self.nodes.get(str(dig(pod, "spec", "nodeName", default="")))
        return int(node is None or gpus.node_devices(node) > 0 or ASSUMED in labels_of(node))

    def pool_nodes(self) -> list[Obj]:
        """The nodes in scope that exist; one that has pods of other layers' targets alone is those layers' matter."""
        others = self.nodes_of_others()
        return [
            node for node in self.nodes.values() if name_of(node) in self.known_nodes and name_of(node) not in others
        ]

    def nodes_of_others(self) -> set[str]:
        """Nodes on which GPUs are held by targets that the drilled layer does not cover, and never were by its own."""
        if not self._spared:
            return set()
        self._own_nodes |= {pod.node for pod in self.gpu_pods()}
        return self.spared_nodes() - self._own_nodes

    def spared_nodes(self) -> set[str]:
        """Nodes on which targets that the drilled layer does not cover hold GPUs."""
        if not self._spared:
            return set()
        if self._spared_on is None:
            self._spared_on = self._find_spared()
        return self._spared_on

    def _find_spared(self) -> set[str]:
        return {
            str(dig(pod, "spec", "nodeName"))
            for pod in self.pods.values()
            if self._as_gpu_pod(pod) is not None and self._is_spared(pod)
        }

    def in_pool(self, node: Obj) -> bool:
        """Whether a node belongs to one of the kill path's pools; without pools, whether it has GPUs."""
        if not self.kill_path.nodes:
            return gpus.node_devices(node) > 0
        return any(matches_pool(pool, node) for pool in self.kill_path.nodes)

    def pods_on(self, node: str) -> list[Obj]:
        """Pods on a node that a drain has to move: DaemonSets', mirror and finished pods left out."""
        return [pod for pod in self.pods.values() if dig(pod, "spec", "nodeName") == node and needs_draining(pod)]

    def root_owner(self, pod: Obj) -> tuple[str, str]:
        """(kind, name) of what a pod belongs to, through its ReplicaSet."""
        owner = controller_of(pod)
        if owner is None:
            return "Pod", name_of(pod)
        if owner["kind"] == "ReplicaSet":
            parent = self.replicasets.get(owner["name"], namespace_of(pod))
            root = controller_of(parent) if parent else None
            if root:
                self._owner_roots[owner["uid"]] = (root["kind"], root["name"])
            return self._owner_roots.get(owner["uid"], ("ReplicaSet", owner["name"]))
        return owner["kind"], owner["name"]

    def concerns(self, event: Obj) -> bool:
        """Whether an event of Kubernetes' is about the kill path: something in its namespaces, or one of its nodes.

        Of nodes also those that pods of its namespaces are on: the executor's.
        """
        about = event.get("involvedObject") or {}
        kind, name, namespace = str(about.get("kind")), str(about.get("name")), about.get("namespace")
        if kind == "Node":
            return name in self.known_nodes or any(
                namespace_of(pod) in self.heard_in and dig(pod, "spec", "nodeName") == name
                for pod in self.pods.values()
            )
        if kind == "NodeClaim":
            claim = self.claims.get(name)
            return claim is None or self.in_pool(claim) or dig(claim, "status", "nodeName") in self.known_nodes
        if kind == "NodePool":
            return not self.kill_path.nodes or name in {pool.node_pool for pool in self.kill_path.nodes}
        return namespace in self.heard_in

    def events_about(self, *objects: Obj) -> list[Obj]:
        """Kubernetes' events about these objects, oldest first."""
        keys = {(obj.get("kind"), *key_of(obj)) for obj in objects}
        found = [
            event
            for event in self.events.values()
            if (
                dig(event, "involvedObject", "kind"),
                dig(event, "involvedObject", "namespace", default=""),
                dig(event, "involvedObject", "name"),
            )
            in keys
        ]
        return sorted(found, key=event_time)


class _NoInformer:
    """Stands where an informer would, for a kill path that has no part in Kubernetes: there is nothing to follow."""

    def values(self) -> list[Obj]:
        """No objects."""
        return []

    def get(self, name: str, namespace: str = "") -> Obj | None:
        """No object."""
        return None


def event_time(event: Obj) -> str:
    """When an event last happened, as text that sorts."""
    at = event.get("lastTimestamp") or dig(event, "series", "lastObservedTime") or event.get("eventTime")
    return str(at or event["metadata"].get("creationTimestamp", ""))


def matches_pool(pool: NodePool, node: Obj) -> bool:
    """Whether a node is of a pool: by Karpenter's label, the pool's own selector, or both."""
    if not pool.node_selector:  # described by who removes its nodes alone: every node with GPUs
        return bool(pool.removed_by) and gpus.node_devices(node) > 0
    return _labelled(pool.node_selector, node)


def _labelled(selector: str, obj: Obj) -> bool:
    return selectors.parse_labels(selector).matches(labels_of(obj))


def described(objects: Iterable[Obj]) -> str:
    """GPU pods and nodes, in words."""
    return ", ".join(
        f"GPU pod {namespace_of(obj)}/{name_of(obj)}" if obj.get("kind") == "Pod" else f"GPU node {name_of(obj)}"
        for obj in objects
    )


def on_since(obj: Obj) -> datetime:
    """Since when a pod has been on a node, or a node there."""
    scheduled = (c for c in dig(obj, "status", "conditions", default=[]) if c.get("type") == "PodScheduled")
    said = next((c.get("lastTransitionTime") for c in scheduled if c.get("status") == "True"), None)
    return parse_time(said or obj["metadata"]["creationTimestamp"])


def still_running(pod: Obj) -> bool:
    """Whether any container was running when the pod was last seen."""
    kinds = ("containerStatuses", "initContainerStatuses", "ephemeralContainerStatuses")
    statuses = [status for kind in kinds for status in dig(pod, "status", kind, default=[])]
    return any("running" in (status.get("state") or {}) for status in statuses)


def _never_told(pod: Obj) -> bool:
    """Whether a pod that has vanished was about to start and never told to end: its kubelet may have started it since.

    The API server deletes a pod that is on a node only with a grace period, unless it is forced to.
    """
    return dig(pod, "status", "phase") == "Pending" and "deletionTimestamp" not in pod["metadata"]


def needs_draining(pod: Obj) -> bool:
    """Whether a drain must wait for a pod."""
    owner = controller_of(pod)
    if owner and owner.get("kind") in ("DaemonSet", "Node"):
        return False
    return dig(pod, "status", "phase") not in ("Succeeded", "Failed")


def _followed_anyway(target: Target) -> str | None:
    """The informer of a kind that every scene follows; None: of others, Volcano's Jobs among them."""
    own = {"Pod": "pods", "Job": "jobs", "ReplicaSet": "replicasets"}.get(target.kind)
    return own if target.api_version in ("", "v1", "apps/v1", "batch/v1") else None


def asked_for(obj: Obj) -> int:
    """How many GPU pods an object asks for."""
    kind = obj.get("kind")
    if kind == "Pod":
        return 0 if workloads.has_ended(obj) else 1
    if kind == "Job" and "template" in (obj.get("spec") or {}):  # Volcano's has tasks
        off = workloads.has_ended(obj) or dig(obj, "spec", "suspend")
        return 0 if off else int(dig(obj, "spec", "parallelism", default=1))
    if kind == "DaemonSet":  # until its controller has seen what is asked for, one
        seen = dig(obj, "status", "observedGeneration") == dig(obj, "metadata", "generation")
        return int(dig(obj, "status", "desiredNumberScheduled", default=0)) if seen else 1
    spec = obj.get("spec") or {}
    if "replicas" in spec or kind in _REPLICATED:
        return int(dig(spec, "replicas", default=0 if "replicas" in spec else 1))
    held = [t.count for t in workloads.templates(obj) if workloads.holds(t, namespace_of(obj))]
    return sum(held) if held else 1  # kinds that say it in their own way, and suspended ones
