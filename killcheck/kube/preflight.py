"""May we? Every permission that a run needs, asked before it touches anything, and the rules that would grant them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from msgspec import Struct

from killcheck.kube.client import Kube
from killcheck.text import lazy_re

__all__ = ["Permission", "Rule", "by_namespace", "granting", "in_words", "missing", "rules"]

#: Verbs on a collection, which RBAC cannot narrow to a name (the object's name is not part of the request).
_NAMELESS = frozenset({"create", "deletecollection"})


#: The words of RBAC for what nobody granted.
_REFUSED = lazy_re.compile(
    r'cannot (\w+) resource "([^"]+)" in API group "([^"]*)" (?:at the cluster scope|in the namespace "([^"]+)")'
)


class Permission(Struct, frozen=True, order=True):
    """One verb on one resource. Empty ``namespace``: in all of them (or cluster-scoped); empty ``name``: any."""

    verb: str
    group: str
    resource: str
    subresource: str = ""
    namespace: str = ""
    name: str = ""

    @property
    def target(self) -> str:
        """``pods/log``: how RBAC rules write it."""
        return f"{self.resource}/{self.subresource}" if self.subresource else self.resource

    def __str__(self) -> str:
        return f"{self.verb} {self.object}"

    @property
    def object(self) -> str:
        """``deployments.apps vllm in namespace inference``: what the verb is done to, and where."""
        group = f".{self.group}" if self.group else ""
        sub = f"/{self.subresource}" if self.subresource else ""
        name = f" {self.name}" if self.name else ""
        return f"{self.resource}{group}{sub}{name} " + (
            f"in namespace {self.namespace}" if self.namespace else "cluster-wide"
        )


class Rule(Struct, frozen=True):
    """A rule of a Role, as RBAC has it; empty ``names``: whatever the object is called."""

    groups: tuple[str, ...]
    resources: tuple[str, ...]
    names: tuple[str, ...]
    verbs: tuple[str, ...]

    def __str__(self) -> str:
        """One line of YAML."""
        groups = ", ".join(f'"{group}"' for group in self.groups)
        restricted = f", resourceNames: [{', '.join(self.names)}]" if self.names else ""
        return (
            f"{{apiGroups: [{groups}], resources: [{', '.join(self.resources)}]{restricted}, "
            f"verbs: [{', '.join(self.verbs)}]}}"
        )

    def to_object(self) -> dict[str, list[str]]:
        """As it stands in a Role's ``rules``."""
        restricted = {"resourceNames": list(self.names)} if self.names else {}
        return {
            "apiGroups": list(self.groups),
            "resources": list(self.resources),
            **restricted,
            "verbs": list(self.verbs),
        }


def missing(kube: Kube, wanted: Iterable[Permission]) -> list[Permission]:
    """Those of ``wanted`` that the API server says we lack, each asked once (SelfSubjectAccessReview).

    Raises KubeError where it cannot be asked: not knowing is not having.
    """
    return [
        permission
        for permission in dict.fromkeys(wanted)
        if not kube.may(
            permission.verb,
            permission.resource,
            group=permission.group,
            subresource=permission.subresource,
            name=permission.name,
            namespace=permission.namespace,
        )
    ]


def granting(refusal: str) -> str | None:
    """What would grant what an API server refused, by its words: a rule, and where it belongs; None: they say another
    thing.

    Source: k8s.io/apiserver, endpoints/handlers/responsewriters/errors.go (forbiddenMessage).
    """
    permission = refused(refusal)
    if permission is None:
        return None
    (place, (rule, *_)), *_ = by_namespace([permission]).items()
    return f"{rule} in " + (f"a Role of namespace {place}" if place else "a ClusterRole")


def refused(refusal: str) -> Permission | None:
    """What an API server's 403 says that we lack; None: it says another thing."""
    found = _REFUSED.search(refusal)
    if found is None:
        return None
    verb, target, group, namespace = found.groups(default="")
    resource, _, subresource = target.partition("/")
    return Permission(verb, group, resource, subresource, namespace)


def in_words(permissions: Iterable[Permission]) -> list[str]:
    """A line for each object, with all that is done to it: ``pods cluster-wide: list, watch``."""
    verbs: dict[str, list[str]] = {}
    for permission in dict.fromkeys(permissions):
        verbs.setdefault(permission.object, []).append(permission.verb)
    return [f"{where}: {', '.join(done)}" for where, done in verbs.items()]


def rules(permissions: Iterable[Permission], name: str = "killcheck") -> str:
    """YAML of the Roles (and the ClusterRole, for what is cluster-wide) that would grant ``permissions``."""
    return "---\n".join(_role(name, namespace, granted) for namespace, granted in by_namespace(permissions).items())


def by_namespace(permissions: Iterable[Permission]) -> dict[str, list[Rule]]:
    """``{namespace: rules}`` that grant ``permissions`` and no more; empty namespace: cluster-wide."""
    places: dict[str, list[Permission]] = {}
    for permission in sorted(set(permissions)):
        places.setdefault(permission.namespace, []).append(permission)
    return {
        namespace: [
            Rule((group,), tuple(targets), names, verbs) for (group, verbs, names), targets in _merged(wanted).items()
        ]
        for namespace, wanted in sorted(places.items())
    }


def _role(name: str, namespace: str, granted: Iterable[Rule]) -> str:
    metadata = f"{{name: {name}, namespace: {namespace}}}" if namespace else f"{{name: {name}}}"
    lines = [
        "apiVersion: rbac.authorization.k8s.io/v1",
        f"kind: {'Role' if namespace else 'ClusterRole'}",
        f"metadata: {metadata}",
        "rules:",
        *(f"- {rule}" for rule in granted),
    ]
    return "\n".join(lines) + "\n"


def _merged(wanted: Iterable[Permission]) -> Mapping[tuple[str, tuple[str, ...], tuple[str, ...]], list[str]]:
    """{(group, verbs, names): resources}: as few rules as say the same and no more."""
    verbs: dict[tuple[str, str, str], list[str]] = {}
    for permission in wanted:
        name = "" if permission.verb in _NAMELESS and not permission.subresource else permission.name
        verbs.setdefault((permission.group, permission.target, name), []).append(permission.verb)
    names: dict[tuple[str, str, tuple[str, ...]], list[str]] = {}
    for (group, target, name), allowed in verbs.items():
        names.setdefault((group, target, tuple(dict.fromkeys(allowed))), []).append(name)
    merged: dict[tuple[str, tuple[str, ...], tuple[str, ...]], list[str]] = {}
    for (group, target, allowed_verbs), listed in names.items():
        restricted = () if "" in listed else tuple(listed)
        merged.setdefault((group, allowed_verbs, restricted), []).append(target)
    return merged
