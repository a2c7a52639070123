"""Nodes of a real cluster that have no machine, and the pods on them whose programs therefore did not run.

Such a pod is shown as Running and Ready all the same: what it would have done nobody has seen.

Sources: ``killcheck nodes up``; kwok (kwok.sigs.k8s.io/docs/user/kwok-manage-nodes-and-pods: label ``type: kwok``).
"""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import Struct

from killcheck.kube import resources as r
from killcheck.kube.client import Kube
from killcheck.kube.objects import Obj, dig, name_of, namespace_of
from killcheck.kube.workloads import root_of

__all__ = ["HOLLOW", "NOT_RUN", "POD_ADDRESSES", "RAN", "StoodIn", "names", "stood_in", "why_not_run"]

#: Label of a Node whose kubelet is killcheck's, in a process of its own (``killcheck nodes up``).
HOLLOW = "killcheck.dev/hollow"
#: Annotation of such a Node: of which of the 512 networks in 198.18.0.0/15 its pods' addresses are.
POD_ADDRESSES = "killcheck.dev/pod-addresses"
#: A pod's condition there: whether its containers' own programs have been started.
RAN = "killcheck.dev/Ran"
#: The reason of that condition where they were to be started, and could not be.
NOT_RUN = "NotRun"
#: Which nodes have no machine, as label selectors.
_SELECTORS = (HOLLOW, "type=kwok")


class StoodIn(Struct, frozen=True):
    """A pod whose program did not run, what it belongs to in the end, and why it was not run where it was to be."""

    pod: Obj
    root: Obj
    not_run: str | None


def names(kube: Kube) -> list[str]:
    """The nodes without a machine, in their order. Raises KubeError."""
    found = {name_of(node) for labels in _SELECTORS for node in kube.list(r.NODES, labels=labels).items}
    return sorted(found)


def stood_in(kube: Kube, nodes: Iterable[str]) -> list[StoodIn]:
    """The pods on these nodes whose programs have not run. Raises KubeError."""
    on = set(nodes)
    if not on:
        return []
    pods = [pod for pod in kube.list(r.PODS).items if dig(pod, "spec", "nodeName") in on and not _ran(pod)]
    owners = {
        (resource.kind, namespace_of(obj), name_of(obj)): obj
        for resource in (r.REPLICASETS, r.JOBS)
        for obj in (kube.list(resource).items if pods else ())
    }

    def find(owner: Obj, namespace: str) -> Obj | None:
        return owners.get((str(owner.get("kind")), namespace, str(owner.get("name"))))

    return [StoodIn(pod, root_of(pod, find), why_not_run(pod)) for pod in pods]


def _condition(pod: Obj) -> Obj:
    return next((one for one in dig(pod, "status", "conditions", default=[]) if one.get("type") == RAN), {})


def _ran(pod: Obj) -> bool:
    return bool(_condition(pod).get("status") == "True")


def why_not_run(pod: Obj) -> str | None:
    """Why its program, which was to run there, could not; None: nobody says so."""
    said = _condition(pod)
    return str(said.get("message", "")) if said.get("reason") == NOT_RUN else None
