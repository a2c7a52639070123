"""What Kubernetes accepts with a warning: names that are no DNS labels, fields that do nothing, doubled variables.

Source: ``WarningsOnCreate`` and ``WarningsOnUpdate`` of the strategies under pkg/registry, and pkg/api/pod/warnings.go,
pkg/api/node/util.go, pkg/api/job/warnings.go of Kubernetes v1.36.
"""

from __future__ import annotations

from collections.abc import Iterator

from killcheck.embedded.api.kinds import Kind
from killcheck.embedded.api.validation import names
from killcheck.embedded.api.validation.fields import at, key, quote
from killcheck.kube.objects import Obj, dig
from killcheck.kube.quantities import QuantityError, parse

__all__ = ["warnings"]

_LABEL = "which can result in surprising behavior; a DNS label is recommended: "
_POD_NAME = f"metadata.name: this is used in the Pod's hostname, {_LABEL}"
_WORKLOAD_NAME = f"metadata.name: this is used in Pod names and hostnames, {_LABEL}"
_NAMED = frozenset({"Deployment", "ReplicaSet", "ReplicationController", "Job", "CronJob"})
#: Where each type keeps its template of pods.
_TEMPLATES: dict[str, tuple[str, ...]] = {
    "Deployment": ("spec", "template"),
    "ReplicaSet": ("spec", "template"),
    "StatefulSet": ("spec", "template"),
    "DaemonSet": ("spec", "template"),
    "ReplicationController": ("spec", "template"),
    "Job": ("spec", "template"),
    "CronJob": ("spec", "jobTemplate", "spec", "template"),
    "PodTemplate": ("template",),
}
_NODE_LABELS = {
    "beta.kubernetes.io/arch": 'deprecated since v1.14; use "kubernetes.io/arch" instead',
    "beta.kubernetes.io/os": 'deprecated since v1.14; use "kubernetes.io/os" instead',
    "failure-domain.beta.kubernetes.io/region": 'deprecated since v1.17; use "topology.kubernetes.io/region" instead',
    "failure-domain.beta.kubernetes.io/zone": 'deprecated since v1.17; use "topology.kubernetes.io/zone" instead',
    "beta.kubernetes.io/instance-type": 'deprecated since v1.17; use "node.kubernetes.io/instance-type" instead',
    "app.kubernetes.io/created-by": "deprecated since v1.9",
    "scheduler.alpha.kubernetes.io/preferAvoidPods": "deprecated since v1.22; use Taints and Tolerations instead",
    "node-role.kubernetes.io/master": 'use "node-role.kubernetes.io/control-plane" instead',
}
_ANNOTATIONS = {
    "scheduler.alpha.kubernetes.io/critical-pod": 'non-functional in v1.16+; use the "priorityClassName" field instead',
    "security.alpha.kubernetes.io/sysctls": 'non-functional in v1.11+; use the "sysctls" field instead',
    "security.alpha.kubernetes.io/unsafe-sysctls": 'non-functional in v1.11+; use the "sysctls" field instead',
}


def warnings(kind: Kind, new: Obj, old: Obj | None) -> list[str]:
    """What to warn of in an object of a built-in type that was accepted; ``old`` is None for a new one."""
    name = kind.resource.kind
    if name == "Pod" and kind.resource.group == "":
        return [] if old is not None else [*_name(new, _POD_NAME), *_pod(new, "")]
    if name == "Service" and kind.resource.group == "":
        return _service(new.get("spec") or {})
    if name == "PersistentVolumeClaim":
        return _fractions({"resources": dig(new, "spec", "resources")}, "spec.resources", ("storage",))
    path = _TEMPLATES.get(name)
    if path is None or kind.crd is not None:
        return []
    if old is not None and dig(new, "metadata", "generation") == dig(old, "metadata", "generation"):
        return []
    found = _name(new, _WORKLOAD_NAME) if name in _NAMED and old is None else []
    if name == "StatefulSet" and (dig(new, "spec", "revisionHistoryLimit") or 0) < 0:
        words = "a negative value retains all historical revisions; a value >= 0 is recommended"
        found.append(f"spec.revisionHistoryLimit: {words}")
    return [*found, *_pod(dig(new, *path, default={}), ".".join(path))]


def _service(spec: Obj) -> list[str]:
    """Source: pkg/api/service/warnings.go."""
    kind, headless, found = spec.get("type"), "None" in (spec.get("clusterIPs") or ()), []
    external = bool(spec.get("externalIPs"))
    if headless:
        said = (("loadBalancerIP", spec.get("loadBalancerIP")), ("externalIPs", external))
        found += [f"spec.{field} is ignored for headless services" for field, given in said if given]
        if spec.get("sessionAffinity") != "None":
            found.append("spec.SessionAffinity is ignored for headless services")
    elif external and kind != "ExternalName":
        found.append("spec.externalIPs is deprecated and may no longer be implemented in some clusters")
    if kind == "ExternalName" and external:
        found.append('spec.externalIPs is ignored when spec.type is "ExternalName"')
    if kind != "ExternalName" and spec.get("externalName"):
        found.append('spec.externalName is ignored when spec.type is not "ExternalName"')
    if spec.get("trafficDistribution") == "PreferClose":
        found.append('spec.trafficDistribution: "PreferClose" is deprecated; use "PreferSameZone"')
    return found


def _name(obj: Obj, words: str) -> list[str]:
    wrong = names.dns_label(str(obj["metadata"].get("name", "")))
    return [f"{words}[{' '.join(wrong)}]"] if wrong else []


def _pod(template: Obj, path: str) -> list[str]:
    """Of a pod, or of a template at ``path``."""
    spec, annotations = template.get("spec") or {}, dig(template, "metadata", "annotations", default={})
    here = f"{path}.spec" if path else "spec"
    found = [
        f"{key(f'{here}.nodeSelector', label)}: {_NODE_LABELS[label]}"
        for label in spec.get("nodeSelector") or {}
        if label in _NODE_LABELS
    ]
    found += _spread(spec, f"{here}.topologySpreadConstraints")
    metadata = f"{path}.metadata.annotations" if path else "metadata.annotations"
    found += [f"{key(metadata, name)}: {words}" for name, words in _ANNOTATIONS.items() if name in annotations]
    found += _twice(spec.get("hostAliases") or [], "ip", f"{here}.hostAliases")
    secrets = spec.get("imagePullSecrets") or []
    found += _twice(secrets, "name", f"{here}.imagePullSecrets")
    found += [
        f'{here}.imagePullSecrets[{i}].name: invalid empty name ""'
        for i, one in enumerate(secrets)
        if not one.get("name")
    ]
    for where, container in _containers(spec, here):
        found += _fractions(container, f"{where}.resources") + _variables(container, f"{where}.env")
    found += _ports(spec, here)
    grace = spec.get("terminationGracePeriodSeconds")
    if grace is not None and grace < 0:
        found.append(
            f"{here}.terminationGracePeriodSeconds: must be >= 0; negative values are invalid and will be treated as 1"
        )
    return found


def _spread(spec: Obj, path: str) -> list[str]:
    found = []
    for i, constraint in enumerate(spec.get("topologySpreadConstraints") or []):
        label = constraint.get("topologyKey", "")
        if label in _NODE_LABELS:
            found.append(f"{at(path, i)}.topologyKey: {label} is {_NODE_LABELS[label]}")
        if constraint.get("labelSelector") is None:
            found.append(f"{at(path, i)}.labelSelector: a null labelSelector results in matching no pod")
    return found


def _twice(items: list[Obj], field: str, path: str) -> list[str]:
    values = [item.get(field, "") for item in items]
    return [
        f"{at(path, i)}.{field}: duplicate {field} {quote(value)}"
        for i, value in enumerate(values)
        if value in values[:i]
    ]


def _containers(spec: Obj, path: str) -> Iterator[tuple[str, Obj]]:
    for field in ("initContainers", "containers", "ephemeralContainers"):
        for i, container in enumerate(spec.get(field) or []):
            yield f"{path}.{field}[{i}]", container


def _fractions(container: Obj, path: str, of: tuple[str, ...] = ("memory", "ephemeral-storage")) -> list[str]:
    """Bytes come whole."""
    found = []
    for resource in of:
        for field in ("limits", "requests"):
            text = dig(container, "resources", field, resource)
            try:
                whole = text is None or parse(text) % 1 == 0
            except QuantityError:
                continue
            if not whole:
                where = key(f"{path}.{field}", resource)
                found.append(f"{where}: fractional byte value {quote(str(text))} is invalid, must be an integer")
    return found


def _variables(container: Obj, path: str) -> list[str]:
    found = []
    seen: set[str] = set()
    for i, variable in enumerate(container.get("env") or []):
        name, value = variable.get("name", ""), str(variable.get("value") or "")
        reference = f"$({name})"
        harmless = variable.get("valueFrom") is None and value != reference and reference in value
        if name in seen and not harmless:
            found.append(
                f"{at(path, i)}: hides previous definition of {quote(name)}, which may be dropped when using apply"
            )
        seen.add(name)
    return found


def _ports(spec: Obj, path: str) -> list[str]:
    """The same port of several containers; then the same name."""
    found: list[str] = []
    numbers: dict[tuple[int, str], list[tuple[str, Obj]]] = {}
    named: dict[str, str] = {}
    repeated: list[str] = []
    for where, container in _containers(spec, path):
        for i, port in enumerate(container.get("ports") or []):
            here = f"{where}.ports[{i}]"
            others = numbers.setdefault((port.get("containerPort", 0), port.get("protocol", "TCP")), [])
            found += [said for other in others if (said := _clash(port, here, *other))]
            others.append((here, port))
            name = port.get("name")
            if name and name in named:
                repeated.append(
                    f"{here}: duplicate port name {quote(name)} with {named[name]}, services and probes that select "
                    f"ports by name will use {named[name]}"
                )
            elif name:
                named[name] = here
    return found + repeated


def _clash(port: Obj, here: str, there: str, other: Obj) -> str | None:
    mine, theirs = ((one.get("hostIP", ""), one.get("hostPort", 0)) for one in (port, other))
    if mine == theirs:
        return f"{here}: duplicate port definition with {there}"
    if not mine[1] or not theirs[1]:
        return f"{here}: overlapping port definition with {there}"
    if mine[1] == theirs[1] and bool(mine[0]) != bool(theirs[0]):
        return f"{here}: dangerously ambiguous port definition with {there}"
    return None
