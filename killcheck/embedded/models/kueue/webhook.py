"""Kueue's mutating webhooks: Jobs are suspended and pods gated before anybody sees them.

Source: kubernetes-sigs/kueue pkg/controller/jobs/{job,pod,deployment}/*_webhook.go, config/components/webhook. They
fail closed: where Kueue is in use and down, Jobs, pods and Deployments outside its own namespaces are refused.
"""

from __future__ import annotations

from killcheck.embedded.api import status
from killcheck.embedded.api.admission.request import AdmissionRequest
from killcheck.embedded.models.kueue import names as n
from killcheck.embedded.models.kueue.shelf import Shelf
from killcheck.kube.objects import Obj, annotations_of, controller_of, labels_of

__all__ = ["Webhook"]

#: What is called for a resource: (webhook, path of its service, operations).
_CALLED = {
    ("batch", "jobs"): ("mjob.kb.io", "mutate-batch-v1-job", ("CREATE",)),
    ("", "pods"): ("mpod.kb.io", "mutate--v1-pod", ("CREATE",)),
    ("apps", "deployments"): ("mdeployment.kb.io", "mutate-apps-v1-deployment", ("CREATE", "UPDATE")),
}


class Webhook:
    """Part of the API server's admission for as long as the cluster lives; ``up`` says whether Kueue answers."""

    def __init__(self, shelf: Shelf) -> None:
        self.shelf = shelf
        self.up = True

    def mutate(self, request: AdmissionRequest) -> None:
        """Suspend or gate. Raises StatusError where nobody answers."""
        called = _CALLED.get(request.resource)
        if called is None or request.subresource or request.obj is None or request.operation not in called[2]:
            return
        if request.namespace in n.SPARED or (self.up and not _concerned(request.obj)) or not self._in_use():
            return
        if not self.up:
            name, path, _ = called
            raise status.internal(
                f'failed calling webhook "{name}": failed to call webhook: Post '
                f'"https://kueue-webhook-service.kueue-system.svc:443/{path}?timeout=10s": no endpoints available for '
                f'service "kueue-webhook-service"'
            )
        {"jobs": _suspend, "pods": _gate, "deployments": _hand_down}[request.resource[1]](request.obj)

    def _in_use(self) -> bool:
        """Whether there is a queue; asked for, and not remembered: the queue may be a moment old."""
        return bool(self.shelf.kube.list(n.CLUSTERQUEUES).items)


def _concerned(obj: Obj) -> bool:
    return bool(labels_of(obj).get(n.QUEUE)) or n.BY_PARENT in annotations_of(obj)


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
