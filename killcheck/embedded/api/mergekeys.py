"""Which lists merge by key: for strategic merge patches, and (slightly differently) for server-side apply.

Source: a v1.36.2 API server's /openapi/v2: ``x-kubernetes-patch-strategy`` and ``-merge-key``; for server-side apply
``x-kubernetes-list-type``, ``-list-map-keys`` and ``-map-type``; a CRD's own schema.
"""

from __future__ import annotations

from functools import cached_property

from killcheck.embedded.api import schemas
from killcheck.embedded.api.kinds import Kind
from killcheck.kube.objects import Obj

__all__ = ["MAPS", "ApplyLists", "merge_key", "merges_primitives", "replaces", "retains_keys"]

Path = tuple[str, ...]

_CONTAINER = {"env": "name", "ports": "containerPort", "volumeDevices": "devicePath", "volumeMounts": "mountPath"}
_CONDITIONS = {"matchConditions": "name"}
#: Go's type -> list -> the ``patchMergeKey`` of its items; "": of plain values. Any other list is replaced as a whole.
_MERGED: dict[str, dict[str, str]] = {
    "ObjectMeta": {"finalizers": "", "ownerReferences": "uid"},
    "PodSpec": {
        "containers": "name",
        "initContainers": "name",
        "ephemeralContainers": "name",
        "imagePullSecrets": "name",
        "schedulingGates": "name",
        "volumes": "name",
        "resourceClaims": "name",
        "hostAliases": "ip",
        "topologySpreadConstraints": "topologyKey",
    },
    "PodStatus": {"conditions": "type", "hostIPs": "ip", "podIPs": "ip", "resourceClaimStatuses": "name"},
    "ContainerStatus": {"allocatedResourcesStatus": "name", "volumeMounts": "mountPath"},
    "ServiceAccount": {"secrets": "name"},
    "ServiceSpec": {"ports": "port"},
    "NodeSpec": {"podCIDRs": ""},
    "NodeStatus": {"addresses": "type", "conditions": "type"},
    "CSINodeSpec": {"drivers": "name"},
    "ResourceClaimStatus": {"reservedFor": "uid"},
    "JSONSchemaProps": {"x-kubernetes-validations": "rule"},
    "ValidatingAdmissionPolicySpec": {"matchConditions": "name", "variables": "name"},
    "MutatingAdmissionPolicySpec": {"matchConditions": "name"},
    "Container": _CONTAINER,
    "EphemeralContainer": _CONTAINER,
    "MutatingWebhook": _CONDITIONS,
    "ValidatingWebhook": _CONDITIONS,
    "MutatingWebhookConfiguration": {"webhooks": "name"},
    "ValidatingWebhookConfiguration": {"webhooks": "name"},
}
_MERGED |= {
    f"{kind}Status": {"conditions": "type"}
    for kind in (
        "DaemonSet Deployment ReplicaSet StatefulSet ReplicationController Job HorizontalPodAutoscaler Namespace "
        "Service PersistentVolumeClaim PodDisruptionBudget FlowSchema PriorityLevelConfiguration ServiceCIDR APIService"
    ).split()
}
_MERGED["ComponentStatus"] = {"conditions": "type"}
_RETAINS = {"DeploymentSpec": "strategy", "PodSpec": "volumes resourceClaims", "PodStatus": "resourceClaimStatuses"}

_REPLACED = frozenset({("PodDisruptionBudgetSpec", "selector")})


def merge_key(schema: str, field: str) -> str | None:
    """The ``patchMergeKey`` of a list of objects, ``V1PodSpec`` and ``containers``; None: it is replaced as a whole."""
    return _merged(schema).get(field) or None


def merges_primitives(schema: str, field: str) -> bool:
    """Whether such a list is merged value by value."""
    return _merged(schema).get(field) == ""


def retains_keys(schema: str, field: str) -> bool:
    """Whether clients send ``$retainKeys`` for what is in that field."""
    return field in _RETAINS.get(_unversioned(schema), "").split()


def replaces(schema: str, field: str) -> bool:
    """Whether an object in that field is not merged but replaced as a whole (``patchStrategy: replace``)."""
    return (_unversioned(schema), field) in _REPLACED


def _merged(schema: str) -> dict[str, str]:
    return _MERGED.get(_unversioned(schema), {})


def _unversioned(schema: str) -> str:
    return schemas.go_name(schema).partition(".")[2] if schema else ""


#: Objects that are maps with free keys, not structures, in built-in types.
MAPS = frozenset(
    {
        "labels",
        "annotations",
        "matchLabels",
        "nodeSelector",
        "data",
        "binaryData",
        "limits",
        "requests",
        "capacity",
        "allocatable",
        "hard",
        "used",
        "parameters",
        "overhead",
        "disruptedPods",
        "allocatedResourceStatuses",
        "allocatedResources",
        "attachmentMetadata",
        "extra",
        "options",
        "podFixed",
        "stringData",
        "volumeAttributes",
    }
)
#: Where such a name is a structure's.
_STRUCTURES = frozenset({("drivers", "allocatable"), ("spec", "parameters"), ("overhead",)})
#: Objects that server-side apply owns as a whole, by their own name, or by that and the one above.
_ATOMIC = frozenset(
    {
        "selector",
        "labelSelector",
        "namespaceSelector",
        "objectSelector",
        "podSelector",
        "scopeSelector",
        "nodeSelector",
        "nodeTopology",
        "requiredDuringSchedulingIgnoredDuringExecution",
        "fieldRef",
        "resourceFieldRef",
        "secretKeyRef",
        "configMapKeyRef",
        "fileKeyRef",
        "secretRef",
        "nodePublishSecretRef",
        "nodeStageSecretRef",
        "nodeExpandSecretRef",
        "controllerPublishSecretRef",
        "controllerExpandSecretRef",
        "dataSource",
        "involvedObject",
        "regarding",
        "related",
        "roleRef",
        "paramKind",
        "paramRef",
        "matchConstraints",
        "matchResources",
    }
)
_ATOMIC_BY_PATH = frozenset(
    {("nodeAffinity", "required"), ("service", "port"), ("backend", "resource"), ("defaultBackend", "resource")}
)

_APPLY_BY_NAME: dict[str, tuple[str, ...]] = {
    "containers": ("name",),
    "initContainers": ("name",),
    "ephemeralContainers": ("name",),
    "env": ("name",),
    "volumes": ("name",),
    "volumeMounts": ("mountPath",),
    "volumeDevices": ("devicePath",),
    "imagePullSecrets": ("name",),
    "hostAliases": ("ip",),
    "ownerReferences": ("uid",),
    "conditions": ("type",),
    "topologySpreadConstraints": ("topologyKey", "whenUnsatisfiable"),
    "resourceClaims": ("name",),
    "schedulingGates": ("name",),
    "webhooks": ("name",),
    "secrets": ("name",),
    "podIPs": ("ip",),
    "claims": ("name",),
    "matchConditions": ("name",),
    "resourceClaimStatuses": ("name",),
    "reservedFor": ("uid",),
}
_ATOMIC_ITEMS = frozenset({"imagePullSecrets", "secrets", "ownerReferences"})
#: Lists of values of which each is there once.
_APPLY_SETS = frozenset({"finalizers", "podCIDRs", "validationActions", "volumeLifecycleModes"})
#: Lists that are replaced as a whole where others of their name are not.
_APPLY_WHOLE = frozenset({("imagePullSecrets",), ("spec", "finalizers")})
_APPLY_BY_PATH: dict[Path, tuple[str, ...]] = {
    ("containers", "ports"): ("containerPort", "protocol"),
    ("initContainers", "ports"): ("containerPort", "protocol"),
    ("ephemeralContainers", "ports"): ("containerPort", "protocol"),
    ("spec", "ports"): ("port", "protocol"),
    ("status", "addresses"): ("type",),
    ("spec", "drivers"): ("name",),
    ("status", "devices"): ("driver", "device", "pool", "shareID"),
    ("uncountedTerminatedPods", "failed"): (),
    ("uncountedTerminatedPods", "succeeded"): (),
}
#: What differs by the kind: Job's conditions are one value, the variables of a validating policy are known by name.
_WHOLE_OF_KIND = frozenset({("Job", ("status", "conditions"))})
_MAP_OF_KIND: dict[tuple[str, Path], tuple[str, ...]] = {
    ("ValidatingAdmissionPolicy", ("spec", "variables")): ("name",)
}
#: What a key field left out of an item counts as.
KEY_DEFAULTS = {"protocol": "TCP", "type": ""}
#: The same where a field of that name has no such default elsewhere (``LocalObjectReference``).
LIST_DEFAULTS = {"imagePullSecrets": {"name": ""}}


class ApplyLists:
    """How server-side apply sees the lists and objects of a type."""

    def __init__(self, kind: Kind | None) -> None:
        self.custom = kind is not None and kind.crd is not None
        self.kind = kind.resource.kind if kind is not None else ""
        #: Of v1's alone is what an autoscaler scales one value.
        self.old_autoscaler = kind is not None and kind.resource.api_version == "autoscaling/v1"
        self._type = kind.schema if kind is not None else None
        self.schema: Obj = (kind.crd_version.get("schema") or {}).get("openAPIV3Schema") or {} if kind else {}

    @cached_property
    def empty(self) -> Obj:
        """The type's object in which nothing is set, as Go writes it: what a new object is compared with."""
        return schemas.decode(self._type, {}).obj if self._type and not self.custom else {}

    def keys(self, path: Path) -> tuple[str, ...] | None:
        """The keys of the associative list at ``path``; () for a set of values; None: atomic."""
        if path[0] == "metadata" or not self.custom:
            if path in _APPLY_WHOLE or (self.kind, path) in _WHOLE_OF_KIND:
                return None
            if (self.kind, path) in _MAP_OF_KIND:
                return _MAP_OF_KIND[self.kind, path]
            if path[-1] in _APPLY_SETS:
                return ()
            return _APPLY_BY_PATH.get(path[-2:], _APPLY_BY_NAME.get(path[-1]))
        schema = self._at(path)
        kind = schema.get("x-kubernetes-list-type")
        if kind == "map":
            return tuple(schema.get("x-kubernetes-list-map-keys") or ())
        return () if kind == "set" else None

    def is_map(self, path: Path) -> bool:
        """Whether the object at ``path`` counts as a field of its own beside its members."""
        if path[0] != "metadata" and self.custom:
            return True
        return path[-1] in MAPS and path[-2:] not in _STRUCTURES

    def is_atomic(self, path: Path) -> bool:
        """Whether the object at ``path`` is owned as a whole."""
        if self.custom and path[0] != "metadata":
            return self._at(path).get("x-kubernetes-map-type") == "atomic"
        if self.old_autoscaler and path[-1] == "scaleTargetRef":
            return True
        return path[-1] in _ATOMIC or path[-2:] in _ATOMIC_BY_PATH

    def items_are_atomic(self, path: Path) -> bool:
        """Whether each item of the list at ``path`` is owned as a whole."""
        return (path[-1] in _ATOMIC_ITEMS or (self.kind, path) in _MAP_OF_KIND) and (
            path[0] == "metadata" or not self.custom
        )

    def _at(self, path: Path) -> Obj:
        schema = self.schema
        for step in path:
            if "items" in schema:
                schema = schema["items"]
            inner = (schema.get("properties") or {}).get(step)
            if inner is None:
                extra = schema.get("additionalProperties")
                inner = extra if isinstance(extra, dict) else {}
            schema = inner
        return schema
