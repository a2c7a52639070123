"""Secrets, ConfigMaps, quotas and limits.

Source: pkg/apis/core/validation/validation.go of Kubernetes v1.36. A Secret's content never enters a message.
"""

from __future__ import annotations

import base64
import json

from killcheck.embedded.api.kinds import Kind
from killcheck.embedded.api.validation import meta, names, resources
from killcheck.embedded.api.validation.fields import (
    Causes,
    at,
    duplicate,
    forbidden,
    immutable,
    invalid,
    key,
    required,
    too_long,
)
from killcheck.kube.objects import Obj
from killcheck.kube.quantities import parse

__all__ = ["create", "update"]

_LIMIT_BYTES = 1024 * 1024
_FROZEN = "field is immutable when `immutable` is set"
_ACCOUNT = "kubernetes.io/service-account.name"


def create(kind: Kind, new: Obj) -> Causes:
    """A new object."""
    return meta.create(new["metadata"], names.dns_subdomain) + _body(kind, new)


def update(kind: Kind, new: Obj, old: Obj) -> Causes:
    """A changed object."""
    causes = meta.update(new["metadata"], old["metadata"], rule=meta.again(kind.resource.kind))
    if kind.resource.kind == "Secret":
        causes += immutable("type", new.get("type"), old.get("type"))
    if old.get("immutable"):
        fields = ["data"] if kind.resource.kind == "Secret" else ["data", "binaryData"]
        if not new.get("immutable"):
            causes.append(forbidden("immutable", _FROZEN))
        causes += [forbidden(field, _FROZEN) for field in fields if new.get(field) != old.get(field)]
    if kind.resource.kind == "ResourceQuota":
        ours, theirs = (obj.get("spec") or {} for obj in (new, old))
        if set(ours.get("scopes") or []) != set(theirs.get("scopes") or []):
            causes.append(invalid("spec.scopes", ours.get("scopes"), "field is immutable"))
    return causes + _body(kind, new)


def _body(kind: Kind, new: Obj) -> Causes:
    return {"Secret": _secret, "ConfigMap": _config_map, "ResourceQuota": _quota, "LimitRange": _limits}[
        kind.resource.kind
    ](new)


def _secret(new: Obj) -> Causes:
    data = new.get("data") or {}
    causes = _keys("data", data)
    if sum(len(value) * 3 // 4 - value.count("=") for value in data.values() if value) > _LIMIT_BYTES:
        causes.append(too_long("data", _LIMIT_BYTES))
    kind = new.get("type", "")
    if kind == "kubernetes.io/service-account-token":
        if not ((new["metadata"].get("annotations") or {}).get(_ACCOUNT)):
            causes.append(required(key("metadata.annotations", _ACCOUNT)))
    elif kind in _DOCKER:
        causes += _docker(data, _DOCKER[kind])
    elif kind == "kubernetes.io/basic-auth":
        if "username" not in data and "password" not in data:
            causes += [required(key("data", "username")), required(key("data", "password"))]
    elif kind == "kubernetes.io/ssh-auth":
        causes += [] if data.get("ssh-privatekey") else [required(key("data", "ssh-privatekey"))]
    elif kind == "kubernetes.io/tls":
        causes += [required(key("data", field)) for field in ("tls.crt", "tls.key") if field not in data]
    return causes


_DOCKER = {"kubernetes.io/dockercfg": ".dockercfg", "kubernetes.io/dockerconfigjson": ".dockerconfigjson"}


def _docker(data: Obj, field: str) -> Causes:
    path = key("data", field)
    if field not in data:
        return [required(path)]
    try:
        parsed = json.loads(base64.b64decode(data[field]))
    except ValueError:
        return [invalid(path, "<secret contents redacted>", "invalid character in JSON text")]
    if isinstance(parsed, dict):
        return []
    words = "json: cannot unmarshal value into Go value of type map[string]interface {}"
    return [invalid(path, "<secret contents redacted>", words)]


def _keys(path: str, data: Obj) -> Causes:
    return [invalid(key(path, name), name, words) for name in data for words in names.config_key(name)]


def _config_map(new: Obj) -> Causes:
    data, binary = new.get("data") or {}, new.get("binaryData") or {}
    causes = _keys("data", data)
    causes += [
        invalid(key("data", name), name, "duplicate of key present in binaryData") for name in data if name in binary
    ]
    causes += _keys("binaryData", binary)
    size = sum(len(value.encode()) for value in data.values()) + sum(len(v) * 3 // 4 for v in binary.values())
    if size > _LIMIT_BYTES:
        causes.append(too_long("", _LIMIT_BYTES))
    return causes


# -- quotas ----------------------------------------------------------------------------------------------------
_SCOPES = (
    "BestEffort",
    "CrossNamespacePodAffinity",
    "NotBestEffort",
    "NotTerminating",
    "PriorityClass",
    "Terminating",
    "VolumeAttributesClass",
)
_OUT_OF_SCOPE = "unsupported scope applied to resource"
_EXISTS = (
    "must be 'Exists' when scope is any of ResourceQuotaScopeTerminating, ResourceQuotaScopeNotTerminating, "
    "ResourceQuotaScopeBestEffort, ResourceQuotaScopeNotBestEffort or ResourceQuotaScopeCrossNamespacePodAffinity"
)
#: What a pod computes with, and all that a quota knows by itself (pkg/apis/core/helper).
_COMPUTED = frozenset({"cpu", "memory", "limits.cpu", "limits.memory", "requests.cpu", "requests.memory"})
_QUOTED = _COMPUTED | {
    "configmaps",
    "ephemeral-storage",
    "limits.ephemeral-storage",
    "persistentvolumeclaims",
    "pods",
    "replicationcontrollers",
    "requests.ephemeral-storage",
    "requests.storage",
    "resourcequotas",
    "secrets",
    "services",
    "services.loadbalancers",
    "services.nodeports",
}


def _quota(new: Obj) -> Causes:
    spec = new.get("spec") or {}
    causes: Causes = []
    for name, text in (spec.get("hard") or {}).items():
        path = key("spec.hard", name)
        causes += resources.quota_name(path, name) + resources.quantity(path, name, text)
    scopes, hard = spec.get("scopes") or [], sorted(spec.get("hard") or {})
    for scope in scopes:
        if scope not in _SCOPES:
            causes.append(invalid("spec.scopes", scopes, "unsupported scope"))
        causes += [invalid("spec.scopes", scopes, _OUT_OF_SCOPE) for name in hard if not _in_scope(name, scope)]
    for pair in (("BestEffort", "NotBestEffort"), ("Terminating", "NotTerminating")):
        if set(pair) <= set(scopes):
            causes.append(invalid("spec.scopes", scopes, "conflicting scopes"))
    selector = spec.get("scopeSelector")
    return causes + (_scope_selector(selector, hard) if selector is not None else [])


def _in_scope(name: str, scope: str) -> bool:
    """Whether a quota of that scope can bound it; what is no resource of a standard quota every scope can."""
    if scope == "VolumeAttributesClass":
        return name not in _QUOTED or name in ("persistentvolumeclaims", "requests.storage")
    if scope not in _SCOPES or name not in _QUOTED:
        return True
    return name == "pods" or (scope != "BestEffort" and name in _COMPUTED)


def _scope_selector(selector: Obj, hard: list[str]) -> Causes:
    """Source: validateScopedResourceSelectorRequirement of pkg/apis/core/validation."""
    path = "spec.scopeSelector.matchExpressions"
    causes: Causes = []
    for one in selector.get("matchExpressions") or []:
        scope, operator, values = one.get("scopeName", ""), one.get("operator", ""), one.get("values") or []
        if scope not in _SCOPES:
            causes.append(invalid(f"{path}.scopeName", scope, "unsupported scope"))
        causes += [invalid(path, selector, _OUT_OF_SCOPE) for name in hard if not _in_scope(name, scope)]
        if scope in _SCOPES and scope not in ("PriorityClass", "VolumeAttributesClass") and operator != "Exists":
            causes.append(invalid(f"{path}.operator", operator, _EXISTS))
        if operator in ("In", "NotIn") and not values:
            words = "must be at least one value when `operator` is 'In' or 'NotIn' for scope selector"
            causes.append(required(f"{path}.values", words))
        elif operator in ("Exists", "DoesNotExist") and values:
            words = "must be no value when `operator` is 'Exist' or 'DoesNotExist' for scope selector"
            causes.append(invalid(f"{path}.values", values, words))
        elif operator not in ("In", "NotIn", "Exists", "DoesNotExist"):
            causes.append(invalid(f"{path}.operator", operator, "not a valid selector operator"))
    return causes


# -- limits ----------------------------------------------------------------------------------------------------
_LIMIT_TYPES = ("Pod", "Container", "PersistentVolumeClaim")
_AMOUNTS = ("max", "min", "default", "defaultRequest", "maxLimitRequestRatio")


def _limits(new: Obj) -> Causes:
    causes: Causes = []
    seen: set[str] = set()
    for i, limit in enumerate((new.get("spec") or {}).get("limits") or []):
        path, kind = at("spec.limits", i), limit.get("type", "")
        wrong = [invalid(f"{path}.type", kind, words) for words in names.qualified_name(kind)]
        if not wrong and "/" not in kind and kind not in _LIMIT_TYPES:
            wrong.append(invalid(f"{path}.type", kind, "must be a standard limit type or fully qualified"))
        causes += wrong
        if kind in seen:
            causes.append(duplicate(f"{path}.type", kind))
        seen.add(kind)
        if kind == "Pod":
            causes += [
                forbidden(f"{path}.{field}", "may not be specified when `type` is 'Pod'")
                for field in ("default", "defaultRequest")
                if limit.get(field)
            ]
        if kind == "PersistentVolumeClaim" and not any(
            "storage" in (limit.get(field) or {}) for field in ("min", "max")
        ):
            causes.append(
                required(
                    f"{path}.limits", "either minimum or maximum storage value is required, but neither was provided"
                )
            )
        for name in {name: None for field in _AMOUNTS for name in limit.get(field) or {}}:
            causes += _limit(limit, name, path)
    return causes


_PAIRS = (
    ("min", "max", "min", "min value", "max value"),
    ("min", "defaultRequest", "defaultRequest", "min value", "default request value"),
    ("defaultRequest", "max", "defaultRequest", "default request value", "max value"),
    ("defaultRequest", "default", "defaultRequest", "default request value", "default limit value"),
    ("min", "default", "default", "min value", "default value"),
    ("default", "max", "default", "default value", "max value"),
)


def _limit(limit: Obj, name: str, path: str) -> Causes:
    causes: Causes = []
    given = {field: limit[field][name] for field in _AMOUNTS if name in (limit.get(field) or {})}
    for smaller, greater, at_field, first, second in _PAIRS:
        if smaller in given and greater in given and parse(given[smaller]) > parse(given[greater]):
            shown = given[at_field] if at_field != "default" else given[smaller if smaller != "default" else greater]
            words = f"{first} {given[smaller]} is greater than {second} {given[greater]}"
            causes.append(invalid(key(f"{path}.{at_field}", name), shown, words))
    ratio = given.get("maxLimitRequestRatio")
    if ratio is not None and parse(ratio) < 1:
        causes.append(invalid(key(f"{path}.maxLimitRequestRatio", name), ratio, f"ratio {ratio} is less than 1"))
    return causes
