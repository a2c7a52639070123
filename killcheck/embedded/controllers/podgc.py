"""The pod garbage collector: pods of nodes that are no more.

Source: pkg/controller/podgc of Kubernetes v1.36; recording 24 (43 s after the Node went). The original looks every
twenty seconds and waits forty before it believes; here a timer is set to that moment when a Node goes.
"""

from __future__ import annotations

from math import floor

from killcheck.embedded.controllers import pods as podset
from killcheck.embedded.controllers.podcontrol import one_more
from killcheck.embedded.controllers.runtime import Controller, Key
from killcheck.kube import resources as r
from killcheck.kube.errors import NotFound
from killcheck.kube.informer import Change
from killcheck.kube.objects import Obj, format_time, key_of, name_of, uid_of

__all__ = ["PodGarbageCollector"]

PERIOD_S = 20.0
QUARANTINE_S = 40.0


class PodGarbageCollector(Controller):
    """Removes orphaned pods by force."""

    name = "pod-garbage-collector-controller"

    def setup(self) -> None:
        """Follow nodes, and pods bound to nodes that do not exist."""
        self.by_node = podset.by_node(self.informers)
        self.nodes = self.informers.of(r.NODES)
        self.listen(r.NODES, self._node_changed)
        self.listen(r.PODS, self._pod_changed)

    def _node_changed(self, change: Change, _old: Obj | None, new: Obj) -> None:
        if change == "deleted" and self.by_node.count(name_of(new)):
            self._doubt(name_of(new))

    def _pod_changed(self, change: Change, old: Obj | None, new: Obj) -> None:
        node = podset.node_of(new)
        bound = bool(node) and (old is None or not podset.node_of(old))
        if change != "deleted" and bound and self.nodes.get(node) is None:
            self._doubt(node)

    def _doubt(self, node: str) -> None:
        now = self.loop.monotonic()
        self.queue.add(("", node), (floor(now / PERIOD_S) + 1) * PERIOD_S + QUARANTINE_S - now)

    def reconcile(self, key: Key) -> None:
        """Remove the pods of a node, if it has really gone."""
        if self.nodes.get(key[1]) is not None or self.kube.find(r.NODES, key[1]) is not None:
            return
        for pod in self.by_node.get(key[1]):
            self._remove(pod)

    def _remove(self, pod: Obj) -> None:
        namespace, name = key_of(pod)
        target = {
            "type": "DisruptionTarget",
            "status": "True",
            "reason": "DeletionByPodGC",
            "message": "PodGC: node no longer exists",
            "lastProbeTime": None,
            "lastTransitionTime": format_time(self.loop.now()),
            "observedGeneration": pod["metadata"].get("generation", 0),
        }
        status = one_more(pod, target) | ({} if podset.is_terminal(pod) else {"phase": "Failed"})
        patch = {"metadata": {"uid": uid_of(pod)}, "status": status}
        try:
            self.kube.patch(r.PODS, name, patch, namespace, kind="strategic", subresource="status")
            self.kube.delete(r.PODS, name, namespace, grace_s=0)
        except NotFound:
            return
