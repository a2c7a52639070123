"""A container's environment and command line as the kubelet makes them.

Source: pkg/kubelet/kubelet_pods.go (makeEnvironmentVariables), pkg/kubelet/envvars, third_party/forked/golang/expansion
of Kubernetes v1.36; recordings 33 (missing Secret) and 34 (``$$``, ``$(NAME)`` of an unknown name stays).
"""

from __future__ import annotations

import base64
import binascii
import math
import re
from collections.abc import Iterable, Mapping
from typing import Any

from msgspec import Struct

from killcheck.kube import resources as r
from killcheck.kube.client import Kube
from killcheck.kube.objects import Obj, annotations_of, dig, labels_of, name_of, namespace_of, uid_of
from killcheck.kube.quantities import parse
from killcheck.text import lazy_re

__all__ = ["ConfigError", "Context", "command_line", "environment", "expand", "field_value", "service_environment"]

_KEYED = lazy_re.compile(r"metadata\.(labels|annotations)\['([^']+)'\]")
_REFERENCE = lazy_re.compile(r"\$(?:\$|\(([^()]*)\))")


class ConfigError(Exception):
    """CreateContainerConfigError: the message is the kubelet's."""


class Context(Struct, frozen=True):
    """What the kubelet knows while it prepares a pod."""

    pod: Obj
    node: Obj
    kube: Kube
    pod_ip: str = ""

    @property
    def namespace(self) -> str:
        """The pod's namespace."""
        return namespace_of(self.pod)


def environment(context: Context, container: Obj) -> dict[str, str]:
    """The variables of a container, service links included. Raises ConfigError."""
    result: dict[str, str] = {}
    for source in container.get("envFrom") or ():
        result |= _bulk(source, context)
    services = service_environment(context)
    known = dict(services)
    for entry in container.get("env") or ():
        value = _value(entry, context, container, known | result)
        if value is not None:
            result[entry["name"]] = value
    for name, value in services.items():
        result.setdefault(name, value)
    return result


def service_environment(context: Context) -> dict[str, str]:
    """``KUBERNETES_SERVICE_HOST`` and, with service links on, the namespace's other services."""
    result: dict[str, str] = {}
    for service in context.kube.list(r.SERVICES, "default").items:
        if name_of(service) == "kubernetes":
            result |= _links(service)
    if context.pod["spec"].get("enableServiceLinks", True):
        for service in context.kube.list(r.SERVICES, context.namespace).items:
            result |= _links(service)
    return result


def command_line(container: Obj, variables: Mapping[str, str]) -> tuple[list[str] | None, list[str] | None]:
    """``command`` and ``args`` with references expanded; None where the manifest has none."""
    command, args = container.get("command"), container.get("args")
    return (
        [expand(part, variables) for part in command] if command else None,
        [expand(part, variables) for part in args] if args else None,
    )


def expand(text: str, variables: Mapping[str, str]) -> str:
    """``$(NAME)`` becomes the variable, ``$$`` one dollar; an unknown name stays as it is written."""

    def replaced(match: re.Match[str]) -> str:
        if match.group(0) == "$$":
            return "$"
        return variables.get(match.group(1), match.group(0))

    return _REFERENCE.sub(replaced, text)


def field_value(context: Context, path: str) -> str:
    """A ``fieldRef``. Raises ConfigError."""
    pod = context.pod
    keyed = _KEYED.fullmatch(path)
    if keyed:
        source = labels_of(pod) if keyed.group(1) == "labels" else annotations_of(pod)
        return source.get(keyed.group(2), "")
    addresses = {a["type"]: a["address"] for a in dig(context.node, "status", "addresses", default=[])}
    fields: dict[str, Any] = {
        "metadata.name": name_of(pod),
        "metadata.namespace": namespace_of(pod),
        "metadata.uid": uid_of(pod),
        "metadata.labels": _listed(labels_of(pod)),
        "metadata.annotations": _listed(annotations_of(pod)),
        "spec.nodeName": pod["spec"].get("nodeName", ""),
        "spec.serviceAccountName": pod["spec"].get("serviceAccountName", ""),
        "status.hostIP": addresses.get("InternalIP", ""),
        "status.hostIPs": addresses.get("InternalIP", ""),
        "status.podIP": context.pod_ip,
        "status.podIPs": context.pod_ip,
    }
    if path not in fields:
        raise ConfigError(f"unsupported fieldPath: {path}")
    return str(fields[path])


# -- inside ------------------------------------------------------------------------------------------------
def _value(entry: Obj, context: Context, container: Obj, known: Mapping[str, str]) -> str | None:
    if "valueFrom" not in entry:
        return expand(str(entry.get("value") or ""), known)
    source = entry["valueFrom"]
    if "fieldRef" in source:
        return field_value(context, source["fieldRef"]["fieldPath"])
    if "resourceFieldRef" in source:
        return _resource(source["resourceFieldRef"], context, container)
    for key, resource in (("configMapKeyRef", r.CONFIGMAPS), ("secretKeyRef", r.SECRETS)):
        if key in source:
            return _keyed(source[key], resource, context)
    return ""


def _keyed(ref: Obj, resource: r.Resource, context: Context) -> str | None:
    kind = "configmap" if resource is r.CONFIGMAPS else "secret"
    name, optional = ref.get("name", ""), bool(ref.get("optional"))
    found = context.kube.find(resource, name, context.namespace)
    if found is None:
        if optional:
            return None
        raise ConfigError(f'{kind} "{name}" not found')
    value = texts(found).get(ref["key"])
    if value is None:
        if optional:
            return None
        what = "ConfigMap" if kind == "configmap" else "Secret"
        raise ConfigError(f"couldn't find key {ref['key']} in {what} {context.namespace}/{name}")
    return value


def _bulk(source: Obj, context: Context) -> dict[str, str]:
    for key, resource, kind in (("configMapRef", r.CONFIGMAPS, "configmap"), ("secretRef", r.SECRETS, "secret")):
        if key not in source:
            continue
        ref = source[key]
        found = context.kube.find(resource, ref.get("name", ""), context.namespace)
        if found is None:
            if ref.get("optional"):
                return {}
            raise ConfigError(f'{kind} "{ref.get("name", "")}" not found')
        return {source.get("prefix", "") + name: value for name, value in texts(found).items()}
    return {}


def texts(obj: Obj) -> dict[str, str]:
    """The data of a ConfigMap or a Secret as text."""
    data = obj.get("data") or {}
    if obj.get("kind") != "Secret":
        return dict(data)
    found: dict[str, str] = {}
    for key, value in data.items():
        try:
            found[key] = base64.b64decode(value).decode("utf-8", "surrogateescape")
        except (ValueError, binascii.Error):
            found[key] = ""
    return found


def _links(service: Obj) -> dict[str, str]:
    """The variables of Docker's links, for a service with a cluster IP."""
    ip = dig(service, "spec", "clusterIP", default="")
    ports = dig(service, "spec", "ports", default=[])
    if not ip or ip == "None" or not ports:
        return {}
    prefix = name_of(service).upper().replace("-", "_")
    result = {f"{prefix}_SERVICE_HOST": ip, f"{prefix}_SERVICE_PORT": str(ports[0]["port"])}
    for port in ports:
        if port.get("name"):
            result[f"{prefix}_SERVICE_PORT_{port['name'].upper().replace('-', '_')}"] = str(port["port"])
    for index, port in enumerate(ports):
        protocol = port.get("protocol", "TCP")
        url = f"{protocol.lower()}://{ip}:{port['port']}"
        base = f"{prefix}_PORT_{port['port']}_{protocol.upper()}"
        if index == 0:
            result[f"{prefix}_PORT"] = url
        result |= {base: url, f"{base}_PROTO": protocol.lower(), f"{base}_PORT": str(port["port"]), f"{base}_ADDR": ip}
    return result


def _listed(values: Mapping[str, str]) -> str:
    quoted = (f'{key}="{_quote(value)}"' for key, value in sorted(values.items()))
    return "\n".join(quoted)


def _quote(value: str) -> str:
    return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


def _resource(ref: Obj, context: Context, container: Obj) -> str:
    name = ref.get("containerName") or container["name"]
    pod = context.pod
    containers: Iterable[Obj] = [*pod["spec"].get("initContainers", ()), *pod["spec"]["containers"]]
    chosen = next((c for c in containers if c["name"] == name), None)
    if chosen is None:
        raise ConfigError(f"container {name} not found")
    kind, _, resource = str(ref["resource"]).partition(".")
    text = dig(chosen, "resources", kind, resource)
    if text is None and kind == "limits":
        text = dig(context.node, "status", "allocatable", resource)
    divisor = parse(str(ref.get("divisor") or "1")) or 1
    return str(math.ceil(parse(str(text or "0")) / divisor))
