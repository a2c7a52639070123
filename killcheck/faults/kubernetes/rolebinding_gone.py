"""The executor's rights are gone: no binding names it any more, and every call it makes is answered 403."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from msgspec import Struct

from killcheck import executor
from killcheck.executor.refusals import FORBIDDEN
from killcheck.faults.base import FaultError, Plan
from killcheck.faults.kubernetes.executor import ExecutorFault, cron_job_of, identity, log_line, path_of, pod_spec
from killcheck.kube import resources as r
from killcheck.kube.objects import Obj, dig, key_of, labels_of, name_of, namespace_of, ref_of
from killcheck.kube.permissions import Permission, Permissions
from killcheck.layers.base import LayerRun, Stage
from killcheck.safety.undo import retry

__all__ = ["CONSENT", "RoleBindingGone"]

_GROUP = "rbac.authorization.k8s.io"
#: A ClusterRoleBinding is in no namespace that could consent for it: it carries the label itself.
CONSENT = "killcheck.dev/consent"
#: What an executor of which nothing can be read may do to a target.
_WRITES = ("patch", "update", "delete")


class _Need(Struct, frozen=True):
    """One right that the executor needs. Empty ``name`` and ``namespace``: any."""

    verb: str
    group: str
    resource: str
    subresource: str
    name: str
    namespace: str


class RoleBindingGone(ExecutorFault):
    """Reproduces rows 14 and 16: what an executor without ``curl -f`` reports as success.

    Every RoleBinding and ClusterRoleBinding that gives the executor what it needs loses its subject, and no
    other. The 403s are the same, and the very objects are there again afterwards. What a whole group was given
    cannot be taken from one.
    """

    name = "rolebinding-gone"
    simulates = "somebody removed the bindings that give the executor's ServiceAccount its rights"
    family = "credentials"
    failures = (14, 16)

    def plan(self, stage: Stage, layer: LayerRun) -> Plan:
        """Every binding that gives the executor what it needs loses its subject, for the length of the drill."""
        bindings = self._bindings(stage, layer)
        namespace, account = identity(layer)
        changes = tuple(
            f"{ref_of(b)} names ServiceAccount {namespace}/{account} no more, for the length of the drill"
            for b in bindings
        )
        verbs = [
            Permission("list", _GROUP, kind)
            for kind in ("rolebindings", "clusterrolebindings", "roles", "clusterroles")
        ]
        verbs.append(Permission("list", "", "configmaps", namespace=namespace))
        for binding in bindings:
            resource = _resource(binding)
            verbs += [
                Permission(verb, _GROUP, resource.plural, "", namespace_of(binding), name_of(binding))
                for verb in ("get", "patch")
            ]
            verbs.append(_bind(binding))
        return Plan(
            changes,
            namespaces=tuple(sorted({namespace, *(namespace_of(b) for b in bindings)} - {""})),
            permissions=tuple(verbs),
            edits=tuple(path_of(b, "subjects") for b in bindings),
        )

    def inject(self, stage: Stage, layer: LayerRun) -> Sequence[str]:
        """Take the executor out of their subjects, through the journal."""
        namespace, account = identity(layer)
        done = []

        def without(found: Obj) -> Obj:
            kept = [s for s in dig(found, "subjects") or [] if not _is(s, namespace, account, namespace_of(found))]
            return {"subjects": kept or None}

        for binding in retry(stage.cluster.loop, lambda: self._bindings(stage, layer)):
            what = f"took {account} out of {ref_of(binding)}"
            stage.journal.merge(_resource(binding), name_of(binding), namespace_of(binding) or None, without, what)
            done.append(what)
        return done

    def bitten(self, stage: Stage, layer: LayerRun) -> str | None:
        """A 403 seen by this very executor."""
        return log_line(stage, FORBIDDEN)

    # -- who gives it what it needs ------------------------------------------------------------------------
    def _bindings(self, stage: Stage, layer: LayerRun) -> list[Obj]:
        """Raises FaultError where it would keep a right that it needs, or has none."""
        namespace, account = identity(layer)
        kube = stage.cluster.kube
        listed = {
            resource: kube.list(resource).items
            for resource in (r.ROLEBINDINGS, r.CLUSTERROLEBINDINGS, r.ROLES, r.CLUSTERROLES)
        }
        roles = [
            _with_kind(obj, kind)
            for resource, kind in ((r.ROLES, "Role"), (r.CLUSTERROLES, "ClusterRole"))
            for obj in listed[resource]
        ]
        bindings = [
            _with_kind(obj, resource.kind)
            for resource in (r.ROLEBINDINGS, r.CLUSTERROLEBINDINGS)
            for obj in listed[resource]
        ]
        needs = list(self._needs(stage, layer))
        giving = [binding for binding in bindings if _gives(roles, binding, namespace, account, needs)]
        direct = [
            b
            for b in giving
            if any(_is(s, namespace, account, namespace_of(b)) for s in dig(b, "subjects", default=[]))
        ]
        self._refuse(stage, giving, direct, f"{namespace}/{account}")
        return direct

    @staticmethod
    def _refuse(stage: Stage, giving: list[Obj], direct: list[Obj], who: str) -> None:
        shared = [ref_of(b) for b in giving if b not in direct]
        if shared:
            raise FaultError(
                f"{', '.join(shared)} gives a group what ServiceAccount {who} needs: it cannot be taken from the "
                "executor alone"
            )
        if not direct:
            raise FaultError(f"no binding gives ServiceAccount {who} anything that it needs: nothing to take away")
        closed = [name_of(b) for b in direct if not namespace_of(b) and labels_of(b).get(CONSENT) != "true"]
        if closed and stage.cluster.real:
            raise FaultError(
                f"ClusterRoleBinding {', '.join(closed)} gives it to ServiceAccount {who} too, and has not opted in: "
                f"kubectl label clusterrolebinding {' '.join(closed)} {CONSENT}=true"
            )

    @staticmethod
    def _needs(stage: Stage, layer: LayerRun) -> Iterator[_Need]:
        """What its script calls, as far as it can be read, and what any executor would do to the targets."""
        namespace = namespace_of(cron_job_of(layer))
        maps = {key_of(one): one for one in stage.cluster.kube.list(r.CONFIGMAPS, namespace).items}
        for call in executor.read(pod_spec(layer), namespace, maps).calls:
            yield _Need(call.verb, call.group, call.resource, call.subresource, call.name, call.namespace)
        for target in stage.kill_path.covered_by(layer.layer):
            if target.kind:
                resource = stage.cluster.kube.resource_for(target.api_version, target.kind)
                for verb in _WRITES:
                    for sub in ("", "scale"):
                        yield _Need(verb, resource.group, resource.plural, sub, target.object, target.namespace)


def _with_kind(obj: Obj, kind: str) -> Obj:
    """Objects of a list carry no kind of their own."""
    return {**obj, "kind": kind, "apiVersion": f"{_GROUP}/v1"}


def _resource(binding: Obj) -> r.Resource:
    return r.ROLEBINDINGS if binding["kind"] == "RoleBinding" else r.CLUSTERROLEBINDINGS


def _is(subject: Obj, namespace: str, account: str, binding_namespace: str) -> bool:
    """Whether a subject is this ServiceAccount and nobody else."""
    if subject.get("kind") == "ServiceAccount":
        return subject.get("name") == account and (subject.get("namespace") or binding_namespace) == namespace
    return subject.get("kind") == "User" and subject.get("name") == f"system:serviceaccount:{namespace}:{account}"


def _gives(roles: list[Obj], binding: Obj, namespace: str, account: str, needs: list[_Need]) -> bool:
    """Whether one binding alone allows the account anything of what it needs, by name or as one of a group."""
    alone = Permissions([*roles, binding])
    return bool(dig(binding, "subjects")) and any(
        alone.allows(
            account,
            namespace,
            verb=need.verb,
            group=need.group,
            resource=need.resource,
            subresource=need.subresource,
            name=need.name,
            namespace=need.namespace,
        )
        for need in needs
    )


def _bind(binding: Obj) -> Permission:
    """Giving a role back needs the right to bind it."""
    plural = "clusterroles" if dig(binding, "roleRef", "kind") == "ClusterRole" else "roles"
    return Permission("bind", _GROUP, plural, "", namespace_of(binding), dig(binding, "roleRef", "name", default=""))
