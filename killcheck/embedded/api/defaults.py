"""What Kubernetes fills in where an object of a built-in type leaves something out.

Source: the ``defaults.go`` of each group under pkg/apis in Kubernetes v1.36.
"""

from __future__ import annotations

import base64
from collections.abc import Callable
from datetime import datetime

from killcheck.embedded.api import poddefaults
from killcheck.embedded.api.kinds import Kind
from killcheck.kube.objects import Obj, copy, dig, format_time

__all__ = ["ROUND_TRIP", "apply", "autoscaler"]

_RBAC = "rbac.authorization.k8s.io"


def apply(kind: Kind, obj: Obj, now: datetime) -> None:
    """Fill in what was left out of a private copy, in place. ``now``: for times that default to the present."""
    resource = kind.resource
    fill = _BY_KIND.get((resource.group, resource.kind))
    if fill is not None:
        fill(obj)
    elif resource.kind == "ResourceSlice":
        _resource_slice(obj, now)


def _spec(obj: Obj) -> Obj:
    spec: Obj = obj.setdefault("spec", {})
    return spec


def _unless(holder: Obj, field: str, value: object) -> None:
    """Set where missing, null or empty."""
    if not holder.get(field):
        holder[field] = value


# -- apps ------------------------------------------------------------------------------------------------------
def _deployment(obj: Obj) -> None:
    spec = _spec(obj)
    spec.setdefault("replicas", 1)
    strategy = spec.setdefault("strategy", {})
    _unless(strategy, "type", "RollingUpdate")
    if strategy["type"] == "RollingUpdate":
        rolling = strategy.setdefault("rollingUpdate", {})
        rolling.setdefault("maxUnavailable", "25%")
        rolling.setdefault("maxSurge", "25%")
    spec.setdefault("revisionHistoryLimit", 10)
    spec.setdefault("progressDeadlineSeconds", 600)
    poddefaults.template(spec)


def _replica_set(obj: Obj) -> None:
    spec = _spec(obj)
    spec.setdefault("replicas", 1)
    poddefaults.template(spec)


def _replication_controller(obj: Obj) -> None:
    spec = _spec(obj)
    spec.setdefault("replicas", 1)
    poddefaults.template(spec)
    labels = ((spec.get("template") or {}).get("metadata") or {}).get("labels")
    if labels:
        _unless(spec, "selector", dict(labels))
        _unless(obj.setdefault("metadata", {}), "labels", dict(labels))


def _stateful_set(obj: Obj) -> None:
    spec = _spec(obj)
    _unless(spec, "podManagementPolicy", "OrderedReady")
    strategy = spec.setdefault("updateStrategy", {})
    if not strategy.get("type"):
        strategy["type"] = "RollingUpdate"
        strategy.setdefault("rollingUpdate", {})
    if strategy["type"] == "RollingUpdate" and strategy.get("rollingUpdate") is not None:
        strategy["rollingUpdate"].setdefault("partition", 0)
    retention = spec.setdefault("persistentVolumeClaimRetentionPolicy", {})
    _unless(retention, "whenDeleted", "Retain")
    _unless(retention, "whenScaled", "Retain")
    spec.setdefault("replicas", 1)
    spec.setdefault("revisionHistoryLimit", 10)
    poddefaults.template(spec)
    for claim in spec.get("volumeClaimTemplates") or ():
        claim.setdefault("kind", "PersistentVolumeClaim")
        claim.setdefault("apiVersion", "v1")
        _claim(claim)


def _daemon_set(obj: Obj) -> None:
    spec = _spec(obj)
    strategy = spec.setdefault("updateStrategy", {})
    _unless(strategy, "type", "RollingUpdate")
    if strategy["type"] == "RollingUpdate":
        rolling = strategy.setdefault("rollingUpdate", {})
        rolling.setdefault("maxUnavailable", 1)
        rolling.setdefault("maxSurge", 0)
    elif isinstance(strategy.get("rollingUpdate"), dict):  # numbers of the internal type, which always has them
        strategy["rollingUpdate"] = {"maxUnavailable": 0, "maxSurge": 0} | strategy["rollingUpdate"]
    spec.setdefault("revisionHistoryLimit", 10)
    poddefaults.template(spec)


# -- batch -----------------------------------------------------------------------------------------------------
def _job(obj: Obj) -> None:
    spec = _spec(obj)
    _job_spec(spec)
    labels = ((spec.get("template") or {}).get("metadata") or {}).get("labels")
    if labels:  # the very map: what the server adds to the template's labels, the Job's then have as well
        _unless(obj.setdefault("metadata", {}), "labels", labels)
    poddefaults.template(spec)


def _job_spec(spec: Obj) -> None:
    if spec.get("completions") is None and spec.get("parallelism") is None:
        spec["completions"] = 1
    spec.setdefault("parallelism", 1)
    spec.setdefault("backoffLimit", 6 if spec.get("backoffLimitPerIndex") is None else 2**31 - 1)
    spec.setdefault("completionMode", "NonIndexed")
    spec.setdefault("suspend", False)
    spec.setdefault("podReplacementPolicy", "Failed" if spec.get("podFailurePolicy") else "TerminatingOrFailed")
    spec.setdefault("manualSelector", False)
    _failure_policy(spec)


def _failure_policy(spec: Obj) -> None:
    for rule in (spec.get("podFailurePolicy") or {}).get("rules") or ():
        for pattern in rule.get("onPodConditions") or ():
            _unless(pattern, "status", "True")


def _cron_job(obj: Obj) -> None:
    """A CronJob's jobTemplate is not a Job: only its pods' defaults are filled in."""
    spec = _spec(obj)
    _unless(spec, "concurrencyPolicy", "Allow")
    spec.setdefault("suspend", False)
    spec.setdefault("successfulJobsHistoryLimit", 3)
    spec.setdefault("failedJobsHistoryLimit", 1)
    job = spec.setdefault("jobTemplate", {}).setdefault("spec", {})
    _failure_policy(job)
    poddefaults.template(job)


# -- autoscaling -----------------------------------------------------------------------------------------------
_EVERY_15_S = {"periodSeconds": 15}
_SCALE_UP: Obj = {
    "stabilizationWindowSeconds": 0,
    "selectPolicy": "Max",
    "policies": [{"type": "Pods", "value": 4} | _EVERY_15_S, {"type": "Percent", "value": 100} | _EVERY_15_S],
}
_SCALE_DOWN: Obj = {"selectPolicy": "Max", "policies": [{"type": "Percent", "value": 100} | _EVERY_15_S]}
_CPU_80: Obj = {
    "type": "Resource",
    "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 80}},
}


#: What v1 has no fields for stands in annotations that begin so.
ROUND_TRIP = "autoscaling.alpha.kubernetes.io/"


def autoscaler(obj: Obj) -> None:
    """Of a HorizontalPodAutoscaler, in place; metrics and behavior in v2 alone."""
    spec = _spec(obj)
    spec.setdefault("minReplicas", 1)
    notes = obj["metadata"].get("annotations") or {}
    if obj.get("apiVersion") == "autoscaling/v1":
        if not notes.get(f"{ROUND_TRIP}metrics") and spec.get("targetCPUUtilizationPercentage") is None:
            spec["targetCPUUtilizationPercentage"] = 80
        return
    for note in ("metrics", "current-metrics", "behavior", "conditions"):  # v1's, which say nothing in this one
        notes.pop(f"{ROUND_TRIP}{note}", None)
    if not notes:
        obj["metadata"].pop("annotations", None)
    _unless(spec, "metrics", [copy(_CPU_80)])
    behavior = spec.get("behavior")
    if behavior is not None:
        behavior["scaleUp"] = copy(_SCALE_UP) | (behavior.get("scaleUp") or {})
        behavior["scaleDown"] = copy(_SCALE_DOWN) | (behavior.get("scaleDown") or {})


# -- core ------------------------------------------------------------------------------------------------------
def _service(obj: Obj) -> None:
    spec = _spec(obj)
    _unless(spec, "sessionAffinity", "None")
    if spec["sessionAffinity"] == "None":
        spec.pop("sessionAffinityConfig", None)
    elif ((spec.get("sessionAffinityConfig") or {}).get("clientIP") or {}).get("timeoutSeconds") is None:
        spec["sessionAffinityConfig"] = {"clientIP": {"timeoutSeconds": 10800}}
    _unless(spec, "type", "ClusterIP")
    for port in spec.get("ports") or ():
        _unless(port, "protocol", "TCP")
        _unless(port, "targetPort", port.get("port"))
    external = spec["type"] in ("NodePort", "LoadBalancer") or (spec["type"] == "ClusterIP" and spec.get("externalIPs"))
    if external:
        _unless(spec, "externalTrafficPolicy", "Cluster")
    if spec["type"] in ("NodePort", "LoadBalancer", "ClusterIP"):
        spec.setdefault("internalTrafficPolicy", "Cluster")
    if spec["type"] == "LoadBalancer":
        spec.setdefault("allocateLoadBalancerNodePorts", True)
        for entry in dig(obj, "status", "loadBalancer", "ingress", default=()):
            if entry.get("ip"):
                entry.setdefault("ipMode", "VIP")


def _secret(obj: Obj) -> None:
    """What is written as text is data from the beginning, and managed as that."""
    _unless(obj, "type", "Opaque")
    plain = obj.pop("stringData", None)
    if plain:
        encoded = {key: base64.b64encode(str(value).encode()).decode() for key, value in plain.items()}
        obj["data"] = (obj.get("data") or {}) | encoded


def _namespace(obj: Obj) -> None:
    meta = obj.setdefault("metadata", {})
    if meta.get("name"):
        meta.setdefault("labels", {})["kubernetes.io/metadata.name"] = meta["name"]
    _unless(obj.setdefault("status", {}), "phase", "Active")


def _node(obj: Obj) -> None:
    status = obj.setdefault("status", {})
    capacity = status.get("capacity")
    poddefaults.round_resources(capacity)
    if capacity and status.get("allocatable") is None:
        status["allocatable"] = dict(capacity)
    poddefaults.round_resources(status.get("allocatable"))


def _volume(obj: Obj) -> None:
    spec = _spec(obj)
    _unless(spec, "persistentVolumeReclaimPolicy", "Retain")
    spec.setdefault("volumeMode", "Filesystem")
    if spec.get("hostPath") is not None:
        spec["hostPath"].setdefault("type", "")
    _unless(obj.setdefault("status", {}), "phase", "Pending")


def _claim(obj: Obj) -> None:
    poddefaults.claim_spec(_spec(obj))
    _unless(obj.setdefault("status", {}), "phase", "Pending")


def _limit_range(obj: Obj) -> None:
    for item in _spec(obj).get("limits") or ():
        if item.get("type") == "Container":
            most, least = item.get("max") or {}, item.get("min") or {}
            limits = most | (item.get("default") or {})
            requests = least | limits | (item.get("defaultRequest") or {})
            if limits:
                item["default"] = limits
            if requests:
                item["defaultRequest"] = requests
        for field in ("max", "min", "default", "defaultRequest", "maxLimitRequestRatio"):
            poddefaults.round_resources(item.get(field))


def _quota(obj: Obj) -> None:
    poddefaults.round_resources(_spec(obj).get("hard"))


def _pod_template(obj: Obj) -> None:
    poddefaults.template(obj)


def _endpoints(obj: Obj) -> None:
    for subset in obj.get("subsets") or ():
        for port in subset.get("ports") or ():
            _unless(port, "protocol", "TCP")


# -- access ----------------------------------------------------------------------------------------------------
def _binding(obj: Obj) -> None:
    _unless(obj.setdefault("roleRef", {}), "apiGroup", _RBAC)
    for subject in obj.get("subjects") or ():
        if subject.get("kind") in ("User", "Group"):
            _unless(subject, "apiGroup", _RBAC)


# -- the rest --------------------------------------------------------------------------------------------------
def _network_policy(obj: Obj) -> None:
    spec = _spec(obj)
    if not spec.get("policyTypes"):
        spec["policyTypes"] = ["Ingress", "Egress"] if spec.get("egress") else ["Ingress"]
    for rule in (*(spec.get("ingress") or ()), *(spec.get("egress") or ())):
        for port in rule.get("ports") or ():
            port.setdefault("protocol", "TCP")


def _storage_class(obj: Obj) -> None:
    obj.setdefault("reclaimPolicy", "Delete")
    obj.setdefault("volumeBindingMode", "Immediate")


def _priority_class(obj: Obj) -> None:
    obj.setdefault("preemptionPolicy", "PreemptLowerPriority")


def _endpoint_slice(obj: Obj) -> None:
    for port in obj.get("ports") or ():
        port.setdefault("name", "")
        port.setdefault("protocol", "TCP")


def _ingress_class(obj: Obj) -> None:
    parameters = _spec(obj).get("parameters")
    if parameters is not None:
        parameters.setdefault("scope", "Cluster")


def _csi_driver(obj: Obj) -> None:
    spec = _spec(obj)
    for field, value in (
        ("attachRequired", True),
        ("podInfoOnMount", False),
        ("storageCapacity", False),
        ("requiresRepublish", False),
        ("seLinuxMount", False),
        ("fsGroupPolicy", "ReadWriteOnceWithFSType"),
    ):
        spec.setdefault(field, value)
    _unless(spec, "volumeLifecycleModes", ["Persistent"])


def _webhooks(obj: Obj) -> None:
    mutating = obj.get("kind") == "MutatingWebhookConfiguration"
    for hook in obj.get("webhooks") or ():
        hook.setdefault("failurePolicy", "Fail")
        hook.setdefault("timeoutSeconds", 10)
        _match(hook)
        if mutating:
            hook.setdefault("reinvocationPolicy", "Never")
        for rule in hook.get("rules") or ():
            rule.setdefault("scope", "*")
        service = (hook.get("clientConfig") or {}).get("service")
        if service is not None:
            service.setdefault("port", 443)


def _match(holder: Obj) -> None:
    holder.setdefault("matchPolicy", "Equivalent")
    holder.setdefault("namespaceSelector", {})
    holder.setdefault("objectSelector", {})


def _admission_policy(obj: Obj) -> None:
    spec = _spec(obj)
    spec.setdefault("failurePolicy", "Fail")
    for field in ("matchConstraints", "matchResources"):
        if spec.get(field) is not None:
            _match(spec[field])
            for rule in (*(spec[field].get("resourceRules") or ()), *(spec[field].get("excludeResourceRules") or ())):
                rule.setdefault("scope", "*")


def _admission_binding(obj: Obj) -> None:
    match = _spec(obj).get("matchResources")
    if match is not None:
        _match(match)


def _crd(obj: Obj) -> None:
    spec = _spec(obj)
    names = spec.setdefault("names", {})
    _unless(names, "singular", str(names.get("kind", "")).lower())
    if names.get("kind"):
        _unless(names, "listKind", f"{names['kind']}List")
    conversion = spec.setdefault("conversion", {"strategy": "None"})
    service = ((conversion.get("webhook") or {}).get("clientConfig") or {}).get("service")
    if service is not None:
        service.setdefault("port", 443)
    stored = next((v["name"] for v in spec.get("versions") or () if v.get("storage")), None)
    if stored:
        _unless(obj.setdefault("status", {}), "storedVersions", [stored])


def _device_requests(spec: Obj) -> None:
    for request in (spec.get("devices") or {}).get("requests") or ():
        wanted = [request["exactly"]] if request.get("exactly") is not None else []
        for one in (*wanted, *(request.get("firstAvailable") or ())):
            _unless(one, "allocationMode", "ExactCount")
            if one["allocationMode"] == "ExactCount":
                _unless(one, "count", 1)


def _resource_claim(obj: Obj) -> None:
    _device_requests(_spec(obj))


def _resource_claim_template(obj: Obj) -> None:
    _device_requests(_spec(obj).setdefault("spec", {}))


def _resource_slice(obj: Obj, now: datetime) -> None:
    for device in _spec(obj).get("devices") or ():
        for taint in device.get("taints") or ():
            taint.setdefault("timeAdded", format_time(now))


def _api_service(obj: Obj) -> None:
    service = (obj.get("spec") or {}).get("service")
    if service is not None:
        service.setdefault("port", 443)


_BY_KIND: dict[tuple[str, str], Callable[[Obj], None]] = {
    ("", "Pod"): poddefaults.pod,
    ("", "PodTemplate"): _pod_template,
    ("", "Service"): _service,
    ("", "Secret"): _secret,
    ("", "Namespace"): _namespace,
    ("", "Node"): _node,
    ("", "ReplicationController"): _replication_controller,
    ("", "PersistentVolume"): _volume,
    ("", "PersistentVolumeClaim"): _claim,
    ("", "LimitRange"): _limit_range,
    ("", "ResourceQuota"): _quota,
    ("", "Endpoints"): _endpoints,
    ("apps", "Deployment"): _deployment,
    ("apps", "ReplicaSet"): _replica_set,
    ("apps", "DaemonSet"): _daemon_set,
    ("apps", "StatefulSet"): _stateful_set,
    ("batch", "Job"): _job,
    ("batch", "CronJob"): _cron_job,
    ("autoscaling", "HorizontalPodAutoscaler"): autoscaler,
    (_RBAC, "RoleBinding"): _binding,
    (_RBAC, "ClusterRoleBinding"): _binding,
    ("networking.k8s.io", "NetworkPolicy"): _network_policy,
    ("networking.k8s.io", "IngressClass"): _ingress_class,
    ("storage.k8s.io", "StorageClass"): _storage_class,
    ("storage.k8s.io", "CSIDriver"): _csi_driver,
    ("scheduling.k8s.io", "PriorityClass"): _priority_class,
    ("discovery.k8s.io", "EndpointSlice"): _endpoint_slice,
    ("admissionregistration.k8s.io", "ValidatingWebhookConfiguration"): _webhooks,
    ("admissionregistration.k8s.io", "MutatingWebhookConfiguration"): _webhooks,
    ("admissionregistration.k8s.io", "MutatingAdmissionPolicy"): _admission_policy,
    ("admissionregistration.k8s.io", "MutatingAdmissionPolicyBinding"): _admission_binding,
    ("admissionregistration.k8s.io", "ValidatingAdmissionPolicy"): _admission_policy,
    ("admissionregistration.k8s.io", "ValidatingAdmissionPolicyBinding"): _admission_binding,
    ("apiextensions.k8s.io", "CustomResourceDefinition"): _crd,
    ("apiregistration.k8s.io", "APIService"): _api_service,
    ("resource.k8s.io", "ResourceClaim"): _resource_claim,
    ("resource.k8s.io", "ResourceClaimTemplate"): _resource_claim_template,
}
