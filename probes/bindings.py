"""What is wrong with bindings that are there and give an executor nothing."""

from __future__ import annotations

from collections.abc import Iterator

from killcheck.probes.world import Executor, World

from killcheck.kube.objects import Obj, name_of, namespace_of

__all__ = ["mended_binding"]


def mended_binding(world: World, one: Executor, asked: tuple[str, str, str], namespace: str) -> str | None:
    """The remedy where a binding was meant to give ``asked`` (group, resource, verb) in ``namespace``, and does not:
    a roleRef to nothing, a subject that is somebody else. None where none was."""
    for binding in world.of("RoleBinding", "ClusterRoleBinding"):
        ref = binding.get("roleRef") or {}
        at = namespace_of(binding) or "default"
        role = world.find(str(ref.get("kind")), at if ref.get("kind") == "Role" else "", str(ref.get("name")))
        named = f"{binding['kind']} {name_of(binding)}"
        if _is_named(binding, one, at) and role is None and not _is_builtin(ref) and not world.unread:
            return f"Let the roleRef of {named} name a {ref.get('kind')} that is there ({ref.get('name')} is not)."
        here = binding["kind"] == "ClusterRoleBinding" or at == (namespace or at)
        if (
            here
            and not _is_named(binding, one, at)
            and role is not None
            and _grants(role, asked)
            and any(one.account in (subject.get("name"), name_of(binding)) for subject in _accounts(binding))
        ):
            return f"Let {named} name the subject ServiceAccount {one.namespace}/{one.account}."
    return None


def _accounts(binding: Obj) -> Iterator[Obj]:
    return (subject for subject in binding.get("subjects") or () if subject.get("kind") == "ServiceAccount")


def _is_named(binding: Obj, one: Executor, at: str) -> bool:
    return any(
        (subject.get("name"), subject.get("namespace") or at) == (one.account, one.namespace)
        for subject in _accounts(binding)
    )


def _is_builtin(ref: Obj) -> bool:
    """ClusterRoles that every cluster has, and no manifests."""
    name = str(ref.get("name"))
    return ref.get("kind") == "ClusterRole" and (name in ("admin", "edit", "view", "cluster-admin") or ":" in name)


def _grants(role: Obj, asked: tuple[str, str, str]) -> bool:
    group, resource, verb = asked
    return any(
        {group, "*"} & set(rule.get("apiGroups") or ())
        and {resource, "*"} & set(rule.get("resources") or ())
        and {verb, "*"} & set(rule.get("verbs") or ())
        for rule in role.get("rules") or ()
    )
