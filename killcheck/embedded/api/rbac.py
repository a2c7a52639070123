"""Who may do what: the RBAC authorizer, with the privileged group in front and the node authorizer beside it.

Sources: plugin/pkg/auth/authorizer/rbac and pkg/registry/rbac/validation/rule.go of Kubernetes v1.36; recording 27.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator

from msgspec import Struct

from killcheck.embedded.api import status
from killcheck.embedded.api.http import User
from killcheck.embedded.api.store import Change, Store
from killcheck.kube.objects import Obj, dig, labels_of, name_of, namespace_of
from killcheck.kube.selectors import from_match_labels

__all__ = ["Attributes", "Authorizer", "Decision", "forbidden", "rule_allows"]

GROUP = "rbac.authorization.k8s.io"
ROLES = (GROUP, "roles")
ROLE_BINDINGS = (GROUP, "rolebindings")
CLUSTER_ROLES = (GROUP, "clusterroles")
CLUSTER_ROLE_BINDINGS = (GROUP, "clusterrolebindings")
MASTERS = "system:masters"
NODES = "system:nodes"
NODE_ROLE = "system:node"
NODE_PREFIX = "system:node:"
#: Decisions kept at most.
CACHE_SIZE = 20_000


class Attributes(Struct, frozen=True):
    """What a request would do. ``path`` is set for requests that are not about a resource, and only then."""

    verb: str
    group: str = ""
    resource: str = ""
    subresource: str = ""
    name: str = ""
    namespace: str = ""
    path: str = ""

    @property
    def qualified(self) -> str:
        """``deployments/scale``."""
        return f"{self.resource}/{self.subresource}" if self.subresource else self.resource


class Decision(Struct, frozen=True):
    """``reason`` is in Kubernetes' words, and often empty for a refusal."""

    allowed: bool
    reason: str = ""


class _Grant(Struct, frozen=True):
    """One binding as it concerns one subject: how it is described, and the role it gives."""

    binding: str
    order: int
    source: str
    role_kind: str
    role: str
    namespace: str


class Authorizer:
    """Decides from the RBAC objects in the store; what it computes from them is kept until they change."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self._bindings: dict[str, dict[str, list[_Grant]]] = {}
        self._rules: dict[tuple[str, str, str], list[Obj] | None] = {}
        self._decided: dict[tuple[str, tuple[str, ...], Attributes], Decision] = {}
        #: ClusterRoles that aggregate, were written with rules, and found none to take their place.
        self._own: set[str] = set()
        store.listen(CLUSTER_ROLES, self._replaced)
        for table in (ROLES, ROLE_BINDINGS, CLUSTER_ROLES, CLUSTER_ROLE_BINDINGS):
            store.listen(table, self._changed)

    def decide(self, user: User, attributes: Attributes) -> Decision:
        """Whether ``user`` may."""
        if MASTERS in user.groups:
            return Decision(True)
        key = (user.name, user.groups, attributes)
        found = self._decided.get(key)
        if found is None:
            if len(self._decided) >= CACHE_SIZE:
                self._decided.clear()
            found = self._decided[key] = self._decide(user, attributes)
        return found

    def check(self, user: User, attributes: Attributes) -> None:
        """Raise the StatusError 403 that the API server answers where ``user`` may not."""
        decision = self.decide(user, attributes)
        if not decision.allowed:
            raise forbidden(user, attributes, decision.reason)

    def rules_for(self, user: User, namespace: str) -> tuple[list[Obj], str]:
        """Every rule that applies to ``user`` in a namespace, and what could not be resolved (empty: all could)."""
        rules: list[Obj] = []
        errors: list[str] = []
        for _, found, error in self._visit(user, namespace):
            rules.extend(found)
            errors += [error] if error else []
        return rules, _aggregate(errors)

    def role_rules(self, kind: str, namespace: str, name: str) -> list[Obj] | None:
        """The rules of a Role or ClusterRole, aggregation included; None where there is no such role."""
        key = (kind, namespace if kind == "Role" else "", name)
        if key not in self._rules:
            self._rules[key] = self._resolve(*key)
        return self._rules[key]

    # -- inside --------------------------------------------------------------------------------------------
    def _changed(self, _change: Change) -> None:
        self._bindings.clear()
        self._rules.clear()
        self._decided.clear()

    def _replaced(self, change: Change) -> None:
        """What is aggregated takes the place of a role's own rules, for good; where nothing is, they stay.

        The aggregation controller applies ``rules`` with none of them, which takes away only what it had put there.
        """
        role, name = change.new or {}, change.key[1]
        if change.old is None or change.new is None:
            self._own.discard(name)
        if self._own and role.get("rules"):
            self._own -= {one for one in self._own if self._aggregated(self.store.get(CLUSTER_ROLES, ("", one)) or {})}
        if change.old is None and role.get("rules") and dig(role, "aggregationRule", "clusterRoleSelectors"):
            self._own |= set() if self._aggregated(role) else {name}

    def _decide(self, user: User, attributes: Attributes) -> Decision:
        if NODES in user.groups and user.name.startswith(NODE_PREFIX) and self._node_may(user, attributes):
            return Decision(True)
        errors = []
        for source, rules, error in self._visit(user, attributes.namespace):
            if any(rule_allows(rule, attributes) for rule in rules):
                return Decision(True, f"RBAC: allowed by {source}")
            errors += [error] if error else []
        return Decision(False, f"RBAC: {_aggregate(errors)}" if errors else "")

    def _node_may(self, user: User, attributes: Attributes) -> bool:
        """What the role system:node allows; of Nodes and node Leases, a node writes only its own."""
        rules = self.role_rules("ClusterRole", "", NODE_ROLE) or []
        own = user.name.removeprefix(NODE_PREFIX)
        writes = attributes.verb in ("update", "patch", "delete")
        if writes and attributes.resource in ("nodes", "leases", "csinodes") and attributes.name != own:
            return False
        return any(rule_allows(rule, attributes) for rule in rules)

    def _visit(self, user: User, namespace: str) -> Iterator[tuple[str, list[Obj], str]]:
        """(how it came, its rules, error) of every binding that applies, cluster-wide ones first."""
        for scope in ("", namespace) if namespace else ("",):
            index = self._index(scope)
            grants: dict[str, _Grant] = {}
            for subject in (f"User {user.name}", *(f"Group {group}" for group in user.groups)):
                for grant in index.get(subject, ()):
                    known = grants.get(grant.binding)
                    if known is None or grant.order < known.order:
                        grants[grant.binding] = grant
            for _, grant in sorted(grants.items()):
                rules = self.role_rules(grant.role_kind, grant.namespace, grant.role)
                if rules is None:
                    plural = grant.role_kind.lower()
                    yield grant.source, [], f'{plural}.{GROUP} "{grant.role}" not found'
                else:
                    yield grant.source, rules, ""

    def _index(self, namespace: str) -> dict[str, list[_Grant]]:
        """Subject -> what bindings give it: of one namespace, or cluster-wide (empty)."""
        index = self._bindings.get(namespace)
        if index is None:
            index = self._bindings[namespace] = {}
            table = ROLE_BINDINGS if namespace else CLUSTER_ROLE_BINDINGS
            for _, binding in self.store.items(table, namespace):
                for order, subject in enumerate(binding.get("subjects") or ()):
                    index.setdefault(_subject_key(subject, namespace), []).append(_grant(binding, order, subject))
        return index

    def _resolve(self, kind: str, namespace: str, name: str) -> list[Obj] | None:
        table = ROLES if kind == "Role" else CLUSTER_ROLES
        role = self.store.get(table, (namespace, name))
        if role is None:
            return None
        own = list(role.get("rules") or ())
        if not dig(role, "aggregationRule", "clusterRoleSelectors"):
            return own
        return self._aggregated(role) or (own if name in self._own else [])

    def _aggregated(self, role: Obj) -> list[Obj]:
        """The aggregation controller's work, done when asked: the rules of all selected roles, those aggregated too."""
        rules: list[Obj] = []
        wanted = [from_match_labels(one) for one in dig(role, "aggregationRule", "clusterRoleSelectors", default=())]
        for _, other in self.store.items(CLUSTER_ROLES):
            chosen = name_of(other) != name_of(role) and any(selector.matches(labels_of(other)) for selector in wanted)
            for rule in (self._resolve("ClusterRole", "", name_of(other)) or ()) if chosen else ():
                if rule not in rules:
                    rules.append(rule)
        return rules


def rule_allows(rule: Obj, wanted: Attributes) -> bool:
    """Whether one PolicyRule covers a request."""
    verbs = rule.get("verbs") or ()
    if "*" not in verbs and wanted.verb not in verbs:
        return False
    if wanted.path:
        return any(_url_matches(url, wanted.path) for url in rule.get("nonResourceURLs") or ())
    groups = rule.get("apiGroups") or ()
    names = rule.get("resourceNames") or ()
    return (
        ("*" in groups or wanted.group in groups)
        and _resource_matches(rule.get("resources") or (), wanted)
        and (not names or wanted.name in names)
    )


def forbidden(user: User, wanted: Attributes, reason: str = "") -> status.StatusError:
    """403 as authorization answers it."""
    who = f"User {json.dumps(user.name, ensure_ascii=False)} cannot {wanted.verb}"
    if wanted.path:
        what = f'{who} path "{wanted.path}"'
    else:
        scope = f'in the namespace "{wanted.namespace}"' if wanted.namespace else "at the cluster scope"
        what = f'{who} resource "{wanted.qualified}" in API group "{wanted.group}" {scope}'
    for char, safe in (("&", "&amp;"), ("<", "&lt;"), (">", "&gt;")):
        what = what.replace(char, safe)
    return status.forbidden(wanted.resource, wanted.group, wanted.name, f"{what}: {reason}" if reason else what)


def _resource_matches(resources: Iterable[str], wanted: Attributes) -> bool:
    for resource in resources:
        if resource in ("*", wanted.qualified):
            return True
        if wanted.subresource and resource == f"*/{wanted.subresource}":
            return True
    return False


def _url_matches(pattern: str, path: str) -> bool:
    return pattern in ("*", path) or (pattern.endswith("*") and path.startswith(pattern.rstrip("*")))


def _subject_key(subject: Obj, namespace: str) -> str:
    kind, name = subject.get("kind", ""), subject.get("name", "")
    if kind == "ServiceAccount":
        return f"User system:serviceaccount:{subject.get('namespace') or namespace}:{name}"
    return f"{kind} {name}"


def _grant(binding: Obj, order: int, subject: Obj) -> _Grant:
    namespace = namespace_of(binding)
    kind, role = dig(binding, "roleRef", "kind", default=""), dig(binding, "roleRef", "name", default="")
    name = f"{name_of(binding)}/{namespace}" if namespace else name_of(binding)
    what = "RoleBinding" if namespace else "ClusterRoleBinding"
    who = subject.get("name", "")
    if subject.get("kind") == "ServiceAccount":
        who = f"{who}/{subject.get('namespace') or namespace}"
    source = f'{what} "{name}" of {kind} "{role}" to {subject.get("kind", "")} "{who}"'
    return _Grant(name_of(binding), order, source, kind, role, namespace)


def _aggregate(errors: Iterable[str]) -> str:
    """Go's aggregated error: each text once, in brackets where there are several."""
    texts = list(dict.fromkeys(errors))
    return texts[0] if len(texts) == 1 else f"[{', '.join(texts)}]" if texts else ""
