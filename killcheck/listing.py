"""Everything the probes want to know of a live cluster: one paginated list for each kind, however many objects.

Pods are kept only where they hold GPUs or share a node with GPUs, and without what nobody asks for, so that a large
cluster fits into memory.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from functools import partial

from killcheck.kube import gpus
from killcheck.kube import resources as r
from killcheck.kube.client import PAGE, Kube
from killcheck.kube.errors import ApiError, KubeError, NotFound
from killcheck.kube.objects import Obj, dig, name_of, uid_of
from killcheck.kube.resources import Resource
from killcheck.kube.workloads import devices_of

__all__ = ["Listed", "read"]

#: Without these nobody can say what holds GPUs.
_NEEDED = (r.NODES, r.PODS, r.DEPLOYMENTS, r.STATEFULSETS, r.REPLICASETS, r.DAEMONSETS, r.JOBS, r.CRONJOBS)
#: Without these some questions stay open, and say so.
_HELPFUL = (
    r.NAMESPACES, r.CONFIGMAPS, r.SERVICES, r.SERVICEACCOUNTS, r.RESOURCEQUOTAS, r.LIMITRANGES, r.HPAS, r.PDBS, r.ROLES,
    r.ROLEBINDINGS, r.CLUSTERROLES, r.CLUSTERROLEBINDINGS, r.NETWORKPOLICIES, r.ENDPOINTSLICES, r.PRIORITYCLASSES,
    r.RESOURCECLAIMS, r.RESOURCECLAIMTEMPLATES, r.VALIDATINGWEBHOOKS, r.MUTATINGWEBHOOKS, r.NODEPOOLS, r.NODECLAIMS,
    r.SCALEDOBJECTS, r.HTTPSCALEDOBJECTS, r.APPLICATIONS,
    Resource("keda.sh", "v1alpha1", "triggerauthentications", "TriggerAuthentication"),
    Resource("argoproj.io", "v1alpha1", "rollouts", "Rollout"),
    Resource("kueue.x-k8s.io", "v1beta1", "clusterqueues", "ClusterQueue", False),
    Resource("monitoring.coreos.com", "v1", "prometheusrules", "PrometheusRule"),
    Resource("autoscaling.x-k8s.io", "v1beta1", "capacitybuffers", "CapacityBuffer"),
    Resource("serving.kserve.io", "v1beta1", "inferenceservices", "InferenceService"),
)
_POD_STATUS = ("phase", "conditions", "containerStatuses", "initContainerStatuses", "resourceClaimStatuses")


@dataclass(slots=True)
class Listed:
    """What was listed. ``kinds``: those of which everything is here (one that is not installed has nothing to be read);
    ``unread``: why a kind could not be listed.
    """

    objects: list[Obj] = field(default_factory=list)
    unread: dict[str, str] = field(default_factory=dict)
    kinds: set[str] = field(default_factory=set)


def read(kube: Kube, also: Iterable[tuple[str, str]] = ()) -> Listed:
    """List it all, and the kinds (apiVersion, kind) of ``also``. Raises KubeError if GPU holders cannot be listed."""
    found = Listed()
    gpu_nodes: set[str] = set()

    def wanted(pod: Obj) -> bool:
        return dig(pod, "spec", "nodeName") in gpu_nodes or bool(gpus.devices(pod))

    for resource in _NEEDED:
        keep = wanted if resource is r.PODS else None
        found.objects += _listed(kube, resource, keep)
        found.kinds.add(resource.kind)
        if resource is r.NODES:
            gpu_nodes = {name_of(node) for node in found.objects if gpus.node_devices(node)}
    for resource in _HELPFUL:
        _helped(found, resource.kind, partial(_listed, kube, resource))
    for api_version, kind in also:
        if kind not in found.kinds and kind not in found.unread:
            _helped(found, kind, partial(_of_kind, kube, api_version, kind))
    _owners(kube, found)
    return found


def _helped(found: Listed, kind: str, listed: Callable[[], Iterator[Obj]]) -> None:
    """List a kind that may be missing or forbidden."""
    try:
        found.objects += listed()
    except NotFound:
        pass
    except KubeError as error:
        found.unread[kind] = str(error)
        return
    found.kinds.add(kind)


def _of_kind(kube: Kube, api_version: str, kind: str) -> Iterator[Obj]:
    return _listed(kube, kube.resource_for(api_version, kind))


def _listed(kube: Kube, resource: Resource, keep: Callable[[Obj], bool] | None = None) -> Iterator[Obj]:
    """The objects of a kind, page by page; a continue token that expires starts again with what is missing."""
    query = {"limit": str(PAGE)}
    seen: set[str] = set()
    restarts = 0
    while True:
        try:
            page = kube.call("GET", resource.path(), query=query).body
        except ApiError as error:
            if error.code != 410 or "continue" not in query or restarts >= 3:
                raise
            restarts += 1
            del query["continue"]
            continue
        for item in page.get("items") or []:
            uid = uid_of(item)
            if uid in seen or (keep and not keep(item)):
                continue
            seen.add(uid)
            yield _slim(item, resource)
        token = dig(page, "metadata", "continue")
        if not token:
            return
        query["continue"] = token


def _slim(item: Obj, resource: Resource) -> Obj:
    """Without managedFields, and without most of a pod's status."""
    metadata = {key: value for key, value in item["metadata"].items() if key != "managedFields"}
    slim = {"apiVersion": resource.api_version, "kind": resource.kind, **item, "metadata": metadata}
    if resource is r.PODS:
        status = item.get("status") or {}
        slim["status"] = {key: status[key] for key in _POD_STATUS if key in status}
    return slim


def _owners(kube: Kube, found: Listed) -> None:
    """Custom owners of what holds GPUs, kind by kind, up to the top."""
    asked = {(str(o.get("apiVersion")), str(o.get("kind"))) for o in found.objects}
    while True:
        uids = {uid_of(obj) for obj in found.objects}
        missing = {
            (str(owner.get("apiVersion")), str(owner.get("kind")))
            for obj in found.objects if dig(obj, "metadata", "ownerReferences") and devices_of(obj, wanted=True)
            for owner in dig(obj, "metadata", "ownerReferences", default=[])
            if owner.get("uid") not in uids and owner.get("kind") != "Node"
        } - asked
        if not missing:
            return
        for api_version, kind in sorted(missing):
            asked.add((api_version, kind))
            _helped(found, kind, partial(_of_kind, kube, api_version, kind))
