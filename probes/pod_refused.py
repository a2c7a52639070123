"""Pods that the API server will not take."""

from __future__ import annotations

from collections.abc import Iterable

from killcheck.probes.admission import refusal
from killcheck.probes.base import Finding, Probe
from killcheck.probes.world import Executor, World

__all__ = ["PodRefused"]


class PodRefused(Probe):
    """A refused pod is a FailedCreate on the Job: no pod, no log, and nobody looks at Jobs. Asked of the same admission
    code that the embedded cluster runs, with the pod as the Job controller would make it.
    """

    id = "pod-refused"
    claim = "The API server takes the executor's pod: its ServiceAccount, quota, limits and Pod Security let it pass."
    remedy = "Change the pod or the namespace's rule; then see 'killcheck drill' make the pod."
    failures = (11,)
    sources = ("KK#100726", "KK#78796", "rwlove/home-ops#11969", "recordings of a v1.36 cluster: 11 to 15")
    needs = ("ResourceQuota", "LimitRange", "ServiceAccount", "Namespace")

    def ask(self, world: World) -> Iterable[Finding]:
        """Each layer's pod, in a namespace made the same."""
        for one in world.layer_executors:
            if self._no_account(world, one):
                message = f"ServiceAccount {one.namespace}/{one.account} does not exist: no pod of it can be made"
                yield self.finding(world, one.owner, (*one.path, "serviceAccountName"), message,
                                   remedy="Create the ServiceAccount (and its binding), or name one that exists.")
                continue
            why = refusal(world, one)
            if why:
                yield self.finding(world, one.owner, one.path, f"its pod is refused: {why}")

    @staticmethod
    def _no_account(world: World, one: Executor) -> bool:
        """Manifests that bring other accounts of the namespace, or bindings to this one, should bring this one too."""
        if one.account == "default" or world.find("ServiceAccount", one.namespace, one.account):
            return False
        bound = any(
            subject.get("name") == one.account for binding in world.of("RoleBinding", "ClusterRoleBinding")
            for subject in binding.get("subjects") or ())
        others = any(world.in_namespace("ServiceAccount", one.namespace))
        return world.knows("ServiceAccount") or bound or others
