"""The status of workloads, Services and claims of devices, as a writer from outside may set it.

Source: ``ValidateDeploymentStatus`` and its likes in pkg/apis/{apps,core,resource}/validation/validation.go of
Kubernetes v1.36: numbers that are counted, and none above their whole.
"""

from __future__ import annotations

from killcheck.embedded.api.kinds import Kind
from killcheck.embedded.api.validation import names
from killcheck.embedded.api.validation.fields import (
    Causes,
    at,
    duplicate,
    forbidden,
    immutable,
    invalid,
    nonnegative,
    not_supported,
    required,
)
from killcheck.kube.objects import Obj, dig

__all__ = ["update"]

_COUNTS: dict[str, tuple[str, ...]] = {
    "Deployment": (
        "observedGeneration",
        "replicas",
        "updatedReplicas",
        "readyReplicas",
        "availableReplicas",
        "unavailableReplicas",
        "terminatingReplicas",
        "collisionCount",
    ),
    "StatefulSet": (
        "replicas",
        "readyReplicas",
        "currentReplicas",
        "updatedReplicas",
        "availableReplicas",
        "observedGeneration",
        "collisionCount",
    ),
    "ReplicaSet": (
        "replicas",
        "fullyLabeledReplicas",
        "readyReplicas",
        "availableReplicas",
        "terminatingReplicas",
        "observedGeneration",
    ),
    "ReplicationController": (
        "replicas",
        "fullyLabeledReplicas",
        "readyReplicas",
        "availableReplicas",
        "observedGeneration",
    ),
}
#: Conditions of a pod that Kubernetes itself reports.
_OF_THE_SYSTEM = frozenset({"Initialized", "PodScheduled", "Ready"})
#: What of a status may not be above ``replicas``.
_WITHIN: dict[str, tuple[str, ...]] = {
    "Deployment": ("updatedReplicas", "readyReplicas", "availableReplicas"),
    "StatefulSet": ("readyReplicas", "currentReplicas", "updatedReplicas", "availableReplicas"),
    "ReplicaSet": ("fullyLabeledReplicas", "readyReplicas", "availableReplicas"),
    "ReplicationController": ("fullyLabeledReplicas", "readyReplicas", "availableReplicas"),
}


def update(kind: Kind, new: Obj, old: Obj) -> Causes:
    """What is wrong with a new status; of a kind that is not known here, nothing is."""
    name, status = kind.resource.kind, new.get("status") or {}
    own = _OWN.get(name)
    causes: Causes = own(new, old) if own is not None else []
    for field in _COUNTS.get(name, ()):
        causes += nonnegative(f"status.{field}", status.get(field))
    whole = status.get("replicas", 0)
    for field in _WITHIN.get(name, ()):
        if status.get(field, 0) > whole:
            causes.append(invalid(f"status.{field}", status.get(field, 0), "cannot be greater than status.replicas"))
    available, ready = status.get("availableReplicas", 0), status.get("readyReplicas", 0)
    if name in _WITHIN and available > ready:
        than = "readyReplicas" if name != "StatefulSet" else "status.readyReplicas"
        causes.append(invalid("status.availableReplicas", available, f"cannot be greater than {than}"))
    return causes


# -- pods ------------------------------------------------------------------------------------------------------
def _pod(new: Obj, old: Obj) -> Causes:
    status = new.get("status") or {}
    causes = _conditions(status.get("conditions") or [])
    quality = status.get("qosClass")
    return causes + (immutable("status.qosClass", quality, dig(old, "status", "qosClass")) if quality else [])


def _conditions(conditions: list[Obj]) -> Causes:
    """Of a pod: those that are not Kubernetes' own are called as labels are (``validatePodConditions``)."""
    causes: Causes = []
    for number, condition in enumerate(conditions):
        path = f"status.conditions[{number}]"
        if condition.get("observedGeneration", 0) < 0:
            words = "must be a non-negative integer"
            causes.append(invalid(f"{path}.observedGeneration", condition["observedGeneration"], words))
        kind = str(condition.get("type", ""))
        if kind not in _OF_THE_SYSTEM:
            causes += [invalid(f"{path}.Type", kind, words) for words in names.qualified_name(kind)]
    return causes


# -- Services --------------------------------------------------------------------------------------------------
_MODES = ("Proxy", "VIP")


def _service(new: Obj, _old: Obj) -> Causes:
    """What a load balancer answers at (``ValidateLoadBalancerStatus``)."""
    balanced, path = dig(new, "status", "loadBalancer", "ingress") or [], "status.loadBalancer.ingress"
    if balanced and dig(new, "spec", "type") != "LoadBalancer":
        return [forbidden(path, "may only be used when `spec.type` is 'LoadBalancer'")]
    return [cause for i, entry in enumerate(balanced) for cause in _entry(entry, at(path, i))]


def _entry(entry: Obj, path: str) -> Causes:
    address, host, mode = entry.get("ip", ""), entry.get("hostname", ""), entry.get("ipMode")
    causes: Causes = []
    if address and not names.is_address(address):
        causes.append(invalid(f"{path}.ip", address, names.NO_ADDRESS))
    if mode is not None and not address:
        causes.append(forbidden(f"{path}.ipMode", "may not be specified when `ip` is not set"))
    elif mode not in (None, *_MODES):
        causes.append(not_supported(f"{path}.ipMode", mode, _MODES))
    if host:
        causes += [invalid(f"{path}.hostname", host, words) for words in names.dns_subdomain(host)]
        if names.is_address(host):
            causes.append(invalid(f"{path}.hostname", host, "must be a DNS name, not an IP address"))
    return causes


# -- claims of devices -----------------------------------------------------------------------------------------
_DEVICE = ("driver", "pool", "device", "shareID")
_RESULT = (
    "request driver pool device adminAccess tolerations bindingConditions bindingFailureConditions shareID "
    "consumedCapacity"
).split()


def _claim(new: Obj, old: Obj) -> Causes:
    """Who holds a claim, and what was handed out (``validateResourceClaimStatusUpdate``)."""
    status, before = new.get("status") or {}, dig(old, "status", "allocation")
    allocation, path = status.get("allocation"), "status.reservedFor"
    causes: Causes = []
    seen: set[str] = set()
    for i, holder in enumerate(status.get("reservedFor") or []):
        causes += [required(f"{at(path, i)}.{field}") for field in ("resource", "name", "uid") if not holder.get(field)]
        if holder.get("uid") in seen:
            causes.append(duplicate(at(path, i), holder["uid"]))
        seen.add(holder.get("uid", ""))
    given = {tuple(one.get(field, "") for field in _DEVICE) for one in dig(allocation, "devices", "results") or []}
    for i, device in enumerate(status.get("devices") or []):
        named = tuple(device.get(field, "") for field in _DEVICE)
        if named not in given:
            shown = {_go(field): value for field, value in zip(_DEVICE, named, strict=True)}
            causes.append(invalid(at("status.devices", i), shown, "must be an allocated device in the claim"))
    if status.get("reservedFor") and allocation is None:
        causes.append(forbidden(path, "may not be specified when `allocated` is not set"))
    if before is not None and allocation not in (None, before):
        causes.append(invalid("status.allocation", _allocated(allocation), "field is immutable"))
    return causes


def _allocated(allocation: Obj) -> Obj:
    """As Go prints it."""
    devices = allocation.get("devices") or {}
    results = [{_go(field): one.get(field) for field in _RESULT} for one in devices.get("results") or []]
    return {
        "Devices": {"Results": results or None, "Config": devices.get("config")},
        "NodeSelector": allocation.get("nodeSelector"),
        "AllocationTimestamp": allocation.get("allocationTimestamp"),
    }


def _go(field: str) -> str:
    return field[:1].upper() + field[1:]


_OWN = {"Pod": _pod, "Service": _service, "ResourceClaim": _claim}
