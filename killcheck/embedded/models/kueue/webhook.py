"""Kueue's webhooks: Jobs are suspended and pods gated before anybody sees them, and queues are held while in use.

Source: kubernetes-sigs/kueue pkg/controller/jobs/{job,pod,deployment,statefulset}/*_webhook.go, pkg/webhooks,
jobframework/validation.go (validateUpdateForQueueName), config/components/webhook. They fail closed: where Kueue is in
use and down, whoever creates or changes a Job, pod, Deployment, StatefulSet or queue is refused (a scale and a status
are not asked about), outside Kueue's own namespaces.
"""

from __future__ import annotations

from msgspec import Struct

from killcheck.embedded.api import status
from killcheck.embedded.api.admission.request import AdmissionRequest
from killcheck.embedded.models.kueue import names as n
from killcheck.embedded.models.kueue.shelf import Shelf
from killcheck.kube.objects import Obj, annotations_of, controller_of, dig, labels_of

__all__ = ["Webhook"]


class _Hook(Struct, frozen=True):
    """A kind's webhooks: what they are called, how their paths end, and when the mutating one is asked."""

    name: str
    path: str
    mutates: tuple[str, ...] = ("CREATE",)


_QUEUES = "kueue-x-k8s-io-v1beta2"
_BOTH = ("CREATE", "UPDATE")
_HOOKS = {
    ("batch", "jobs"): _Hook("job", "batch-v1-job"),
    ("", "pods"): _Hook("pod", "-v1-pod"),
    ("apps", "deployments"): _Hook("deployment", "apps-v1-deployment", _BOTH),
    ("apps", "statefulsets"): _Hook("statefulset", "apps-v1-statefulset", _BOTH),
    (n.GROUP, "clusterqueues"): _Hook("clusterqueue", f"{_QUEUES}-clusterqueue"),
    (n.GROUP, "resourceflavors"): _Hook("resourceflavor", f"{_QUEUES}-resourceflavor"),
    (n.GROUP, "workloads"): _Hook("workload", f"{_QUEUES}-workload"),
    (n.GROUP, "cohorts"): _Hook("cohort", f"{_QUEUES}-cohort", ()),
}


class Webhook:
    """Part of the API server's admission for as long as the cluster lives; ``up`` says whether Kueue answers."""

    def __init__(self, shelf: Shelf) -> None:
        self.shelf = shelf
        self.up = True

    def mutate(self, request: AdmissionRequest) -> None:
        """Suspend, gate or hold; refuse another queue for what runs. Raises StatusError, also where nobody answers."""
        hook = _HOOKS.get(request.resource)
        if hook is None or request.subresource or request.obj is None or request.operation not in _BOTH:
            return
        if request.namespace in n.SPARED or (self.up and not _concerned(request)):
            return
        if request.resource[0] != n.GROUP and not self.shelf.in_use():
            return
        if not self.up:
            verb, does = ("m", "mutate") if request.operation in hook.mutates else ("v", "validate")
            raise status.internal(
                f'failed calling webhook "{verb}{hook.name}.kb.io": failed to call webhook: Post '
                f'"https://kueue-webhook-service.kueue-system.svc:443/{does}-{hook.path}?timeout=10s": no endpoints '
                f'available for service "kueue-webhook-service"'
            )
        if request.operation in hook.mutates:
            _MUTATE.get(request.resource[1], _leave)(request.obj)
        if request.operation == "UPDATE" and request.resource[0] != n.GROUP:
            _keep_queue(hook, request.obj, request.old or {})


def _concerned(request: AdmissionRequest) -> bool:
    if request.resource[0] == n.GROUP:
        return True
    objs = [one for one in (request.obj, request.old) if one is not None]
    return any(labels_of(one).get(n.QUEUE) or n.BY_PARENT in annotations_of(one) for one in objs)


def _keep_queue(hook: _Hook, new: Obj, old: Obj) -> None:
    """Raises StatusError for another queue of what runs; a Deployment never loses the one that it has."""
    was, wanted = (labels_of(one).get(n.QUEUE, "") for one in (old, new))
    if was == wanted or _waits(hook.name, new, old, wanted):
        return
    why = f'metadata.labels[{n.QUEUE}]: Invalid value: "{wanted}": field is immutable'
    raise status.StatusError(
        403, "Forbidden", f'admission webhook "v{hook.name}.kb.io" denied the request: {why}', details={}
    )


def _waits(kind: str, new: Obj, old: Obj, wanted: str) -> bool:
    if kind == "job":
        return dig(new, "spec", "suspend") is True
    if kind == "pod":
        gated = any(one.get("name") == n.GATE for one in dig(new, "spec", "schedulingGates", default=()))
        return gated or dig(new, "status", "phase") in ("Succeeded", "Failed")
    return bool(wanted) and not dig(old, "status", "readyReplicas", default=0)


def _leave(_obj: Obj) -> None:
    """What Kueue changes of the others is left out."""


def _hold(obj: Obj) -> None:
    """It goes once nothing uses it any more."""
    kept = obj["metadata"].setdefault("finalizers", [])
    if n.IN_USE not in kept:
        kept.append(n.IN_USE)


def _suspend(job: Obj) -> None:
    if labels_of(job).get(n.QUEUE):
        job.setdefault("spec", {})["suspend"] = True


def _gate(pod: Obj) -> None:
    meta = pod["metadata"]
    by_parent = n.BY_PARENT in annotations_of(pod)
    owner = controller_of(pod)
    if not by_parent and (not labels_of(pod).get(n.QUEUE) or (owner is not None and owner["kind"] == "Job")):
        return
    meta.setdefault("labels", {})[n.MANAGED] = "true"
    if not by_parent and n.MANAGED not in (meta.get("finalizers") or ()):
        meta.setdefault("finalizers", []).append(n.MANAGED)
    gates = pod["spec"].setdefault("schedulingGates", [])
    if all(one.get("name") != n.GATE for one in gates):
        gates.append({"name": n.GATE})


def _hand_down(deployment: Obj) -> None:
    queue = labels_of(deployment).get(n.QUEUE)
    if not queue:
        return
    meta = deployment["spec"]["template"].setdefault("metadata", {})
    meta.setdefault("annotations", {})[n.BY_PARENT] = "deployment"
    labels = meta.setdefault("labels", {})
    labels |= {n.MANAGED: "true", n.QUEUE: queue}
    priority = labels_of(deployment).get(n.PRIORITY_CLASS)
    if priority:
        labels[n.PRIORITY_CLASS] = priority


_MUTATE = {
    "jobs": _suspend,
    "pods": _gate,
    "deployments": _hand_down,
    "clusterqueues": _hold,
    "resourceflavors": _hold,
}
