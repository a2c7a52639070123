"""The executor's RoleBinding is gone: every call it makes is answered 403."""

from __future__ import annotations

from collections.abc import Sequence

from killcheck.faults.base import Fault, FaultError, Plan
from killcheck.killpath import Layer
from killcheck.kube import resources as r
from killcheck.kube.objects import Obj, dig, name_of
from killcheck.kube.permissions import Permission
from killcheck.layers.base import LayerRun, Stage

__all__ = ["RoleBindingGone"]


class RoleBindingGone(Fault):
    """Reproduces rows 14 and 16: what an executor without ``curl -f`` reports as success."""

    name = "rolebinding-gone"
    simulates = "somebody removed the RoleBinding of the executor's ServiceAccount"
    family = "credentials"
    failures = (14, 16)

    def applies(self, layer: Layer) -> str:
        """Only where an executor acts through a ServiceAccount."""
        return "" if layer.cron_job else "the layer has no executor with a ServiceAccount of its own"

    def plan(self, stage: Stage, layer: LayerRun) -> Plan:
        """Every RoleBinding that gives something to the executor's ServiceAccount alone is deleted and put back."""
        namespace, account = _identity(layer)
        bindings = self._bindings(stage, namespace, account)
        if not bindings:
            raise FaultError(
                f"no RoleBinding in {namespace} names ServiceAccount {account} alone: nothing to take away")
        changes = tuple(f"delete RoleBinding {namespace}/{name_of(b)}, put back afterwards" for b in bindings)
        verbs = tuple(
            Permission(verb, "rbac.authorization.k8s.io", "rolebindings", namespace=namespace)
            for verb in ("get", "list", "delete", "create"))
        return Plan(changes, namespaces=(namespace,), permissions=verbs)

    def inject(self, stage: Stage, layer: LayerRun) -> Sequence[str]:
        """Delete them through the journal."""
        namespace, account = _identity(layer)
        done = []
        for binding in self._bindings(stage, namespace, account):
            what = f"deleted RoleBinding {namespace}/{name_of(binding)}"
            stage.journal.delete(r.ROLEBINDINGS, name_of(binding), namespace, what)
            done.append(what)
        return done

    def bitten(self, stage: Stage, layer: LayerRun) -> str:
        """A 403 seen by this very executor."""
        for (pod, _), log in stage.testimony.logs.items():
            for line in log.splitlines():
                if "forbidden" in line.lower() or "403" in line:
                    return f"{pod}: {line.strip()[:300]}"
        return ""

    @staticmethod
    def _bindings(stage: Stage, namespace: str, account: str) -> list[Obj]:
        subject = ("ServiceAccount", account)
        return [
            binding for binding in stage.cluster.kube.list(r.ROLEBINDINGS, namespace).items
            if [(s.get("kind"), s.get("name")) for s in dig(binding, "subjects", default=[])] == [subject]
        ]


def _identity(layer: LayerRun) -> tuple[str, str]:
    cron_job: Obj = getattr(layer, "cron_job", {})
    spec = dig(cron_job, "spec", "jobTemplate", "spec", "template", "spec", default={})
    return dig(cron_job, "metadata", "namespace", default=""), spec.get("serviceAccountName") or "default"
