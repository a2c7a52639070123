"""An API server with a model cloud beside it, and stand-ins for the scheduler and the kubelets."""

import random
from dataclasses import dataclass
from datetime import UTC, datetime

from open_door import ADMIN, OpenDoor

from killcheck.clock import VirtualLoop
from killcheck.embedded.api.core import Config
from killcheck.embedded.api.server import ApiServer
from killcheck.embedded.api.store import Store
from killcheck.embedded.controllers.runtime import Controller, Informers
from killcheck.embedded.models.cloud import Cloud
from killcheck.embedded.models.cloudnodes import CloudNodes
from killcheck.embedded.models.definitions import crds
from killcheck.embedded.models.karpenter import Karpenter
from killcheck.embedded.models.karpenter.pods import requests, tolerates
from killcheck.embedded.transport import InProcessTransport
from killcheck.instances.amounts import amounts
from killcheck.kube import resources as r
from killcheck.kube.client import Kube
from killcheck.kube.objects import condition, dig, labels_of, name_of, namespace_of, parse_time

START = datetime(2026, 11, 21, 3, 0, 1, tzinfo=UTC)


@dataclass
class Scheduler(Controller):
    """Binds pending pods to the first ready node with room, and says of the others that they are unschedulable."""

    def setup(self):
        self.pods = self.follow(r.PODS)
        self.nodes = self.follow(r.NODES, lambda *_: [(namespace_of(p), name_of(p)) for p in self._unbound()])

    def _unbound(self):
        return [p for p in self.pods.values() if not dig(p, "spec", "nodeName")] if hasattr(self, "pods") else []

    def reconcile(self, key):
        pod = self.pods.get(key[1], key[0])
        if pod is None or dig(pod, "spec", "nodeName") or dig(pod, "metadata", "deletionTimestamp"):
            return
        for node in sorted(self.nodes.values(), key=name_of):
            if self._fits(pod, node):
                self.kube.call(
                    "POST",
                    r.PODS.path(key[0], key[1], "binding"),
                    body={
                        "apiVersion": "v1",
                        "kind": "Binding",
                        "metadata": {"name": key[1], "namespace": key[0]},
                        "target": {"kind": "Node", "name": name_of(node)},
                    },
                )
                return
        if (condition(pod, "PodScheduled") or {}).get("reason") != "Unschedulable":
            self.kube.patch(
                r.PODS,
                key[1],
                {"status": {"conditions": [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}]}},
                key[0],
                subresource="status",
                kind="strategic",
            )

    def _fits(self, pod, node):
        ready = condition(node, "Ready")
        if not ready or ready["status"] != "True" or dig(node, "spec", "unschedulable"):
            return False
        if tolerates(pod["spec"], dig(node, "spec", "taints", default=())):
            return False
        selector = dig(pod, "spec", "nodeSelector", default={})
        if any(labels_of(node).get(k) != v for k, v in selector.items()):
            return False
        free = amounts(dig(node, "status", "allocatable"))
        for other in self.kube.list(r.PODS).items:
            if dig(other, "spec", "nodeName") == name_of(node) and dig(other, "status", "phase") not in (
                "Failed",
                "Succeeded",
            ):
                for name, value in requests(other["spec"]).items():
                    free[name] = free.get(name, 0) - value
        return all(value <= free.get(name, 0) for name, value in requests(pod["spec"]).items() if value)


@dataclass
class Kubelets(Controller):
    """Makes nodes Ready after three seconds, pods Running at once, and ends pods two seconds after they were told."""

    name = "kubelets"

    def setup(self):
        self.silent = set()
        self.nodes = self.follow(r.NODES, lambda change, old, new: self._node(change, new))
        self.pods = self.follow(r.PODS)

    def _node(self, change, node):
        if change == "added" and condition(node, "Ready") is None:
            self.loop.call_later(3, self.ready, name_of(node), "True")
        return []

    def ready(self, name, status):
        if self.nodes.get(name) is not None:
            self.kube.patch(
                r.NODES,
                name,
                {"status": {"conditions": [{"type": "Ready", "status": status, "reason": "Kubelet"}]}},
                subresource="status",
                kind="strategic",
            )

    def reconcile(self, key):
        pod = self.pods.get(key[1], key[0])
        if pod is None or not dig(pod, "spec", "nodeName") or dig(pod, "spec", "nodeName") in self.silent:
            return
        deleted = dig(pod, "metadata", "deletionTimestamp")
        if deleted:
            asked = parse_time(deleted).timestamp() - dig(pod, "metadata", "deletionGracePeriodSeconds", default=0)
            ends = asked + float(dig(pod, "metadata", "annotations", "takes", default="2"))
            ends = min(ends, parse_time(deleted).timestamp())
            wait_s = ends - self.loop.now().timestamp()
            if wait_s > 0:
                self.queue.add(key, wait_s)
            else:
                self.kube.delete(r.PODS, key[1], key[0], grace_s=0)
        elif dig(pod, "status", "phase") in (None, "Pending"):
            self.kube.patch(
                r.PODS,
                key[1],
                {
                    "status": {
                        "phase": "Running",
                        "startTime": self.loop.now().strftime("%Y-%m-%dT%H:%M:%SZ"),
                        "conditions": [{"type": "Ready", "status": "True"}],
                    }
                },
                key[0],
                subresource="status",
                kind="strategic",
            )


class World:
    """``karpenter=False`` leaves the model out; ``seed`` makes names repeatable."""

    def __init__(self, *, karpenter=True, seed=3, models=()):
        self.loop = VirtualLoop(START)
        self.store = Store()
        door = OpenDoor()
        self.rng = random.Random(seed)
        self.server = ApiServer(self.store, self.loop, Config(door, authorizer=None, admission=door, rng=self.rng))
        self.kube = Kube(InProcessTransport(self.server, self.loop, ADMIN), field_manager="test")
        for name in ("default", "kube-system"):
            self.kube.create(r.NAMESPACES, {"metadata": {"name": name}})
        for crd in crds():
            self.kube.create(r.CRDS, crd)
        self.informers = Informers(self.kube, self.loop)
        self.cloud = Cloud(self.loop, self.rng)
        common = (self.kube, self.loop, self.informers)
        self.scheduler = Scheduler(*common)
        self.kubelets = Kubelets(*common)
        self.cloud_nodes = CloudNodes(*common, self.cloud)
        self.parts = [self.scheduler, self.kubelets, self.cloud_nodes]
        if karpenter:
            self.karpenter = Karpenter(*common, self.cloud)
            self.parts.append(self.karpenter)
        self.parts += [model(*common, self.cloud) for model in models]
        for part in self.parts:
            part.start()
        self.cloud.listeners.append(self._dies)

    def _dies(self, instance, _before):
        """A machine that is gone takes its kubelet with it; the node lifecycle controller notices after 40 s."""
        if instance.state in ("shutting-down", "terminated") and instance.node_name:
            self.kubelets.silent.add(instance.node_name)
            self.loop.call_later(40, self.kubelets.ready, instance.node_name, "Unknown")

    def run(self, seconds):
        """Let time pass."""
        self.loop.sleep(seconds)

    def until(self, done, seconds=1200):
        """Run until ``done()``; answers how many seconds that took, or fails."""
        began = self.loop.monotonic()
        assert self.loop.run_until(done, seconds), "it did not happen"
        return self.loop.monotonic() - began

    def list(self, resource):
        """All objects of a resource."""
        return self.kube.list(resource).items

    def claims(self):
        return self.list(r.NODECLAIMS)

    def nodes(self):
        return self.list(r.NODES)

    def events(self, reason):
        """The messages of all events of a reason."""
        return [e["message"] for e in self.list(r.EVENTS) if e["reason"] == reason]


def pool(name="gpu", *requirements, limits=None, taints=(), template=None, labels=None, **spec):
    """A NodePool; requirements are (key, operator, *values)."""
    inner = {
        "nodeClassRef": {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": name},
        "requirements": [
            {"key": key, "operator": operator} | ({"values": list(values)} if values else {})
            for key, operator, *values in requirements
        ],
    }
    if taints:
        inner["taints"] = list(taints)
    inner |= template or {}
    return {
        "apiVersion": "karpenter.sh/v1",
        "kind": "NodePool",
        "metadata": {"name": name},
        "spec": {"template": {"metadata": {"labels": labels or {}}, "spec": inner}}
        | ({"limits": limits} if limits else {})
        | spec,
    }


def pod(
    name="train",
    *,
    gpus=0,
    cpu="1",
    namespace="default",
    tolerations=(),
    annotations=None,
    node_selector=None,
    owner="ReplicaSet",
    **spec,
):
    """A pod as a controller would have made it."""
    resources = {"requests": {"cpu": cpu}}
    if gpus:
        resources["limits"] = {"nvidia.com/gpu": str(gpus)}
        resources["requests"]["nvidia.com/gpu"] = str(gpus)
    owners = [{"apiVersion": "apps/v1", "kind": owner, "name": name, "uid": name, "controller": True}] if owner else []
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": name,
            "namespace": namespace,
            "annotations": annotations or {},
            "labels": {"app": name},
            "ownerReferences": owners,
        },
        "spec": {
            "containers": [{"name": "main", "image": "train:1", "resources": resources}],
            "tolerations": list(tolerations),
            "terminationGracePeriodSeconds": 30,
            **({"nodeSelector": node_selector} if node_selector else {}),
            **spec,
        },
    }
