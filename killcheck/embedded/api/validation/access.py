"""Roles and their bindings.

Source: pkg/apis/rbac/validation/validation.go of Kubernetes v1.36; recording 27.
"""

from __future__ import annotations

from killcheck.embedded.api.kinds import Kind
from killcheck.embedded.api.validation import meta, names
from killcheck.embedded.api.validation.fields import Causes, at, invalid, not_supported, required
from killcheck.kube.objects import Obj

__all__ = ["create", "update"]

_GROUP = "rbac.authorization.k8s.io"


def create(kind: Kind, new: Obj) -> Causes:
    """A new role or binding."""
    return meta.create(new["metadata"], meta.path_segment) + _body(kind, new)


def update(kind: Kind, new: Obj, old: Obj) -> Causes:
    """A changed role or binding; whom it gives what may change, not what it gives."""
    causes = meta.update(new["metadata"], old["metadata"], rule=meta.again(kind.resource.kind)) + _body(kind, new)
    ref = new.get("roleRef")
    if ref is not None and ref != old.get("roleRef"):
        shown = {"APIGroup": ref.get("apiGroup", ""), "Kind": ref.get("kind", ""), "Name": ref.get("name", "")}
        causes.append(invalid("roleRef", shown, "cannot change roleRef"))
    return causes


def _body(kind: Kind, new: Obj) -> Causes:
    namespaced = kind.resource.namespaced
    if "Binding" in kind.resource.kind:
        return _role_ref(new.get("roleRef") or {}, namespaced) + _subjects(new.get("subjects") or [], namespaced)
    causes: Causes = []
    for i, rule in enumerate(new.get("rules") or []):
        causes += _rule(rule, at("rules", i), namespaced)
    aggregation = new.get("aggregationRule")
    if aggregation is not None:
        path = "aggregationRule.clusterRoleSelectors"
        selectors = aggregation.get("clusterRoleSelectors") or []
        if not selectors:
            causes.append(required(path, "at least one clusterRoleSelector required if aggregationRule is non-nil"))
        for i, selector in enumerate(selectors):
            causes += meta.selector(selector, at(path, i))
    return causes


def _rule(rule: Obj, path: str, namespaced: bool) -> Causes:
    causes: Causes = []
    if not rule.get("verbs"):
        causes.append(required(f"{path}.verbs", "verbs must contain at least one value"))
    urls = rule.get("nonResourceURLs")
    if urls:
        at_urls = f"{path}.nonResourceURLs"
        if namespaced:
            causes.append(invalid(at_urls, urls, "namespaced rules cannot apply to non-resource URLs"))
        if rule.get("apiGroups") or rule.get("resources") or rule.get("resourceNames"):
            words = "rules cannot apply to both regular resources and non-resource URLs"
            causes.append(invalid(at_urls, urls, words))
        return causes
    if not rule.get("apiGroups"):
        causes.append(required(f"{path}.apiGroups", "resource rules must supply at least one api group"))
    if not rule.get("resources"):
        causes.append(required(f"{path}.resources", "resource rules must supply at least one resource"))
    return causes


def _role_ref(ref: Obj, namespaced: bool) -> Causes:
    causes: Causes = []
    if ref.get("apiGroup") != _GROUP:
        causes.append(not_supported("roleRef.apiGroup", ref.get("apiGroup", ""), (_GROUP,)))
    known = ("Role", "ClusterRole") if namespaced else ("ClusterRole",)
    if ref.get("kind") not in known:
        causes.append(not_supported("roleRef.kind", ref.get("kind", ""), known))
    name = ref.get("name", "")
    if not name:
        return [*causes, required("roleRef.name")]
    return causes + [invalid("roleRef.name", name, words) for words in meta.path_segment(name)]


def _subjects(subjects: list[Obj], namespaced: bool) -> Causes:
    causes: Causes = []
    known = ("ServiceAccount", "User", "Group")
    for i, subject in enumerate(subjects):
        path, name, kind = at("subjects", i), subject.get("name", ""), subject.get("kind", "")
        group = subject.get("apiGroup", "")
        if not name:
            causes.append(required(f"{path}.name"))
        if kind not in known:
            causes.append(not_supported(f"{path}.kind", kind, known))
        elif kind == "ServiceAccount":
            causes += names.dns_subdomain_cause(f"{path}.name", name) if name else []
            if group:
                causes.append(not_supported(f"{path}.apiGroup", group, ("",)))
            if not namespaced and not subject.get("namespace"):
                causes.append(required(f"{path}.namespace"))
        elif group != _GROUP:
            causes.append(not_supported(f"{path}.apiGroup", group, (_GROUP,)))
    return causes
