"""The spec of a pod, in a pod or in a template.

Source: ``ValidatePodSpec`` and ``ValidatePodTemplateSpec`` in pkg/apis/core/validation/validation.go, Kubernetes v1.36.
"""

from __future__ import annotations

from killcheck.embedded.api.validation import containers, meta, names, placement, resources, security, volumes
from killcheck.embedded.api.validation.fields import (
    Causes,
    at,
    duplicate,
    forbidden,
    invalid,
    key,
    not_supported,
    required,
)
from killcheck.kube.objects import Obj

__all__ = ["pod_spec", "template"]

_RESTART = ("Always", "OnFailure", "Never")
_DNS = ("ClusterFirstWithHostNet", "ClusterFirst", "Default", "None")
_MAX_INT32 = 2**31 - 1
_SYSTEMS = ("linux", "windows")


def template(given: Obj, path: str) -> Causes:
    """A template of pods."""
    causes = meta.template(given.get("metadata") or {}, path)
    spec = given.get("spec") or {}
    causes += pod_spec(spec, f"{path}.spec", pod=False)
    if spec.get("ephemeralContainers"):
        causes.append(forbidden(f"{path}.spec.ephemeralContainers", "ephemeral containers not allowed in pod template"))
    return causes


def pod_spec(spec: Obj, path: str, *, pod: bool) -> Causes:
    """The spec itself; ``pod``: of a pod rather than of a template."""
    causes: Causes = []
    grace = spec.get("terminationGracePeriodSeconds")
    if grace is None:
        causes.append(required(f"{path}.terminationGracePeriodSeconds"))
    known, wrong = volumes.volumes(spec.get("volumes") or [], f"{path}.volumes")
    causes += wrong
    claims = {claim["name"] for claim in spec.get("resourceClaims") or [] if claim.get("name")}
    causes += _resource_claims(spec.get("resourceClaims") or [], f"{path}.resourceClaims")
    there = containers.Known(known, claims, grace, spec.get("hostUsers") is not False)
    causes += containers.containers(spec, there, path) + containers.ephemeral(spec, there, path)
    causes += _host_ports(spec, path, pod=pod)
    causes += _choice(f"{path}.restartPolicy", spec.get("restartPolicy", ""), _RESTART)
    causes += _choice(f"{path}.dnsPolicy", spec.get("dnsPolicy", ""), _DNS)
    causes += names.labels(f"{path}.nodeSelector", spec.get("nodeSelector"))
    causes += security.pod(spec, f"{path}.securityContext")
    causes += placement.affinity(spec.get("affinity") or {}, f"{path}.affinity")
    causes += security.dns(spec, f"{path}.dnsConfig")
    causes += _readiness_gates(spec.get("readinessGates") or [], f"{path}.readinessGates")
    causes += _scheduling_gates(spec.get("schedulingGates") or [], f"{path}.schedulingGates")
    causes += placement.spread(spec.get("topologySpreadConstraints") or [], f"{path}.topologySpreadConstraints")
    causes += security.host_process(spec, path)
    causes += security.host_users(spec, path)
    causes += _names(spec, path)
    deadline = spec.get("activeDeadlineSeconds")
    if deadline is not None and not 1 <= deadline <= _MAX_INT32:
        causes.append(
            invalid(f"{path}.activeDeadlineSeconds", deadline, f"must be between 1 and {_MAX_INT32}, inclusive")
        )
    for field in ("hostname", "subdomain"):
        if spec.get(field):
            causes += names.dns_label_cause(f"{path}.{field}", spec[field])
    causes += resources.of_pod(spec.get("resources") or {}, claims, f"{path}.resources")
    causes += placement.tolerations(spec.get("tolerations") or [], f"{path}.tolerations")
    causes += _host_aliases(spec.get("hostAliases") or [], f"{path}.hostAliases")
    system = (spec.get("os") or {}).get("name")
    if spec.get("os") is not None and not system:
        causes.append(required(f"{path}.os.name"))
    elif system not in (None, *_SYSTEMS):
        causes.append(not_supported(f"{path}.os", system, _SYSTEMS))
    if spec.get("preemptionPolicy") not in (None, "PreemptLowerPriority", "Never"):
        causes.append(
            not_supported(f"{path}.preemptionPolicy", spec["preemptionPolicy"], ("PreemptLowerPriority", "Never"))
        )
    for name, text in (spec.get("overhead") or {}).items():
        causes += resources.quantity(key(f"{path}.overhead", name), name, text)
    return causes


def _choice(path: str, value: str, known: tuple[str, ...]) -> Causes:
    if not value:
        return [required(path)]
    return [] if value in known else [not_supported(path, value, known)]


def _names(spec: Obj, path: str) -> Causes:
    causes: Causes = []
    for field in ("serviceAccountName", "nodeName", "priorityClassName", "runtimeClassName"):
        if spec.get(field) or (field == "runtimeClassName" and spec.get(field) is not None):
            causes += names.dns_subdomain_cause(f"{path}.{field}", spec[field])
    return causes


def _resource_claims(claims: list[Obj], path: str) -> Causes:
    causes: Causes = []
    seen: set[str] = set()
    for i, claim in enumerate(claims):
        here, name = at(path, i), claim.get("name", "")
        if not name:
            causes.append(required(f"{here}.name"))
        elif name in seen:
            causes.append(duplicate(f"{here}.name", name))
        else:
            causes += names.dns_label_cause(f"{here}.name", name)
            seen.add(name)
        by_name, by_template = claim.get("resourceClaimName"), claim.get("resourceClaimTemplateName")
        if by_name is not None and by_template is not None:
            causes.append(
                invalid(
                    here,
                    _claim_shown(claim),
                    "at most one of `resourceClaimName` or `resourceClaimTemplateName` may be specified",
                )
            )
        if by_name is None and by_template is None:
            causes.append(
                invalid(
                    here, _claim_shown(claim), "must specify one of: `resourceClaimName`, `resourceClaimTemplateName`"
                )
            )
        for field in ("resourceClaimName", "resourceClaimTemplateName"):
            if claim.get(field) is not None:
                causes += names.dns_subdomain_cause(f"{here}.{field}", claim[field])
    return causes


def _claim_shown(claim: Obj) -> Obj:
    """As the internal type shows itself in messages."""
    return {
        "Name": claim.get("name", ""),
        "ResourceClaimName": claim.get("resourceClaimName"),
        "ResourceClaimTemplateName": claim.get("resourceClaimTemplateName"),
    }


def _host_ports(spec: Obj, path: str, *, pod: bool) -> Causes:
    if not spec.get("hostNetwork"):
        return []
    causes: Causes = []
    for i, container in enumerate(spec.get("containers") or []):
        for j, port in enumerate(container.get("ports") or []):
            host = port.get("hostPort", 0)
            if (pod or host) and host != port.get("containerPort", 0):
                causes.append(
                    invalid(
                        f"{path}.containers[{i}].ports[{j}].hostPort",
                        host,
                        "must match `containerPort` when `hostNetwork` is true",
                    )
                )
    return causes


def _readiness_gates(gates: list[Obj], path: str) -> Causes:
    return [
        invalid(f"{at(path, i)}.conditionType", gate.get("conditionType", ""), words)
        for i, gate in enumerate(gates)
        for words in names.qualified_name(gate.get("conditionType", ""))
    ]


def _scheduling_gates(gates: list[Obj], path: str) -> Causes:
    causes: Causes = []
    seen: set[str] = set()
    for i, gate in enumerate(gates):
        name = gate.get("name", "")
        causes += [invalid(at(path, i), name, words) for words in names.qualified_name(name)]
        if name in seen:
            causes.append(duplicate(at(path, i), name))
        seen.add(name)
    return causes


def _host_aliases(aliases: list[Obj], path: str) -> Causes:
    causes: Causes = []
    for i, alias in enumerate(aliases):
        causes += names.host_ip(f"{path}[{i}].ip", alias.get("ip", ""))
        for j, name in enumerate(alias.get("hostnames") or []):
            causes += names.dns_subdomain_cause(f"{path}[{i}].hostnames[{j}]", name)
    return causes
