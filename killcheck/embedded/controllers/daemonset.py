"""The DaemonSet controller: one pod on every node that takes it.

Source: pkg/controller/daemon of Kubernetes v1.36. Pods are pinned to their node and bound by the scheduler.
"""

from __future__ import annotations

from killcheck.embedded.controllers import pods as podset
from killcheck.embedded.controllers.history import REVISION_LABEL, History
from killcheck.embedded.controllers.podcontrol import PodControl, claim
from killcheck.embedded.controllers.revisions import scaled
from killcheck.embedded.controllers.runtime import MANY, Controller, Key
from killcheck.embedded.controllers.scheduler.filters import selects, tolerates
from killcheck.kube import resources as r
from killcheck.kube.errors import ApiError
from killcheck.kube.informer import Change
from killcheck.kube.objects import Obj, copy, dig, key_of, labels_of, name_of, namespace_of, uid_of
from killcheck.kube.selectors import from_match_labels

__all__ = ["DaemonSetController"]

_TOLERATIONS = (
    ("not-ready", "NoExecute"),
    ("unreachable", "NoExecute"),
    ("disk-pressure", "NoSchedule"),
    ("memory-pressure", "NoSchedule"),
    ("pid-pressure", "NoSchedule"),
    ("unschedulable", "NoSchedule"),
)


class DaemonSetController(Controller):
    """Keeps every DaemonSet's pods and status."""

    name = "daemonset-controller"

    def setup(self) -> None:
        """Follow DaemonSets, their pods, and nodes."""
        self.pods = PodControl(self.kube, self.events, r.DAEMONSETS)
        self.by_owner = self.informers.by_controller(r.PODS)
        self.history = History(self.kube, self.informers, r.DAEMONSETS)
        self.listen(r.PODS, self.pods.expected.saw)
        self.sets = self.follow(r.DAEMONSETS)
        self.nodes = self.informers.of(r.NODES)
        self.follow(r.PODS, self.owned_by("DaemonSet"), together=self._is_large)
        self.follow(r.NODES, self._meant_for, together=self._is_large)

    def _is_large(self, _key: Key) -> bool:
        return len(self.nodes.objects) >= MANY

    def _meant_for(self, change: Change, old: Obj | None, node: Obj) -> list[Key]:
        """The sets of which a pod is to come there or to go, or is told as misplaced (syncNodeUpdate)."""
        if change == "deleted" or (change == "modified" and old is not None and _relevant(old) == _relevant(node)):
            return []
        found = []
        for one in self.sets.values():
            there = any(podset.node_of(pod) == name_of(node) for pod in self.by_owner.get(uid_of(one)))
            runs, stays = should_run(one, node)
            misplaced = there and dig(one, "status", "numberMisscheduled", default=0)
            if (runs and not there) or (there and not stays) or misplaced:
                found.append(key_of(one))
        return found

    def reconcile(self, key: Key) -> None:
        """One pass: the right pods on the right nodes, then the status."""
        found = self.sets.objects.get(key)
        if found is None:
            self.pods.expected.forget(key)
            return
        settled = self.pods.expected.satisfied(key)
        revision = self.history.current(found)
        selector = from_match_labels(found["spec"].get("selector"))
        own = [*self.by_owner.get(uid_of(found)), *self.by_owner.get(f"{key[0]}/")]
        pods = claim(self.kube, r.DAEMONSETS, found, selector, own, target=r.PODS)
        by_node: dict[str, list[Obj]] = {}
        for pod in pods:
            by_node.setdefault(_target(pod), []).append(pod)
        if settled and "deletionTimestamp" not in found["metadata"]:
            self._place(found, revision, by_node)
            self._roll(found, revision, by_node)
        self._update_status(found, revision, by_node)
        in_use = {labels_of(pod).get(REVISION_LABEL, "") for pod in pods} | {name_of(revision)}
        self.history.prune(found, in_use)

    def _place(self, found: Obj, revision: Obj, by_node: dict[str, list[Obj]]) -> None:
        error: ApiError | None = None
        for node in self.nodes.values():
            here = by_node.get(name_of(node), [])
            alive = [pod for pod in here if "deletionTimestamp" not in pod["metadata"]]
            runs, stays = should_run(found, node)
            for pod in alive:
                if podset.phase_of(pod) == "Failed":
                    where = f"{namespace_of(pod)}/{name_of(pod)} on node {name_of(node)}"
                    text = f"Found failed daemon pod {where}, will try to kill it"
                    self.events.emit(found, "Warning", "FailedDaemonPod", text)
                    error = self._delete(found, pod) or error
                elif not stays:
                    error = self._delete(found, pod) or error
            if runs and not here:
                try:
                    self.pods.create(found, _template(found, revision, name_of(node)))
                except ApiError as refused:
                    error = error or refused
            for extra in sorted(alive, key=lambda pod: str(pod["metadata"]["creationTimestamp"]))[1:] if stays else ():
                error = self._delete(found, extra) or error
        if error is not None:
            raise error

    def _delete(self, found: Obj, pod: Obj) -> ApiError | None:
        try:
            self.pods.delete(found, pod)
        except ApiError as error:
            return error
        return None

    def _roll(self, found: Obj, revision: Obj, by_node: dict[str, list[Obj]]) -> None:
        """Delete pods of older templates, so many at a time as may be unavailable."""
        strategy = found["spec"].get("updateStrategy") or {}
        if strategy.get("type") == "OnDelete":
            return
        wanted = [node for node in self.nodes.values() if should_run(found, node)[0]]
        limit = scaled(dig(strategy, "rollingUpdate", "maxUnavailable", default=1), len(wanted), up=True)
        min_ready, now = int(found["spec"].get("minReadySeconds") or 0), self.loop.now()
        old_ready, unavailable = [], 0
        for node in wanted:
            pods = [pod for pod in by_node.get(name_of(node), []) if podset.is_active(pod)]
            ready = bool(pods) and podset.is_available(pods[0], min_ready, now)
            old = bool(pods) and labels_of(pods[0]).get(REVISION_LABEL) != name_of(revision)
            if old and not ready:
                self.pods.delete(found, pods[0])
            elif old:
                old_ready.append(pods[0])
            unavailable += not ready
        for pod in old_ready[: max(0, limit - unavailable)]:
            self.pods.delete(found, pod)

    def _update_status(self, found: Obj, revision: Obj, by_node: dict[str, list[Obj]]) -> None:
        now, min_ready = self.loop.now(), int(found["spec"].get("minReadySeconds") or 0)
        counts = dict.fromkeys(("desired", "current", "misscheduled", "ready", "available", "updated"), 0)
        for node in self.nodes.values():
            pods = by_node.get(name_of(node), [])
            if not should_run(found, node)[0]:
                counts["misscheduled"] += bool(pods)
                continue
            counts["desired"] += 1
            if not pods:
                continue
            pod = min(pods, key=lambda pod: str(pod["metadata"]["creationTimestamp"]))
            counts["current"] += 1
            counts["ready"] += podset.is_ready(pod)
            counts["available"] += podset.is_available(pod, min_ready, now)
            counts["updated"] += labels_of(pod).get(REVISION_LABEL) == name_of(revision)
        status: Obj = {
            "observedGeneration": found["metadata"].get("generation", 0),
            "desiredNumberScheduled": counts["desired"],
            "currentNumberScheduled": counts["current"],
            "numberMisscheduled": counts["misscheduled"],
            "numberReady": counts["ready"],
        }
        optional = {
            "numberAvailable": counts["available"],
            "updatedNumberScheduled": counts["updated"],
            "numberUnavailable": counts["desired"] - counts["available"],
        }
        status |= {field: count for field, count in optional.items() if count}
        if status != found.get("status"):
            self.kube.replace(r.DAEMONSETS, found | {"status": status}, subresource="status")


def should_run(found: Obj, node: Obj) -> tuple[bool, bool]:
    """Whether a pod should be on a node, and whether one that is there may stay."""
    pod = {"spec": found["spec"]["template"]["spec"]}
    if pod["spec"].get("nodeName") not in (None, "", name_of(node)):
        return False, False
    if not selects(pod, node, labels_of(node)):
        return False, False
    tolerations = [*(pod["spec"].get("tolerations") or []), *_defaults(pod["spec"])]
    bad = [taint for taint in dig(node, "spec", "taints", default=[]) if not tolerates(tolerations, taint)]
    stays = not any(taint["effect"] == "NoExecute" for taint in bad)
    return stays and not any(taint["effect"] == "NoSchedule" for taint in bad), stays


def _defaults(spec: Obj) -> list[Obj]:
    kinds = [*_TOLERATIONS, *([("network-unavailable", "NoSchedule")] if spec.get("hostNetwork") else [])]
    return [{"key": f"node.kubernetes.io/{key}", "operator": "Exists", "effect": effect} for key, effect in kinds]


def _template(found: Obj, revision: Obj, node: str) -> Obj:
    template = copy(found["spec"]["template"])
    meta, spec = template.setdefault("metadata", {}), template["spec"]
    generation = str(found["metadata"].get("generation", 1))
    labels = {REVISION_LABEL: name_of(revision), "pod-template-generation": generation}
    meta["labels"] = (meta.get("labels") or {}) | labels
    spec["tolerations"] = [*(spec.get("tolerations") or []), *_defaults(spec)]
    pin = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": [node]}]}
    affinity = spec.setdefault("affinity", {}).setdefault("nodeAffinity", {})
    required = affinity.setdefault("requiredDuringSchedulingIgnoredDuringExecution", {})
    required["nodeSelectorTerms"] = [pin]
    return template


def _target(pod: Obj) -> str:
    """The node that a pod is on, or meant for."""
    if podset.node_of(pod):
        return podset.node_of(pod)
    required = dig(
        pod, "spec", "affinity", "nodeAffinity", "requiredDuringSchedulingIgnoredDuringExecution", default={}
    )
    for term in required.get("nodeSelectorTerms") or ():
        for entry in term.get("matchFields") or ():
            return str((entry.get("values") or [""])[0])
    return ""


def _relevant(node: Obj) -> tuple[object, object]:
    return labels_of(node), dig(node, "spec", "taints")
