"""Pods made from templates and deleted again, with the events that say so; adoption and release of pods.

Source: pkg/controller/controller_utils.go (RealPodControl) and controller_ref_manager.go of Kubernetes v1.36.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from killcheck.embedded.controllers.events import EventRecorder
from killcheck.embedded.controllers.expectations import Expectations
from killcheck.kube import resources as r
from killcheck.kube.client import Kube
from killcheck.kube.errors import ApiError, KubeError, NotFound
from killcheck.kube.objects import Obj, controller_of, copy, dig, key_of, name_of, namespace_of, uid_of
from killcheck.kube.owner_references import controller_ref
from killcheck.kube.resources import Resource
from killcheck.kube.selectors import LabelSelector

__all__ = [
    "PodControl",
    "claim",
    "namespace_terminating",
    "one_more",
    "slow_start",
]


def namespace_terminating(error: ApiError) -> bool:
    """Whether a create was refused because the namespace is going away: nothing to report, nothing to retry."""
    return any(cause.get("reason") == "NamespaceTerminating" for cause in error.causes)


def slow_start(count: int, create: Callable[[], object]) -> int:
    """Call ``create`` ``count`` times in batches of 1, 2, 4 ...; a batch in which one fails is the last.

    Returns how many succeeded; raises the first ApiError after the batch in which it happened.
    """
    done, size = 0, min(count, 1)
    while done < count:
        failure: ApiError | None = None
        for _ in range(size):
            try:
                create()
                done += 1
            except ApiError as error:
                failure = failure or error
        if failure is not None:
            raise failure
        size = min(2 * size, count - done)
    return done


class PodControl:
    """Creates and deletes pods on behalf of one controller, and remembers in ``expected`` what it has not seen yet."""

    def __init__(self, kube: Kube, events: EventRecorder, resource: Resource) -> None:
        self.kube = kube
        self.events = events
        self.resource = resource
        self.expected = Expectations(events.loop, resource.kind)

    def create(self, owner: Obj, template: Obj, *, generate_name: str = "", name: str = "") -> Obj | None:
        """Create a pod; None where the namespace is going away. Raises ApiError after telling of it in an event."""
        pod = copy(template)
        meta = {k: v for k, v in (pod.get("metadata") or {}).items() if k in ("labels", "annotations", "finalizers")}
        meta["namespace"] = namespace_of(owner)
        if name:
            meta["name"] = name
        else:
            meta["generateName"] = generate_name or f"{name_of(owner)}-"
        meta["ownerReferences"] = [controller_ref(owner, self.resource)]
        body = {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": pod.get("spec") or {}}
        self.expected.creation(key_of(owner))
        try:
            made = self.kube.create(r.PODS, body)
        except KubeError as error:
            self.expected.created(key_of(owner))
            if not isinstance(error, ApiError):
                raise
            if namespace_terminating(error):
                return None
            self.events.emit(owner, "Warning", "FailedCreate", f"Error creating: {error.message}")
            raise
        self.events.emit(owner, "Normal", "SuccessfulCreate", f"Created pod: {name_of(made)}")
        return made

    def delete(self, owner: Obj, pod: Obj) -> None:
        """Delete a pod; one that has gone already is deleted. Raises ApiError after telling of it in an event."""
        self.expected.deletion(key_of(owner), uid_of(pod))
        try:
            self.kube.delete(r.PODS, name_of(pod), namespace_of(pod))
        except KubeError as error:
            self.expected.deleted(key_of(owner), uid_of(pod))
            if isinstance(error, NotFound):
                return
            if not isinstance(error, ApiError):
                raise
            self.events.emit(owner, "Warning", "FailedDelete", f"Error deleting: {error.message}")
            raise
        self.events.emit(owner, "Normal", "SuccessfulDelete", f"Deleted pod: {name_of(pod)}")


def claim(
    kube: Kube,
    resource: Resource,
    owner: Obj,
    selector: LabelSelector,
    candidates: Iterable[Obj],
    *,
    target: Resource,
) -> list[Obj]:
    """The objects of type ``target`` that belong to ``owner``: adopts orphans that match, releases what no longer does.

    ``candidates`` are those that it owns and those that nobody owns, in its namespace. Raises ApiError.
    """
    claimed: list[Obj] = []
    uid, deleting = uid_of(owner), "deletionTimestamp" in owner["metadata"]
    for obj in candidates:
        ref = controller_of(obj)
        matches = selector.matches(obj["metadata"].get("labels"))
        if ref is not None:
            if ref["uid"] != uid:
                continue
            if matches:
                claimed.append(obj)
            elif not deleting:
                _release(kube, target, obj, uid)
        elif matches and not deleting and "deletionTimestamp" not in obj["metadata"]:
            adopted = _adopt(kube, target, obj, controller_ref(owner, resource))
            if adopted is not None:
                claimed.append(adopted)
    return claimed


def _adopt(kube: Kube, target: Resource, obj: Obj, ref: Obj) -> Obj | None:
    patch = {"metadata": {"ownerReferences": [ref], "uid": uid_of(obj)}}
    try:
        return kube.patch(target, name_of(obj), patch, namespace_of(obj), kind="strategic")
    except NotFound:
        return None


def _release(kube: Kube, target: Resource, obj: Obj, owner_uid: str) -> None:
    refs = [{"$patch": "delete", "uid": owner_uid}]
    patch = {"metadata": {"ownerReferences": refs, "uid": uid_of(obj)}}
    try:
        kube.patch(target, name_of(obj), patch, namespace_of(obj), kind="strategic")
    except NotFound:
        return


def one_more(pod: Obj, told: Obj) -> Obj:
    """The part of a strategic patch that puts one condition behind a pod's others, as two statuses compared give it."""
    there = [one["type"] for one in dig(pod, "status", "conditions", default=[])]
    order = [*there, *([told["type"]] if told["type"] not in there else [])]
    return {"conditions": [told], "$setElementOrder/conditions": [{"type": kind} for kind in order]}
