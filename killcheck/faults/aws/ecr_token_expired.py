"""The twelve hours of ECR's authorization token are over, and nobody gets the cluster another."""

from __future__ import annotations

from collections.abc import Sequence

from killcheck.capabilities.offered import Capability
from killcheck.faults.base import Evidence, FaultError, Plan
from killcheck.faults.kubernetes.executor import COPY, ExecutorFault, containers, images, pod_spec
from killcheck.faults.kubernetes.registries import pull_failure
from killcheck.kube.objects import Obj, format_time
from killcheck.layers.base import LayerRun, Stage
from killcheck.standins.ecr import registry_of

__all__ = ["EcrTokenExpired"]

#: What a node is told, in containerd's words: a token past its end, one that is none, no login at all.
_REFUSALS = ("403 Forbidden", "401 Unauthorized", "no basic auth credentials", "authorization token has expired")


class EcrTokenExpired(ExecutorFault):
    """Reproduces row 6 with ECR's own rules: the Secret's token is past its end and its refresher is refused a new one.

    Where the executor brings no pull secret it is the nodes' credential provider that is refused. A pod that brings one
    is taken to run on nodes without a provider of their own: with one, an expired Secret does no harm. Against AWS
    itself no token can be made to expire: ``pull-secret-expired`` is what works there.
    """

    name = "ecr-token-expired"
    simulates = "ECR's authorization token (12 h) has expired, its refresher gets no other, and the node has no copy"
    family = "credentials"
    failures = (6,)
    needs = (Capability.STAND_IN,)
    shows = Evidence.OTHERS

    def unsuited_executor(self, layer_name: str, cron_job: Obj) -> str | None:
        """Nothing is pulled from ECR."""
        pulled = [c.get("image", "") for c in containers(_template(cron_job))]
        return None if any(map(registry_of, pulled)) else f"the executor of {layer_name} is not pulled from private ECR"

    def plan(self, stage: Stage, layer: LayerRun) -> Plan:
        """Only where there is a token to expire. Raises FaultError."""
        hosts = self._hosts(layer)
        if not hosts:
            raise FaultError(
                f"{self.name}: the executor of {layer.layer.name} is not pulled from a private registry of ECR"
            )
        return Plan(
            (
                f"no authorization token for {', '.join(hosts)} is good any more, and GetAuthorizationToken is "
                "refused; "
                "the drill's own copy of the Job pulls anew",
            ),
            edits=("ECR's tokens", f"{COPY}.imagePullPolicy"),
        )

    def inject(self, stage: Stage, layer: LayerRun) -> Sequence[str]:
        """End the tokens, and let the drill's Job pull."""
        until = format_time(stage.cluster.loop.now())
        what = f"ECR's authorization tokens ended at {until}, and GetAuthorizationToken answers ExpiredTokenException"
        stage.journal.call(Capability.STAND_IN, what, ("end_pull_tokens", until), ("end_pull_tokens", ""))

        def rewrite(template: Obj) -> None:
            for container in containers(template):
                container["imagePullPolicy"] = "Always"

        stage.rewrites.append(rewrite)
        held = [str(ref.get("name")) for ref in pod_spec(layer).get("imagePullSecrets") or ()]
        by = f"with Secret {', '.join(held)}" if held else "with what its ServiceAccount or its node has"
        return [what, f"the drill's copy of the Job pulls anew, {by}"]

    def bitten(self, stage: Stage, layer: LayerRun) -> str | None:
        """The kubelet was refused by ECR."""
        said = pull_failure(stage, *self._hosts(layer))
        return said if said is not None and any(mark in said for mark in _REFUSALS) else None

    @staticmethod
    def _hosts(layer: LayerRun) -> list[str]:
        return sorted({registry for image in images(layer) if (registry := registry_of(image))})


def _template(cron_job: Obj) -> Obj:
    found: Obj = cron_job.get("spec", {}).get("jobTemplate", {}).get("spec", {}).get("template", {})
    return found
