"""Services.

Source: ``validateService`` in pkg/apis/core/validation/validation.go of Kubernetes v1.36: types, ports, selectors and
the address that stays.
"""

from __future__ import annotations

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
}


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
    return causes


def addresses(spec: Obj) -> Causes:
    """What is no IP address."""
    if spec.get("type") == "ExternalName":
        return []
    given = spec.get("clusterIPs") or [spec.get("clusterIP")]
    found = [spec["clusterIP"], *given[1:]] if spec.get("clusterIP") else given
    words = "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)"
    return [
        invalid(f"spec.clusterIPs[{i}]", one, words)
        for i, one in enumerate(found)
        if one not in ("", None, "None") and not names.is_address(str(one))
    ]


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
    elif kind not in _TYPES:
        causes.append(not_supported("spec.type", kind, _TYPES))
    seen: set[str] = set()
    for i, port in enumerate(ports):
        causes += _port(port, at("spec.ports", i), seen, named=len(ports) > 1)
    causes += _same_ports(ports)
    causes += names.labels("spec.selector", spec.get("selector"))
    for field, known in _POLICIES.items():
        if spec.get(field) not in (None, *known):
            causes.append(not_supported(f"spec.{field}", spec[field], known))
    affinity = spec.get("sessionAffinity", "")
    if affinity not in ("ClientIP", "None"):
        causes.append(
            not_supported("spec.sessionAffinity", affinity, ("ClientIP", "None"))
            if affinity
            else required("spec.sessionAffinity")
        )
    return causes


def _external_name(spec: Obj) -> Causes:
    causes: Causes = []
    if spec.get("clusterIP") or spec.get("clusterIPs"):
        causes.append(forbidden("spec.clusterIPs", "may not be set for ExternalName services"))
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
    return causes + names.port_number_or_name(f"{path}.targetPort", port.get("targetPort", 0))


def _same_ports(ports: list[Obj]) -> Causes:
    causes: Causes = []
    seen: set[tuple[str, int]] = set()
    for i, port in enumerate(ports):
        both = (port.get("protocol", ""), port.get("port", 0))
        if both in seen:
            causes.append(duplicate(at("spec.ports", i), {"port": both[1], "protocol": both[0]}))
        seen.add(both)
    return causes
