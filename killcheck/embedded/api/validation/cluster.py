"""Namespaces, nodes, priorities, leases, network policies, claims.

Source: pkg/apis/{core,scheduling,coordination,networking,resource}/validation of Kubernetes v1.36.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Callable

from killcheck.embedded.api.kinds import Kind
from killcheck.embedded.api.validation import meta, names, placement, resources
from killcheck.embedded.api.validation.fields import (
    IMMUTABLE,
    Causes,
    at,
    duplicate,
    forbidden,
    immutable,
    invalid,
    nonnegative,
    not_supported,
    positive,
    required,
)
from killcheck.embedded.api.validation.internalpod import claim_inside, volume_claim_difference
from killcheck.kube.objects import Obj, dig
from killcheck.kube.quantities import parse

__all__ = ["create", "update", "volume_claim"]

_HIGHEST_USER_PRIORITY = 1_000_000_000


def create(kind: Kind, new: Obj) -> Causes:
    """A new object."""
    rule = names.dns_label if kind.resource.kind == "Namespace" else names.dns_subdomain
    return meta.create(new["metadata"], rule, core=meta.core(kind)) + _body(kind, new)


def update(kind: Kind, new: Obj, old: Obj) -> Causes:
    """A changed object."""
    causes = meta.update(new["metadata"], old["metadata"], core=meta.core(kind), rule=meta.again(kind.resource.kind))
    if kind.resource.kind != "ResourceClaim":  # whose spec is compared alone
        causes += _body(kind, new)
    frozen = _UPDATES.get(kind.resource.kind)
    return causes + (frozen(new, old) if frozen else [])


def _body(kind: Kind, new: Obj) -> Causes:
    rule = _BODIES.get(kind.resource.kind)
    return rule(new) if rule else []


# -- nodes -----------------------------------------------------------------------------------------------------
def _node(new: Obj) -> Causes:
    # Kubernetes says metadata.taints, though they are in the spec.
    causes = placement.taints((new.get("spec") or {}).get("taints") or [], "metadata.taints")
    for field in ("capacity", "allocatable"):
        for name, text in ((new.get("status") or {}).get(field) or {}).items():
            causes += resources.quantity(f"status.{field}.{name}", name, text)
    return causes


def _node_update(new: Obj, old: Obj) -> Causes:
    causes: Causes = []
    spec, before = new.get("spec") or {}, old.get("spec") or {}
    ranges = before.get("podCIDRs") or []
    if ranges and ranges != (spec.get("podCIDRs") or []):
        causes.append(forbidden("spec.podCIDRs", 'node updates may not change podCIDR except from "" to valid'))
    if before.get("providerID") and before["providerID"] != spec.get("providerID"):
        causes.append(forbidden("spec.providerID", 'node updates may not change providerID except from "" to valid'))
    seen: list[Obj] = []
    for i, address in enumerate((new.get("status") or {}).get("addresses") or []):
        if address in seen:
            shown = {"Type": address.get("type", ""), "Address": address.get("address", "")}
            causes.append(duplicate(at("status.addresses", i), shown))
        seen.append(address)
    return causes


# -- priorities ------------------------------------------------------------------------------------------------
_SYSTEM = {"system-node-critical": 2_000_001_000, "system-cluster-critical": 2_000_000_000}


def _priority_class(new: Obj) -> Causes:
    name, value = new["metadata"].get("name", ""), new.get("value", 0)
    causes: Causes = []
    if name.startswith("system-"):
        if _SYSTEM.get(name) != value:
            causes.append(
                forbidden(
                    "metadata.name",
                    "priority class names with 'system-' prefix are reserved for system use only. error: "
                    f"{name} is not a known system priority class",
                )
            )
    elif value > _HIGHEST_USER_PRIORITY:
        words = f"maximum allowed value of a user defined priority is {_HIGHEST_USER_PRIORITY}"
        causes.append(forbidden("value", words))
    policy, known = new.get("preemptionPolicy"), ("PreemptLowerPriority", "Never")
    if policy not in (None, *known):
        causes.append(not_supported("preemptionPolicy", policy, known))
    return causes


def _priority_class_update(new: Obj, old: Obj) -> Causes:
    causes: Causes = []
    if new.get("value", 0) != old.get("value", 0):
        causes.append(forbidden("value", "may not be changed in an update."))
    return causes + immutable("preemptionPolicy", new.get("preemptionPolicy"), old.get("preemptionPolicy"))


# -- leases ----------------------------------------------------------------------------------------------------
def _lease(new: Obj) -> Causes:
    spec = new.get("spec") or {}
    causes: Causes = []
    if spec.get("leaseDurationSeconds") is not None:
        causes += positive("spec.leaseDurationSeconds", spec["leaseDurationSeconds"])
    return causes + nonnegative("spec.leaseTransitions", spec.get("leaseTransitions"))


# -- network policies ------------------------------------------------------------------------------------------
def _network_policy(new: Obj) -> Causes:
    spec = new.get("spec") or {}
    causes = meta.selector(spec.get("podSelector"), "spec.podSelector")
    for field, peers in (("ingress", "from"), ("egress", "to")):
        for i, rule in enumerate(spec.get(field) or []):
            for j, port in enumerate(rule.get("ports") or []):
                causes += _policy_port(port, f"spec.{field}[{i}].ports[{j}]")
            for j, peer in enumerate(rule.get(peers) or []):
                causes += _peer(peer, f"spec.{field}[{i}].{peers}[{j}]")
    for i, kind in enumerate(spec.get("policyTypes") or []):
        if kind not in ("Ingress", "Egress"):
            causes.append(not_supported(at("spec.policyTypes", i), kind, ("Ingress", "Egress")))
    return causes


def _policy_port(port: Obj, path: str) -> Causes:
    causes: Causes = []
    if port.get("protocol") not in (None, "TCP", "UDP", "SCTP"):
        causes.append(not_supported(f"{path}.protocol", port["protocol"], ("TCP", "UDP", "SCTP")))
    number, end = port.get("port"), port.get("endPort")
    if number is None:
        if end is not None:
            causes.append(invalid(f"{path}.endPort", end, "may not be specified when `port` is not specified"))
        return causes
    causes += names.port_number_or_name(f"{path}.port", number)
    if end is not None and isinstance(number, str):
        causes.append(invalid(f"{path}.endPort", end, "may not be specified when `port` is non-numeric"))
    elif end is not None:
        if end < number:
            causes.append(invalid(f"{path}.endPort", number, "must be greater than or equal to `port`"))
        causes += names.port_number(f"{path}.endPort", end)
    return causes


def _peer(peer: Obj, path: str) -> Causes:
    given = [field for field in ("podSelector", "namespaceSelector", "ipBlock") if peer.get(field) is not None]
    causes: Causes = []
    for field in given:
        if field == "ipBlock":
            causes += _ip_block(peer["ipBlock"], f"{path}.ipBlock")
        else:
            causes += meta.selector(peer[field], f"{path}.{field}")
    if not given:
        causes.append(required(path, "must specify a peer"))
    elif "ipBlock" in given and len(given) > 1:
        causes.append(forbidden(path, "may not specify both ipBlock and another peer"))
    return causes


def _ip_block(block: Obj, path: str) -> Causes:
    words = "must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)"
    cidr = block.get("cidr", "")
    if not cidr:
        return [required(f"{path}.cidr")]
    whole = _network(cidr)
    if whole is None:
        return [invalid(f"{path}.cidr", cidr, words)]
    causes: Causes = []
    for i, text in enumerate(block.get("except") or []):
        here, hole = at(f"{path}.except", i), _network(text)
        if hole is None:
            causes.append(invalid(here, text, words))
        elif hole.version != whole.version or hole.network_address not in whole or hole.prefixlen <= whole.prefixlen:
            causes.append(invalid(here, text, "must be a strict subset of `cidr`"))
    return causes


def _network(text: str) -> ipaddress.IPv4Network | ipaddress.IPv6Network | None:
    if "/" not in text:
        return None
    try:
        return ipaddress.ip_network(text, strict=False)
    except ValueError:
        return None


# -- claims ----------------------------------------------------------------------------------------------------
_MODES = ("ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce", "ReadWriteOncePod")


def _volume_claim(new: Obj) -> Causes:
    return volume_claim(new.get("spec") or {}, "spec")


def volume_claim(spec: Obj, path: str) -> Causes:
    """A claim's spec, also inside a template."""
    causes: Causes = []
    modes = spec.get("accessModes") or []
    if not modes:
        causes.append(required(f"{path}.accessModes", "at least 1 access mode is required"))
    causes += [not_supported(f"{path}.accessModes", mode, _MODES) for mode in modes if mode not in _MODES]
    if "ReadWriteOncePod" in modes and len(modes) > 1:
        causes.append(forbidden(f"{path}.accessModes", "may not use ReadWriteOncePod with other access modes"))
    if spec.get("volumeMode") not in (None, "Block", "Filesystem"):
        causes.append(not_supported(f"{path}.volumeMode", spec["volumeMode"], ("Block", "Filesystem")))
    if "storage" not in ((spec.get("resources") or {}).get("requests") or {}):
        causes.append(required(f"{path}.resources[storage]"))
    elif parse(spec["resources"]["requests"]["storage"]) <= 0:
        asked = spec["resources"]["requests"]["storage"]
        causes.append(invalid(f"{path}.resources[storage]", asked, "must be greater than zero"))
    causes += meta.selector(spec.get("selector"), f"{path}.selector")
    if spec.get("storageClassName"):
        causes += names.dns_subdomain_cause(f"{path}.storageClassName", spec["storageClassName"])
    return causes


def _volume_claim_update(new: Obj, old: Obj) -> Causes:
    """What stays of a claim: all but its size and its attributes once it is bound, and its volume before it has one."""
    ours, theirs = dict(new.get("spec") or {}), dict(old.get("spec") or {})
    if not theirs.get("volumeName") and ours.get("volumeName"):
        theirs["volumeName"] = ours["volumeName"]
    size, before = (str(dig(spec, "resources", "requests", "storage", default="0")) for spec in (ours, theirs))
    if (new.get("status") or {}).get("phase") == "Bound":
        kept = dict(ours.get("resources") or {})
        if kept.get("requests"):
            ours["resources"] = kept | {"requests": kept["requests"] | {"storage": before}}
        name = "volumeAttributesClassName"
        ours = {k: v for k, v in ours.items() if k != name} | ({name: theirs[name]} if name in theirs else {})
    causes: Causes = []
    if ours != theirs:
        words = (
            "spec is immutable after creation except resources.requests and volumeAttributesClassName for bound claims"
        )
        causes.append(forbidden("spec", f"{words}\n{volume_claim_difference(theirs, ours)}"))
    capacity = str(dig(old, "status", "capacity", "storage", default="0"))
    if parse(size) < parse(before) and parse(size) <= parse(capacity):
        causes.append(forbidden("spec.resources.requests.storage", "field can not be less than status.capacity"))
    return causes


def _device_requests(spec: Obj, path: str) -> Causes:
    causes: Causes = []
    seen: set[str] = set()
    for i, request in enumerate((spec.get("devices") or {}).get("requests") or []):
        here, name = f"{path}.devices.requests[{i}]", request.get("name", "")
        causes += names.dns_label_cause(f"{here}.name", name)
        if name in seen:
            causes.append(duplicate(here, name))
        seen.add(name)
        exactly, first = request.get("exactly"), request.get("firstAvailable")
        if exactly is None and not first:
            causes.append(required(here, "exactly one of `exactly` or `firstAvailable` is required"))
        if exactly is not None and first:
            words = "exactly one of `exactly` or `firstAvailable` is required, but multiple fields are set"
            causes.append(invalid(here, None, words))
        for one, where in [(exactly, f"{here}.exactly")] if exactly is not None else []:
            if not one.get("deviceClassName"):
                causes.append(required(f"{where}.deviceClassName"))
            else:
                causes += names.dns_subdomain_cause(f"{where}.deviceClassName", one["deviceClassName"])
            if one.get("allocationMode") not in ("ExactCount", "All"):
                causes.append(
                    not_supported(f"{where}.allocationMode", one.get("allocationMode", ""), ("All", "ExactCount"))
                )
            elif one["allocationMode"] == "ExactCount" and one.get("count", 0) <= 0:
                causes.append(invalid(f"{where}.count", one.get("count", 0), "must be greater than zero"))
            elif one["allocationMode"] == "All" and one.get("count"):
                words = "must not be specified when allocationMode is 'All'"
                causes.append(invalid(f"{where}.count", one["count"], words))
            causes += _selectors(one.get("selectors") or [], f"{where}.selectors")
    return causes + _device_constraints(spec.get("devices") or {}, f"{path}.devices")


def _device_constraints(devices: Obj, path: str) -> Causes:
    """``validateDeviceConstraint``: requests of the claim, and one attribute."""
    known = {
        name
        for request in devices.get("requests") or []
        for name in (
            request.get("name"),
            *(f"{request.get('name')}/{one.get('name')}" for one in request.get("firstAvailable") or []),
        )
    }
    causes: Causes = []
    for i, constraint in enumerate(devices.get("constraints") or []):
        here = f"{path}.constraints[{i}]"
        causes += _named_requests(constraint, known, here) + _attribute(constraint, here)
    for i, config in enumerate(devices.get("config") or []):
        here = f"{path}.config[{i}]"
        causes += _named_requests(config, known, here)
        causes += [required(f"{here}.opaque")] if config.get("opaque") is None else []
    return causes


def _named_requests(part: Obj, known: set[str | None], path: str) -> Causes:
    words = "must be the name of a request in the claim or the name of a request and a subrequest separated by '/'"
    found = enumerate(part.get("requests") or [])
    return [invalid(f"{path}.requests[{j}]", name, words) for j, name in found if name not in known]


def _attribute(constraint: Obj, path: str) -> Causes:
    """The one attribute that devices have in common, or in which they differ, with its domain."""
    given = [key for key in ("matchAttribute", "distinctAttribute") if constraint.get(key) is not None]
    if not given:
        words = 'exactly one of "matchAttribute" or "distinctAttribute" is required, but multiple fields are set'
        return [required(path, words)]
    name = str(constraint[given[0]])
    if "/" not in name:
        words = "a fully qualified name must be a domain and a name separated by a slash"
        return [invalid(f"{path}.{given[0]}", name, words)]
    return []


def _selectors(given: list[Obj], path: str) -> Causes:
    if not given:
        return []
    from killcheck.embedded.api.validation import expressions

    return expressions.selectors(given, path)


def _resource_claim(new: Obj) -> Causes:
    return _device_requests(new.get("spec") or {}, "spec")


def _resource_claim_template(new: Obj) -> Causes:
    return _device_requests((new.get("spec") or {}).get("spec") or {}, "spec.spec")


def _same_claim(new: Obj, old: Obj) -> Causes:
    spec = new.get("spec")
    return [] if spec == old.get("spec") else [invalid("spec", claim_inside(spec), IMMUTABLE)]


def _same_template(new: Obj, old: Obj) -> Causes:
    spec = new.get("spec") or {}
    shown = (spec.get("metadata") or {}) | {"Spec": claim_inside(spec.get("spec"))}
    return [] if spec == old.get("spec") else [invalid("spec", shown, IMMUTABLE)]


_BODIES: dict[str, Callable[[Obj], Causes]] = {
    "Node": _node,
    "PriorityClass": _priority_class,
    "Lease": _lease,
    "NetworkPolicy": _network_policy,
    "PersistentVolumeClaim": _volume_claim,
    "ResourceClaim": _resource_claim,
    "ResourceClaimTemplate": _resource_claim_template,
}
_UPDATES: dict[str, Callable[[Obj, Obj], Causes]] = {
    "Node": _node_update,
    "PriorityClass": _priority_class_update,
    "PersistentVolumeClaim": _volume_claim_update,
    "ResourceClaim": _same_claim,
    "ResourceClaimTemplate": _same_template,
}
