"""The executor's RoleBinding no longer names it: every call it makes is answered 403."""

from __future__ import annotations

from collections.abc import Sequence

from killcheck.faults.base import FaultError, Plan
from killcheck.faults.executor import ExecutorFault, identity, log_line
from killcheck.kube import resources as r
from killcheck.kube.objects import Obj, dig, name_of
from killcheck.kube.permissions import Permission
from killcheck.layers.base import LayerRun, Stage
from killcheck.undo import insist

__all__ = ["RoleBindingGone"]

_GROUP = "rbac.authorization.k8s.io"


class RoleBindingGone(ExecutorFault):
    """Reproduces rows 14 and 16: what an executor without ``curl -f`` reports as success.

    The binding stays and loses its subjects: the same 403s, and the very object is there again afterwards.
    """

    name = "rolebinding-gone"
    simulates = "somebody removed the RoleBinding of the executor's ServiceAccount"
    family = "credentials"
    failures = (14, 16)

    def plan(self, stage: Stage, layer: LayerRun) -> Plan:
        """Every RoleBinding that gives something to the executor's ServiceAccount alone loses its subject."""
        namespace, account = identity(layer)
        bindings = self._bindings(stage, namespace, account)
        if not bindings:
            raise FaultError(
                f"no RoleBinding in {namespace} names ServiceAccount {account} alone: nothing to take away")
        changes = tuple(
            f"RoleBinding {namespace}/{name_of(b)} names nobody for the length of the drill" for b in bindings)
        verbs = [Permission(verb, _GROUP, "rolebindings", namespace=namespace) for verb in ("list",)]
        for binding in bindings:
            verbs += [Permission(verb, _GROUP, "rolebindings", "", namespace, name_of(binding))
                      for verb in ("get", "patch")]
            verbs.append(_bind(binding, namespace))
        return Plan(changes, namespaces=(namespace,), permissions=tuple(verbs))

    def inject(self, stage: Stage, layer: LayerRun) -> Sequence[str]:
        """Empty their subjects through the journal."""
        namespace, account = identity(layer)
        done = []
        found = insist(stage.cluster.loop, lambda: self._bindings(stage, namespace, account))
        for binding in found:
            what = f"took {account} out of RoleBinding {namespace}/{name_of(binding)}"
            stage.journal.merge(r.ROLEBINDINGS, name_of(binding), namespace, {"subjects": None}, what)
            done.append(what)
        return done

    def bitten(self, stage: Stage, layer: LayerRun) -> str:
        """A 403 seen by this very executor."""
        return log_line(stage, r"forbidden|\b403\b")

    @staticmethod
    def _bindings(stage: Stage, namespace: str, account: str) -> list[Obj]:
        subject = ("ServiceAccount", account)
        return [
            binding for binding in stage.cluster.kube.list(r.ROLEBINDINGS, namespace).items
            if [(s.get("kind"), s.get("name")) for s in dig(binding, "subjects", default=[])] == [subject]
        ]


def _bind(binding: Obj, namespace: str) -> Permission:
    """Giving a role back needs the right to bind it."""
    kind, name = dig(binding, "roleRef", "kind"), dig(binding, "roleRef", "name", default="")
    plural = "clusterroles" if kind == "ClusterRole" else "roles"
    return Permission("bind", _GROUP, plural, "", namespace, name)
