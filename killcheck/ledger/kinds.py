"""What is known of kinds: those that start nothing by themselves, those that run here, those of well-known furniture.

A kind that is in none of these tables is judged by what it says (:mod:`killcheck.ledger.references`).
"""

from __future__ import annotations

from collections.abc import Collection
from functools import cache

from killcheck.kube.furniture import FURNITURE, PARTS
from killcheck.kube.objects import Obj
from killcheck.ledger.stakes import group_of

__all__ = ["INERT", "MODELLED", "furniture", "is_builtin", "is_inert_group", "is_served", "misread", "model_of"]

#: Built-in kinds without any program: data, names, rights, bounds. A right is judged by who holds it.
INERT = frozenset(
    {
        "ConfigMap",
        "Secret",
        "Service",
        "ServiceAccount",
        "Namespace",
        "Role",
        "ClusterRole",
        "RoleBinding",
        "Endpoints",
        "ClusterRoleBinding",
        "PersistentVolumeClaim",
        "PersistentVolume",
        "StorageClass",
        "Ingress",
        "IngressClass",
        "Lease",
        "EndpointSlice",
        "CustomResourceDefinition",
        "RuntimeClass",
        "CSIDriver",
        "CSINode",
        "VolumeAttachment",
        "APIService",
        "Event",
        "ControllerRevision",
        "PodTemplate",
        "PriorityClass",
        "CertificateSigningRequest",
        "ServiceCIDR",
        "IPAddress",
        "VolumeAttributesClass",
        "CSIStorageCapacity",
        "FlowSchema",
        "ClusterTrustBundle",
        "PriorityLevelConfiguration",
        "DeviceClass",
        "ComponentStatus",
        "StorageVersionMigration",
    }
)
#: Built-in kinds that a controller or the API server of the embedded cluster acts on.
_BUILT_IN = frozenset(
    {
        "PodDisruptionBudget",
        "HorizontalPodAutoscaler",
        "ResourceQuota",
        "LimitRange",
        "NetworkPolicy",
        "Node",
        "ResourceClaim",
        "ResourceClaimTemplate",
        "ResourceSlice",
        "ValidatingAdmissionPolicy",
        "ValidatingAdmissionPolicyBinding",
        "MutatingAdmissionPolicy",
        "MutatingAdmissionPolicyBinding",
    }
)
#: Custom kinds that a model of the embedded cluster acts on, by the version that it reads: its name, and which kinds.
_KUEUE = frozenset(
    {
        "AdmissionCheck",
        "ClusterQueue",
        "Cohort",
        "LocalQueue",
        "ResourceFlavor",
        "Workload",
        "WorkloadPriorityClass",
    }
)
MODELLED: dict[str, tuple[str, frozenset[str]]] = {
    "karpenter.sh/v1": ("karpenter", frozenset({"NodePool", "NodeClaim"})),
    "karpenter.sh/v1alpha1": ("karpenter", frozenset({"NodeOverlay"})),
    "karpenter.k8s.aws/v1": ("karpenter", frozenset({"EC2NodeClass"})),
    "karpenter.azure.com/v1beta1": ("karpenter", frozenset({"AKSNodeClass"})),
    "eks.amazonaws.com/v1": ("karpenter", frozenset({"NodeClass"})),
    "keda.sh/v1alpha1": (
        "keda-operator",
        frozenset({"ScaledObject", "TriggerAuthentication", "ClusterTriggerAuthentication"}),
    ),
    "http.keda.sh/v1alpha1": ("keda-http-add-on-operator", frozenset({"HTTPScaledObject"})),
    "kueue.x-k8s.io/v1beta1": ("kueue", _KUEUE),
    "kueue.x-k8s.io/v1beta2": ("kueue", _KUEUE),
    "kube-green.com/v1alpha1": ("kube-green", frozenset({"SleepInfo"})),
    "trainer.kubeflow.org/v1alpha1": (
        "trainer-controller-manager",
        frozenset({"TrainJob", "TrainingRuntime", "ClusterTrainingRuntime"}),
    ),
}
#: Kinds whose custom resources are read by their schema, though no model acts on them.
_READ = {"keda.sh/v1alpha1": frozenset({"ScaledJob", "CloudEventSource"})}


def is_builtin(obj: Obj) -> bool:
    """Whether an object's group is Kubernetes' own."""
    return group_of(obj) in {api_version.rpartition("/")[0] for api_version, _ in _served()}


def is_served(obj: Obj) -> bool:
    """Whether the embedded API server serves a built-in kind in the very version that an object has."""
    return (str(obj.get("apiVersion")), str(obj.get("kind"))) in _served()


@cache
def _served() -> frozenset[tuple[str, str]]:
    from killcheck.embedded import builtin

    return frozenset((kind.resource.api_version, kind.resource.kind) for kind in builtin())


def model_of(obj: Obj, models: Collection[str]) -> str | None:
    """The model or controller here that acts on an object of this very version; None where there is none."""
    kind = str(obj.get("kind"))
    if is_builtin(obj):
        return "Kubernetes" if kind in _BUILT_IN and is_served(obj) else None
    name, kinds = MODELLED.get(str(obj.get("apiVersion")), ("", frozenset()))
    return name if name in models and kind in kinds else None


def misread(obj: Obj) -> str | None:
    """That an object's group is one of a model's, and its kind or version is not read; None for any other.

    Its controllers scale workloads or make nodes: what it says in another version's words is not guessed.
    """
    api_version, kind = str(obj.get("apiVersion")), str(obj.get("kind"))
    if kind in _BUILT_IN and is_builtin(obj) and not is_served(obj):
        return f"no API server here serves {kind} of {api_version}"
    read = [version for version in MODELLED if version.rpartition("/")[0] == group_of(obj)]
    if not read or kind in MODELLED.get(api_version, ("", ()))[1] or kind in _READ.get(api_version, ()):
        return None
    return f"no model here reads {kind} of {api_version}"


def is_inert_group(group: str) -> bool:
    """Whether what acts on a custom group is known to make and scale no pods of others."""
    return group in FURNITURE


def furniture(obj: Obj) -> str | None:
    """Why a custom resource turns nothing on, by what its group is for; None where that is not known."""
    group = group_of(obj)
    return PARTS.get((group, str(obj.get("kind"))), "") or FURNITURE.get(group, "")
