"""Nobody grants by a role or a binding what they do not hold, unless they may ``escalate`` or ``bind``.

Source: pkg/registry/rbac (policybased storage, escalation_check.go) and component-helpers' policy_comparator.go.
In Kubernetes this is the storage's work; here it comes as the last word of mutation, before validation.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from itertools import product

from killcheck.embedded.api import status
from killcheck.embedded.api.admission.request import AdmissionRequest
from killcheck.embedded.api.rbac import GROUP, MASTERS, Attributes, Authorizer
from killcheck.kube.objects import Obj, dig

__all__ = ["RbacEscalation", "uncovered"]

ROLES = frozenset({"roles", "clusterroles"})
BINDINGS = frozenset({"rolebindings", "clusterrolebindings"})
#: What the garbage collector changes.
GC_FIELDS = ("finalizers", "ownerReferences", "managedFields")


class RbacEscalation:
    """The escalation check of Roles, ClusterRoles and their bindings."""

    def __init__(self, authorizer: Authorizer) -> None:
        self.authorizer = authorizer

    def validate(self, request: AdmissionRequest) -> list[str]:
        """Refuse to grant what the user does not hold."""
        obj = request.obj
        if obj is None or request.subresource or MASTERS in request.user.groups or _only_collected(request):
            return []
        if request.resource[1] in ROLES:
            self._check_role(request, obj)
        else:
            self._check_binding(request, obj)
        return []

    def _check_role(self, request: AdmissionRequest, role: Obj) -> None:
        asked = Attributes("escalate", GROUP, request.resource[1], "", request.name, request.namespace)
        if not self.authorizer.decide(request.user, asked).allowed:
            self._confirm(request, role.get("rules") or [])

    def _check_binding(self, request: AdmissionRequest, binding: Obj) -> None:
        kind, name = dig(binding, "roleRef", "kind", default=""), dig(binding, "roleRef", "name", default="")
        plural = {"Role": "roles", "ClusterRole": "clusterroles"}.get(kind, "")
        asked = Attributes("bind", GROUP, plural, "", name, request.namespace)
        if plural and self.authorizer.decide(request.user, asked).allowed:
            return
        rules = self.authorizer.role_rules(kind, request.namespace, name)
        if rules is None:
            raise status.not_found(request.resource[1], GROUP, name)  # told under the binding's own type
        self._confirm(request, rules)

    def _confirm(self, request: AdmissionRequest, wanted: list[Obj]) -> None:
        held, errors = self.authorizer.rules_for(request.user, request.namespace)
        missing = uncovered(held, wanted)
        if not missing:
            return
        groups = "[" + " ".join(json.dumps(group) for group in request.user.groups) + "]"
        listed = "\n".join(sorted({_compact(rule) for rule in _merged(missing)}))
        why = (
            f'user "{request.user.name}" (groups={groups}) is attempting to grant RBAC permissions not currently '
            f"held:\n{listed}"
        )
        raise request.forbidden(f"{why}; resolution errors: {errors}" if errors else why)


def uncovered(held: list[Obj], wanted: Iterable[Obj]) -> list[Obj]:
    """The atomic rules of ``wanted`` that no rule of ``held`` covers."""
    return [atom for rule in wanted for atom in _atoms(rule) if not any(_covers(owner, atom) for owner in held)]


def _atoms(rule: Obj) -> Iterator[Obj]:
    for group, resource, verb in product(
        rule.get("apiGroups") or (), rule.get("resources") or (), rule.get("verbs") or ()
    ):
        atom = {"apiGroups": [group], "resources": [resource], "verbs": [verb]}
        names = rule.get("resourceNames") or ()
        yield from ({**atom, "resourceNames": [name]} for name in names) if names else (atom,)
    for url, verb in product(rule.get("nonResourceURLs") or (), rule.get("verbs") or ()):
        yield {"nonResourceURLs": [url], "verbs": [verb]}


def _covers(owner: Obj, atom: Obj) -> bool:
    verbs = owner.get("verbs") or ()
    if "*" not in verbs and atom["verbs"][0] not in verbs:
        return False
    if "nonResourceURLs" in atom:
        return any(_url_covers(url, atom["nonResourceURLs"][0]) for url in owner.get("nonResourceURLs") or ())
    groups = owner.get("apiGroups") or ()
    if "*" not in groups and atom["apiGroups"][0] not in groups:
        return False
    names = owner.get("resourceNames") or ()
    if names and (atom.get("resourceNames") or [None])[0] not in names:
        return False
    resources, wanted = owner.get("resources") or (), atom["resources"][0]
    _, slash, subresource = wanted.partition("/")
    return "*" in resources or wanted in resources or bool(slash and f"*/{subresource}" in resources)


def _url_covers(owner: str, url: str) -> bool:
    return owner == url or (owner.endswith("*") and url.startswith(owner.rstrip("*")))


def _merged(atoms: list[Obj]) -> Iterator[Obj]:
    """Atoms that differ in their verb alone, as one rule."""
    by_rest: dict[str, Obj] = {}
    for atom in atoms:
        key = json.dumps({k: v for k, v in atom.items() if k != "verbs"}, sort_keys=True)
        if key in by_rest:
            by_rest[key] = by_rest[key] | {"verbs": by_rest[key]["verbs"] + atom["verbs"]}
        else:
            by_rest[key] = atom
    yield from by_rest.values()


def _compact(rule: Obj) -> str:
    fields = (
        ("APIGroups", "apiGroups"),
        ("Resources", "resources"),
        ("NonResourceURLs", "nonResourceURLs"),
        ("ResourceNames", "resourceNames"),
        ("Verbs", "verbs"),
    )
    parts = [
        f"{label}:[{' '.join(json.dumps(value) for value in rule[key])}]" for label, key in fields if rule.get(key)
    ]
    return "{" + ", ".join(parts) + "}"


def _only_collected(request: AdmissionRequest) -> bool:
    """Whether an update changes nothing but what the garbage collector does.

    It is compared as it was sent: without its uid and version it is another (pkg/registry/rbac/helpers.go).
    """
    if request.old is None or request.obj is None or not request.whole:
        return False

    def rest(obj: Obj) -> Obj:
        meta = {k: v for k, v in (obj.get("metadata") or {}).items() if k not in (*GC_FIELDS, "resourceVersion")}
        return {**obj, "metadata": meta}

    return rest(request.old) == rest(request.obj)
