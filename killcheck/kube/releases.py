"""Kubernetes' releases, as far as a kill path notices on which one it runs: one table of gates, types and fields.

Sources: ``kube_features.go`` of kubernetes, apiserver and apiextensions-apiserver and the
``zz_generated.prerelease-lifecycle.go`` of k8s.io/api, all of v1.36.2, for 1.33 to 1.36; for 1.37 the feature gates as
kubernetes/website has them (content/en/docs/reference/command-line-tools-reference/feature-gates) and CHANGELOG-1.37.
Since when a field is there: the types of the official Python clients 33.1, 34.1, 35.0, 36.0 and 37.0, which are made
from each release's OpenAPI. Defaults are upstream's: what a cluster's administrator switched is not known.
What may *not* live here: what a gate does. Whoever does it asks :meth:`Release.on`.
"""

from __future__ import annotations

import re
from functools import cache
from typing import NamedTuple

__all__ = [
    "DEFAULT",
    "FIELDS",
    "GATED",
    "GATES",
    "LATEST",
    "TYPES",
    "Release",
    "ReleaseError",
    "nearest",
    "parse",
    "told",
]

#: The releases that are known by their minor number, each with a patch release of it: what ``/version`` answers where
#: nobody named one.
LATEST = {33: "v1.33.5", 34: "v1.34.9", 35: "v1.35.6", 36: "v1.36.2", 37: "v1.37.1"}
#: What the embedded cluster is where nobody says so: the one that it was compared with, request by request.
DEFAULT_MINOR = 36

#: A gate's steps, and what it decides on the embedded cluster. A step: (minor, whether it is on by default from there
#: on); before the first it is off.
Gate = tuple[tuple[tuple[int, bool], ...], str]
#: The gates that a kill path may notice.
GATES: dict[str, Gate] = {
    "AuthorizePodWebsocketUpgradeCreatePermission": (
        ((35, True),),
        "exec, attach and port-forward over WebSockets need the verb create, not get alone",
    ),
    "ClusterTrustBundleProjection": (((37, True),), "projected volumes with a clusterTrustBundle"),
    "ConstrainedImpersonation": (
        ((35, False), (36, True)),
        "`impersonate:*` and `impersonate-on:*`: who may be taken on is asked of each request",
    ),
    "ContainerRestartRules": (((35, True),), "restartPolicyRules of containers"),
    "ContainerStopSignals": (((33, False),), "lifecycle.stopSignal of containers"),
    "DeploymentReplicaSetTerminatingReplicas": (
        ((35, True),),
        "status.terminatingReplicas of Deployments and ReplicaSets",
    ),
    "DRAAdminAccess": (((34, True),), "adminAccess of device requests"),
    "DRAConsumableCapacity": (((36, True),), "told, nothing here turns on it"),
    "DRADeviceTaints": (((36, True),), "told, nothing here turns on it"),
    "DRAExtendedResource": (((36, True),), "extendedResourceName of DeviceClasses"),
    "DRAPartitionableDevices": (((36, True),), "told, nothing here turns on it"),
    "DRAPrioritizedList": (((34, True),), "firstAvailable of device requests"),
    "DynamicResourceAllocation": (
        ((34, True),),
        "resourceClaims of pods: without it a pod asks for no device, and runs without one",
    ),
    "EnvFiles": (((35, True),), "fileKeyRef of environment variables"),
    "GenericWorkload": (((35, False),), "schedulingGroup of pods"),
    "HPAConfigurableTolerance": (((35, True),), "behavior.*.tolerance of autoscalers"),
    "HPAScaleToZero": (
        ((33, False), (37, True)),
        "minReplicas 0 is taken; an autoscaler wakes what it put to zero itself, and nothing that somebody else did",
    ),
    "HostnameOverride": (((35, True),), "hostnameOverride of pods"),
    "ImageVolume": (((35, True),), "volumes from images"),
    "InPlacePodVerticalScaling": (((33, True),), "pods/resize"),
    "JobBackoffLimitPerIndex": (((33, True),), "backoffLimitPerIndex and maxFailedIndexes of Jobs"),
    "JobManagedBy": (((33, True),), "managedBy of Jobs: another controller runs them"),
    "JobPodReplacementPolicy": (((33, True),), "podReplacementPolicy of Jobs"),
    "JobSuccessPolicy": (((33, True),), "successPolicy of Jobs"),
    "MaxUnavailableStatefulSet": (((35, False), (37, True)), "rollingUpdate.maxUnavailable of StatefulSets"),
    "MutablePodResourcesForSuspendedJobs": (((36, True),), "what the pods of a suspended Job use may be changed"),
    "MutableSchedulingDirectivesForSuspendedJobs": (((36, True),), "where they go may be changed too, once it has run"),
    "MutatingAdmissionPolicy": (((36, True),), "MutatingAdmissionPolicies act"),
    "NodeDeclaredFeatures": (((36, True),), "status.declaredFeatures of Nodes"),
    "OrderedNamespaceDeletion": (((33, True),), "told, nothing here turns on it"),
    "PodCertificateRequest": (
        ((35, False), (37, True)),
        "projected volumes with a podCertificate, and PodCertificateRequests",
    ),
    "PodLevelResources": (((34, True),), "resources of a whole pod"),
    "PodObservedGenerationTracking": (((34, True),), "observedGeneration in the status of pods"),
    "WatchList": (((33, False), (34, True)), "watches that begin with sendInitialEvents"),
}

#: (group/version, plural) -> the first release that serves it by default. What is not here they all serve, or none.
TYPES: dict[tuple[str, str], int] = {
    ("resource.k8s.io/v1", "deviceclasses"): 34,
    ("resource.k8s.io/v1", "resourceclaims"): 34,
    ("resource.k8s.io/v1", "resourceclaimtemplates"): 34,
    ("resource.k8s.io/v1", "resourceslices"): 34,
    ("storage.k8s.io/v1", "volumeattributesclasses"): 34,
    ("admissionregistration.k8s.io/v1", "mutatingadmissionpolicies"): 36,
    ("admissionregistration.k8s.io/v1", "mutatingadmissionpolicybindings"): 36,
    ("certificates.k8s.io/v1", "podcertificaterequests"): 37,
}

#: (type, field) -> the gate without which an API server drops it, silently. Types as the Python client calls them.
GATED: dict[tuple[str, str], str] = {
    ("V1Container", "restartPolicyRules"): "ContainerRestartRules",
    ("V1DeploymentStatus", "terminatingReplicas"): "DeploymentReplicaSetTerminatingReplicas",
    ("V1DeviceClassSpec", "extendedResourceName"): "DRAExtendedResource",
    ("V1DeviceRequest", "firstAvailable"): "DRAPrioritizedList",
    ("V1EnvVarSource", "fileKeyRef"): "EnvFiles",
    ("V1EphemeralContainer", "restartPolicyRules"): "ContainerRestartRules",
    ("V1ExactDeviceRequest", "adminAccess"): "DRAAdminAccess",
    ("V1Lifecycle", "stopSignal"): "ContainerStopSignals",
    ("V1NodeStatus", "declaredFeatures"): "NodeDeclaredFeatures",
    ("V1PodCondition", "observedGeneration"): "PodObservedGenerationTracking",
    ("V1PodSpec", "hostnameOverride"): "HostnameOverride",
    ("V1PodSpec", "resourceClaims"): "DynamicResourceAllocation",
    ("V1PodSpec", "resources"): "PodLevelResources",
    ("V1PodSpec", "schedulingGroup"): "GenericWorkload",
    ("V1PodStatus", "observedGeneration"): "PodObservedGenerationTracking",
    ("V1ReplicaSetStatus", "terminatingReplicas"): "DeploymentReplicaSetTerminatingReplicas",
    ("V1ResourceRequirements", "claims"): "DynamicResourceAllocation",
    ("V1RollingUpdateStatefulSetStrategy", "maxUnavailable"): "MaxUnavailableStatefulSet",
    ("V1Volume", "image"): "ImageVolume",
    ("V1VolumeProjection", "clusterTrustBundle"): "ClusterTrustBundleProjection",
    ("V1VolumeProjection", "podCertificate"): "PodCertificateRequest",
    ("V2HPAScalingRules", "tolerance"): "HPAConfigurableTolerance",
}

#: (type, field) -> the first release whose type has it: before, it is an unknown field.
FIELDS: dict[tuple[str, str], int] = {
    ("V1CSIDriverSpec", "preventPodSchedulingIfMissing"): 36,
    ("V1CSIDriverSpec", "serviceAccountTokenInSecrets"): 35,
    ("V1Container", "restartPolicyRules"): 34,
    ("V1CustomResourceDefinitionStatus", "observedGeneration"): 35,
    ("V1Device", "nodeAllocatableResourceMappings"): 36,
    ("V1DeviceAttribute", "bools"): 36,
    ("V1DeviceAttribute", "ints"): 36,
    ("V1DeviceAttribute", "strings"): 36,
    ("V1DeviceAttribute", "versions"): 36,
    ("V1EnvVarSource", "fileKeyRef"): 34,
    ("V1EphemeralContainer", "restartPolicyRules"): 34,
    ("V1NodeStatus", "declaredFeatures"): 35,
    ("V1PodCertificateProjection", "userAnnotations"): 35,
    ("V1PodSpec", "hostnameOverride"): 34,
    ("V1PodSpec", "schedulingGroup"): 36,
    ("V1PodStatus", "extendedResourceClaimStatus"): 34,
    ("V1PodStatus", "nodeAllocatableResourceClaimStatuses"): 36,
    ("V1VolumeProjection", "podCertificate"): 34,
}

_VERSION = r"v?1\.(\d+)(?:\.(\d+)(?:[-+][0-9A-Za-z.+-]+)?)?\+?"


class ReleaseError(ValueError):
    """What is no Kubernetes version, or none that is known; one sentence with what to say instead."""


class Release(NamedTuple):
    """A release of Kubernetes 1. ``version``: as ``/version`` tells it (``v1.34.3-eks-0a1b2c``)."""

    minor: int
    version: str

    @property
    def name(self) -> str:
        """``v1.34``."""
        return f"v1.{self.minor}"

    def on(self, gate: str) -> bool:
        """Whether a gate is on by default. Raises KeyError for one that the table does not have."""
        return _on(self.minor, gate)

    def serves(self, group_version: str, plural: str) -> bool:
        """Whether a type is served by default, as far as releases differ in it."""
        return self.minor >= TYPES.get((group_version, plural), 0)


@cache
def _on(minor: int, gate: str) -> bool:
    return [False, *(on for since, on in GATES[gate][0] if since <= minor)][-1]


DEFAULT = Release(DEFAULT_MINOR, LATEST[DEFAULT_MINOR])


def parse(text: str) -> Release:
    """``1.34``, ``v1.34.3`` or ``v1.34.3-eks-0a1b2c`` as a release; empty: the default. Raises ReleaseError."""
    if not text:
        return DEFAULT
    told = re.fullmatch(_VERSION, text.strip())
    known = f"1.{min(LATEST)} to 1.{max(LATEST)}"
    if told is None:
        raise ReleaseError(f"{text!r} is no Kubernetes version: say 1.{DEFAULT_MINOR}, or any of {known}")
    minor = int(told[1])
    if minor not in LATEST:
        raise ReleaseError(f"Kubernetes 1.{minor} is not among the releases that are modelled: {known}")
    given = text.strip().removeprefix("v")
    return Release(minor, f"v{given}" if told[2] else LATEST[minor])


def told(version: str) -> str:
    """How a release that was named, or that a cluster answered, is told: ``1.34`` as its patch release here."""
    try:
        return parse(version).version
    except ReleaseError:
        return version


def nearest(version: str) -> tuple[Release, str]:
    """What stands in for a cluster that answers ``version``, and what to say of it where it is not that release."""
    told = re.fullmatch(_VERSION, version.strip())
    if told is None:
        return (
            DEFAULT,
            f"the cluster's version, {version or 'not told'}, is none of Kubernetes 1: {DEFAULT.name} stands in",
        )
    minor = min(max(int(told[1]), min(LATEST)), max(LATEST))
    if minor == int(told[1]):
        return parse(version), ""
    return parse(f"1.{minor}"), f"the cluster is {version}, which is not modelled: v1.{minor} stands in for it"
