"""Resources by name: what killcheck addresses without asking discovery first."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from msgspec import Struct

__all__ = ["Resource", "built_in", "by_kind", "is_of"]


class Resource(Struct, frozen=True):
    """One resource type of the API: where it is served and what it is called."""

    group: str
    version: str
    plural: str
    kind: str
    namespaced: bool = True

    @property
    def api_version(self) -> str:
        """``apps/v1``, or ``v1`` for the core group."""
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def qualified(self) -> str:
        """``deployments.apps``, or ``pods`` for the core group."""
        return f"{self.plural}.{self.group}" if self.group else self.plural

    def path(self, namespace: str | None = None, name: str | None = None, subresource: str | None = None) -> str:
        """The URL path of the collection, an object in it, or a subresource of that."""
        root = f"/apis/{self.group}/{self.version}" if self.group else f"/api/{self.version}"
        if self.namespaced and namespace:
            root += f"/namespaces/{namespace}"
        return "/".join(part for part in (root, self.plural, name, subresource) if part)


def _core(plural: str, kind: str, namespaced: bool = True) -> Resource:
    return Resource("", "v1", plural, kind, namespaced)


PODS = _core("pods", "Pod")
NODES = _core("nodes", "Node", False)
NAMESPACES = _core("namespaces", "Namespace", False)
EVENTS = _core("events", "Event")
SECRETS = _core("secrets", "Secret")
CONFIGMAPS = _core("configmaps", "ConfigMap")
SERVICES = _core("services", "Service")
ENDPOINTS = _core("endpoints", "Endpoints")
SERVICEACCOUNTS = _core("serviceaccounts", "ServiceAccount")
RESOURCEQUOTAS = _core("resourcequotas", "ResourceQuota")
LIMITRANGES = _core("limitranges", "LimitRange")
PERSISTENTVOLUMECLAIMS = _core("persistentvolumeclaims", "PersistentVolumeClaim")
PERSISTENTVOLUMES = _core("persistentvolumes", "PersistentVolume", False)
REPLICATIONCONTROLLERS = _core("replicationcontrollers", "ReplicationController")
DEPLOYMENTS = Resource("apps", "v1", "deployments", "Deployment")
REPLICASETS = Resource("apps", "v1", "replicasets", "ReplicaSet")
CONTROLLERREVISIONS = Resource("apps", "v1", "controllerrevisions", "ControllerRevision")
STATEFULSETS = Resource("apps", "v1", "statefulsets", "StatefulSet")
DAEMONSETS = Resource("apps", "v1", "daemonsets", "DaemonSet")
JOBS = Resource("batch", "v1", "jobs", "Job")
CRONJOBS = Resource("batch", "v1", "cronjobs", "CronJob")
HPAS = Resource("autoscaling", "v2", "horizontalpodautoscalers", "HorizontalPodAutoscaler")
PDBS = Resource("policy", "v1", "poddisruptionbudgets", "PodDisruptionBudget")
ROLES = Resource("rbac.authorization.k8s.io", "v1", "roles", "Role")
ROLEBINDINGS = Resource("rbac.authorization.k8s.io", "v1", "rolebindings", "RoleBinding")
CLUSTERROLES = Resource("rbac.authorization.k8s.io", "v1", "clusterroles", "ClusterRole", False)
CLUSTERROLEBINDINGS = Resource("rbac.authorization.k8s.io", "v1", "clusterrolebindings", "ClusterRoleBinding", False)
LEASES = Resource("coordination.k8s.io", "v1", "leases", "Lease")
INGRESSES = Resource("networking.k8s.io", "v1", "ingresses", "Ingress")
NETWORKPOLICIES = Resource("networking.k8s.io", "v1", "networkpolicies", "NetworkPolicy")
ENDPOINTSLICES = Resource("discovery.k8s.io", "v1", "endpointslices", "EndpointSlice")
APISERVICES = Resource("apiregistration.k8s.io", "v1", "apiservices", "APIService", namespaced=False)
PRIORITYCLASSES = Resource("scheduling.k8s.io", "v1", "priorityclasses", "PriorityClass", False)
RESOURCECLAIMS = Resource("resource.k8s.io", "v1", "resourceclaims", "ResourceClaim")
RESOURCECLAIMTEMPLATES = Resource("resource.k8s.io", "v1", "resourceclaimtemplates", "ResourceClaimTemplate")
RESOURCESLICES = Resource("resource.k8s.io", "v1", "resourceslices", "ResourceSlice", False)
DEVICECLASSES = Resource("resource.k8s.io", "v1", "deviceclasses", "DeviceClass", False)
CRDS = Resource("apiextensions.k8s.io", "v1", "customresourcedefinitions", "CustomResourceDefinition", False)
VALIDATINGWEBHOOKS = Resource(
    "admissionregistration.k8s.io", "v1", "validatingwebhookconfigurations", "ValidatingWebhookConfiguration", False
)
MUTATINGWEBHOOKS = Resource(
    "admissionregistration.k8s.io", "v1", "mutatingwebhookconfigurations", "MutatingWebhookConfiguration", False
)
VOLUMEATTACHMENTS = Resource("storage.k8s.io", "v1", "volumeattachments", "VolumeAttachment", False)
ACCESSREVIEWS = Resource("authorization.k8s.io", "v1", "subjectaccessreviews", "SubjectAccessReview", False)
SELFACCESSREVIEWS = Resource("authorization.k8s.io", "v1", "selfsubjectaccessreviews", "SelfSubjectAccessReview", False)
NODEPOOLS = Resource("karpenter.sh", "v1", "nodepools", "NodePool", False)
NODECLAIMS = Resource("karpenter.sh", "v1", "nodeclaims", "NodeClaim", False)
EC2NODECLASSES = Resource("karpenter.k8s.aws", "v1", "ec2nodeclasses", "EC2NodeClass", False)
SCALEDOBJECTS = Resource("keda.sh", "v1alpha1", "scaledobjects", "ScaledObject")
HTTPSCALEDOBJECTS = Resource("http.keda.sh", "v1alpha1", "httpscaledobjects", "HTTPScaledObject")
APPLICATIONS = Resource("argoproj.io", "v1alpha1", "applications", "Application")
LEADERWORKERSETS = Resource("leaderworkerset.x-k8s.io", "v1", "leaderworkersets", "LeaderWorkerSet")
KUSTOMIZATIONS = Resource("kustomize.toolkit.fluxcd.io", "v1", "kustomizations", "Kustomization")
HELMRELEASES = Resource("helm.toolkit.fluxcd.io", "v2", "helmreleases", "HelmRelease")

_KNOWN = tuple(value for value in list(globals().values()) if isinstance(value, Resource))


def by_kind(api_version: str, kind: str) -> Resource | None:
    """The resource known here for an object's ``apiVersion`` and ``kind``; None: ask discovery."""
    return next((r for r in _KNOWN if r.kind == kind and r.api_version == api_version), None)


def by_plural(group: str, plural: str) -> Resource | None:
    """A well-known resource by its group and plural; None: it is none."""
    return next((one for one in _KNOWN if (one.group, one.plural) == (group, plural)), None)


def built_in() -> tuple[Resource, ...]:
    """The well-known resources."""
    return _KNOWN


def is_of(obj: Mapping[str, Any], *resources: Resource) -> bool:
    """Whether an object is of one of these, and not of another group's kind of the same name.

    Versions of a built-in group are converted by the API server; of a custom resource only this one says what it says.
    """
    api_version = str(obj.get("apiVersion"))
    group = api_version.rpartition("/")[0]
    return any(
        resource.kind == obj.get("kind")
        and (resource.api_version == api_version or ("." not in group and resource.group == group))
        for resource in resources
    )
