"""Identities of executors that may do far more than they do."""

from __future__ import annotations

from collections.abc import Iterable

from killcheck.probes.base import Finding, Probe
from killcheck.probes.world import World

__all__ = ["RbacExcess"]


class RbacExcess(Probe):
    """Whoever gets hold of the switch's token should be able to turn GPUs off, and nothing else."""

    id = "rbac-excess"
    claim = "An executor's identity may do little more than its calls."
    remedy = "Bind a Role with exactly the calls it makes (verbs, subresource, resourceNames)."
    severity = "warning"
    failures = (16,)
    sources = ("kubernetes.io/docs: RBAC good practices",)

    def ask(self, world: World) -> Iterable[Finding]:
        """Whether it may do what no executor of ours needs."""
        for one in world.layer_executors:
            for verb, group, resource, what in _TOO_MUCH:
                if world.permissions.allows(
                    one.account, one.namespace, verb=verb, group=group, resource=resource, namespace=one.namespace
                ):
                    yield self.finding(
                        world,
                        one.owner,
                        (*one.path, "serviceAccountName"),
                        f"ServiceAccount {one.namespace}/{one.account} may also {what}",
                    )
                    break


_TOO_MUCH = (
    ("get", "", "secrets", "read Secrets"),
    ("create", "", "pods", "create pods"),
    ("create", "rbac.authorization.k8s.io", "clusterrolebindings", "bind ClusterRoles"),
)
