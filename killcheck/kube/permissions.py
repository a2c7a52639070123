"""What an identity may do, read off Roles and bindings as objects: for manifests, where nobody can be asked.

The rules are those of Kubernetes' RBAC authorizer: additive, ``*`` matches all. On a live cluster ask with a
SubjectAccessReview instead: other authorizers may say more.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from functools import cached_property

from msgspec import Struct

from killcheck.kube.objects import Obj, dig, labels_of, name_of, namespace_of
from killcheck.kube.preflight import Permission, missing, rules
from killcheck.kube.selectors import LabelSelector, SelectorError, from_match_labels

__all__ = ["ANONYMOUS", "Permission", "Permissions", "missing", "rules"]

#: The account of who brings no token: RBAC may allow something to ``system:unauthenticated`` all the same.
ANONYMOUS = ""
#: Verbs on a collection: what is to be made or deleted has no name yet, which ``resourceNames`` could narrow it to.
_NAMELESS = frozenset({"create", "deletecollection"})


class _Grant(Struct, frozen=True):
    """Rules, and the namespace they hold in (None: everywhere)."""

    namespace: str | None
    rules: Sequence[Obj]


class Permissions:
    """Roles and bindings among ``objects``."""

    def __init__(self, objects: Iterable[Obj]) -> None:
        self._roles: dict[tuple[str, str, str], Obj] = {}
        self._bindings: list[Obj] = []
        self._known: dict[tuple[str, str], list[_Grant]] = {}
        for obj in objects:
            kind = str(obj.get("kind"))
            if kind in ("Role", "ClusterRole"):
                self._roles[kind, namespace_of(obj) if kind == "Role" else "", name_of(obj)] = obj
            elif kind in ("RoleBinding", "ClusterRoleBinding"):
                self._bindings.append(obj)

    def allows(
        self,
        account: str,
        account_namespace: str,
        *,
        verb: str,
        group: str,
        resource: str,
        subresource: str = "",
        name: str = "",
        namespace: str = "",
        everywhere: bool = False,
    ) -> bool:
        """Whether a ServiceAccount (or ``ANONYMOUS``) may make a request.

        Empty ``name`` and ``namespace`` ask for any of them. ``everywhere``: it is about all namespaces at once (or
        none), which no RoleBinding grants.
        """
        target = f"{resource}/{subresource}" if subresource else resource
        return any(
            _matches(rule, verb, group, target, name)
            for grant in self._grants(account, account_namespace)
            if grant.namespace is None or (not everywhere and namespace in ("", grant.namespace))
            for rule in grant.rules
        )

    def granted(self, account: str, account_namespace: str) -> Iterator[tuple[str | None, Obj]]:
        """(where, rule) of all that an account is granted; None: everywhere."""
        for grant in self._grants(account, account_namespace):
            yield from ((grant.namespace, rule) for rule in grant.rules)

    @cached_property
    def accounts(self) -> set[tuple[str, str]]:
        """(namespace, name) of every ServiceAccount that a binding names."""
        return {
            (str(subject.get("namespace") or namespace_of(binding) or "default"), str(subject.get("name")))
            for binding in self._bindings
            for subject in dig(binding, "subjects", default=[])
            if subject.get("kind") == "ServiceAccount"
        }

    def namespaces(self, account: str, account_namespace: str) -> set[str] | None:
        """Where a ServiceAccount has been bound to anything; None: everywhere."""
        found = {grant.namespace for grant in self._grants(account, account_namespace)}
        return None if None in found else {namespace or "default" for namespace in found}

    def _grants(self, account: str, account_namespace: str) -> list[_Grant]:
        known = self._known.get((account, account_namespace))
        if known is None:  # looked up for each target, verb and program: hundreds of times in a large repository
            known = self._known[account, account_namespace] = list(self._granted(account, account_namespace))
        return known

    def _granted(self, account: str, account_namespace: str) -> Iterator[_Grant]:
        for binding in self._bindings:
            at = namespace_of(binding) if binding["kind"] == "RoleBinding" else None
            subjects = dig(binding, "subjects", default=[])
            if any(_is_subject(subject, account, account_namespace, at) for subject in subjects):
                kind = str(dig(binding, "roleRef", "kind", default=""))
                key = (kind, (at or "") if kind == "Role" else "", str(dig(binding, "roleRef", "name", default="")))
                yield _Grant(at, self._rules(key, frozenset()))

    def _rules(self, key: tuple[str, str, str], seen: frozenset[tuple[str, str, str]]) -> list[Obj]:
        """The rules of a role, with those of the ClusterRoles that it aggregates (``aggregationRule``)."""
        role = self._roles.get(key, {})
        found = list(dig(role, "rules", default=[]))
        wanted = list(_aggregated(role))
        for other, part in self._roles.items() if wanted else ():
            chosen = other[0] == "ClusterRole" and any(selector.matches(labels_of(part)) for selector in wanted)
            if chosen and other not in {key, *seen}:
                found += self._rules(other, seen | {key})
        return found


def _aggregated(role: Obj) -> Iterator[LabelSelector]:
    """What a ClusterRole aggregates; a selector that no API server takes selects nothing."""
    for one in dig(role, "aggregationRule", "clusterRoleSelectors", default=[]):
        with suppress(SelectorError):
            yield from_match_labels(one)


def _is_subject(subject: Obj, account: str, namespace: str, binding_namespace: str | None) -> bool:
    kind, name = subject.get("kind"), subject.get("name")
    if account == ANONYMOUS:
        return name in ("system:unauthenticated", "system:anonymous")
    if kind == "ServiceAccount":
        return name == account and (subject.get("namespace") or binding_namespace) == namespace
    if kind == "Group":
        return name in ("system:serviceaccounts", f"system:serviceaccounts:{namespace}", "system:authenticated")
    return kind == "User" and name == f"system:serviceaccount:{namespace}:{account}"


def _matches(rule: Obj, verb: str, group: str, resource: str, name: str) -> bool:
    names = rule.get("resourceNames") or []
    wanted = {resource, "*", f"*/{resource.partition('/')[2]}" if "/" in resource else "*"}
    return (
        bool({verb, "*"} & set(rule.get("verbs") or ()))
        and bool({group, "*"} & set(rule.get("apiGroups") or ()))
        and bool(wanted & set(rule.get("resources") or ()))
        and (not names or ((verb not in _NAMELESS or "/" in resource) and (not name or name in names)))
    )
