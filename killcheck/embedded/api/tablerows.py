"""Columns and cells of the built-in types' tables.

Source: pkg/printers/internalversion/printers.go of Kubernetes v1.36.
"""

from __future__ import annotations

from typing import Any

from killcheck.embedded.api import podcells, systemrows
from killcheck.embedded.api.kinds import Kind
from killcheck.embedded.api.tablecolumns import UNKNOWN, WORDS, Ages, Column, Printer, columns, human_duration
from killcheck.kube.objects import Obj, condition, controller_of, dig, labels_of, parse_time
from killcheck.kube.selectors import format_selector

__all__ = ["printer"]

_NONE, _UNSET = "<none>", "<unset>"


def printer(kind: Kind) -> Printer:
    """The printer of a built-in type; those without one show name and time of creation."""
    resource = kind.resource
    group = "" if resource.group == "events.k8s.io" else resource.group
    return _PRINTERS.get((group, resource.kind), _DEFAULT)


def is_default(kind: Kind) -> bool:
    """Whether a built-in type has no printer of its own."""
    return printer(kind) is _DEFAULT


def _name(obj: Obj) -> str:
    return str(obj["metadata"]["name"])


def _labels(labels: Obj | None) -> str:
    return ",".join(f"{k}={v}" for k, v in sorted((labels or {}).items())) or _NONE


def _selector(selector: Obj | None) -> str:
    return format_selector(selector) or _NONE


def _containers(template: Any) -> list[str]:
    containers = dig(template, "spec", "containers", default=[])
    return [",".join(c.get(field, "") for c in containers) for field in ("name", "image")]


def _count(obj: Obj, *path: str) -> int:
    return int(dig(obj, *path, default=0))


# -- workloads -------------------------------------------------------------------------------------------------
def _pod(obj: Obj, ages: Ages) -> list[Any]:
    return podcells.cells(obj, ages.since)


def _deployment(obj: Obj, ages: Ages) -> list[Any]:
    ready, wanted = _count(obj, "status", "readyReplicas"), _count(obj, "spec", "replicas")
    return [
        _name(obj),
        f"{ready}/{wanted}",
        _count(obj, "status", "updatedReplicas"),
        _count(obj, "status", "availableReplicas"),
        ages.of(obj),
        *_containers(dig(obj, "spec", "template")),
        format_selector(dig(obj, "spec", "selector")),
    ]


def _replica_set(obj: Obj, ages: Ages) -> list[Any]:
    return [
        _name(obj),
        _count(obj, "spec", "replicas"),
        _count(obj, "status", "replicas"),
        _count(obj, "status", "readyReplicas"),
        ages.of(obj),
        *_containers(dig(obj, "spec", "template")),
        _selector(dig(obj, "spec", "selector")),
    ]


def _stateful_set(obj: Obj, ages: Ages) -> list[Any]:
    ready, wanted = _count(obj, "status", "readyReplicas"), _count(obj, "spec", "replicas")
    return [_name(obj), f"{ready}/{wanted}", ages.of(obj), *_containers(dig(obj, "spec", "template"))]


def _daemon_set(obj: Obj, ages: Ages) -> list[Any]:
    counts = [
        _count(obj, "status", field)
        for field in (
            "desiredNumberScheduled",
            "currentNumberScheduled",
            "numberReady",
            "updatedNumberScheduled",
            "numberAvailable",
        )
    ]
    return [
        _name(obj),
        *counts,
        _labels(dig(obj, "spec", "template", "spec", "nodeSelector")),
        ages.of(obj),
        *_containers(dig(obj, "spec", "template")),
        _selector(dig(obj, "spec", "selector")),
    ]


_JOB_WORDS = (
    ("Complete", "Complete"),
    ("Failed", "Failed"),
    ("", "Terminating"),
    ("Suspended", "Suspended"),
    ("FailureTarget", "FailureTarget"),
    ("SuccessCriteriaMet", "SuccessCriteriaMet"),
)


def _job_status(obj: Obj) -> str:
    for kind, word in _JOB_WORDS:
        if kind == "":
            if obj["metadata"].get("deletionTimestamp"):
                return word
        elif (condition(obj, kind) or {}).get("status") == "True":
            return word
    return "Running"


def _job(obj: Obj, ages: Ages) -> list[Any]:
    done, wanted = _count(obj, "status", "succeeded"), dig(obj, "spec", "completions")
    parallelism = _count(obj, "spec", "parallelism")
    if wanted is not None:
        completions = f"{done}/{wanted}"
    else:
        completions = f"{done}/1 of {parallelism}" if parallelism > 1 else f"{done}/1"
    start, end = dig(obj, "status", "startTime"), dig(obj, "status", "completionTime")
    duration = ""
    if start:
        until = parse_time(end) if end else ages.now
        duration = human_duration((until - parse_time(start)).total_seconds())
    return [
        _name(obj),
        _job_status(obj),
        completions,
        duration,
        ages.of(obj),
        *_containers(dig(obj, "spec", "template")),
        _selector(dig(obj, "spec", "selector")),
    ]


def _cron_job(obj: Obj, ages: Ages) -> list[Any]:
    spec = obj.get("spec") or {}
    last = dig(obj, "status", "lastScheduleTime")
    suspend = spec.get("suspend")
    return [
        _name(obj),
        spec.get("schedule", ""),
        spec.get("timeZone") or _NONE,
        _UNSET if suspend is None else str(suspend).capitalize(),
        len(dig(obj, "status", "active", default=[])),
        ages.since(last) if last else _NONE,
        ages.of(obj),
        *_containers(dig(spec, "jobTemplate", "spec", "template")),
        _selector(dig(spec, "jobTemplate", "spec", "selector")),
    ]


def _controller_revision(obj: Obj, ages: Ages) -> list[Any]:
    owner = controller_of(obj)
    name = _NONE
    if owner:
        group = owner["apiVersion"].rpartition("/")[0]
        name = f"{owner['kind']}{'.' + group if group else ''}".lower() + f"/{owner['name']}"
    return [_name(obj), name, obj.get("revision", 0), ages.of(obj)]


# -- scaling ---------------------------------------------------------------------------------------------------
def _hpa(obj: Obj, ages: Ages) -> list[Any]:
    spec = obj.get("spec") or {}
    target = spec.get("scaleTargetRef") or {}
    least = spec.get("minReplicas")
    if obj.get("apiVersion") == "autoscaling/v1":
        wanted, seen = spec.get("targetCPUUtilizationPercentage"), dig(obj, "status", "currentCPUUtilizationPercentage")
        metrics = f"cpu: {UNKNOWN if seen is None else f'{seen}%'}/{wanted}%" if wanted is not None else _NONE
    else:
        metrics = _metrics(spec.get("metrics") or [], dig(obj, "status", "currentMetrics", default=[]))
    return [
        _name(obj),
        f"{target.get('kind', '')}/{target.get('name', '')}",
        metrics,
        _UNSET if least is None else str(least),
        spec.get("maxReplicas", 0),
        _count(obj, "status", "currentReplicas"),
        ages.of(obj),
    ]


_METRIC_FIELDS = {
    "External": "external",
    "Pods": "pods",
    "Object": "object",
    "Resource": "resource",
    "ContainerResource": "containerResource",
}


def _metrics(specs: list[Obj], statuses: list[Obj]) -> str:
    if not specs:
        return _NONE
    listed = []
    for i, spec in enumerate(specs):
        field = _METRIC_FIELDS.get(spec.get("type", ""))
        if field is None:
            listed.append("<unknown type>")
            continue
        listed.append(_metric(field, spec.get(field) or {}, dig(statuses, i, field, "current", default={})))
    more = f" + {len(listed) - 2} more..." if len(listed) > 2 else ""
    return ", ".join(listed[:2]) + more


def _metric(field: str, source: Obj, current: Obj) -> str:
    target = source.get("target") or {}
    by_resource = field in ("resource", "containerResource")
    prefix = f"{source.get('name', '')}: " if by_resource else ""
    if target.get("averageValue") is not None:
        average = " (avg)" if field in ("external", "object") else ""
        return f"{prefix}{current.get('averageValue', UNKNOWN)}/{target['averageValue']}{average}"
    if by_resource:
        seen, wanted = current.get("averageUtilization"), target.get("averageUtilization")
        shown = UNKNOWN if seen is None else f"{seen}%"
        return f"{prefix}{shown}/{'<auto>' if wanted is None else f'{wanted}%'}"
    return f"{current.get('value', UNKNOWN)}/{target.get('value', '')}"


def _budget(obj: Obj, ages: Ages) -> list[Any]:
    spec = obj.get("spec") or {}
    least, most = (
        str(spec[field]) if spec.get(field) is not None else "N/A" for field in ("minAvailable", "maxUnavailable")
    )
    return [_name(obj), least, most, _count(obj, "status", "disruptionsAllowed"), ages.of(obj)]


# -- nodes, services, events -----------------------------------------------------------------------------------
def _node(obj: Obj, ages: Ages) -> list[Any]:
    ready = condition(obj, "Ready")
    status = [UNKNOWN[1:-1].capitalize() if ready is None else "Ready" if ready["status"] == "True" else "NotReady"]
    if dig(obj, "spec", "unschedulable"):
        status.append("SchedulingDisabled")
    info = dig(obj, "status", "nodeInfo", default={})
    kernel = info.get("kernelVersion") or UNKNOWN
    if info.get("architecture"):
        kernel += f" ({info['architecture']})"
    return [
        _name(obj),
        ",".join(status),
        _roles(obj),
        ages.of(obj),
        info.get("kubeletVersion", ""),
        _address(obj, "InternalIP"),
        _address(obj, "ExternalIP"),
        info.get("osImage") or UNKNOWN,
        kernel,
        info.get("containerRuntimeVersion") or UNKNOWN,
    ]


def _roles(node: Obj) -> str:
    prefix = "node-role.kubernetes.io/"
    roles = {label.removeprefix(prefix) for label in labels_of(node) if label.startswith(prefix)}
    roles.add(labels_of(node).get("kubernetes.io/role", ""))
    return ",".join(sorted(roles - {""})) or _NONE


def _address(node: Obj, kind: str) -> str:
    addresses = dig(node, "status", "addresses", default=[])
    return next((str(a["address"]) for a in addresses if a.get("type") == kind), _NONE)


def _service(obj: Obj, ages: Ages) -> list[Any]:
    spec = obj.get("spec") or {}
    ports = [
        f"{p.get('port')}{':' + str(p['nodePort']) if p.get('nodePort') else ''}/{p.get('protocol', 'TCP')}"
        for p in spec.get("ports") or []
    ]
    return [
        _name(obj),
        spec.get("type", ""),
        spec.get("clusterIP") or _NONE,
        _external(obj, spec),
        ",".join(ports) or _NONE,
        ages.of(obj),
        _labels(spec.get("selector")),
    ]


def _external(obj: Obj, spec: Obj) -> str:
    given = spec.get("externalIPs") or []
    if spec.get("type") == "ExternalName":
        return str(spec.get("externalName", ""))
    if spec.get("type") == "LoadBalancer":
        balanced = [
            i.get("ip") or i.get("hostname", "") for i in dig(obj, "status", "loadBalancer", "ingress", default=[])
        ]
        return ",".join([*balanced, *given]) or "<pending>"
    return ",".join(given) or _NONE


def _event(obj: Obj, ages: Ages) -> list[Any]:
    """An event of either group: the newer one has other names for the same."""
    about = obj.get("involvedObject") or obj.get("regarding") or {}
    first = obj.get("firstTimestamp") or obj.get("deprecatedFirstTimestamp") or obj.get("eventTime")
    last = obj.get("lastTimestamp") or obj.get("deprecatedLastTimestamp") or first
    count = obj.get("count") or obj.get("deprecatedCount") or 1
    series = obj.get("series")
    if series:
        last, count = series.get("lastObservedTime"), series.get("count", 0)
    source = obj.get("source") or obj.get("deprecatedSource") or {}
    component = source.get("component") or obj.get("reportingComponent") or obj.get("reportingController", "")
    host = source.get("host") or obj.get("reportingInstance", "")
    kind = str(about.get("kind", "")).lower()
    return [
        ages.since(last),
        obj.get("type", ""),
        obj.get("reason", ""),
        f"{kind}/{about['name']}" if about.get("name") else kind,
        about.get("fieldPath", ""),
        f"{component}, {host}" if host else component,
        (obj.get("message") or obj.get("note") or "").strip(),
        ages.since(first),
        count,
        _name(obj),
    ]


def _namespace(obj: Obj, ages: Ages) -> list[Any]:
    return [_name(obj), dig(obj, "status", "phase", default=""), ages.of(obj)]


def _endpoints(obj: Obj, ages: Ages) -> list[Any]:
    listed: list[str] = []
    for subset in obj.get("subsets") or []:
        addresses = [address.get("ip", "") for address in subset.get("addresses") or []]
        ports = subset.get("ports") or []
        listed += [f"{ip}:{port['port']}" for port in ports for ip in addresses] if ports else addresses
    return [_name(obj), _some(listed) if obj.get("subsets") else _NONE, ages.of(obj)]


def _some(listed: list[str]) -> str:
    return ",".join(listed[:3]) + (f" + {len(listed) - 3} more..." if len(listed) > 3 else "")


def _endpoint_slice(obj: Obj, ages: Ages) -> list[Any]:
    ports = [str(p["port"]) if p.get("port") is not None else p.get("name") or "*" for p in obj.get("ports") or []]
    addresses = [address for endpoint in obj.get("endpoints") or [] for address in endpoint.get("addresses") or []]
    return [_name(obj), obj.get("addressType", ""), _some(ports) or _UNSET, _some(addresses) or _UNSET, ages.of(obj)]


# -- configuration ---------------------------------------------------------------------------------------------
def _config_map(obj: Obj, ages: Ages) -> list[Any]:
    return [_name(obj), len(obj.get("data") or {}) + len(obj.get("binaryData") or {}), ages.of(obj)]


def _secret(obj: Obj, ages: Ages) -> list[Any]:
    return [_name(obj), obj.get("type", ""), len(obj.get("data") or {}), ages.of(obj)]


def _quota(obj: Obj, ages: Ages) -> list[Any]:
    hard, used = (dig(obj, "status", field, default={}) for field in ("hard", "used"))
    requests: list[str] = []
    limits: list[str] = []
    for name in sorted(hard):
        (limits if name.startswith("limits.") else requests).append(f"{name}: {used.get(name, '0')}/{hard[name]}")
    return [_name(obj), ", ".join(requests), ", ".join(limits), ages.of(obj)]


def _named(obj: Obj, ages: Ages) -> list[Any]:
    return [_name(obj), ages.of(obj)]


def _network_policy(obj: Obj, ages: Ages) -> list[Any]:
    return [_name(obj), _selector(dig(obj, "spec", "podSelector")), ages.of(obj)]


def _ingress(obj: Obj, ages: Ages) -> list[Any]:
    spec = obj.get("spec") or {}
    hosts = [rule["host"] for rule in spec.get("rules") or [] if rule.get("host")]
    balanced = dig(obj, "status", "loadBalancer", "ingress", default=[])
    return [
        _name(obj),
        spec.get("ingressClassName") or _NONE,
        _some(hosts) or "*",
        ",".join(i.get("ip") or i.get("hostname", "") for i in balanced),
        "80, 443" if spec.get("tls") else "80",
        ages.of(obj),
    ]


# -- access ----------------------------------------------------------------------------------------------------
def _binding(obj: Obj, ages: Ages) -> list[Any]:
    ref, subjects = obj.get("roleRef") or {}, obj.get("subjects") or []
    names: dict[str, list[str]] = {"User": [], "Group": [], "ServiceAccount": []}
    for subject in subjects:
        name = subject.get("name", "")
        if subject.get("kind") == "ServiceAccount" and subject.get("namespace"):
            name = f"{subject['namespace']}/{name}"
        names.setdefault(subject.get("kind", ""), []).append(name)
    return [
        _name(obj),
        f"{ref.get('kind', '')}/{ref.get('name', '')}",
        ages.of(obj),
        ", ".join(names["User"]),
        ", ".join(names["Group"]),
        ", ".join(names["ServiceAccount"]),
    ]


def _webhooks(obj: Obj, ages: Ages) -> list[Any]:
    return [_name(obj), len(obj.get("webhooks") or []), ages.of(obj)]


def _lease(obj: Obj, ages: Ages) -> list[Any]:
    return [_name(obj), dig(obj, "spec", "holderIdentity", default=""), ages.of(obj)]


def _priority_class(obj: Obj, ages: Ages) -> list[Any]:
    return [
        _name(obj),
        obj.get("value", 0),
        bool(obj.get("globalDefault")),
        ages.of(obj),
        obj.get("preemptionPolicy", ""),
    ]


# -- storage and devices ---------------------------------------------------------------------------------------
_MODES = (("ReadWriteOnce", "RWO"), ("ReadOnlyMany", "ROX"), ("ReadWriteMany", "RWX"), ("ReadWriteOncePod", "RWOP"))


def _modes(modes: list[str] | None) -> str:
    return ",".join(short for mode, short in _MODES if mode in (modes or []))


def _phase(obj: Obj) -> str:
    if obj["metadata"].get("deletionTimestamp"):
        return "Terminating"
    return str(dig(obj, "status", "phase", default=""))


def _volume(obj: Obj, ages: Ages) -> list[Any]:
    spec = obj.get("spec") or {}
    claim = spec.get("claimRef")
    return [
        _name(obj),
        dig(spec, "capacity", "storage", default="0"),
        _modes(spec.get("accessModes")),
        spec.get("persistentVolumeReclaimPolicy", ""),
        _phase(obj),
        f"{claim.get('namespace', '')}/{claim.get('name', '')}" if claim else "",
        spec.get("storageClassName", ""),
        spec.get("volumeAttributesClassName") or _UNSET,
        dig(obj, "status", "reason", default=""),
        ages.of(obj),
        spec.get("volumeMode") or _UNSET,
    ]


def _claim(obj: Obj, ages: Ages) -> list[Any]:
    spec, bound = obj.get("spec") or {}, bool(dig(obj, "spec", "volumeName"))
    return [
        _name(obj),
        _phase(obj),
        spec.get("volumeName", ""),
        dig(obj, "status", "capacity", "storage", default="0") if bound else "",
        _modes(dig(obj, "status", "accessModes")) if bound else "",
        spec.get("storageClassName") or "",
        spec.get("volumeAttributesClassName") or _UNSET,
        ages.of(obj),
        spec.get("volumeMode") or _UNSET,
    ]


def _storage_class(obj: Obj, ages: Ages) -> list[Any]:
    default = dig(obj, "metadata", "annotations", "storageclass.kubernetes.io/is-default-class") == "true"
    return [
        _name(obj) + (" (default)" if default else ""),
        obj.get("provisioner", ""),
        obj.get("reclaimPolicy") or "Delete",
        obj.get("volumeBindingMode") or "Immediate",
        bool(obj.get("allowVolumeExpansion")),
        ages.of(obj),
    ]


def _resource_claim(obj: Obj, ages: Ages) -> list[Any]:
    status, deleted = obj.get("status") or {}, bool(obj["metadata"].get("deletionTimestamp"))
    states = ["deleted"] if deleted else []
    if status.get("allocation") is not None:
        states += ["allocated", *(["reserved"] if status.get("reservedFor") else [])]
    elif not deleted:
        states.append("pending")
    return [_name(obj), ",".join(states), ages.of(obj)]


def _resource_slice(obj: Obj, ages: Ages) -> list[Any]:
    spec = obj.get("spec") or {}
    return [
        _name(obj),
        spec.get("nodeName") or "",
        spec.get("driver", ""),
        dig(spec, "pool", "name", default=""),
        ages.of(obj),
    ]


def _default(obj: Obj, _: Ages) -> list[Any]:
    return [_name(obj), obj["metadata"].get("creationTimestamp", "")]


_DEFAULT = Printer((columns("Name")[0], Column("Created At", "date", "", WORDS["Age"])), _default)
_NAMED = Printer(columns("Name|Age"), _named)
_WIDE = "Containers*|Images*|Selector*"
_WEBHOOKS = Printer(columns("Name|Webhooks#|Age"), _webhooks)
_BINDING = Printer(columns("Name|Role|Age|Users*|Groups*|ServiceAccounts*"), _binding)
_REPLICAS = Printer(columns(f"Name|Desired#|Current#|Ready#|Age|{_WIDE}"), _replica_set)
_RBAC, _STORAGE, _DRA = "rbac.authorization.k8s.io", "storage.k8s.io", "resource.k8s.io"


_PRINTERS: dict[tuple[str, str], Printer] = {
    ("apiregistration.k8s.io", "APIService"): Printer(columns("Name|Service|Available|Age"), systemrows.api_service),
    ("", "Pod"): Printer(
        columns("Name|Ready|Status|Restarts|Age|IP*|Node*|Nominated Node*|Readiness Gates*"),
        _pod,
        podcells.row_conditions,
    ),
    ("apps", "Deployment"): Printer(columns(f"Name|Ready|Up-to-date|Available|Age|{_WIDE}"), _deployment),
    ("apps", "ReplicaSet"): _REPLICAS,
    ("", "ReplicationController"): _REPLICAS,
    ("apps", "StatefulSet"): Printer(columns("Name|Ready|Age|Containers*|Images*"), _stateful_set),
    ("apps", "DaemonSet"): Printer(
        columns(f"Name|Desired#|Current#|Ready#|Up-to-date#|Available#|Node Selector|Age|{_WIDE}"), _daemon_set
    ),
    ("apps", "ControllerRevision"): Printer(columns("Name|Controller|Revision|Age"), _controller_revision),
    ("batch", "Job"): Printer(columns(f"Name|Status|Completions|Duration|Age|{_WIDE}"), _job),
    ("batch", "CronJob"): Printer(
        columns(f"Name|Schedule|Timezone|Suspend?|Active#|Last Schedule|Age|{_WIDE}"), _cron_job
    ),
    ("autoscaling", "HorizontalPodAutoscaler"): Printer(
        columns("Name|Reference|Targets|MinPods|MaxPods|Replicas|Age"), _hpa
    ),
    ("policy", "PodDisruptionBudget"): Printer(
        columns("Name|Min Available|Max Unavailable|Allowed Disruptions#|Age"), _budget
    ),
    ("", "Node"): Printer(
        columns("Name|Status|Roles|Age|Version|Internal-IP*|External-IP*|OS-Image*|Kernel-Version*|Container-Runtime*"),
        _node,
    ),
    ("", "Service"): Printer(columns("Name|Type|Cluster-IP|External-IP|Port(s)|Age|Selector*"), _service),
    ("", "Event"): Printer(
        columns("Last Seen|Type|Reason|Object|Subobject*|Source*|Message|First Seen*|Count*|Name*"), _event
    ),
    ("", "ComponentStatus"): Printer(columns("Name|Status|Message|Error"), systemrows.component),
    ("", "PodTemplate"): Printer(columns("Name|Containers|Images|Pod Labels"), systemrows.pod_template),
    ("", "Namespace"): Printer(columns("Name|Status|Age"), _namespace),
    ("", "Endpoints"): Printer(columns("Name|Endpoints|Age"), _endpoints),
    ("discovery.k8s.io", "EndpointSlice"): Printer(columns("Name|AddressType|Ports|Endpoints|Age"), _endpoint_slice),
    ("", "ConfigMap"): Printer(columns("Name|Data|Age"), _config_map),
    ("", "Secret"): Printer(columns("Name|Type|Data|Age"), _secret),
    ("", "ServiceAccount"): _NAMED,
    ("", "ResourceQuota"): Printer(columns("Name|Request|Limit|Age"), _quota),
    ("networking.k8s.io", "NetworkPolicy"): Printer(columns("Name|Pod-Selector|Age"), _network_policy),
    ("networking.k8s.io", "Ingress"): Printer(columns("Name|Class|Hosts|Address|Ports|Age"), _ingress),
    (_RBAC, "RoleBinding"): _BINDING,
    (_RBAC, "ClusterRoleBinding"): _BINDING,
    ("admissionregistration.k8s.io", "ValidatingWebhookConfiguration"): _WEBHOOKS,
    ("admissionregistration.k8s.io", "MutatingWebhookConfiguration"): _WEBHOOKS,
    ("coordination.k8s.io", "Lease"): Printer(columns("Name|Holder|Age"), _lease),
    ("scheduling.k8s.io", "PriorityClass"): Printer(
        columns("Name|Value#|Global-Default?|Age|PreemptionPolicy"), _priority_class
    ),
    ("", "PersistentVolume"): Printer(
        columns(
            "Name|Capacity|Access Modes|Reclaim Policy|Status|Claim|StorageClass|VolumeAttributesClass|Reason|Age|"
            "VolumeMode*"
        ),
        _volume,
    ),
    ("", "PersistentVolumeClaim"): Printer(
        columns("Name|Status|Volume|Capacity|Access Modes|StorageClass|VolumeAttributesClass|Age|VolumeMode*"), _claim
    ),
    (_STORAGE, "StorageClass"): Printer(
        columns("Name|Provisioner|ReclaimPolicy|VolumeBindingMode|AllowVolumeExpansion|Age"), _storage_class
    ),
    (_DRA, "DeviceClass"): _NAMED,
    (_DRA, "ResourceClaim"): Printer(columns("Name|State|Age"), _resource_claim),
    (_DRA, "ResourceClaimTemplate"): _NAMED,
    (_DRA, "ResourceSlice"): Printer(columns("Name|Node|Driver|Pool|Age"), _resource_slice),
}
