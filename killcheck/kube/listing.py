"""Everything the probes want to know of a live cluster: one paginated list for each kind, however many objects.

Pods are kept only where they hold GPUs or share a node with GPUs, ConfigMaps where a controller's pods use them, and
all without what nobody asks for, so that a large cluster fits into memory.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import partial

from msgspec import MsgspecError, Struct, field

from killcheck.kube import gpus
from killcheck.kube import resources as r
from killcheck.kube.client import PAGE, Kube, next_page
from killcheck.kube.errors import ApiError, KubeError, NotFound
from killcheck.kube.objects import Obj, dig, name_of, uid_of
from killcheck.kube.pod_glance import glance
from killcheck.kube.resources import Resource
from killcheck.kube.workloads import devices_of, templates
from killcheck.text.values import replace

__all__ = ["Listed", "programs", "read", "served", "served_groups", "starters"]

_ADMISSION = "admissionregistration.k8s.io"
#: Without these nobody can say what holds GPUs.
_NEEDED = (r.NODES, r.PODS, r.DEPLOYMENTS, r.STATEFULSETS, r.REPLICASETS, r.DAEMONSETS, r.JOBS, r.CRONJOBS)
#: Without these some questions stay open, and say so.
_HELPFUL = (
    r.NAMESPACES,
    r.CONFIGMAPS,
    r.SERVICES,
    r.SERVICEACCOUNTS,
    r.RESOURCEQUOTAS,
    r.LIMITRANGES,
    r.HPAS,
    r.PDBS,
    r.ROLES,
    r.ROLEBINDINGS,
    r.CLUSTERROLES,
    r.CLUSTERROLEBINDINGS,
    r.NETWORKPOLICIES,
    r.PRIORITYCLASSES,
    r.PERSISTENTVOLUMECLAIMS,
    r.RESOURCECLAIMS,
    r.RESOURCECLAIMTEMPLATES,
    r.VALIDATINGWEBHOOKS,
    r.MUTATINGWEBHOOKS,
    Resource(_ADMISSION, "v1", "validatingadmissionpolicies", "ValidatingAdmissionPolicy", False),
    Resource(_ADMISSION, "v1", "validatingadmissionpolicybindings", "ValidatingAdmissionPolicyBinding", False),
    Resource("kyverno.io", "v1", "clusterpolicies", "ClusterPolicy", False),
    Resource("kyverno.io", "v1", "policies", "Policy"),
    r.NODEPOOLS,
    r.NODECLAIMS,
    r.SCALEDOBJECTS,
    r.HTTPSCALEDOBJECTS,
    r.APPLICATIONS,
    Resource("keda.sh", "v1alpha1", "triggerauthentications", "TriggerAuthentication"),
    Resource("argoproj.io", "v1alpha1", "rollouts", "Rollout"),
    Resource("kueue.x-k8s.io", "v1beta1", "clusterqueues", "ClusterQueue", False),
    Resource("monitoring.coreos.com", "v1", "prometheusrules", "PrometheusRule"),
    Resource("autoscaling.x-k8s.io", "v1beta1", "capacitybuffers", "CapacityBuffer"),
    Resource("serving.kserve.io", "v1beta1", "inferenceservices", "InferenceService"),
    r.LEADERWORKERSETS,
    Resource("jobset.x-k8s.io", "v1alpha2", "jobsets", "JobSet"),
    Resource("ray.io", "v1", "rayclusters", "RayCluster"),
    Resource("kubeflow.org", "v1", "notebooks", "Notebook"),
    Resource("cilium.io", "v2", "ciliumnetworkpolicies", "CiliumNetworkPolicy"),
    Resource("cilium.io", "v2", "ciliumclusterwidenetworkpolicies", "CiliumClusterwideNetworkPolicy", False),
    Resource("monitoring.coreos.com", "v1", "probes", "Probe"),
)
#: What may turn workloads on, and whose rights say so.
_STARTERS = (
    r.NAMESPACES,
    r.DEPLOYMENTS,
    r.STATEFULSETS,
    r.DAEMONSETS,
    r.CRONJOBS,
    r.ROLES,
    r.ROLEBINDINGS,
    r.CLUSTERROLES,
    r.CLUSTERROLEBINDINGS,
    r.HPAS,
    r.MUTATINGWEBHOOKS,
    r.SCALEDOBJECTS,
    r.HTTPSCALEDOBJECTS,
    r.APPLICATIONS,
    Resource("argoproj.io", "v1alpha1", "applicationsets", "ApplicationSet"),
    Resource("kustomize.toolkit.fluxcd.io", "v1", "kustomizations", "Kustomization"),
    Resource("helm.toolkit.fluxcd.io", "v2", "helmreleases", "HelmRelease"),
)
#: The Service of the API server: its slices are all that is asked of EndpointSlices, of which there are many.
_API_SLICES = "kubernetes.io/service-name=kubernetes"
_POD_STATUS = ("phase", "conditions", "containerStatuses", "initContainerStatuses", "resourceClaimStatuses")


class Listed(Struct):
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

    def wanted(obj: Obj) -> bool:
        return dig(obj, "spec", "nodeName") in gpu_nodes or bool(gpus.devices(obj))

    for resource in _NEEDED:
        pods = resource is r.PODS
        found.objects += _listed(kube, resource, wanted if pods else None, glance if pods else None)
        found.kinds.add(resource.kind)
        if resource is r.NODES:
            gpu_nodes = {name_of(node) for node in found.objects if gpus.node_devices(node)}
    groups = _groups(kube)
    used = set(_config_maps(found.objects))

    def mounted(obj: Obj) -> bool:
        return (_namespace(obj), name_of(obj)) in used

    for resource in _HELPFUL:
        one = served(resource, groups)
        if one is None:
            found.kinds.add(resource.kind)  # not installed: there is none of it
            continue
        only = mounted if resource is r.CONFIGMAPS else None
        _helped(found, resource.kind, partial(_listed, kube, one, only))
    _helped(found, "EndpointSlice", partial(_api_slices, kube))
    for api_version, kind in also:
        if kind not in found.kinds and kind not in found.unread:
            _helped(found, kind, partial(_of_kind, kube, api_version, kind))
    _owners(kube, found)
    return found


def starters(kube: Kube) -> Listed:
    """What may turn workloads on, kind by kind; what cannot be listed is in ``unread``. Raises nothing."""
    found = Listed()
    groups = _groups(kube)
    for resource in _STARTERS:
        one = served(resource, groups)
        if one is not None:
            _helped(found, resource.kind, partial(_listed, kube, one))
    return found


def programs(kube: Kube) -> Iterator[Obj]:
    """Who runs programs of its own, pods without an owner too, and the ConfigMaps that they use. Raises KubeError."""
    found = list[Obj]()
    for resource in (r.DEPLOYMENTS, r.STATEFULSETS, r.DAEMONSETS, r.CRONJOBS, r.JOBS, r.PODS):
        found += _listed(kube, resource, lambda obj: not dig(obj, "metadata", "ownerReferences"))
    used = set(_config_maps(found))
    yield from found
    yield from _listed(kube, r.CONFIGMAPS, lambda obj: (_namespace(obj), name_of(obj)) in used)


def _groups(kube: Kube) -> dict[str, list[str]] | None:
    """The same; None where discovery does not say."""
    try:
        return served_groups(kube) or None
    except KubeError:
        return None


def served_groups(kube: Kube) -> dict[str, list[str]]:
    """The versions that are served of each API group, the preferred first. Raises KubeError."""
    found: dict[str, list[str]] = {}
    for group in kube.call("GET", "/apis").body.get("groups") or ():
        versions = [str(entry.get("version")) for entry in group.get("versions") or ()]
        preferred = str(dig(group, "preferredVersion", "version", default=""))
        found[str(group.get("name"))] = [preferred, *(v for v in versions if v != preferred)] if preferred else versions
    return found


def served(resource: Resource, groups: dict[str, list[str]] | None) -> Resource | None:
    """The resource in a version that is served: ours where it can be had; None where its group is not there."""
    if groups is None or not resource.group:
        return resource
    versions = groups.get(resource.group)
    if not versions:
        return None
    return resource if resource.version in versions else replace(resource, version=versions[0])


def _config_maps(objects: Iterable[Obj]) -> Iterator[tuple[str, str]]:
    """(namespace, name) of the ConfigMaps that pods of controllers use, and the cluster autoscaler's word on itself."""
    yield "kube-system", "cluster-autoscaler-status"
    for obj in objects:
        if obj.get("kind") not in ("CronJob", "Deployment", "StatefulSet", "DaemonSet"):
            continue
        for template in templates(obj):
            for source in _sources(template.spec):
                yield _namespace(obj), str(source.get("name"))


def _sources(spec: Obj) -> Iterator[Obj]:
    for volume in spec.get("volumes") or ():
        for source in (volume, *dig(volume, "projected", "sources", default=[])):
            yield source.get("configMap") or {}
    for kind in ("initContainers", "containers"):
        for container in spec.get(kind) or ():
            yield from (source.get("configMapRef") or {} for source in container.get("envFrom") or ())
            yield from (dig(e, "valueFrom", "configMapKeyRef", default={}) for e in container.get("env") or ())


def _namespace(obj: Obj) -> str:
    return str(dig(obj, "metadata", "namespace", default=""))


def _api_slices(kube: Kube) -> Iterator[Obj]:
    """The EndpointSlices of the Service ``kubernetes``: where the API server really is."""
    yield from kube.list(r.ENDPOINTSLICES, "default", labels=_API_SLICES).items


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


def _listed(
    kube: Kube,
    resource: Resource,
    keep: Callable[[Obj], bool] | None = None,
    glance: Callable[[bytes], Obj] | None = None,
) -> Iterator[Obj]:
    """The objects of a kind, page by page; a continue token that expires starts again with what is missing.

    ``glance``: what ``keep`` looks at, from an object's JSON. Most of it is never read then.
    """
    worth = partial(_worth, glance, keep) if glance and keep else None
    query = {"limit": str(PAGE)}
    seen: set[str] = set()
    restarts = pages = 0
    while True:
        try:
            page = kube.page(resource, query, worth)
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
        pages += 1
        token = next_page(page, query, pages)
        if not token:
            return
        query["continue"] = token


def _worth(glance: Callable[[bytes], Obj], keep: Callable[[Obj], bool], text: bytes) -> bool:
    try:
        return keep(glance(text))
    except MsgspecError:  # not as every such object is: that is said of it when it is read
        return True


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
            for obj in found.objects
            if dig(obj, "metadata", "ownerReferences") and devices_of(obj, wanted=True)
            for owner in dig(obj, "metadata", "ownerReferences", default=[])
            if owner.get("uid") not in uids and owner.get("kind") != "Node"
        } - asked
        if not missing:
            return
        for api_version, kind in sorted(missing):
            asked.add((api_version, kind))
            _helped(found, kind, partial(_of_kind, kube, api_version, kind))
