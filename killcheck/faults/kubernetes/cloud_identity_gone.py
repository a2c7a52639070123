"""What gives an executor its identity in a cloud is gone: a binding, a federated credential, a role's trust."""

from __future__ import annotations

from collections.abc import Sequence

from killcheck.capabilities.offered import Capability, present
from killcheck.faults.base import Evidence, FaultError, Plan
from killcheck.faults.kubernetes.executor import ExecutorFault, cron_job_of, said_by
from killcheck.kube.objects import Obj, dig
from killcheck.layers.base import LayerRun, Stage
from killcheck.text import lazy_re

__all__ = ["CloudIdentityGone"]

_CALLS = lazy_re.compile(r"\b(gcloud|az|aws) [a-z-]+ ")
#: By program, in its own words. Sources: GKE "Troubleshoot authentication" (the metadata server's 403); Entra's error
#: AADSTS700213; STS' AccessDenied.
_REFUSED = {
    "gcloud": (
        1,
        "ERROR: (gcloud.{call}) There was a problem refreshing your current auth tokens: Status: 403 Unable to "
        "generate access token; IAM returned 403 Forbidden: Permission 'iam.serviceAccounts.getAccessToken' denied on "
        "resource (or it may not exist).",
    ),
    "az": (
        1,
        "ERROR: AADSTS700213: No matching federated identity record found for presented assertion subject. Check your "
        "federated identity credential Subject, Audience and Issuer against the presented assertion.",
    ),
    "aws": (
        254,
        "An error occurred (AccessDenied) when calling the AssumeRoleWithWebIdentity operation: Not authorized to "
        "perform sts:AssumeRoleWithWebIdentity",
    ),
}


class CloudIdentityGone(ExecutorFault):
    """Reproduces row 21 on GKE, AKS and EKS: the cloud takes the ServiceAccount's token no more.

    A binding of the service account was removed, the federated credential names another issuer, or the role's trust was
    tidied up. Command lines in pods are refused, whatever they ask for.
    """

    name = "cloud-identity-gone"
    simulates = "the cloud gives the executor's ServiceAccount no identity any more (workload identity)"
    family = "credentials"
    failures = (21,)
    needs = (Capability.CLOUD,)
    shows = Evidence.CALL

    def unsuited_executor(self, layer_name: str, cron_job: Obj) -> str | None:
        """Only where a cloud's command line is called."""
        asks = _CALLS.search(said_by(dig(cron_job, "spec", "jobTemplate", default={})))
        return None if asks else f"the executor of {layer_name} calls no cloud's command line"

    def plan(self, stage: Stage, layer: LayerRun) -> Plan:
        """Nothing that exists in the cluster is changed. Raises FaultError."""
        unsuited = self.unsuited_executor(layer.layer.name, cron_job_of(layer))
        if unsuited:
            raise FaultError(f"{self.name}: {unsuited}")
        return Plan((self.simulates,), edits=("the cloud's trust in ServiceAccounts",))

    def inject(self, stage: Stage, layer: LayerRun) -> Sequence[str]:
        """From now on."""
        stage.journal.set_attribute(Capability.CLOUD, self.simulates, "identities_gone", _REFUSED)
        return [self.simulates]

    def bitten(self, stage: Stage, layer: LayerRun) -> str | None:
        """A command line was refused."""
        return next(iter(present(stage.cluster.capabilities.cloud).identities_refused), None)
