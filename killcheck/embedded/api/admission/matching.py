"""Which requests a webhook or an admission policy is about: rules, namespace and object selectors.

Source: apiserver's admission/plugin/webhook/predicates and policy/matching. A rule for another version of the same
resource does not match here (``matchPolicy: Equivalent`` converts; nothing here does).
"""

from __future__ import annotations

from collections.abc import Iterable

from killcheck.embedded.api import status
from killcheck.embedded.api.admission.request import AdmissionRequest
from killcheck.embedded.api.store import Store
from killcheck.kube.objects import Obj, labels_of
from killcheck.kube.selectors import from_match_labels

__all__ = ["exempt", "in_namespaces", "matches_rules", "selects_object"]

NAMESPACES = ("", "namespaces")
#: Nobody can lock themselves out: what configures admission is not subject to it.
EXEMPT = frozenset(
    {
        "validatingwebhookconfigurations",
        "mutatingwebhookconfigurations",
        "validatingadmissionpolicies",
        "validatingadmissionpolicybindings",
        "mutatingadmissionpolicies",
        "mutatingadmissionpolicybindings",
    }
)


def exempt(request: AdmissionRequest) -> bool:
    """Whether no webhook and no policy sees this request."""
    group, plural = request.resource
    return group == "admissionregistration.k8s.io" and plural in EXEMPT


def matches_rules(rules: Iterable[Obj], request: AdmissionRequest) -> bool:
    """Whether any rule (operations, apiGroups, apiVersions, resources, resourceNames, scope) covers the request."""
    return any(_matches(rule, request) for rule in rules)


def _matches(rule: Obj, request: AdmissionRequest) -> bool:
    resource = request.kind.resource
    wanted = (("operations", request.operation), ("apiGroups", resource.group), ("apiVersions", resource.version))
    for key, value in wanted:
        items = rule.get(key) or ()
        if "*" not in items and value not in items:
            return False
    names = rule.get("resourceNames")
    if names and request.name not in names:
        return False
    return _in_scope(rule.get("scope") or "*", request) and any(
        _resource_matches(entry, request) for entry in rule.get("resources") or ()
    )


def _resource_matches(entry: str, request: AdmissionRequest) -> bool:
    resource, _, subresource = entry.partition("/")
    return resource in ("*", request.resource[1]) and subresource in ("*", request.subresource)


def _in_scope(scope: str, request: AdmissionRequest) -> bool:
    namespaced = bool(request.namespace) and request.resource != NAMESPACES
    return scope == "*" or (scope == "Namespaced") is namespaced


def in_namespaces(selector: Obj | None, request: AdmissionRequest, store: Store) -> bool:
    """Whether the request's namespace carries the labels; cluster-scoped objects always pass.

    Raises StatusError 404 where the namespace does not exist.
    """
    if not selector:
        return True
    if request.resource == NAMESPACES and not request.subresource and request.obj is not None:
        return from_match_labels(selector).matches(labels_of(request.obj))
    name = request.namespace or (request.name if request.resource == NAMESPACES else "")
    if not name:
        return True
    wanted = from_match_labels(selector)
    if wanted.empty:
        return True
    namespace = store.get(NAMESPACES, ("", name))
    if namespace is None:
        raise status.not_found("namespaces", "", name)
    return wanted.matches(labels_of(namespace))


def selects_object(selector: Obj | None, request: AdmissionRequest) -> bool:
    """Whether the object, as it is or as it was, carries the labels."""
    if not selector:
        return True
    wanted = from_match_labels(selector)
    return wanted.empty or any(wanted.matches(labels_of(obj)) for obj in (request.obj, request.old) if obj)
