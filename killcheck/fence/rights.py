"""Who could launch past the pools by RBAC: on Karpenter's own objects, as Karpenter's own account, or as anybody.

Sources: kubernetes.io/docs "Using RBAC Authorization" (aggregated ClusterRoles and the default ones, ``escalate``,
``bind``), "User impersonation", "Privilege escalation risks" of "RBAC Good Practices" (pods and tokens of an account).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any

from msgspec import Struct

from killcheck.kube.objects import Obj, dig, labels_of, mappings, name_of, namespace_of
from killcheck.kube.selectors import SelectorError, from_match_labels

__all__ = ["Grant", "grants"]

#: Verbs that put a NodeClaim, or a wider NodePool, into the cluster.
_WIDENING = ("create", "update", "patch")
_DOORS = {"nodeclaims": ("create",), "nodepools": _WIDENING, "nodeoverlays": _WIDENING}
#: By which one may do what one was not granted: (groups, resource, verbs).
_ANYBODY = (
    ("", "users", ("impersonate",)),
    ("", "groups", ("impersonate",)),
    ("", "serviceaccounts", ("impersonate",)),
    ("", "serviceaccounts/token", ("create",)),
    ("rbac.authorization.k8s.io", "clusterroles", ("escalate", "bind")),
)
#: By which, in its namespace, one may act as Karpenter.
_BESIDE = (
    ("", "serviceaccounts/token", ("create",)),
    ("", "pods", ("create",)),
    ("", "pods/exec", ("create",)),
    ("apps", "deployments", _WIDENING),
    ("batch", "jobs", ("create",)),
)
#: The ClusterRoles that Kubernetes brings, with those whose parts they take in; all but the last may run pods.
_BUILT_IN = {"admin": ("admin", "edit", "view"), "edit": ("edit", "view"), "view": ("view",)}
_AGGREGATED = "rbac.authorization.k8s.io/aggregate-to-"
#: Where Karpenter is taken to live, where nobody sees its Deployment.
_USUAL = ("kube-system", "karpenter")


class Grant(Struct, frozen=True):
    """A subject that may use ``verb`` on ``resource``, by which binding. ``everything``: it may do anything at all.

    ``means``: what that lets it do, where it is not the thing itself.
    """

    subject: str
    verb: str
    resource: str
    binding: str
    everything: bool = False
    means: str = ""


def grants(objects: Sequence[Obj]) -> list[Grant]:
    """Who may write what launches, or act as who may, besides Karpenter itself and Kubernetes' own (``system:``).

    Pools are cluster-scoped: of RoleBindings only those in Karpenter's namespace count.
    """
    roles = {name_of(one): one for one in objects if one.get("kind") == "ClusterRole"}
    own, found = _accounts(objects), list[Grant]()
    karpenter = bool(own) or any(str(one.get("apiVersion")).startswith("karpenter.sh/") for one in objects)
    homes = {namespace for namespace, _ in own} or set(_USUAL)
    for binding in objects:
        rules: list[tuple[str, str, bool, str]] = []
        if binding.get("kind") == "ClusterRoleBinding":
            given = list(_rules(str(dig(binding, "roleRef", "name")), roles))
            rules = [*_doors(given, static=_static(objects)), *(_anybody(given) if karpenter else ())]
        elif binding.get("kind") == "RoleBinding" and karpenter and namespace_of(binding) in homes:
            rules = list(_beside(_of_binding(binding, objects, roles)))
        for verb, resource, everything, means in rules:
            for subject in _subjects(binding, own):
                found.append(Grant(subject, verb, resource, name_of(binding), everything, means))
    return list(dict.fromkeys(found))


def _accounts(objects: Iterable[Obj]) -> frozenset[tuple[str, str]]:
    """The accounts that Karpenter's Deployments run as: (namespace, name)."""
    found = set()
    for one in objects:
        if (
            one.get("kind") == "Deployment"
            and labels_of(one).get("app.kubernetes.io/name", name_of(one)) == "karpenter"
        ):
            found.add((namespace_of(one), str(dig(one, "spec", "template", "spec", "serviceAccountName", default=""))))
    return frozenset(one for one in found if one[1])


def _static(objects: Iterable[Obj]) -> bool:
    """Whether a pool keeps nodes whatever pods want: its scale is how many."""
    return any(one.get("kind") == "NodePool" and dig(one, "spec", "replicas") is not None for one in objects)


# -- what roles grant --------------------------------------------------------------------------------------
def _rules(name: str, roles: Mapping[str, Obj]) -> Iterator[Mapping[str, Any]]:
    role = roles.get(name, {})
    yield from mappings(role.get("rules"))
    for selector in dig(role, "aggregationRule", "clusterRoleSelectors", default=()):
        try:
            wanted = from_match_labels(selector or None)
        except (SelectorError, AttributeError):
            continue  # no API server takes it
        yield from (
            rule for one in roles.values() if wanted.matches(labels_of(one)) for rule in mappings(one.get("rules"))
        )
    if not role:  # Kubernetes' own is in no manifest, and takes in what is labelled for it
        labels = [f"{_AGGREGATED}{part}" for part in _BUILT_IN.get(name, ())]
        parts = [one for one in roles.values() if any(labels_of(one).get(label) == "true" for label in labels)]
        yield from (rule for one in parts for rule in mappings(one.get("rules")))


def _of_binding(binding: Obj, objects: Iterable[Obj], roles: Mapping[str, Obj]) -> list[Mapping[str, Any]]:
    """The rules that a RoleBinding grants in its namespace; of Kubernetes' own roles what they let one run."""
    name = str(dig(binding, "roleRef", "name"))
    if dig(binding, "roleRef", "kind") == "Role":
        here = (one for one in objects if one.get("kind") == "Role" and namespace_of(one) == namespace_of(binding))
        return [rule for one in here if name_of(one) == name for rule in mappings(one.get("rules"))]
    if name not in roles and name in ("admin", "edit", "cluster-admin"):
        return [{"apiGroups": [""], "resources": ["pods"], "verbs": ["create"]}]
    return list(_rules(name, roles))


def _holds(rule: Mapping[str, Any], group: str, resource: str) -> bool:
    groups, resources = rule.get("apiGroups") or (), set(rule.get("resources") or ())
    below = resource.partition("/")[2]
    return bool({"*", group} & set(groups) and resources & {"*", resource, *([f"*/{below}"] if below else ())})


def _all(rule: Mapping[str, Any]) -> bool:
    star = all("*" in (rule.get(field) or ()) for field in ("apiGroups", "resources", "verbs"))
    return star and not rule.get("resourceNames")


def _doors(rules: Iterable[Mapping[str, Any]], *, static: bool) -> Iterator[tuple[str, str, bool, str]]:
    wanted = {**_DOORS, **({"nodepools/scale": ("update", "patch")} if static else {})}
    for rule in rules:
        # Names keep nobody from widening what they name; a create has none when it is asked about, so none is granted.
        named = bool(rule.get("resourceNames"))
        for resource, opening in wanted.items():
            for verb in opening if _holds(rule, "karpenter.sh", resource) else ():
                if {"*", verb} & set(rule.get("verbs") or ()) and not (named and verb == "create"):
                    yield verb, resource, _all(rule), ""


def _anybody(rules: Iterable[Mapping[str, Any]]) -> Iterator[tuple[str, str, bool, str]]:
    """What lets one act as others do, or grant oneself what one likes."""
    for rule in rules:
        if _all(rule):
            continue  # told already
        for group, resource, verbs in _ANYBODY:
            for verb in verbs if _holds(rule, group, resource) and _of_weight(rule) else ():
                if {"*", verb} & set(rule.get("verbs") or ()):
                    yield verb, resource, False, "act as anybody, or grant itself anything"


def _of_weight(rule: Mapping[str, Any]) -> bool:
    """Whether what a rule names is nobody in particular, or somebody who may write pools."""
    names = rule.get("resourceNames") or ()
    return not names or any("karpenter" in str(one) or "admin" in str(one) or one == "system:masters" for one in names)


def _beside(rules: Iterable[Mapping[str, Any]]) -> Iterator[tuple[str, str, bool, str]]:
    for rule in rules:
        named = bool(rule.get("resourceNames"))
        for group, resource, verbs in _BESIDE if _of_weight(rule) else ():
            for verb in verbs if _holds(rule, group, resource) and not (named and "/" not in resource) else ():
                if {"*", verb} & set(rule.get("verbs") or ()):
                    yield (
                        verb,
                        resource,
                        False,
                        "act as Karpenter's own account, in whose namespace it may run programs",
                    )


# -- whom ------------------------------------------------------------------------------------------------
def _subjects(binding: Obj, own: Collection[tuple[str, str]]) -> Iterator[str]:
    """Those that are neither Karpenter nor Kubernetes' own; ``own``: Karpenter's accounts, where its Deployment is."""
    builtin = name_of(binding).startswith("system:controller:")  # made by the API server for its own controllers
    for subject in mappings(binding.get("subjects")):
        name, namespace = str(subject.get("name", "")), str(subject.get("namespace", "") or namespace_of(binding))
        ours = (
            name.startswith("system:")
            and name not in ("system:authenticated", "system:unauthenticated", "system:serviceaccounts")
            and not name.startswith("system:serviceaccount")
        )
        if subject.get("kind") == "ServiceAccount":
            usual = namespace in _USUAL and name.startswith("karpenter")
            ours = ours or ((namespace, name) in own if own else usual)
            ours = ours or (namespace == "kube-system" and (builtin or name.endswith("-controller")))
        if not ours:
            yield f"{subject.get('kind')} {namespace + '/' if namespace else ''}{name}"
