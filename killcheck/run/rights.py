"""What an account in a cluster must be allowed to run given drills, and no more: as RBAC, or as values of the chart.

The rights are those of the drills' own plans, so they are never told twice. A plan made on the embedded cluster is made
as if it were somebody's: faults act through the API alone there.
What may *not* live here: how a Role is applied, what a drill then does with its rights.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import yaml
from msgspec import Struct

from killcheck.capabilities.cluster import Cluster
from killcheck.capabilities.offered import Capabilities
from killcheck.cluster.embedded import EmbeddedDrillCluster
from killcheck.kube.objects import Obj
from killcheck.kube.permissions import Permission
from killcheck.kube.preflight import Rule, by_namespace
from killcheck.run.planned import PlannedDrill
from killcheck.run.runner import plan_for
from killcheck.run.session import Session
from killcheck.spec import specfile
from killcheck.spec.killpath import KillPath

__all__ = ["Account", "Rights", "rights_for"]

_RBAC = "rbac.authorization.k8s.io"
#: How long the embedded cluster plays before it is planned on: GPU nodes that are asked for have come by then.
_SETTLED_S = 400.0
#: What every run reads besides its plan: what may turn targets on again, and who holds a node.
_READING = (
    Permission("list", "policy", "poddisruptionbudgets"),
    Permission("list", "keda.sh", "scaledobjects"),
    Permission("list", "batch", "cronjobs"),
    Permission("list", "karpenter.sh", "nodepools"),
)


class Account(Struct, frozen=True):
    """The ServiceAccount that is to have the rights."""

    namespace: str = "killcheck"
    name: str = "killcheck"


class Rights(Struct, frozen=True):
    """Rules by namespace (empty: cluster-wide), for a kill path; ``impossible``: drills that no plan can be made of."""

    kill_path: KillPath
    rules: dict[str, list[Rule]]
    impossible: tuple[str, ...]

    def manifests(self, account: Account) -> str:
        """YAML for ``kubectl apply -f -``: the account, a role for each namespace, and what binds them."""
        found = list(self._objects(account))
        return yaml.safe_dump_all(found, sort_keys=False, width=120)

    def values(self, arguments: Sequence[str]) -> str:
        """YAML for ``helm install -f``: the spec, the ``arguments`` of ``killcheck drill``, the rights these take."""
        found = {
            "drill": {"args": list(arguments)},
            "rights": {
                "cluster": [rule.to_object() for rule in self.rules.get("", [])],
                "namespaces": {at: [rule.to_object() for rule in granted] for at, granted in self.rules.items() if at},
            },
            "spec": yaml.safe_load(specfile.dump(self.kill_path)),
        }
        return yaml.safe_dump(found, sort_keys=False, width=120)

    def _objects(self, account: Account) -> Iterator[Obj]:
        yield {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": account.namespace}}
        at = {"name": account.name, "namespace": account.namespace}
        yield {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": at}
        for namespace, granted in self.rules.items():
            prefix = "" if namespace else "Cluster"
            metadata = {"name": account.name, **({"namespace": namespace} if namespace else {})}
            head = {"apiVersion": f"{_RBAC}/v1", "kind": f"{prefix}Role", "metadata": metadata}
            yield {**head, "rules": [rule.to_object() for rule in granted]}
            yield {
                **head,
                "kind": f"{prefix}RoleBinding",
                "roleRef": {"apiGroup": _RBAC, "kind": f"{prefix}Role", "name": account.name},
                "subjects": [{"kind": "ServiceAccount", **at}],
            }


def rights_for(session: Session, planned: Sequence[PlannedDrill]) -> Rights:
    """The rights that ``planned`` takes, found out by reading only. Raises what planning raises."""
    with _as_somebodys(session) as (cluster, kill_path):
        plan = plan_for(cluster, kill_path, planned, "rights", at_any_hour=True)
    return Rights(kill_path, by_namespace([*plan.permissions, *_READING]), plan.impossible)


@contextmanager
def _as_somebodys(session: Session) -> Iterator[tuple[Cluster, KillPath]]:
    """The session's cluster as whoever has nothing but its API sees it."""
    with session.cluster() as (cluster, kill_path):
        if isinstance(cluster, EmbeddedDrillCluster):
            cluster.loop.run_until(lambda: False, _SETTLED_S)
            cluster.capabilities = Capabilities()
            cluster.real, cluster.name = True, "a real cluster"
        yield cluster, kill_path
