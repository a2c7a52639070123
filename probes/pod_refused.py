"""Pods that the API server will not take."""

from __future__ import annotations

from collections.abc import Iterable

from killcheck.probes.admission import refusal
from killcheck.probes.base import Finding, Probe
from killcheck.probes.world import Executor, World

from killcheck.kube.objects import ref_of

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
                yield self.finding(
                    world,
                    one.owner,
                    (*one.path, "serviceAccountName"),
                    message,
                    remedy="Create the ServiceAccount (and its binding), or name one that exists.",
                )
                continue
            if one.seen is None:  # fails-when-fired has seen it
                yield from self._asked(world, one)

    def _asked(self, world: World, one: Executor) -> Iterable[Finding]:
        """The API server's own answer to a dry run, where it was asked; else that of our admission."""
        who = ref_of(one.owner)
        why = world.answers.dry_runs.get(who)
        if why is None and who in world.answers.unanswered:
            message = f"whether the API server takes its pod (dry run): {world.answers.unanswered[who]}"
            yield self.unproven(world, one.owner, message)
        why = refusal(world, one) if why is None else why
        if why:
            yield self.finding(world, one.owner, one.path, f"its pod is refused: {why}")
        for name in world.answers.injected.get(who, ()):
            message = f"admission puts container {name} into its pod: unless that ends too, the Job never does"
            yield self.finding(
                world,
                one.owner,
                one.path,
                message,
                severity="warning",
                remedy=f"Leave {name} out by annotation, or let it be injected as a native sidecar.",
            )

    @staticmethod
    def _no_account(world: World, one: Executor) -> bool:
        """Manifests that bring other accounts of the namespace, or bindings to this one, should bring this one too."""
        if one.account == "default" or world.find("ServiceAccount", one.namespace, one.account):
            return False
        if world.live:  # a drill's own listing has the bindings and not the accounts
            return world.knows("ServiceAccount")
        bound = any(
            subject.get("name") == one.account
            for binding in world.of("RoleBinding", "ClusterRoleBinding")
            for subject in binding.get("subjects") or ()
        )
        others = any(world.in_namespace("ServiceAccount", one.namespace))
        return bound or others
