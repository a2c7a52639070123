"""Calls that the executor's identity may not make."""

from __future__ import annotations

from collections.abc import Iterable

from killcheck.probes.base import Finding, Probe
from killcheck.probes.bindings import mended_binding
from killcheck.probes.world import Executor, World

from killcheck.executor.api_calls import ApiCall
from killcheck.kube.objects import name_of
from killcheck.kube.plurals import plural_of
from killcheck.text.values import replace

__all__ = ["RbacMissing"]


class RbacMissing(Probe):
    """Exactly its calls: verb, group, resource, subresource, name, namespace. To patch is not to scale."""

    id = "rbac-missing"
    claim = "The executor's ServiceAccount may make every call that the executor makes."
    remedy = "Grant exactly that call in a Role of that namespace, and bind it to the ServiceAccount."
    failures = (16,)
    sources = ("SREGym/SREGym#633", "robbeverhelst/unifi-reactor#63", "kubernetes.io/docs: RBAC, subresources")
    needs = ("Role", "RoleBinding", "ClusterRole", "ClusterRoleBinding")

    def ask(self, world: World) -> Iterable[Finding]:
        """Each call of each layer's executor."""
        for one in world.layer_executors:
            if one.seen is not None and one.seen.ran:
                continue  # call-refused has seen it
            if one.reading.calls and not _told(world, one):
                yield self.unproven(
                    world,
                    one.owner,
                    f"nothing in these manifests says what ServiceAccount {one.namespace}/{one.account} may do",
                )
                continue
            unread = [kind for kind in self.needs if kind in world.unread]
            for call in one.reading.calls:
                reviewed = world.answers.reviews.get((one.namespace, one.account, call))
                if reviewed is None and unread:
                    why = world.answers.unanswered.get("SubjectAccessReview", world.unread[unread[0]])
                    yield self.unproven(
                        world, one.owner, f"whether ServiceAccount {one.namespace}/{one.account} may {call}: {why}"
                    )
                elif reviewed is False or (reviewed is None and not _may(world, one, call)):
                    yield self._missing(world, one, call)

    def _missing(self, world: World, one: Executor, call: ApiCall) -> Finding:
        near = ""
        if call.subresource and world.may_call(one, replace(call, subresource="")):
            near = f" (it may {call.verb} {call.resource}: the subresource {call.subresource} is a resource of its own)"
        elif not call.subresource and call.writes and world.may_call(one, replace(call, subresource="scale")):
            near = f" (it may {call.verb} {call.resource}/scale, which is another resource)"
        resource = call.resource + (f"/{call.subresource}" if call.subresource else "")
        rule = f'apiGroups: ["{call.group}"], resources: [{resource}], verbs: [{call.verb}]'
        where = f" in namespace {call.namespace}" if call.namespace else ""
        where = " in a ClusterRole, by a ClusterRoleBinding" if call.everywhere else where
        return self.finding(
            world,
            one.owner,
            (*one.path, "serviceAccountName"),
            f"ServiceAccount {one.namespace}/{one.account} may not {call}"
            f"{' in all namespaces' if call.everywhere and not call.named else ''}{near}",
            remedy=mended_binding(world, one, (call.group, resource, call.verb), call.namespace)
            or f"Grant {{{rule}}} to ServiceAccount {one.namespace}/{one.account}{where}.",
            severity="error" if call.writes or _first_read(one, call) else "warning",
        )


def _may(world: World, one: Executor, call: ApiCall) -> bool:
    return world.may_call(one, call) or _is_there(world, one, call)


def _is_there(world: World, one: Executor, call: ApiCall) -> bool:
    """Whether a call makes what is there: ``apply`` patches that, and makes nothing."""
    if call.verb != "create" or call.name or call.subresource:
        return False
    what = call.group, call.resource, call.namespace
    same = [c for c in one.reading.calls if (c.group, c.resource, c.namespace) == what]
    applied = {c.name for c in same if c.verb == "patch" and c.name and not c.subresource}
    there = {name_of(obj) for obj in world.objects if plural_of(str(obj.get("kind"))) == call.resource}
    return bool(applied) and applied <= there


def _first_read(one: Executor, call: ApiCall) -> bool:
    """A read that comes before a write: what it refuses usually ends the executor."""
    calls = list(one.reading.calls)
    return any(later.writes for later in calls[calls.index(call) :])


def _told(world: World, one: Executor) -> bool:
    """Whether what is here says anything about its rights: a cluster does, manifests only if they bring its account."""
    if world.live or world.find("ServiceAccount", one.namespace, one.account):
        return True
    return any(
        subject.get("name") == one.account
        for binding in world.of("RoleBinding", "ClusterRoleBinding")
        for subject in binding.get("subjects") or ()
    )
