"""What each type does to its own objects before they are stored: initial status, generation, what a writer may change.

Source: the ``PrepareForCreate`` and ``PrepareForUpdate`` of each type under pkg/registry in Kubernetes v1.36.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime

from killcheck.embedded.api.gates import drop_disabled
from killcheck.embedded.api.kinds import Kind
from killcheck.embedded.api.serviceparts import keep as keep_ports
from killcheck.kube.objects import Obj, copy, dig, format_time

__all__ = ["PARTS", "TEMPLATE_GENERATION", "as_read_back", "kept_by_status", "prepare_for_create", "prepare_for_update"]

_NOT_SPEC = frozenset({"apiVersion", "kind", "metadata", "status"})
_VOLUMES = ("", "persistentvolumes")
_INITIAL_STATUS: dict[tuple[str, str], Obj] = {
    ("", "pods"): {"phase": "Pending"},
    ("", "namespaces"): {"phase": "Active"},
    ("", "persistentvolumeclaims"): {"phase": "Pending"},
    _VOLUMES: {"phase": "Pending"},
    ("", "services"): {"loadBalancer": {}},
    ("", "replicationcontrollers"): {"replicas": 0},
    ("apps", "replicasets"): {"replicas": 0},
    ("apps", "statefulsets"): {"replicas": 0, "availableReplicas": 0},
    ("apps", "daemonsets"): {
        "currentNumberScheduled": 0,
        "numberMisscheduled": 0,
        "desiredNumberScheduled": 0,
        "numberReady": 0,
    },
    ("autoscaling", "horizontalpodautoscalers"): {"desiredReplicas": 0, "currentMetrics": None},
    ("policy", "poddisruptionbudgets"): {
        "disruptionsAllowed": 0,
        "currentHealthy": 0,
        "desiredHealthy": 0,
        "expectedPods": 0,
    },
    ("storage.k8s.io", "volumeattachments"): {"attached": False},
    ("networking.k8s.io", "ingresses"): {"loadBalancer": {}},
}
#: Types whose status is taken from whoever creates them (a kubelet registers its node with one).
_KEEPS_STATUS = frozenset({("", "nodes")})


def prepare_for_create(kind: Kind, obj: Obj, now: datetime) -> None:
    """Set what the server decides in a new object, in place."""
    meta = obj["metadata"]
    if kind.generation:
        meta["generation"] = 1
    table = kind.table
    if "status" in kind.subresources and table not in _KEEPS_STATUS:
        obj.pop("status", None)
        if kind.crd is None:
            obj["status"] = copy(_INITIAL_STATUS.get(table, {}))
    if kind.schema:
        drop_disabled(kind.schema, obj, kind.release)
    _without_empty_overhead(obj, table)
    special = _ON_CREATE.get(table)
    if special is not None:
        special(obj)
    if table == _VOLUMES:
        obj["status"]["lastPhaseTransitionTime"] = format_time(now)
    if table == ("", "pods") and (obj.get("spec") or {}).get("schedulingGates"):
        obj["status"]["conditions"] = [
            {
                "type": "PodScheduled",
                "status": "False",
                "lastProbeTime": None,
                "lastTransitionTime": format_time(now),
                "reason": "SchedulingGated",
                "message": "Scheduling is blocked due to non-empty scheduling gates",
            }
        ]


def as_read_back(kind: Kind, obj: Obj) -> None:
    """What a new object, admitted, is read back with, in place: a Job without labels has its pods', a pod its class."""
    if kind.table == ("", "pods") and "qosClass" in obj.get("status", {}):
        obj["status"]["qosClass"] = qos_class(obj.get("spec") or {})
    if kind.table == ("batch", "jobs") and not obj["metadata"].get("labels"):
        labels = dig(obj, "spec", "template", "metadata", "labels", default={})
        if labels:
            obj["metadata"]["labels"] = dict(labels)


def prepare_for_update(kind: Kind, new: Obj, old: Obj, subresource: str) -> Obj:
    """What of ``new`` may take effect; returns the object to store (``new`` is used up)."""
    if subresource == "status":
        new = _status_only(kind, new, old)
    elif subresource in PARTS:
        new = _part_only(new, old, subresource)
    elif "status" in kind.subresources:
        if "status" in old:
            new["status"] = old["status"]
        else:
            new.pop("status", None)
    special = _ON_UPDATE.get(kind.table)
    if special is not None:
        special(new, old)
    if kind.schema:
        drop_disabled(kind.schema, new, kind.release)
    if not subresource:
        _without_empty_overhead(new, kind.table)
    if kind.generation and subresource != "status" and _spec_changed(kind, new, old):
        new["metadata"]["generation"] = int(old["metadata"].get("generation", 0)) + 1
    return new


#: Subresources of pods that write a part of the spec which the pod itself keeps closed.
PARTS = ("ephemeralcontainers", "resize")
_OF_STATUS = ("labels", "annotations", "finalizers", "ownerReferences")
#: What of the metadata a writer of the status does not change: most types let him change all of it.
_KEPT_OF_STATUS: dict[tuple[str, str], tuple[str, ...]] = {
    ("apps", "deployments"): ("labels",),
    ("", "pods"): ("ownerReferences",),
    ("resource.k8s.io", "resourceclaims"): _OF_STATUS,
    ("storage.k8s.io", "volumeattachments"): _OF_STATUS,
}


def _part_only(new: Obj, old: Obj, subresource: str) -> Obj:
    """The old pod with its new ephemeral containers, or with the new resources of the containers it had."""
    spec, given = dict(old["spec"]), new.get("spec") or {}
    if subresource == "ephemeralcontainers":
        if given.get("ephemeralContainers"):
            spec["ephemeralContainers"] = given["ephemeralContainers"]
        else:
            spec.pop("ephemeralContainers", None)
    else:
        for field in ("containers", "initContainers"):
            ours, theirs = given.get(field) or [], spec.get(field) or []
            if [c.get("name") for c in ours] != [c.get("name") for c in theirs]:
                return new  # refused by validation
            if theirs:
                spec[field] = [
                    {k: v for k, v in before.items() if k not in _RESIZED} | {k: now[k] for k in _RESIZED if k in now}
                    for now, before in zip(ours, theirs, strict=True)
                ]
    meta = {k: v for k, v in new["metadata"].items() if k not in _OF_STATUS}
    meta |= {k: old["metadata"][k] for k in _OF_STATUS if k in old["metadata"]}
    return new | {"metadata": meta, "spec": spec, "status": old.get("status", {})}


_RESIZED = ("resources", "resizePolicy")


def _status_only(kind: Kind, new: Obj, old: Obj) -> Obj:
    result = {key: value for key, value in old.items() if key != "status"}
    meta = new["metadata"]
    if kind.crd is not None:
        kept = dict(old["metadata"])
        kept["resourceVersion"] = meta.get("resourceVersion", kept["resourceVersion"])
        meta = kept
    else:
        kept_of = kept_by_status(kind)
        before = old["metadata"]
        meta = {k: v for k, v in meta.items() if k not in kept_of} | {k: before[k] for k in kept_of if k in before}
    result["metadata"] = meta
    if "status" in new:
        result["status"] = new["status"]
    return result


def kept_by_status(kind: Kind) -> tuple[str, ...]:
    """The metadata that a writer of the status does not change, and so does not come to manage."""
    return _KEPT_OF_STATUS.get(kind.table, ())


def _spec_changed(kind: Kind, new: Obj, old: Obj) -> bool:
    ignored = _NOT_SPEC
    if kind.crd is not None and "status" not in kind.subresources:
        ignored = frozenset({"apiVersion", "kind", "metadata"})
    for key in new.keys() | old.keys():
        if key not in ignored and new.get(key) != old.get(key):
            return True
    if kind.table == ("discovery.k8s.io", "endpointslices"):  # a slice's labels count as well
        return bool((new["metadata"].get("labels") or {}) != (old["metadata"].get("labels") or {}))
    if kind.table == ("apps", "deployments"):  # a Deployment's annotations count as its spec
        return bool((new["metadata"].get("annotations") or {}) != (old["metadata"].get("annotations") or {}))
    return False


# -- single types ----------------------------------------------------------------------------------------------
#: Where each type keeps the spec of the pods that it makes.
_TEMPLATES: dict[tuple[str, str], tuple[str, ...]] = {
    ("batch", "cronjobs"): ("spec", "jobTemplate", "spec", "template", "spec"),
    **dict.fromkeys(
        (
            ("", "replicationcontrollers"),
            ("apps", "deployments"),
            ("apps", "replicasets"),
            ("apps", "statefulsets"),
            ("apps", "daemonsets"),
            ("batch", "jobs"),
        ),
        ("spec", "template", "spec"),
    ),
}


def _without_empty_overhead(obj: Obj, table: tuple[str, str]) -> None:
    """An empty overhead refuses a pod; of a template it is gone once it is stored. In place."""
    path = _TEMPLATES.get(table)
    if path is not None and dig(obj, *path, "overhead") == {}:
        del dig(obj, *path)["overhead"]


def _grace(obj: Obj, _old: Obj | None = None) -> None:
    """Less than none is one (Convert_v1_Pod_To_core_Pod)."""
    if (dig(obj, "spec", "terminationGracePeriodSeconds") or 0) < 0:
        obj["spec"]["terminationGracePeriodSeconds"] = 1


def _pod(obj: Obj) -> None:
    _grace(obj)
    obj["status"] = {"phase": "Pending", "qosClass": qos_class(obj.get("spec") or {})}


def qos_class(spec: Obj) -> str:
    """Guaranteed, Burstable or BestEffort, from CPU and memory alone: the pod's own, or else its containers'."""
    containers = [*(spec.get("containers") or []), *(spec.get("initContainers") or [])]
    containers = [spec] if spec.get("resources") else containers
    any_set = False
    guaranteed = bool(containers)
    for container in containers:
        requests = dig(container, "resources", "requests", default={})
        limits = dig(container, "resources", "limits", default={})
        for name in ("cpu", "memory"):
            any_set = any_set or name in requests or name in limits
            if name not in limits or requests.get(name, limits[name]) != limits[name]:
                guaranteed = False
    return "Guaranteed" if guaranteed else "Burstable" if any_set else "BestEffort"


def _claim(obj: Obj) -> None:
    """Of what a claim may be filled from, ``dataSource`` knows claims and snapshots alone; other kinds go unsaid."""
    spec = obj.get("spec") or {}
    source = spec.get("dataSource")
    if source is None or spec.get("dataSourceRef") is not None:
        return
    if (source.get("apiGroup") or "", source.get("kind")) not in _SOURCES:
        del spec["dataSource"]


_SOURCES = (("", "PersistentVolumeClaim"), ("snapshot.storage.k8s.io", "VolumeSnapshot"))


def _namespace(obj: Obj) -> None:
    spec = obj.setdefault("spec", {})
    if "kubernetes" not in spec.setdefault("finalizers", []):
        spec["finalizers"].append("kubernetes")
    obj["metadata"].setdefault("labels", {})["kubernetes.io/metadata.name"] = obj["metadata"]["name"]


def _namespace_update(new: Obj, old: Obj) -> None:
    new["spec"] = old.get("spec", {})
    new["metadata"].setdefault("labels", {})["kubernetes.io/metadata.name"] = old["metadata"]["name"]


def _job(obj: Obj) -> None:
    """A Job's selector and its pods' labels come from its uid, unless ``manualSelector``.

    What the writer put there himself stays, and is refused where it does not fit.
    """
    spec = obj.setdefault("spec", {})
    if spec.get("manualSelector"):
        return
    meta = obj["metadata"]
    uid, name = meta["uid"], meta.get("name", "")
    labels = spec.setdefault("template", {}).setdefault("metadata", {}).setdefault("labels", {})
    wanted = {
        "batch.kubernetes.io/controller-uid": uid,
        "batch.kubernetes.io/job-name": name,
        "controller-uid": uid,
        "job-name": name,
    }
    labels |= wanted | labels
    if meta.get("labels") is labels:
        meta["labels"] = dict(labels)
    if not spec.get("selector"):
        spec["selector"] = {}
    if not spec["selector"].get("matchLabels"):
        spec["selector"]["matchLabels"] = {}
    spec["selector"]["matchLabels"].setdefault("batch.kubernetes.io/controller-uid", uid)
    spec["manualSelector"] = False


TEMPLATE_GENERATION = "deprecated.daemonset.template.generation"


def _daemon_set(obj: Obj) -> None:
    """The template's generation, which apps/v1 keeps in an annotation (``int64`` there, at least 1)."""
    annotations = obj["metadata"].get("annotations") or {}
    given = annotations.get(TEMPLATE_GENERATION, "")
    number = int(given) if given.isdigit() else 0
    obj["metadata"]["annotations"] = annotations | {TEMPLATE_GENERATION: str(max(number, 1))}


def _daemon_set_update(new: Obj, old: Obj) -> None:
    before = int((old["metadata"].get("annotations") or {}).get(TEMPLATE_GENERATION, "1"))
    changed = dig(new, "spec", "template") != dig(old, "spec", "template")
    annotations = new["metadata"].get("annotations") or {}
    new["metadata"]["annotations"] = annotations | {TEMPLATE_GENERATION: str(before + changed)}


def _service_update(new: Obj, old: Obj) -> None:
    """What was allocated stays where the writer leaves it out; what a new type has no more goes, unless he changed it.

    Source: pkg/registry/core/service: storage/storage.go (patchAllocatedValues), strategy.go (dropTypeDependentFields).
    """
    spec, before = new.get("spec") or {}, old.get("spec") or {}
    if spec.get("type") != "ExternalName":
        for field in ("clusterIP", "clusterIPs"):
            if not spec.get(field) and before.get(field):
                spec[field] = before[field]
    elif before.get("type") != "ExternalName":
        for fields in (("clusterIP", "clusterIPs"), ("ipFamilies",), ("ipFamilyPolicy",)):
            if all(spec.get(field) == before.get(field) for field in fields):
                for field in fields:
                    spec.pop(field, None)
    keep_ports(new, old)
    if before.get("type") == "LoadBalancer" != spec.get("type"):
        for field in ("allocateLoadBalancerNodePorts", "loadBalancerClass"):
            if spec.get(field) == before.get(field):
                spec.pop(field, None)
    policy = "internalTrafficPolicy"  # of what leads somewhere in the cluster
    if spec.get("type") == "ExternalName" != before.get("type") and spec.get(policy) == before.get(policy):
        spec.pop(policy, None)
    policy = "externalTrafficPolicy"
    if _is_outside(before) and not _is_outside(spec) and spec.get(policy) == before.get(policy):
        spec.pop(policy, None)
    if spec.get("type") != "LoadBalancer" and "status" in new and spec != before:  # not where the status is written
        new["status"] = {"loadBalancer": {}}


def _is_outside(spec: Obj) -> bool:
    """Whether a Service may be reached from outside the cluster (pkg/api/service: ExternallyAccessible)."""
    return spec.get("type") in ("NodePort", "LoadBalancer") or (
        spec.get("type") == "ClusterIP" and bool(spec.get("externalIPs"))
    )


_ON_CREATE: dict[tuple[str, str], Callable[[Obj], None]] = {
    ("", "pods"): _pod,
    ("", "namespaces"): _namespace,
    ("", "persistentvolumeclaims"): _claim,
    ("batch", "jobs"): _job,
    ("apps", "daemonsets"): _daemon_set,
}
_ON_UPDATE: dict[tuple[str, str], Callable[[Obj, Obj], None]] = {
    ("", "namespaces"): _namespace_update,
    ("", "pods"): _grace,
    ("", "services"): _service_update,
    ("apps", "daemonsets"): _daemon_set_update,
}
