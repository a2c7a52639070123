"""Kinds beside the workloads: ingresses, endpoint slices, persistent volumes, runtime classes.

Source: pkg/apis/{networking,discovery,core,node}/validation/validation.go of Kubernetes v1.36. Of a volume's source the
path on a host alone is read.
"""

from __future__ import annotations

import ipaddress

from killcheck.embedded.api.kinds import Kind
from killcheck.embedded.api.validation import meta, names, placement, resources, volumes
from killcheck.embedded.api.validation.fields import (
    Causes,
    at,
    duplicate,
    forbidden,
    immutable,
    invalid,
    key,
    not_supported,
    required,
)
from killcheck.kube.objects import Obj
from killcheck.kube.quantities import parse

__all__ = ["create", "update"]

_MODES = ("ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce", "ReadWriteOncePod")
_PATHS = ("Exact", "ImplementationSpecific", "Prefix")
_PROTOCOLS = ("SCTP", "TCP", "UDP")
_FAMILIES = ("FQDN", "IPv4", "IPv6")


def create(kind: Kind, new: Obj) -> Causes:
    """A new object."""
    return meta.create(new["metadata"], names.dns_subdomain, core=meta.core(kind)) + _BODIES[kind.resource.kind](new)


def update(kind: Kind, new: Obj, old: Obj) -> Causes:
    """A changed object."""
    named = kind.resource.kind
    causes = meta.update(new["metadata"], old["metadata"], core=meta.core(kind), rule=meta.again(named))
    causes += _BODIES[named](new)
    if named == "RuntimeClass":
        causes += immutable("handler", new.get("handler"), old.get("handler"))
    if named == "EndpointSlice":
        causes += immutable("addressType", new.get("addressType"), old.get("addressType"))
    return causes


# -- ingresses -------------------------------------------------------------------------------------------------
def _ingress(new: Obj) -> Causes:
    spec = new.get("spec") or {}
    rules, backend = spec.get("rules") or [], spec.get("defaultBackend")
    causes: Causes = []
    if not rules and backend is None:
        causes.append(invalid("spec", spec.get("rules"), "either `defaultBackend` or `rules` must be specified"))
    if backend is not None:
        causes += _backend(backend, "spec.defaultBackend")
    for i, rule in enumerate(rules):
        causes += _host(rule.get("host", ""), f"{at('spec.rules', i)}.host")
        if rule.get("http") is not None:
            causes += _http(rule["http"], f"{at('spec.rules', i)}.http")
    for i, tls in enumerate(spec.get("tls") or ()):
        for j, host in enumerate(tls.get("hosts") or ()):
            causes += _dns(host, at(f"{at('spec.tls', i)}.hosts", j))
        if tls.get("secretName"):
            causes += names.dns_subdomain_cause(f"{at('spec.tls', i)}.secretName", tls["secretName"])
    if spec.get("ingressClassName") is not None:
        causes += names.dns_subdomain_cause("spec.ingressClassName", spec["ingressClassName"])
    return causes


def _host(host: str, path: str) -> Causes:
    if not host:
        return []
    numeric = [invalid(path, host, "must be a DNS name, not an IP address")] if names.is_address(host) else []
    return numeric + _dns(host, path)


def _dns(host: str, path: str) -> Causes:
    return [] if "*" in host else names.dns_subdomain_cause(path, host)


def _http(http: Obj, path: str) -> Causes:
    paths = http.get("paths") or []
    causes: Causes = [] if paths else [required(f"{path}.paths")]
    for i, one in enumerate(paths):
        causes += _http_path(one, at(f"{path}.paths", i))
    return causes


def _http_path(one: Obj, path: str) -> Causes:
    sort, where = one.get("pathType"), one.get("path", "")
    if sort is None:
        return [required(f"{path}.pathType", "pathType must be specified")]
    causes: Causes = []
    if sort not in _PATHS:
        causes.append(not_supported(f"{path}.pathType", sort, _PATHS))
    elif not where.startswith("/") and (where or sort != "ImplementationSpecific"):
        causes.append(invalid(f"{path}.path", where, "must be an absolute path"))
    return causes + _backend(one.get("backend") or {}, f"{path}.backend")


def _backend(backend: Obj, path: str) -> Causes:
    service, resource = backend.get("service"), backend.get("resource")
    if service is not None and resource is not None:
        return [invalid(path, "", "cannot set both resource and service backends")]
    if resource is not None:
        return [required(f"{path}.resource.{field}") for field in ("kind", "name") if not resource.get(field)]
    if service is None:
        return [invalid(path, "", "resource or service backend is required")]
    name, port = service.get("name", ""), service.get("port") or {}
    causes = names.dns_label_cause(f"{path}.service.name", name) if name else [required(f"{path}.service.name")]
    if port.get("name") and port.get("number"):
        causes.append(invalid(path, "", "cannot set both port name & port number"))
    elif port.get("name"):
        causes += [invalid(f"{path}.service.port.name", port["name"], words) for words in names.port_name(port["name"])]
    elif port.get("number"):
        causes += names.port_number(f"{path}.service.port.number", port["number"])
    else:
        causes.append(required(path, "port name or number is required"))
    return causes


# -- endpoint slices -------------------------------------------------------------------------------------------
def _slice(new: Obj) -> Causes:
    family = new.get("addressType", "")
    causes: Causes = []
    if not family:
        causes.append(required("addressType"))
    elif family not in _FAMILIES:
        causes.append(not_supported("addressType", family, _FAMILIES))
    seen: set[str] = set()
    for i, port in enumerate(new.get("ports") or ()):
        path, name = at("ports", i), port.get("name") or ""
        causes += names.dns_label_cause(f"{path}.name", name) if name else []
        causes += [duplicate(f"{path}.name", name)] if name in seen else []
        seen.add(name)
        if port.get("protocol") not in (None, *_PROTOCOLS):
            causes.append(not_supported(f"{path}.protocol", port["protocol"], _PROTOCOLS))
    for i, endpoint in enumerate(new.get("endpoints") or ()):
        causes += _endpoint(endpoint, family, at("endpoints", i))
    return causes


def _endpoint(endpoint: Obj, family: str, path: str) -> Causes:
    addresses = endpoint.get("addresses") or []
    causes: Causes = [] if addresses else [required(f"{path}.addresses", "must contain at least 1 address")]
    for i, address in enumerate(addresses):
        causes += _address(address, family, f"{path}.addresses", i)
    if endpoint.get("nodeName") is not None:
        causes += names.dns_subdomain_cause(f"{path}.nodeName", endpoint["nodeName"])
    if endpoint.get("hostname") is not None:
        causes += names.dns_label_cause(f"{path}.hostname", endpoint["hostname"])
    return causes


def _address(address: str, family: str, path: str, number: int) -> Causes:
    if family not in ("IPv4", "IPv6"):
        return []
    if not names.is_address(address):
        return [invalid(at(path, number), address, "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)")]
    if f"IPv{ipaddress.ip_address(address).version}" != family:
        return [invalid(path, address, f"must be an {family} address")]
    return []


# -- volumes and runtimes --------------------------------------------------------------------------------------
def _volume(new: Obj) -> Causes:
    spec = new.get("spec") or {}
    modes, capacity = spec.get("accessModes") or [], spec.get("capacity") or {}
    causes: Causes = [] if modes else [required("spec.accessModes")]
    causes += [not_supported("spec.accessModes", mode, _MODES) for mode in modes if mode not in _MODES]
    if "ReadWriteOncePod" in modes and any(mode in _MODES[:3] for mode in modes):
        causes.append(forbidden("spec.accessModes", "may not use ReadWriteOncePod with other access modes"))
    if not capacity:
        causes.append(required("spec.capacity"))
    if set(capacity) != {"storage"}:
        causes.append(not_supported("spec.capacity", capacity or None, ("storage",)))
    for name, text in capacity.items():
        causes += _capacity(key("spec.capacity", name), text)
    policies = ("Delete", "Recycle", "Retain")
    policy = spec.get("persistentVolumeReclaimPolicy")
    if policy and policy not in policies:
        causes.append(not_supported("spec.persistentVolumeReclaimPolicy", policy, policies))
    if spec.get("hostPath") is not None:
        causes += volumes.host_path(spec["hostPath"], "spec.hostPath")
    mode = spec.get("volumeMode")
    if mode not in (None, "Block", "Filesystem"):
        causes.append(not_supported("spec.volumeMode", mode, ("Block", "Filesystem")))
    return causes


def _capacity(path: str, text: str) -> Causes:
    value = parse(text)
    causes: Causes = [invalid(path, value.numerator, "must be a valid resource quantity")] if value < 0 else []
    return causes + ([invalid(path, text, "must be greater than zero")] if value <= 0 else [])


def _runtime(new: Obj) -> Causes:
    handler = new.get("handler", "")
    causes = names.dns_label_cause("handler", handler) if handler else [required("handler")]
    fixed = (new.get("overhead") or {}).get("podFixed")
    if fixed:
        causes += resources.requirements({"limits": fixed}, set(), "overhead")
    scheduling = new.get("scheduling") or {}
    causes += names.labels("scheduling.nodeSelector", scheduling.get("nodeSelector"))
    return causes + placement.tolerations(scheduling.get("tolerations") or [], "scheduling.tolerations")


def _storage_class(new: Obj) -> Causes:
    provisioner = str(new.get("provisioner") or "")
    causes: Causes = [] if provisioner else [required("provisioner")]
    if provisioner:
        causes += [invalid("provisioner", provisioner, words) for words in names.qualified_name(provisioner.lower())]
    causes += [invalid("parameters", "", "field can not be empty.") for key in new.get("parameters") or {} if not key]
    for field, known in _OF_CLASSES.items():
        if new.get(field) is not None and new[field] not in known:
            causes.append(not_supported(field, new[field], known))
    return causes


#: What a StorageClass may say, in the order in which it is looked at.
_OF_CLASSES = {"reclaimPolicy": ("Delete", "Retain"), "volumeBindingMode": ("Immediate", "WaitForFirstConsumer")}

_BODIES = {
    "Ingress": _ingress,
    "EndpointSlice": _slice,
    "PersistentVolume": _volume,
    "RuntimeClass": _runtime,
    "StorageClass": _storage_class,
}
