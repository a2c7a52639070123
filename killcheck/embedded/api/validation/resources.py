"""Requests and limits, of containers and of quotas.

Source: pkg/apis/core/validation/validation.go (resource requirements) and pkg/apis/core/helper/helpers.go.
"""

from __future__ import annotations

from collections.abc import Callable

from killcheck.embedded.api.validation import names
from killcheck.embedded.api.validation.fields import (
    Causes,
    at,
    duplicate,
    forbidden,
    invalid,
    key,
    not_found,
    not_supported,
    required,
)
from killcheck.kube.objects import Obj
from killcheck.kube.quantities import parse

__all__ = ["is_extended", "is_integer", "of_pod", "quantity", "quota_name", "requirements"]

_CONTAINER = frozenset({"cpu", "memory", "ephemeral-storage"})
_STANDARD_INTEGER = frozenset(
    {
        "pods",
        "services",
        "replicationcontrollers",
        "resourcequotas",
        "secrets",
        "configmaps",
        "persistentvolumeclaims",
        "services.nodeports",
        "services.loadbalancers",
    }
)
_QUOTA = (
    _CONTAINER
    | _STANDARD_INTEGER
    | frozenset(
        {
            "requests.cpu",
            "requests.memory",
            "requests.storage",
            "requests.ephemeral-storage",
            "limits.cpu",
            "limits.memory",
            "limits.ephemeral-storage",
            "storage",
        }
    )
)
_STANDARD = _QUOTA
_NATIVE_DOMAIN = "kubernetes.io/"


def is_extended(name: str) -> bool:
    """``nvidia.com/gpu`` and the like: counted in whole pieces, never shared out beyond what there is."""
    if "/" not in name or _NATIVE_DOMAIN in name or name.startswith("requests."):
        return False
    return not names.qualified_name(f"requests.{name}")


def is_integer(name: str) -> bool:
    """Whether only whole numbers make sense."""
    return name in _STANDARD_INTEGER or is_extended(name)


def _overcommit_allowed(name: str) -> bool:
    native = "/" not in name or _NATIVE_DOMAIN in name
    return native and not name.startswith("hugepages-")


def _resource_name(path: str, name: str) -> Causes:
    causes = names.label_name(path, name)
    if (
        not causes
        and "/" not in name
        and name not in _STANDARD
        and not name.startswith(("hugepages-", "requests.hugepages-"))
    ):
        causes.append(invalid(path, name, "must be a standard resource type or fully qualified"))
    return causes


def _container_resource(path: str, name: str) -> Causes:
    causes = _resource_name(path, name)
    if "/" not in name:
        if name not in _CONTAINER and not name.startswith("hugepages-"):
            causes.append(invalid(path, name, "must be a standard resource for containers"))
    elif _NATIVE_DOMAIN not in name and not is_extended(name):
        causes.append(invalid(path, name, "doesn't follow extended resource name standard"))
    return causes


def quota_name(path: str, name: str) -> Causes:
    """A resource that a quota can bound."""
    causes = _resource_name(path, name)
    counted = name.startswith(("requests.hugepages-", "hugepages-"))
    if "/" not in name and name not in _QUOTA and not counted:
        causes.append(invalid(path, name, "must be a standard resource for quota"))
    return causes


def quantity(path: str, name: str, text: str) -> Causes:
    """An amount of a resource: not negative, and whole where pieces are counted."""
    value = parse(text)
    causes: Causes = []
    if value < 0:
        causes.append(invalid(path, text, "must be greater than or equal to 0"))
    if is_integer(name) and value.denominator != 1:
        causes.append(invalid(path, text, "must be an integer"))
    return causes


def _pod_resource(path: str, name: str) -> Causes:
    causes = _resource_name(path, name)
    if not causes and name not in ("cpu", "memory") and not name.startswith("hugepages-"):
        causes.append(not_supported(path, name, ("cpu", "hugepages-", "memory")))
    return causes


def requirements(
    given: Obj, claims: set[str], path: str, resource: Callable[[str, str], Causes] = _container_resource
) -> Causes:
    """A container's ``resources``; ``claims``: the names in the pod's ``resourceClaims``; ``resource``: what may be."""
    limits, requests = given.get("limits") or {}, given.get("requests") or {}
    causes: Causes = []
    for name, text in limits.items():
        causes += _amount(key(f"{path}.limits", name), name, text, resource)
    for name, text in requests.items():
        causes += _amount(key(f"{path}.requests", name), name, text, resource)
        causes += _within_limit(path, name, text, limits.get(name))
    named = {*limits, *requests}
    if any(name.startswith("hugepages-") for name in named) and not named & {"cpu", "memory"}:
        causes.append(forbidden(path, "HugePages require cpu or memory"))
    return causes + _claims(given.get("claims") or [], claims, f"{path}.claims")


def of_pod(given: Obj, claims: set[str], path: str) -> Causes:
    """What the containers of a pod share (``spec.resources``): processor, memory and huge pages, no devices."""
    causes: Causes = []
    if given.get("claims") is not None:
        causes.append(forbidden(f"{path}.claims", "claims may not be set for Resources at pod-level"))
    return causes + requirements(given, claims, path, _pod_resource)


def _amount(path: str, name: str, text: str, resource: Callable[[str, str], Causes]) -> Causes:
    causes = resource(path, name) + quantity(path, name, text)
    if name.startswith("hugepages-"):
        size = parse(name.removeprefix("hugepages-"))
        if size and (parse(text) / size).denominator != 1:
            causes.append(invalid(path, text, f"{text} is not positive integer multiple of {name}"))
    return causes


def _within_limit(path: str, name: str, text: str, limit: str | None) -> Causes:
    shared = _overcommit_allowed(name)
    if limit is None:
        return [] if shared else [required(f"{path}.limits", "Limit must be set for non overcommitable resources")]
    wanted, most = parse(text), parse(limit)
    if wanted != most and not shared:
        return [invalid(f"{path}.requests", text, f"must be equal to {name} limit of {limit}")]
    if wanted > most:
        return [invalid(f"{path}.requests", text, f"must be less than or equal to {name} limit of {limit}")]
    return []


def _claims(given: list[Obj], claims: set[str], path: str) -> Causes:
    causes: Causes = []
    seen: set[str] = set()
    for i, claim in enumerate(given):
        name, request = claim.get("name", ""), claim.get("request", "")
        if not name:
            causes.append(required(at(path, i)))
            continue
        whole = f"{name}/{request}" if request else name
        if name in seen or whole in seen:
            causes.append(duplicate(at(path, i), whole if name not in seen else name))
        seen.add(whole)
        if name not in claims:
            there = f": {', '.join(sorted(claims))}" if claims else " which is empty"
            causes.append(not_found(at(path, i), name, f"must be one of the names in pod.spec.resourceClaims{there}"))
    return causes
