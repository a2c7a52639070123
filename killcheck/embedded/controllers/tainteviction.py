"""The taint eviction controller: pods leave a node with a NoExecute taint, when their toleration ends.

Source: pkg/controller/tainteviction of Kubernetes v1.36; recording 24.
"""

from __future__ import annotations

from killcheck.clock import Timer
from killcheck.embedded.controllers import pods as podset
from killcheck.embedded.controllers.podcontrol import one_more
from killcheck.embedded.controllers.runtime import Controller, Key
from killcheck.embedded.controllers.scheduler.filters import tolerates
from killcheck.kube import resources as r
from killcheck.kube.errors import KubeError, NotFound
from killcheck.kube.informer import Change
from killcheck.kube.objects import Obj, dig, format_time, key_of, name_of, namespace_of, uid_of

__all__ = ["TaintEvictionController"]


class TaintEvictionController(Controller):
    """Evicts pods from tainted nodes."""

    name = "taint-eviction-controller"

    def setup(self) -> None:
        """Follow nodes and pods."""
        self._due: dict[str, tuple[Timer, Obj]] = {}
        self.by_node = podset.by_node(self.informers)
        self.nodes = self.informers.of(r.NODES)
        self.pods = self.informers.of(r.PODS)
        self.listen(r.NODES, self._node_changed)
        self.listen(r.PODS, self._pod_changed)

    def stop(self) -> None:
        """Stop working."""
        for timer, _ in self._due.values():
            timer.cancel()
        self._due.clear()
        super().stop()

    def _node_changed(self, change: Change, old: Obj | None, new: Obj) -> None:
        if change == "deleted":
            return  # what is due stays due: only a pod that goes, or a taint that is lifted, cancels it
        if change == "modified" and old is not None and _no_execute(old) == _no_execute(new):
            return
        for pod in self.by_node.get(name_of(new)):
            self.queue.add(key_of(pod))

    def _pod_changed(self, change: Change, old: Obj | None, new: Obj) -> None:
        if change == "deleted":
            self._cancel(new)
            return
        same = old is not None and podset.node_of(old) == podset.node_of(new)
        if not podset.node_of(new) or (same and dig(old, "spec", "tolerations") == dig(new, "spec", "tolerations")):
            return
        self.queue.add(key_of(new))

    def reconcile(self, key: Key) -> None:
        """When does this pod have to go?"""
        pod = self.pods.objects.get(key)
        if pod is None:
            return
        node = self.nodes.get(podset.node_of(pod))
        if node is None:
            return
        taints = _no_execute(node)
        if not taints:
            self._cancel(pod)
            return
        wait = _patience(pod, taints)
        if wait is None:
            self._cancel(pod)
        elif wait <= 0:
            self._drop(pod)
            self._evict(pod)
        elif uid_of(pod) not in self._due:
            self._due[uid_of(pod)] = (self.loop.call_later(wait, self._evict_later, key), pod)

    def _evict_later(self, key: Key) -> None:
        pod = self.pods.objects.get(key)
        if pod is None:
            return
        self._drop(pod)
        try:
            self._evict(pod)
        except KubeError:
            self.queue.retry(key)

    def _evict(self, pod: Obj) -> None:
        if "deletionTimestamp" in pod["metadata"]:
            return
        namespace, name = key_of(pod)
        self.events.emit(pod, "Normal", "TaintManagerEviction", f"Marking for deletion Pod {namespace}/{name}")
        target = {
            "type": "DisruptionTarget",
            "status": "True",
            "reason": "DeletionByTaintManager",
            "message": "Taint manager: deleting due to NoExecute taint",
            "lastProbeTime": None,
            "lastTransitionTime": format_time(self.loop.now()),
            "observedGeneration": pod["metadata"].get("generation", 0),
        }
        patch = {"metadata": {"uid": uid_of(pod)}, "status": one_more(pod, target)}
        try:
            self.kube.patch(r.PODS, name, patch, namespace, kind="strategic", subresource="status")
            self.kube.delete(r.PODS, name, namespace)
        except NotFound:
            return

    def _drop(self, pod: Obj) -> bool:
        due = self._due.pop(uid_of(pod), None)
        if due is not None:
            due[0].cancel()
        return due is not None

    def _cancel(self, pod: Obj) -> None:
        if self._drop(pod):
            where = f"{namespace_of(pod)}/{name_of(pod)}"
            self.events.emit(pod, "Normal", "TaintManagerEviction", f"Cancelling deletion of Pod {where}")


def _no_execute(node: Obj) -> list[tuple[str, str]]:
    return [
        (t["key"], str(t.get("value") or ""))
        for t in dig(node, "spec", "taints", default=[])
        if t["effect"] == "NoExecute"
    ]


def _patience(pod: Obj, taints: list[tuple[str, str]]) -> float | None:
    """Seconds that a pod may stay; None: for ever."""
    seconds: list[float] = []
    for key, value in taints:
        taint = {"key": key, "value": value, "effect": "NoExecute"}
        covering = [t for t in pod["spec"].get("tolerations") or [] if tolerates([t], taint)]
        if not covering:
            return 0.0
        seconds += [float(t["tolerationSeconds"]) for t in covering[:1] if t.get("tolerationSeconds") is not None]
    return max(0.0, min(seconds)) if seconds else None
