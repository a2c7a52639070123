"""Jobs under Kueue: who may still be admitted, and how the queues that a drill closes are opened again.

What may *not* live here: what Kueue does (that is Kueue's, or ``killcheck.embedded.models.kueue``).
"""

from __future__ import annotations

from killcheck.kube.client import Kube
from killcheck.kube.errors import NotFound
from killcheck.kube.objects import Obj, dig, labels_of, name_of, namespace_of
from killcheck.kube.resources import Resource
from killcheck.safety.guard import writable
from killcheck.safety.journal import Journal

__all__ = ["awaits_admission", "on_hold", "queue_of", "queues_of", "remember"]

#: The label by which a Job names its LocalQueue.
QUEUE = "kueue.x-k8s.io/queue-name"
#: What a dead-man's switch may set ``spec.stopPolicy`` to.
_CLOSED = ("Hold", "HoldAndDrain")


def queue_of(obj: Obj) -> str | None:
    """The LocalQueue of an object under Kueue; None: it is under none."""
    return labels_of(obj).get(QUEUE) or None


def awaits_admission(obj: Obj) -> bool:
    """Whether a suspended Job asks for nothing only until its queue admits it."""
    return bool(obj.get("kind") == "Job" and queue_of(obj) and dig(obj, "spec", "suspend"))


def on_hold(kube: Kube, obj: Obj) -> list[Obj]:
    """The queues of an object under Kueue that hold and do not drain: what they admitted runs on. Raises KubeError."""
    return [queue for queue in queues_of(kube, obj).values() if dig(queue, "spec", "stopPolicy") == "Hold"]


def queues_of(kube: Kube, obj: Obj) -> dict[Resource, Obj]:
    """The LocalQueue of an object and the ClusterQueue above it, those that are there. Raises KubeError."""
    name = queue_of(obj)
    served = _served(kube) if name is not None else {}
    if name is None or not served:
        return {}  # the label means nothing here
    local = kube.find(served["localqueues"], name, namespace_of(obj))
    if local is None:
        return {}
    found = {served["localqueues"]: local}
    queue = kube.find(served["clusterqueues"], str(dig(local, "spec", "clusterQueue", default="")))
    return found if queue is None else found | {served["clusterqueues"]: queue}


def remember(kube: Kube, journal: Journal, obj: Obj) -> None:
    """Write down how the queues of an object under Kueue are opened again, those that somebody named.

    Raises KubeError and JournalError.
    """
    for resource, queue in queues_of(kube, obj).items():
        if writable(kube, resource, queue):
            _remember(journal, resource, queue)


def _served(kube: Kube) -> dict[str, Resource]:
    """Kueue's resources by name, in the newest version that is served; empty: there is no Kueue."""
    for version in ("v1beta2", "v1beta1"):
        try:
            return {one.plural: one for one in kube.resources(f"kueue.x-k8s.io/{version}")}
        except NotFound:
            continue
    return {}


def _remember(journal: Journal, resource: Resource, queue: Obj) -> None:
    before, name = dig(queue, "spec", "stopPolicy"), name_of(queue)
    where = f" -n {namespace_of(queue)}" if resource.namespaced else ""
    for closed in _CLOSED:
        if closed == before:
            continue
        patch = f'{{"spec":{{"stopPolicy":"{before or "None"}"}}}}'
        journal.remember(
            resource,
            queue,
            {"spec": {"stopPolicy": before}},
            {"spec": {"stopPolicy": closed}},
            what=f"{resource.kind} {name} was open (unless {closed})",
            manual=f"kubectl patch {resource.qualified} {name}{where} --type=merge -p '{patch}'",
        )
