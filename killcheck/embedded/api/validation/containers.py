"""Containers of pods: names, images, environment, mounts, probes, resources.

Source: ``validateContainers`` and what it calls in pkg/apis/core/validation/validation.go, Kubernetes v1.36.
"""

from __future__ import annotations

from typing import Any

from msgspec import Struct

from killcheck.embedded.api.validation import names, resources, security
from killcheck.embedded.api.validation.fields import (
    Causes,
    at,
    duplicate,
    forbidden,
    invalid,
    nonnegative,
    not_found,
    not_supported,
    required,
)
from killcheck.embedded.api.validation.volumes import descending_path
from killcheck.kube.objects import Obj

__all__ = ["Known", "containers", "ephemeral"]

_PULL = ("Always", "IfNotPresent", "Never")
_PROTOCOLS = ("SCTP", "TCP", "UDP")
_MESSAGE = ("File", "FallbackToLogsOnError")
_PROBES = ("livenessProbe", "readinessProbe", "startupProbe")
_FIELD_PATHS = (
    "metadata.name",
    "metadata.namespace",
    "metadata.uid",
    "spec.nodeName",
    "spec.serviceAccountName",
    "status.hostIP",
    "status.hostIPs",
    "status.podIP",
    "status.podIPs",
)
#: What a path may name at all (pkg/apis/core/pods/helpers.go), though not each in a variable.
_FIELD_LABELS = frozenset(
    {
        *_FIELD_PATHS,
        "metadata.annotations",
        "metadata.labels",
        "spec.restartPolicy",
        "spec.schedulerName",
        "status.phase",
    }
)
_RESOURCE_FIELDS = (
    "limits.cpu",
    "limits.ephemeral-storage",
    "limits.memory",
    "requests.cpu",
    "requests.ephemeral-storage",
    "requests.memory",
)
_ONE_SOURCE = "must specify one of: `fieldRef`, `resourceFieldRef`, `configMapKeyRef`, `secretKeyRef` or `fileKeyRef`"


class Known(Struct, frozen=True):
    """What a pod has: volumes by name, names of resource claims, seconds of grace, whether users are the host's."""

    volumes: dict[str, Obj]
    claims: set[str]
    grace: int | None
    host_users: bool = True


def containers(spec: Obj, known: Known, path: str) -> Causes:
    """All containers of a pod's spec."""
    regular, init = spec.get("containers") or [], spec.get("initContainers") or []
    causes = _regular(regular, known, f"{path}.containers")
    taken = {container.get("name") for container in regular}
    for i, container in enumerate(init):
        here = f"{path}.initContainers[{i}]"
        causes += _common(container, known, here)
        causes += _restart_rules(container, here)
        name = container.get("name", "")
        if name in taken:
            causes.append(duplicate(f"{here}.name", name))
        elif name:
            taken.add(name)
        causes += _host_port_conflicts([container], f"{path}.initContainers")
        causes += _init_only(container, known, here)
    return causes


_EPHEMERAL = frozenset(
    {
        "name",
        "image",
        "command",
        "args",
        "workingDir",
        "envFrom",
        "env",
        "volumeMounts",
        "volumeDevices",
        "terminationMessagePath",
        "terminationMessagePolicy",
        "imagePullPolicy",
        "securityContext",
        "stdin",
        "stdinOnce",
        "tty",
        "targetContainerName",
    }
)


def ephemeral(spec: Obj, known: Known, path: str) -> Causes:
    """A pod's ephemeral containers."""
    others = {c.get("name") for field in ("containers", "initContainers") for c in spec.get(field) or []}
    causes: Causes = []
    taken = set(others)
    for i, container in enumerate(spec.get("ephemeralContainers") or []):
        here, name = f"{path}.ephemeralContainers[{i}]", container.get("name", "")
        causes += _common(container, known, here)
        if name in taken:
            causes.append(duplicate(f"{here}.name", name))
        taken.add(name)
        target = container.get("targetContainerName")
        if target and target not in others:
            causes.append(not_found(f"{here}.targetContainerName", target))
        causes += [
            forbidden(f"{here}.{field}", "cannot be set for an Ephemeral Container")
            for field, value in container.items()
            if field not in _EPHEMERAL and value
        ]
        causes += [
            forbidden(f"{here}.volumeMounts[{j}].{field}", "cannot be set for an Ephemeral Container")
            for j, mount in enumerate(container.get("volumeMounts") or [])
            for field in ("subPath", "subPathExpr")
            if mount.get(field)
        ]
    return causes


def _regular(given: list[Obj], known: Known, path: str) -> Causes:
    if not given:
        return [required(path)]
    causes: Causes = []
    seen: set[str] = set()
    for i, container in enumerate(given):
        here, name = at(path, i), container.get("name", "")
        causes += _common(container, known, here)
        if name in seen:
            causes.append(duplicate(f"{here}.name", name))
        seen.add(name)
        causes += _lifecycle_and_probes(container, known, here)
        causes += _restart_rules(container, here)
    return causes + _host_port_conflicts(given, path)


def _init_only(container: Obj, known: Known, path: str) -> Causes:
    if container.get("restartPolicy") == "Always":
        return _lifecycle_and_probes(container, known, path)
    return [
        forbidden(f"{path}.{field}", "may not be set for init containers without restartPolicy=Always")
        for field in ("lifecycle", *_PROBES)
        if container.get(field) is not None
    ]


def _common(container: Obj, known: Known, path: str) -> Causes:
    name = container.get("name", "")
    causes = names.dns_label_cause(f"{path}.name", name) if name else [required(f"{path}.name")]
    if not container.get("image"):
        causes.append(required(f"{path}.image"))
    causes += _choice(f"{path}.terminationMessagePolicy", container.get("terminationMessagePolicy", ""), _MESSAGE)
    causes += _ports(container.get("ports") or [], f"{path}.ports")
    causes += _environment(container.get("env") or [], f"{path}.env")
    causes += _environment_from(container.get("envFrom") or [], f"{path}.envFrom")
    causes += _mounts(container, known, f"{path}.volumeMounts")
    causes += _choice(f"{path}.imagePullPolicy", container.get("imagePullPolicy", ""), _PULL)
    causes += resources.requirements(container.get("resources") or {}, known.claims, f"{path}.resources")
    return causes + security.container(
        container.get("securityContext"), f"{path}.securityContext", host_users=known.host_users
    )


def _choice(path: str, value: str, known: tuple[str, ...]) -> Causes:
    if not value:
        return [required(path)]
    return [] if value in known else [not_supported(path, value, known)]


def _restart_rules(container: Obj, path: str) -> Causes:
    policy, rules = container.get("restartPolicy"), container.get("restartPolicyRules") or []
    if policy is None:
        words = "must specify restartPolicy when restart rules are used"
        return [required(f"{path}.restartPolicy", words)] if rules else []
    known = ("Always", "Never", "OnFailure")
    return [] if policy in known else [not_supported(f"{path}.restartPolicy", policy, known)]


def _ports(ports: list[Obj], path: str) -> Causes:
    causes: Causes = []
    seen: set[str] = set()
    for i, port in enumerate(ports):
        here, name = at(path, i), port.get("name", "")
        if name:
            wrong = names.port_name(name)
            causes += [invalid(f"{here}.name", name, words) for words in wrong]
            if not wrong and name in seen:
                causes.append(duplicate(f"{here}.name", name))
            seen.add(name)
        number = port.get("containerPort", 0)
        causes += names.port_number(f"{here}.containerPort", number) if number else [required(f"{here}.containerPort")]
        if port.get("hostPort"):
            causes += names.port_number(f"{here}.hostPort", port["hostPort"])
        causes += _choice(f"{here}.protocol", port.get("protocol", ""), _PROTOCOLS)
    return causes


def _host_port_conflicts(given: list[Obj], path: str) -> Causes:
    causes: Causes = []
    seen: set[str] = set()
    for i, container in enumerate(given):
        for j, port in enumerate(container.get("ports") or []):
            if port.get("hostPort"):
                text = f"{port.get('protocol', '')}/{port.get('hostIP', '')}/{port['hostPort']}"
                if text in seen:
                    causes.append(duplicate(f"{path}[{i}].ports[{j}].hostPort", text))
                seen.add(text)
    return causes


# -- environment -----------------------------------------------------------------------------------------------
def _environment(variables: list[Obj], path: str) -> Causes:
    causes: Causes = []
    for i, variable in enumerate(variables):
        here, name = at(path, i), variable.get("name", "")
        if not name:
            causes.append(required(f"{here}.name"))
        causes += [invalid(f"{here}.name", name, words) for words in names.env_name(name)]
        source = variable.get("valueFrom")
        if source is not None:
            causes += _value_from(source, f"{here}.valueFrom", has_value=bool(variable.get("value")))
    return causes


def _value_from(source: Obj, path: str, *, has_value: bool) -> Causes:
    causes: Causes = []
    given = [field for field in _REFERENCES if source.get(field) is not None]
    for field in given:
        causes += _REFERENCES[field](source[field], f"{path}.{field}")
    if not given:
        causes.append(invalid(path, "", _ONE_SOURCE))
    elif has_value:
        causes.append(invalid(path, "", "may not be specified when `value` is not empty"))
    elif len(given) > 1:
        causes.append(invalid(path, "", "may not have more than one field specified at a time"))
    return causes


def _field_reference(ref: Obj, path: str) -> Causes:
    text = ref.get("fieldPath", "")
    if not ref.get("apiVersion"):
        return [required(f"{path}.apiVersion")]
    if not text:
        return [required(f"{path}.fieldPath")]
    base, bracket, subscript = text.partition("['")
    subscripted = bool(bracket) and subscript.endswith("']")
    if subscripted and base in ("metadata.labels", "metadata.annotations"):
        return [invalid(path, subscript[:-2], words) for words in names.qualified_name(subscript[:-2].lower())]
    if subscripted or text not in _FIELD_LABELS:
        wrong = "field label does not support subscript" if subscripted else "field label not supported"
        return [invalid(f"{path}.fieldPath", text, f"error converting fieldPath: {wrong}: {text}")]
    return [] if text in _FIELD_PATHS else [not_supported(f"{path}.fieldPath", text, _FIELD_PATHS)]


def _resource_reference(ref: Obj, path: str) -> Causes:
    text = ref.get("resource", "")
    if not text:
        return [required(f"{path}.resource")]
    if text in _RESOURCE_FIELDS or text.startswith(("limits.hugepages-", "requests.hugepages-")):
        return []
    return [not_supported(f"{path}.resource", text, _RESOURCE_FIELDS)]


def _key_reference(ref: Obj, path: str) -> Causes:
    causes: Causes = [] if ref.get("name") else [required(f"{path}.name")]
    if not ref.get("key"):
        return [*causes, required(f"{path}.key")]
    return causes + [invalid(f"{path}.key", ref["key"], words) for words in names.config_key(ref["key"])]


def _file_reference(ref: Obj, path: str) -> Causes:
    return [required(f"{path}.{field}") for field in ("key", "volumeName", "path") if not ref.get(field)]


_REFERENCES = {
    "fieldRef": _field_reference,
    "resourceFieldRef": _resource_reference,
    "configMapKeyRef": _key_reference,
    "secretKeyRef": _key_reference,
    "fileKeyRef": _file_reference,
}


def _environment_from(sources: list[Obj], path: str) -> Causes:
    causes: Causes = []
    for i, source in enumerate(sources):
        here = at(path, i)
        if source.get("prefix"):
            causes += [invalid(f"{here}.prefix", source["prefix"], words) for words in names.env_name(source["prefix"])]
        given = [field for field in ("configMapRef", "secretRef") if source.get(field) is not None]
        causes += [required(f"{here}.{field}.name") for field in given if not source[field].get("name")]
        if not given:
            causes.append(invalid(path, "", "must specify one of: `configMapRef` or `secretRef`"))
        elif len(given) > 1:
            causes.append(invalid(here, "", "may not have more than one field specified at a time"))
    return causes


# -- mounts ----------------------------------------------------------------------------------------------------
def _mounts(container: Obj, known: Known, path: str) -> Causes:
    causes: Causes = []
    seen: set[str] = set()
    devices = {device.get("name"): device.get("devicePath") for device in container.get("volumeDevices") or []}
    for i, mount in enumerate(container.get("volumeMounts") or []):
        here, name, target = at(path, i), mount.get("name", ""), mount.get("mountPath", "")
        if not name:
            causes.append(required(f"{here}.name"))
        if name not in known.volumes:
            causes.append(not_found(f"{here}.name", name))
        if not target:
            causes.append(required(f"{here}.mountPath"))
        if target in seen:
            causes.append(invalid(f"{here}.mountPath", target, "must be unique"))
        seen.add(target)
        if name in devices:
            causes.append(invalid(f"{here}.name", name, "must not already exist in volumeDevices"))
        if target in devices.values():
            words = "must not already exist as a path in volumeDevices"
            causes.append(invalid(f"{here}.mountPath", target, words))
        if mount.get("subPath"):
            causes += descending_path(mount["subPath"], f"{path}.subPath")
        if mount.get("subPathExpr"):
            if mount.get("subPath"):
                words = "subPathExpr and subPath are mutually exclusive"
                causes.append(invalid(f"{here}.subPathExpr", mount["subPathExpr"], words))
            causes += descending_path(mount["subPathExpr"], f"{path}.subPathExpr")
    return causes


# -- probes and hooks ------------------------------------------------------------------------------------------
def _lifecycle_and_probes(container: Obj, known: Known, path: str) -> Causes:
    causes: Causes = []
    for hook in ("postStart", "preStop"):
        handler = (container.get("lifecycle") or {}).get(hook)
        if handler is not None:
            causes += _handler(handler, known.grace, f"{path}.lifecycle.{hook}")
    for field in _PROBES:
        probe = container.get(field)
        if probe is not None:
            causes += _probe(probe, known.grace, f"{path}.{field}")
            if field != "readinessProbe" and probe.get("successThreshold") != 1:
                causes.append(invalid(f"{path}.{field}.successThreshold", probe.get("successThreshold"), "must be 1"))
    return causes


def _probe(probe: Obj, grace: int | None, path: str) -> Causes:
    causes = _handler(probe, grace, path)
    for field in ("initialDelaySeconds", "timeoutSeconds", "periodSeconds", "successThreshold", "failureThreshold"):
        causes += nonnegative(f"{path}.{field}", probe.get(field))
    own = probe.get("terminationGracePeriodSeconds")
    if own is not None and own <= 0:
        causes.append(invalid(f"{path}.terminationGracePeriodSeconds", own, "must be greater than 0"))
    return causes


def _handler(handler: Obj, grace: int | None, path: str) -> Causes:
    given = [kind for kind in ("exec", "httpGet", "tcpSocket", "grpc", "sleep") if handler.get(kind) is not None]
    if not given:
        return [required(path, "must specify a handler type")]
    causes = _action(given[0], handler[given[0]], grace, f"{path}.{given[0]}")
    return causes + [forbidden(f"{path}.{kind}", "may not specify more than 1 handler type") for kind in given[1:]]


def _action(kind: str, action: Any, grace: int | None, path: str) -> Causes:
    if kind == "exec":
        return [] if action.get("command") else [required(f"{path}.command")]
    if kind == "sleep":
        seconds = action.get("seconds", 0)
        if grace is not None and not 0 <= seconds <= grace:
            words = f"must be non-negative and less than terminationGracePeriodSeconds ({grace})"
            return [invalid(path, seconds, words)]
        return []
    causes: Causes = []
    if kind == "httpGet" and not action.get("path"):
        causes.append(required(f"{path}.path"))
    causes += names.port_number_or_name(f"{path}.port", action.get("port", 0))
    if kind == "httpGet" and action.get("scheme") not in ("HTTP", "HTTPS"):
        causes.append(not_supported(f"{path}.scheme", action.get("scheme", ""), ("HTTP", "HTTPS")))
    return causes
