"""The ReplicaSet controller: so many pods, no more, no fewer; and ReplicationControllers, which are the same in old.

Source: pkg/controller/{replicaset,replication} of Kubernetes v1.36; recordings 01, 16b, 21, 22.
"""

from __future__ import annotations

from typing import ClassVar

from killcheck.embedded.controllers import pods as podset
from killcheck.embedded.controllers.podcontrol import PodControl, claim, slow_start
from killcheck.embedded.controllers.runtime import MANY, Controller, Key
from killcheck.kube import resources as r
from killcheck.kube.errors import ApiError, Conflict
from killcheck.kube.informer import Change
from killcheck.kube.objects import Obj, controller_of, dig, format_time, labels_of, name_of, namespace_of, uid_of
from killcheck.kube.resources import Resource
from killcheck.kube.selectors import LabelSelector, from_match_labels

__all__ = ["ReplicaSetController", "ReplicationControllerController"]

#: Pods created or deleted in one pass.
BURST = 500
_FAILURE = "ReplicaFailure"


class ReplicaSetController(Controller):
    """Keeps every ReplicaSet's pods and status."""

    name = "replicaset-controller"
    resource: ClassVar[Resource] = r.REPLICASETS

    def setup(self) -> None:
        """Follow ReplicaSets and their pods."""
        self.pods = PodControl(self.kube, self.events, self.resource)
        self.by_owner = self.informers.by_controller(r.PODS)
        self.listen(r.PODS, self.pods.expected.saw)
        self.sets = self.follow(self.resource)
        self.set_siblings = self.informers.by_controller(self.resource)
        self.follow(r.PODS, self._owners, together=self._is_large)

    def _is_large(self, key: Key) -> bool:
        rs = self.sets.objects.get(key)
        wanted = int(dig(rs, "spec", "replicas", default=0))
        status = dig(rs, "status", default={})  # what is scaled to zero still has many that end
        return max(wanted, status.get("replicas") or 0, status.get("terminatingReplicas") or 0) >= MANY

    def _owners(self, _change: Change, old: Obj | None, new: Obj) -> list[Key]:
        keys = self.owned_by(self.resource.kind)(_change, old, new)
        if keys or controller_of(new) is not None or _change == "deleted":
            return keys
        namespace, labels = namespace_of(new), labels_of(new)
        return [
            (namespace, name_of(rs))
            for rs in self.sets.values()
            if namespace_of(rs) == namespace and self.selector(rs).matches(labels)
        ]

    def selector(self, rs: Obj) -> LabelSelector:
        """What selects its pods."""
        return from_match_labels(rs["spec"].get("selector"))

    def reconcile(self, key: Key) -> None:
        """Create or delete pods as needed, and say so in the status."""
        rs = self.sets.get(key[1], key[0])
        if rs is None:
            self.pods.expected.forget(key)
            return
        settled = self.pods.expected.satisfied(key)
        selector = self.selector(rs)
        own = [*self.by_owner.get(uid_of(rs)), *self.by_owner.get(f"{key[0]}/")]
        active = claim(
            self.kube, self.resource, rs, selector, [pod for pod in own if podset.is_active(pod)], target=r.PODS
        )
        terminating = _claimed(rs, selector, own)
        failure: ApiError | None = None
        if settled and "deletionTimestamp" not in rs["metadata"]:
            try:
                self._manage(rs, active)
            except ApiError as error:
                failure = error
        self._update_status(rs, active, len(terminating), failure)
        if failure is not None:
            raise failure
        self._plan_availability(key, rs, active)

    def _manage(self, rs: Obj, active: list[Obj]) -> None:
        diff = len(active) - int(rs["spec"].get("replicas", 1))
        if diff < 0:
            template = rs["spec"]["template"]
            slow_start(min(-diff, BURST), lambda: self.pods.create(rs, template))
        elif diff > 0:
            surplus = active
            if diff < len(active):
                surplus = podset.deletion_rank(active, self._related(rs), self.loop.now())
            failure: ApiError | None = None
            for pod in surplus[: min(diff, BURST)]:
                try:
                    self.pods.delete(rs, pod)
                except ApiError as error:
                    failure = failure or error
            if failure is not None:
                raise failure

    def _related(self, rs: Obj) -> list[Obj]:
        """The pods of all ReplicaSets of the same owner."""
        owner = controller_of(rs)
        sets = self.set_siblings.get(owner["uid"]) if owner else [rs]
        return [pod for sibling in sets for pod in self.by_owner.get(uid_of(sibling))]

    # -- status --------------------------------------------------------------------------------------------
    def _update_status(self, rs: Obj, active: list[Obj], terminating: int, failure: ApiError | None) -> None:
        old = rs.get("status") or {}
        status = self._status(rs, active, terminating, failure)
        if {**old, "observedGeneration": 0} == {**status, "observedGeneration": 0} and (
            old.get("observedGeneration") == rs["metadata"].get("generation")
        ):
            return
        try:
            self.kube.replace(self.resource, rs | {"status": status}, subresource="status")
        except Conflict:
            fresh = self.kube.get(self.resource, name_of(rs), namespace_of(rs))
            self.kube.replace(self.resource, fresh | {"status": status}, subresource="status")

    def _status(self, rs: Obj, active: list[Obj], terminating: int, failure: ApiError | None) -> Obj:
        now = self.loop.now()
        template = dig(rs, "spec", "template", "metadata", "labels", default={})
        ready = [pod for pod in active if podset.is_ready(pod)]
        min_ready = int(rs["spec"].get("minReadySeconds") or 0)
        counts = {
            "fullyLabeledReplicas": sum(template.items() <= labels_of(pod).items() for pod in active),
            "readyReplicas": len(ready),
            "availableReplicas": sum(podset.is_available(pod, min_ready, now) for pod in ready),
        }
        status: Obj = {"replicas": len(active)} | {name: count for name, count in counts.items() if count}
        if self.resource is r.REPLICASETS:
            status["terminatingReplicas"] = terminating
        status["observedGeneration"] = rs["metadata"].get("generation", 0)
        conditions = self._conditions(rs, len(active), failure)
        if conditions:
            status["conditions"] = conditions
        return status

    def _conditions(self, rs: Obj, active: int, failure: ApiError | None) -> list[Obj]:
        conditions: list[Obj] = dig(rs, "status", "conditions", default=[])
        present = any(c["type"] == _FAILURE for c in conditions)
        if failure is None:
            return [c for c in conditions if c["type"] != _FAILURE]
        if present:
            return conditions
        reason = "FailedCreate" if active < int(rs["spec"].get("replicas", 1)) else "FailedDelete"
        return [
            *conditions,
            {
                "type": _FAILURE,
                "status": "True",
                "lastTransitionTime": format_time(self.loop.now()),
                "reason": reason,
                "message": failure.message,
            },
        ]

    def _plan_availability(self, key: Key, rs: Obj, active: list[Obj]) -> None:
        min_ready = int(rs["spec"].get("minReadySeconds") or 0)
        if not min_ready:
            return
        now = self.loop.now()
        waits = [podset.next_available_s(pod, min_ready, now) for pod in active if podset.is_ready(pod)]
        due = [wait for wait in waits if wait > 0]
        if due:
            self.queue.add(key, min(due))


class ReplicationControllerController(ReplicaSetController):
    """Keeps every ReplicationController's pods and status."""

    name = "replicationcontroller-controller"
    component = "replication-controller"
    resource = r.REPLICATIONCONTROLLERS

    def selector(self, rs: Obj) -> LabelSelector:
        """A map of labels, and nothing else; an empty one selects nothing."""
        return from_match_labels({"matchLabels": rs["spec"]["selector"]} if rs["spec"].get("selector") else None)


def _claimed(rs: Obj, selector: LabelSelector, pods: list[Obj]) -> list[Obj]:
    """Its terminating pods, by the selector."""
    uid, found = uid_of(rs), []
    for pod in pods:
        if not podset.is_terminating(pod):  # of most pods, at each change of one, all that is asked
            continue
        ref = controller_of(pod)
        if ref and ref["uid"] == uid and selector.matches(labels_of(pod)):
            found.append(pod)
    return found
