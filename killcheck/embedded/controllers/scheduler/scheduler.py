"""The scheduler as a controller: it watches pods and nodes, tries what is ready, binds what fits, tells what not."""

from __future__ import annotations

from collections.abc import Mapping

from killcheck.embedded.controllers.events import SeriesRecorder
from killcheck.embedded.controllers.pods import is_terminal, node_of
from killcheck.embedded.controllers.runtime import Component
from killcheck.embedded.controllers.scheduler import claims as dra
from killcheck.embedded.controllers.scheduler.attempt import Attempt, Judged, fit_message
from killcheck.embedded.controllers.scheduler.backlog import Backlog, Waiting
from killcheck.embedded.controllers.scheduler.claims import ClaimCheck
from killcheck.embedded.controllers.scheduler.filters import tolerates
from killcheck.embedded.controllers.scheduler.nodes import PodInfo, Snapshot
from killcheck.embedded.controllers.scheduler.preemption import Plan, find_room
from killcheck.embedded.controllers.scheduler.scores import best_node
from killcheck.embedded.controllers.scheduler.volumes import SELECTED_NODE, VolumeCheck
from killcheck.kube import resources as r
from killcheck.kube.errors import Conflict, KubeError, NotFound
from killcheck.kube.informer import Change
from killcheck.kube.objects import Obj, annotations_of, condition, copy, dig, format_time, name_of, namespace_of, uid_of
from killcheck.kube.resources import Resource

__all__ = ["Scheduler"]

STORAGECLASSES = Resource("storage.k8s.io", "v1", "storageclasses", "StorageClass", False)

_CLAIM_FINALIZER = "resource.kubernetes.io/delete-protection"
#: Which parts of a node concern which plugin.
_NODE_PARTS: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("NodeResourcesFit", ("status", "allocatable")),
    ("TaintToleration", ("spec", "taints")),
    ("NodeUnschedulable", ("spec", "unschedulable")),
    ("NodeAffinity", ("metadata", "labels")),
    ("PodTopologySpread", ("metadata", "labels")),
    ("InterPodAffinity", ("metadata", "labels")),
    ("DynamicResources", ("metadata", "labels")),
    ("VolumeBinding", ("metadata", "labels")),
)
#: Whom a pod that leaves a node may help.
_FREED = ("NodeResourcesFit", "NodePorts", "InterPodAffinity", "PodTopologySpread")


def _as_before(waiting: Waiting, old: Obj, new: Obj) -> bool:
    """Whether what became of a node's taints is nothing to a pod that only taints, or cordons, keep from nodes.

    Source: isSchedulableAfterNodeChange of the plugins TaintToleration and NodeUnschedulable.
    """
    kept, pod = {"TaintToleration": _untolerated, "NodeUnschedulable": _cordoned}, waiting.info.pod
    return bool(waiting.plugins) and all(
        plugin in kept and not (kept[plugin](pod, old) and not kept[plugin](pod, new)) for plugin in waiting.plugins
    )


def _untolerated(pod: Obj, node: Obj) -> bool:
    tolerations = pod["spec"].get("tolerations") or ()
    taints = dig(node, "spec", "taints", default=[])
    return any(t.get("effect") in ("NoSchedule", "NoExecute") and not tolerates(tolerations, t) for t in taints)


def _cordoned(_pod: Obj, node: Obj) -> bool:
    return bool(dig(node, "spec", "unschedulable"))


class Scheduler(Component):
    """Binds pods whose ``schedulerName`` is default-scheduler, and those of schedulers that it ``stands_in`` for."""

    name = "default-scheduler"
    stands_in: frozenset[str] = frozenset()

    def setup(self) -> None:
        """Follow everything a decision depends on."""
        self.snapshot = Snapshot()
        self.judged = Judged()
        self.backlog = Backlog(self.loop, self._try_all)
        self.series = SeriesRecorder(self.kube, self.loop, self.name, host="control-plane")
        self.gated: dict[str, PodInfo] = {}
        self.binding: dict[str, tuple[PodInfo, str]] = {}
        self._start_at = 0
        self.namespaces = self.informers.of(r.NAMESPACES)
        self.claims = self.informers.of(r.RESOURCECLAIMS, optional=True)
        self.classes = self.informers.of(r.DEVICECLASSES, optional=True)
        self.slices = self.informers.of(r.RESOURCESLICES, optional=True)
        self.volume_claims = self.informers.of(r.PERSISTENTVOLUMECLAIMS)
        self.volumes = self.informers.of(r.PERSISTENTVOLUMES)
        self.storage_classes = self.informers.of(STORAGECLASSES, optional=True)
        self.budgets = self.informers.of(r.PDBS)
        self.pods = self.informers.of(r.PODS)
        self.listen(r.NODES, self._node_changed)
        self.listen(r.PODS, self._pod_changed)
        self.listen(r.RESOURCECLAIMS, self._claims_changed, optional=True)
        for resource in (r.DEVICECLASSES, r.RESOURCESLICES):
            self.listen(resource, lambda *_: self.backlog.changed("DynamicResources"), optional=True)
        for resource in (r.PERSISTENTVOLUMECLAIMS, r.PERSISTENTVOLUMES, STORAGECLASSES):
            self.listen(resource, self._volumes_changed, optional=True)

    def stop(self) -> None:
        """Stop working."""
        self.backlog.stop()
        super().stop()

    # -- what happens --------------------------------------------------------------------------------------
    def _node_changed(self, change: Change, old: Obj | None, new: Obj) -> None:
        if change == "deleted":
            self.snapshot.drop_node(name_of(new))
            self.judged.forget(name_of(new))
            self.backlog.changed("PodTopologySpread")
            return
        if old is None:
            self.snapshot.set_node(new)
            self.backlog.changed("")
            return
        plugins = {plugin for plugin, path in _NODE_PARTS if dig(old, *path) != dig(new, *path)}
        if plugins:
            self.snapshot.set_node(new)
        else:
            self.snapshot.nodes[name_of(new)].node = new
        let_on = "NodeUnschedulable" in plugins and not dig(new, "spec", "unschedulable")
        if "TaintToleration" in plugins or let_on:
            # Told to every plugin that waits for new nodes (buildQueueingHintMap); these two ask what it is to them.
            self.backlog.changed("", but=lambda waiting: _as_before(waiting, old, new))
            return
        for plugin in sorted(plugins):
            self.backlog.changed(plugin)

    def _pod_changed(self, change: Change, old: Obj | None, new: Obj) -> None:
        uid = uid_of(new)
        if change == "deleted" or is_terminal(new):
            self._forget(uid)
            return
        if node_of(new):
            self.backlog.drop(uid)
            self.gated.pop(uid, None)
            self.binding.pop(uid, None)
            self._placed(new)
            return
        if not self._serves(new) or "deletionTimestamp" in new["metadata"]:
            self.backlog.drop(uid)
            return
        if uid in self.binding:
            return
        info = PodInfo(new)
        if not self._may_enter(new):
            self.backlog.drop(uid)
            self.gated[uid] = info
            return
        entered = self.gated.pop(uid, None) is not None
        if old is None or entered or _schedules_differently(old, new):
            self.backlog.add(info)
        else:
            self.backlog.renew(info)

    def _placed(self, pod: Obj) -> None:
        uid, node = uid_of(pod), node_of(pod)
        at = self.snapshot.nodes.get(node)
        known = at.pods.get(uid) if at else None
        if known is not None and known.pod["spec"] == pod["spec"] and known.labels == pod["metadata"].get("labels", {}):
            known.pod = pod
            return
        self.snapshot.place(PodInfo(pod), node)
        for plugin in ("InterPodAffinity", "PodTopologySpread"):
            self.backlog.changed(plugin)

    def _forget(self, uid: str) -> None:
        self.backlog.drop(uid)
        self.gated.pop(uid, None)
        self.binding.pop(uid, None)
        self.snapshot.withdraw(uid)
        if self.snapshot.lift(uid) is not None:
            for plugin in _FREED:
                self.backlog.changed(plugin)

    def _serves(self, pod: Obj) -> bool:
        named = pod["spec"].get("schedulerName", self.name)
        return named == self.name or named in self.stands_in

    def _may_enter(self, pod: Obj) -> bool:
        """Pods with scheduling gates wait for those; pods with claims wait, in silence, until the claims exist."""
        if pod["spec"].get("schedulingGates"):
            return False
        names = dra.claim_names(pod) if pod["spec"].get("resourceClaims") else []
        return all(name is not None and self.claims.get(name, namespace_of(pod)) is not None for name in names)

    def _claims_changed(self, _change: Change, _old: Obj | None, _new: Obj) -> None:
        for uid, info in list(self.gated.items()):
            if self._may_enter(info.pod):
                del self.gated[uid]
                self.backlog.add(info)
        self.backlog.changed("DynamicResources")

    def _volumes_changed(self, _change: Change, _old: Obj | None, _new: Obj) -> None:
        self.backlog.changed("VolumeBinding")
        for uid, (info, node) in list(self.binding.items()):
            if not self._volume_check(info.pod).to_bind:
                del self.binding[uid]
                self._bind(info, node)

    # -- one pod -------------------------------------------------------------------------------------------
    def _try_all(self) -> None:
        for waiting in self.backlog.ready():
            if waiting.info.uid in self.backlog.pods and waiting.active and waiting.timer is None:
                waiting.active = False
                self._try(waiting)

    def _try(self, waiting: Waiting) -> None:
        info = waiting.info
        if not self.snapshot.present():
            self._fail(info, "no nodes available to schedule pods", frozenset())
            return
        attempt = Attempt(
            info,
            self.snapshot,
            self.judged,
            claims=self._claim_check(info.pod),
            volumes=self._volume_check(info.pod),
            namespaces=self._namespace_labels,
        )
        total = len(attempt.nodes)
        problems = {"VolumeBinding": attempt.volumes.problem, "DynamicResources": attempt.claims.problem}
        for plugin, problem in problems.items():
            if problem:
                after = self._after_refusal(attempt)
                self._fail(info, f"0/{total} nodes are available: {problem}. {after}", frozenset({plugin}))
                return
        found, looked = attempt.feasible(self._start_at % total)
        self._start_at = (self._start_at + looked) % total
        if found:
            best = best_node(info, found, attempt.nodes, self._namespace_labels, attempt.allocations)
            self._assign(attempt, best.name)
            return
        self._refused(attempt)

    def _refused(self, attempt: Attempt) -> None:
        info, total = attempt.info, len(attempt.nodes)
        plugins = frozenset(reject.plugin for reject in attempt.refused.values())
        text = fit_message(total, attempt.refused)
        plan = find_room(attempt, self.budgets.values())
        if isinstance(plan, str):
            self.snapshot.withdraw(info.uid)
            self._fail(info, f"{text} {self._claims_say(attempt)}, preemption: {plan}", plugins)
            return
        self._preempt(info, plan)
        self.snapshot.nominate(info, plan.node)
        self._fail(info, text, plugins, nominated=plan.node)

    def _after_refusal(self, attempt: Attempt) -> str:
        total = len(attempt.nodes)
        return f"no new claims to deallocate, preemption: {fit_message(total, {}, _NOT_HELPFUL)}"

    def _claims_say(self, attempt: Attempt) -> str:
        return "still not schedulable" if attempt.claims.claims else "no new claims to deallocate"

    def _fail(self, info: PodInfo, message: str, plugins: frozenset[str], *, nominated: str = "") -> None:
        self.backlog.failed(info.uid, plugins)
        pod = info.pod
        self.series.emit(pod, "Warning", "FailedScheduling", "Scheduling", message)
        current = condition(pod, "PodScheduled") or {}
        stamp = format_time(self.loop.now())
        since = current.get("lastTransitionTime", stamp) if current.get("status") == "False" else stamp
        wanted = {
            "type": "PodScheduled",
            "status": "False",
            "reason": "Unschedulable",
            "message": message,
            "lastProbeTime": None,
            "lastTransitionTime": since,
            "observedGeneration": pod["metadata"].get("generation", 0),
        }
        status: Obj = {}
        if any(current.get(field) != wanted[field] for field in ("status", "reason", "message", "observedGeneration")):
            status["conditions"] = [wanted]
        if nominated and dig(pod, "status", "nominatedNodeName") != nominated:
            status["nominatedNodeName"] = nominated
        if status:
            self._patch_status(pod, status)

    def _patch_status(self, pod: Obj, status: Obj) -> None:
        try:
            self.kube.patch(
                r.PODS,
                name_of(pod),
                {"metadata": {"uid": uid_of(pod)}, "status": status},
                namespace_of(pod),
                kind="strategic",
                subresource="status",
            )
        except KubeError:
            return  # gone, or another by now: the watch will tell

    # -- assigning -----------------------------------------------------------------------------------------
    def _assign(self, attempt: Attempt, node: str) -> None:
        info = attempt.info
        try:
            self._reserve(attempt, node)
            for claim in attempt.volumes.to_bind:
                annotations = {SELECTED_NODE: node}
                self.kube.patch(
                    r.PERSISTENTVOLUMECLAIMS,
                    name_of(claim),
                    {"metadata": {"annotations": annotations}},
                    namespace_of(claim),
                )
        except KubeError:
            self.backlog.failed(info.uid, frozenset(), retry=True)
            return
        if attempt.volumes.to_bind:
            self.snapshot.place(info, node)
            self.binding[info.uid] = (info, node)
            return
        self._bind(info, node)

    def _reserve(self, attempt: Attempt, node: str) -> None:
        """Write devices and user into the claims. Raises KubeError."""
        pod = attempt.info.pod
        fresh = {uid_of(claim): allocation for claim, allocation in attempt.claims.allocations(node)}
        entry = dra.reservation(pod)
        for claim in attempt.claims.claims:
            reserved = dig(claim, "status", "reservedFor", default=[])
            allocation = fresh.get(uid_of(claim))
            if allocation is None and any(user["uid"] == entry["uid"] for user in reserved):
                continue
            current = claim
            finalizers = dig(claim, "metadata", "finalizers", default=[])
            if _CLAIM_FINALIZER not in finalizers:
                meta = claim["metadata"] | {"finalizers": [*finalizers, _CLAIM_FINALIZER]}
                current = self.kube.replace(r.RESOURCECLAIMS, claim | {"metadata": meta})
            status = copy(current.get("status") or {})
            status["reservedFor"] = [*reserved, entry]
            if allocation is not None:
                status["allocation"] = allocation
            self.claims.objects[namespace_of(claim), name_of(claim)] = self.kube.replace(
                r.RESOURCECLAIMS, current | {"status": status}, subresource="status"
            )

    def _bind(self, info: PodInfo, node: str) -> None:
        namespace, name = info.key
        binding = {
            "apiVersion": "v1",
            "kind": "Binding",
            "metadata": {"name": name, "namespace": namespace, "uid": info.uid},
            "target": {"apiVersion": "v1", "kind": "Node", "name": node},
        }
        try:
            self.kube.create(r.PODS, binding, namespace, name=name, subresource="binding")
        except (NotFound, Conflict):
            self._forget(info.uid)  # gone, or bound by somebody else
            return
        except KubeError as error:
            self.snapshot.lift(info.uid)
            self.series.emit(info.pod, "Warning", "FailedScheduling", "Scheduling", f"binding rejected: {error}")
            self.backlog.failed(info.uid, frozenset(), retry=True)
            return
        self.backlog.drop(info.uid)
        self.snapshot.place(info, node)
        self.series.emit(
            info.pod, "Normal", "Scheduled", "Binding", f"Successfully assigned {namespace}/{name} to {node}"
        )

    # -- preemption ----------------------------------------------------------------------------------------
    def _preempt(self, info: PodInfo, plan: Plan) -> None:
        for victim in plan.victims:
            pod = victim.pod
            if "deletionTimestamp" in pod["metadata"]:
                continue
            self._patch_status(
                pod,
                {
                    "conditions": [
                        {
                            "type": "DisruptionTarget",
                            "status": "True",
                            "reason": "PreemptionByScheduler",
                            "message": f"{self.name}: preempting to accommodate a higher priority pod",
                            "lastProbeTime": None,
                            "lastTransitionTime": format_time(self.loop.now()),
                            "observedGeneration": pod["metadata"].get("generation", 0),
                        }
                    ]
                },
            )
            try:
                self.kube.delete(r.PODS, name_of(pod), namespace_of(pod), uid=victim.uid)
            except KubeError:
                continue
            note = f"Preempted by pod {info.uid} on node {plan.node}"
            self.series.emit(pod, "Normal", "Preempted", "Preempting", note)

    # -- what filters ask ----------------------------------------------------------------------------------
    def _namespace_labels(self, name: str) -> Mapping[str, str]:
        return dig(self.namespaces.get(name), "metadata", "labels", default={})  # type: ignore[no-any-return]

    def _claim_check(self, pod: Obj) -> ClaimCheck:
        names = dra.claim_names(pod) if pod["spec"].get("resourceClaims") else []
        found = [self.claims.get(name, namespace_of(pod)) for name in names if name]
        return ClaimCheck(
            pod,
            [claim for claim in found if claim is not None],
            self.classes.get,
            self.slices.values,
            lambda: dra.in_use(self.claims.values()),
        )

    def _volume_check(self, pod: Obj) -> VolumeCheck:
        return VolumeCheck(
            pod,
            self.volume_claims.get,
            self.volumes.get,
            lambda name, _: self.storage_classes.get(name) if name else self._default_storage_class(),
        )

    def _default_storage_class(self) -> Obj | None:
        marked = "storageclass.kubernetes.io/is-default-class"
        return next((c for c in self.storage_classes.values() if annotations_of(c).get(marked) == "true"), None)


_NOT_HELPFUL = "Preemption is not helpful for scheduling"


def _schedules_differently(old: Obj, new: Obj) -> bool:
    """Whether an update of a waiting pod may change where it can go."""
    if old["spec"] != new["spec"]:
        return True
    meta = ("labels", "annotations")
    return any(old["metadata"].get(field) != new["metadata"].get(field) for field in meta) or (
        dig(old, "status", "resourceClaimStatuses") != dig(new, "status", "resourceClaimStatuses")
    )
