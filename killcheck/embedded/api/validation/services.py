"""Services.

Source: ``validateService`` in pkg/apis/core/validation/validation.go of Kubernetes v1.36: types, ports, selectors and
the address that stays.
"""

from __future__ import annotations

from ipaddress import ip_address, ip_network

from killcheck.embedded.api.kinds import Kind
from killcheck.embedded.api.validation import meta, names
from killcheck.embedded.api.validation.fields import (
    Causes,
    at,
    duplicate,
    forbidden,
    invalid,
    not_supported,
    required,
)
from killcheck.kube.objects import Obj

__all__ = ["addresses", "create", "update"]

_TYPES = ("ClusterIP", "ExternalName", "LoadBalancer", "NodePort")
_PROTOCOLS = ("SCTP", "TCP", "UDP")
_POLICIES = {
    "ipFamilyPolicy": ("PreferDualStack", "RequireDualStack", "SingleStack"),
    "internalTrafficPolicy": ("Cluster", "Local"),
    "externalTrafficPolicy": ("Cluster", "Local"),
    "trafficDistribution": ("PreferClose", "PreferSameZone", "PreferSameNode"),
}
_AFFINITIES = ("ClientIP", "None")
_FAMILIES = ("IPv4", "IPv6")
#: Which Kubernetes spells with a capital where it refuses it.
_RANGES = "loadBalancerSourceRanges"
#: ``sessionAffinityConfig.clientIP.timeoutSeconds``: three hours, and at most a day.
_DEFAULT_AFFINITY_S, _LONGEST_AFFINITY_S = 10800, 86400


def create(_: Kind, new: Obj) -> Causes:
    """A new Service."""
    return meta.create(new["metadata"], names.dns_label) + _spec(new.get("spec") or {})


def update(_: Kind, new: Obj, old: Obj) -> Causes:
    """A changed Service."""
    causes = meta.update(new["metadata"], old["metadata"])
    spec, before = new.get("spec") or {}, old.get("spec") or {}
    causes += _spec(spec)
    address = before.get("clusterIP")
    if address and spec.get("type") != "ExternalName" and before.get("type") != "ExternalName":
        ours = spec.get("clusterIP", "")
        if ours != address:
            causes.append(invalid("spec.clusterIPs[0]", [ours] if ours else None, "may not change once set"))
    if spec.get("type") == before.get("type") == "LoadBalancer":
        ours = spec.get("loadBalancerClass")
        if ours != before.get("loadBalancerClass"):
            causes.append(invalid("spec.loadBalancerClass", ours, "may not change once set"))
    return causes


def addresses(spec: Obj, *, new: bool = True) -> Causes:
    """What is no IP address, or none that this cluster has; what ``new`` Services leave out is not filled in."""
    if spec.get("type") == "ExternalName":
        return []
    given = spec.get("clusterIPs") or [spec.get("clusterIP")]
    found = [spec["clusterIP"], *given[1:]] if spec.get("clusterIP") else given
    causes: Causes = []
    if new and spec.get("clusterIPs") and not spec.get("clusterIP"):
        causes.append(invalid("spec.clusterIPs", spec["clusterIPs"], "must be empty when `clusterIP` is not specified"))
    causes += _families(spec)
    causes += [
        invalid(f"spec.clusterIPs[{i}]", one, names.NO_ADDRESS)
        for i, one in enumerate(found)
        if one not in ("", None, "None") and not names.is_address(str(one))
    ]
    if causes:
        return causes
    if spec.get("ipFamilyPolicy") == "RequireDualStack":
        words = "this cluster is not configured for dual-stack services"
        return [invalid("spec.ipFamilyPolicy", "RequireDualStack", words)]
    if (spec.get("ipFamilies") or [])[:1] == ["IPv6"]:
        return [invalid("spec.ipFamilies[0]", "IPv6", "not configured on this cluster")]
    return []


def _spec(spec: Obj) -> Causes:
    kind, headless = spec.get("type", ""), spec.get("clusterIP") == "None"
    ports = spec.get("ports") or []
    causes: Causes = []
    if not ports and not headless and kind != "ExternalName":
        causes.append(required("spec.ports"))
    if kind in ("LoadBalancer", "NodePort") and headless:
        causes.append(invalid("spec.clusterIPs[0]", "None", f"may not be set to 'None' for {kind} services"))
    if kind == "ExternalName":
        causes += _external_name(spec)
    seen: set[str] = set()
    for i, port in enumerate(ports):
        causes += _port(port, at("spec.ports", i), seen, named=len(ports) > 1)
    causes += names.labels("spec.selector", spec.get("selector"))
    causes += _affinity(spec)
    causes += _families(spec) if kind != "ExternalName" else []
    for i, one in enumerate(spec.get("externalIPs") or []):
        causes += _external_address(at("spec.externalIPs", i), one)
    if kind not in _TYPES:
        causes.append(not_supported("spec.type", kind, _TYPES) if kind else required("spec.type"))
    causes += _node_ports(ports, kind)
    causes += _same_ports(ports)
    return causes + _traffic(spec, kind)


def _affinity(spec: Obj) -> Causes:
    path, kind, config = "spec.sessionAffinity", spec.get("sessionAffinity", ""), spec.get("sessionAffinityConfig")
    if not kind:
        return [required(path)]
    if kind not in _AFFINITIES:
        return [not_supported(path, kind, _AFFINITIES)]
    if kind == "None":
        words = "must not be set when session affinity is None"
        return [] if config is None else [forbidden(f"{path}Config", words)]
    seconds = ((config or {}).get("clientIP") or {}).get("timeoutSeconds", _DEFAULT_AFFINITY_S)
    if 0 < seconds <= _LONGEST_AFFINITY_S:
        return []
    words = f"must be greater than 0 and less than {_LONGEST_AFFINITY_S}"
    return [invalid(f"{path}Config.clientIP.timeoutSeconds", seconds, words)]


def _families(spec: Obj) -> Causes:
    causes: Causes = []
    families = spec.get("ipFamilies") or []
    for i, family in enumerate(families):
        here = at("spec.ipFamilies", i)
        causes += [not_supported(here, family, _FAMILIES)] * (family not in _FAMILIES)
        causes += [duplicate(here, family)] * (family in families[:i])
    return causes + _one_of(spec, "ipFamilyPolicy")


def _node_ports(ports: list[Obj], kind: str) -> Causes:
    words = "may not be used when `type` is 'ClusterIP'"
    return [
        forbidden(at("spec.ports", i) + ".nodePort", words)
        for i, port in enumerate(ports)
        if kind == "ClusterIP" and port.get("nodePort")
    ]


def _traffic(spec: Obj, kind: str) -> Causes:
    causes: Causes = []
    if kind != "LoadBalancer":
        words = "may only be used when `type` is 'LoadBalancer'"
        causes += [
            forbidden(f"spec.{field[:1].upper() + field[1:] if field == _RANGES else field}", words)
            for field in (_RANGES, "allocateLoadBalancerNodePorts", "loadBalancerClass")
            if spec.get(field) not in (None, [])
        ]
    else:
        words = "must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)"
        causes += [
            invalid(f"spec.{_RANGES[:1].upper() + _RANGES[1:]}[{i}]", given, words)
            for i, given in enumerate(spec.get(_RANGES) or [])
            if not _is_network(str(given).strip())
        ]
    policy = spec.get("externalTrafficPolicy")
    outside = kind in ("LoadBalancer", "NodePort") or (kind == "ClusterIP" and spec.get("externalIPs"))
    if policy and not outside:
        words = "may only be set for externally-accessible services"
        causes.append(invalid("spec.externalTrafficPolicy", policy, words))
    elif policy:
        causes += _one_of(spec, "externalTrafficPolicy")
    if spec.get("healthCheckNodePort") and not (kind == "LoadBalancer" and policy == "Local"):
        words = "may only be set when `type` is 'LoadBalancer' and `externalTrafficPolicy` is 'Local'"
        causes.append(invalid("spec.healthCheckNodePort", spec["healthCheckNodePort"], words))
    return causes + _one_of(spec, "internalTrafficPolicy") + _one_of(spec, "trafficDistribution")


def _is_network(text: str) -> bool:
    try:
        ip_network(text, strict=False)
    except ValueError:
        return False
    return "/" in text


def _one_of(spec: Obj, field: str) -> Causes:
    known = _POLICIES[field]
    return [] if spec.get(field) in (None, *known) else [not_supported(f"spec.{field}", spec[field], known)]


def _external_address(path: str, one: str) -> Causes:
    if not names.is_address(one):
        return [invalid(path, one, names.NO_ADDRESS)]
    address = ip_address(one)
    words = (
        (address.is_unspecified, f"may not be unspecified ({one})"),
        (address.is_loopback, "may not be in the loopback range (127.0.0.0/8, ::1/128)"),
        (address.is_link_local, "may not be in the link-local range (169.254.0.0/16, fe80::/10)"),
    )
    return [invalid(path, one, text) for wrong, text in words if wrong]


def _external_name(spec: Obj) -> Causes:
    causes: Causes = []
    if spec.get("clusterIP") or spec.get("clusterIPs"):
        causes.append(forbidden("spec.clusterIPs", "may not be set for ExternalName services"))
    if spec.get("ipFamilies"):
        causes.append(forbidden("spec.ipFamilies", "may not be set for ExternalName services"))
    if spec.get("ipFamilyPolicy") is not None:
        causes.append(forbidden("spec.ipFamilyPolicy", "may not be set for ExternalName services"))
    name = spec.get("externalName", "").removesuffix(".")
    return causes + (names.dns_subdomain_cause("spec.externalName", name) if name else [required("spec.externalName")])


def _port(port: Obj, path: str, seen: set[str], *, named: bool) -> Causes:
    causes: Causes = []
    name = port.get("name", "")
    if name:
        causes += names.dns_label_cause(f"{path}.name", name)
        if name in seen:
            causes.append(duplicate(f"{path}.name", name))
        seen.add(name)
    elif named:
        causes.append(required(f"{path}.name"))
    causes += names.port_number(f"{path}.port", port.get("port", 0))
    protocol = port.get("protocol", "")
    if protocol not in _PROTOCOLS:
        causes.append(
            not_supported(f"{path}.protocol", protocol, _PROTOCOLS) if protocol else required(f"{path}.protocol")
        )
    causes += names.port_number_or_name(f"{path}.targetPort", port.get("targetPort", 0))
    application = port.get("appProtocol")
    return causes + (names.label_name(f"{path}.appProtocol", application) if application is not None else [])


def _same_ports(ports: list[Obj]) -> Causes:
    causes: Causes = []
    seen: set[tuple[str, int]] = set()
    for i, port in enumerate(ports):
        both = (port.get("protocol", ""), port.get("port", 0))
        if both in seen:
            causes.append(duplicate(at("spec.ports", i), {"port": both[1], "protocol": both[0]}))
        seen.add(both)
    return causes
