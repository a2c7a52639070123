"""What controllers write on a Node besides its health: how long its kubelet may cache Secrets, and its pods' addresses.

Source: pkg/controller/ttl/ttl_controller.go and pkg/controller/nodeipam of Kubernetes v1.36; recording 24.
"""

from __future__ import annotations

from ipaddress import ip_network

from killcheck.embedded.controllers.runtime import Controller, Key
from killcheck.kube import resources as r
from killcheck.kube.informer import Change
from killcheck.kube.objects import Obj, annotations_of, name_of

__all__ = ["NodeIpam", "NodeTtl"]

TTL = "node.alpha.kubernetes.io/ttl"
#: Nodes from which on, and up to which, a TTL holds, and the TTL in seconds.
_TTLS = ((0, 100, 0), (90, 500, 15), (450, 1000, 30), (900, 2000, 60), (1800, None, 300))
#: ``--cluster-cidr`` and ``--node-cidr-mask-size``: room for 1,024 nodes.
CLUSTER_CIDR, NODE_MASK = "10.244.0.0/14", 24


class NodeTtl(Controller):
    """Says on each Node for how long its kubelet may go without asking for its pods' Secrets again."""

    name = "ttl-controller"

    def setup(self) -> None:
        """Follow nodes."""
        self._count = self._step = 0
        self.nodes = self.follow(r.NODES, self._counted)

    def _counted(self, change: Change, _old: Obj | None, new: Obj) -> list[Key]:
        self._count += {"added": 1, "deleted": -1}.get(change, 0)
        least, most, _ = _TTLS[self._step]
        if most is not None and self._count > most:
            self._step += 1
        elif self._count < least:
            self._step -= 1
        return [] if change == "deleted" else [("", name_of(new))]

    def reconcile(self, key: Key) -> None:
        """Write the TTL of a cluster of this size."""
        node = self.nodes.get(key[1])
        wanted = str(_TTLS[self._step][2])
        if node is not None and annotations_of(node).get(TTL) != wanted:
            self.kube.patch(r.NODES, key[1], {"metadata": {"annotations": {TTL: wanted}}}, kind="strategic")


class NodeIpam(Controller):
    """Gives each Node a range of addresses for its pods, as where ``--allocate-node-cidrs`` is set (kubeadm does)."""

    name = "node-ipam-controller"
    component = "cidrAllocator"

    def setup(self) -> None:
        """Follow nodes."""
        self._used: dict[str, str] = {}
        #: The ranges of each node; how many of the first are taken, and those that were ever looked at.
        self._of: dict[str, set[str]] = {}
        self._taken = 0
        self._ranges: list[str] = []
        self._more = map(str, ip_network(CLUSTER_CIDR).subnets(new_prefix=NODE_MASK))
        self.nodes = self.follow(r.NODES, self._followed)

    def _followed(self, change: Change, _old: Obj | None, new: Obj) -> list[Key]:
        if change == "deleted":
            for cidr in self._of.pop(name_of(new), ()):
                self._used.pop(cidr, None)
                self._taken = 0
            return []
        if "podCIDR" in (new.get("spec") or {}):
            self._take(new["spec"]["podCIDR"], name_of(new))
            return []
        return [("", name_of(new))]

    def reconcile(self, key: Key) -> None:
        """Give it the first range that is free."""
        node = self.nodes.get(key[1])
        if node is None or "podCIDR" in (node.get("spec") or {}) or self._of.get(key[1]):
            return
        cidr = self._free()
        if cidr is None:
            self.events.emit(node, "Normal", "CIDRNotAvailable", f"Node {key[1]} status is now: CIDRNotAvailable")
            return
        self.kube.patch(r.NODES, key[1], {"spec": {"podCIDR": cidr, "podCIDRs": [cidr]}}, kind="strategic")
        self._take(cidr, key[1])

    def _take(self, cidr: str, node: str) -> None:
        before = self._used.get(cidr, node)
        if before != node:
            self._of[before].discard(cidr)
        self._used[cidr] = node
        self._of.setdefault(node, set()).add(cidr)

    def _free(self) -> str | None:
        """The first range that nobody has; None where all are taken."""
        while True:
            if self._taken == len(self._ranges):
                fresh = next(self._more, None)
                if fresh is None:
                    return None
                self._ranges.append(fresh)
            if self._ranges[self._taken] not in self._used:
                return self._ranges[self._taken]
            self._taken += 1
