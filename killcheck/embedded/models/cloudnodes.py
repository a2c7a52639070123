"""Between machines and Nodes: a booted instance's kubelet registers its Node; a Node without its instance is deleted.

The first is what an instance's user data makes its kubelet do; what happens on the Node then is the hollow nodes'
part. The second is the cloud controller manager's node lifecycle controller (k8s.io/cloud-provider
controllers/nodelifecycle; on AWS an instance that is shutting down still exists).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

from killcheck.embedded.controllers.runtime import Controller
from killcheck.embedded.models.cloud import Cloud
from killcheck.embedded.models.instance import Instance
from killcheck.instances.amounts import text
from killcheck.kube import resources as r
from killcheck.kube.errors import Conflict, NotFound
from killcheck.kube.informer import Change
from killcheck.kube.objects import Obj, condition, dig, name_of
from killcheck.text import lazy_re

__all__ = ["CloudNodes", "node_object"]

#: How often the cloud controller manager looks at nodes that are not ready.
MONITOR_S = 5.0

_NO_NAME = lazy_re.compile(r"[^a-z0-9]+")


def node_object(instance: Instance, name: str, version: str) -> Obj:
    """The Node that an instance's kubelet registers: its type's capacity, what its user data says."""
    one = instance.type
    capacity = {key: text(key, value) for key, value in one.capacity.items()}
    capacity["memory"] = f"{one.memory_mib}Mi"
    labels = {
        "kubernetes.io/arch": one.arch,
        "kubernetes.io/os": "linux",
        "kubernetes.io/hostname": name,
        "node.kubernetes.io/instance-type": one.name,
        "topology.kubernetes.io/zone": instance.zone,
        "topology.kubernetes.io/region": instance.region,
        **instance.node.get("labels", {}),
    }
    taints = [dict(taint) for taint in instance.node.get("taints", ())]
    spec: Obj = {"providerID": instance.provider_id}
    if taints:
        spec["taints"] = taints
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": labels, "annotations": dict(instance.node.get("annotations", {}))},
        "spec": spec,
        "status": {
            "capacity": capacity,
            "allocatable": dict(capacity),
            "nodeInfo": {
                "architecture": one.arch,
                "operatingSystem": "linux",
                "kubeletVersion": version,
                "containerRuntimeVersion": "containerd://2.1.4",
                "kernelVersion": "6.12.40",
                "machineID": "",
                "osImage": "Amazon Linux 2023",
                "bootID": "",
                "systemUUID": "",
                "kubeProxyVersion": "",
            },
            "addresses": [{"type": "Hostname", "address": name}],
        },
    }


@dataclass(eq=False, repr=False)
class CloudNodes(Controller):
    """Registers and removes Nodes as their instances come and go."""

    cloud: Cloud

    name: ClassVar[str] = "cloud-node-lifecycle-controller"
    takes: ClassVar[tuple[str, ...]] = ("cloud",)

    def setup(self) -> None:
        """Follow the cloud and the nodes."""
        self.cloud.joins.append(self._join)
        self.cloud.listeners.append(self._changed)
        self._nodes = self.follow(r.NODES, self._not_ready)

    def stop(self) -> None:
        """Stop following; instances that boot later do not join."""
        super().stop()
        if self._join in self.cloud.joins:
            self.cloud.joins.remove(self._join)
        if self._changed in self.cloud.listeners:
            self.cloud.listeners.remove(self._changed)

    def reconcile(self, key: tuple[str, str]) -> None:
        """Delete one Node if it is not ready and its instance does not exist any more."""
        node = self._nodes.get(key[1])
        if node is None or dig(node, "metadata", "deletionTimestamp"):
            return
        instance = self.cloud.by_provider_id(dig(node, "spec", "providerID", default=""))
        ready = condition(node, "Ready")
        if instance is None or instance.state != "terminated" or (ready is not None and ready["status"] == "True"):
            return
        self.events.emit(
            node, "Normal", "DeletingNode", f"Deleting node {key[1]} because it does not exist in the cloud provider"
        )
        try:
            self.kube.delete(r.NODES, key[1])
        except NotFound:
            return

    # -- inside --------------------------------------------------------------------------------------------
    def _join(self, instance: Instance) -> None:
        """Register the Node of a booted instance."""
        if instance.node_name:
            return
        instance.node_name = self._name(instance)
        node = node_object(instance, instance.node_name, self.informers.release.version)
        try:
            made = self.kube.create(r.NODES, node)
        except Conflict:  # another instance has this name: the next one will not
            instance.node_name = ""
            self._join(instance)
            return
        if not dig(made, "status", "capacity"):
            self.kube.patch(r.NODES, instance.node_name, {"status": node["status"]}, subresource="status")

    def _name(self, instance: Instance) -> str:
        if instance.type.provider != "aws":  # nodes of GKE and AKS are named after their machines
            return instance.instance_id
        octets = self.cloud.rng.getrandbits(16)
        # a zone that somebody made up is a label, not always a part of a name
        region = _NO_NAME.sub("-", (instance.region or self.cloud.region).lower()).strip("-")
        suffix = "ec2.internal" if region == "us-east-1" else f"{region}.compute.internal"
        return f"ip-10-0-{octets >> 8}-{octets & 255}.{suffix}"

    def _changed(self, instance: Instance, _before: str) -> None:
        if instance.state == "terminated" and instance.node_name:
            self._look_soon(instance.node_name)

    def _not_ready(self, change: Change, old: Obj | None, new: Obj) -> list[tuple[str, str]]:
        ready = condition(new, "Ready")
        if change == "modified" and ready is not None and ready["status"] != "True":
            self._look_soon(name_of(new))
        return []

    def _look_soon(self, node: str) -> None:
        now = self.loop.monotonic()
        self.queue.add(("", node), (math.floor(now / MONITOR_S) + 1) * MONITOR_S - now)
