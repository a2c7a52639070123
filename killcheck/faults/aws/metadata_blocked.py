"""Instance metadata is out of pods' reach: nobody on the node hears of a notice, nobody takes a role from it."""

from __future__ import annotations

from collections.abc import Sequence

from killcheck.capabilities.offered import Capability, present
from killcheck.executor.refusals import UNREACHED
from killcheck.faults.base import Evidence, Fault, Plan
from killcheck.faults.kubernetes.executor import said_by
from killcheck.faults.kubernetes.network import EgressFault, all_but
from killcheck.kube.objects import Obj, dig
from killcheck.layers.base import LayerRun, Stage
from killcheck.text import lazy_re

__all__ = ["MetadataBlocked", "MetadataDenied"]

#: What asks instance metadata: by its address, or by the AWS clients that do so when they have no other credentials.
_ASKS = lazy_re.compile(r"169\.254\.169\.254|ec2-metadata|boto3|\baws [a-z]|instance-action")
#: Where it answers, on IPv4 and (Nitro) on IPv6.
ADDRESSES = ("169.254.169.254", "fd00:ec2::254")


def _does_not_ask(layer_name: str, cron_job: Obj) -> str | None:
    asks = _ASKS.search(said_by(dig(cron_job, "spec", "jobTemplate", default={})))
    return None if asks or not cron_job else f"the executor of {layer_name} does not ask instance metadata"


class MetadataBlocked(Fault):
    """Reproduces rows 21 and 52: the machines' hop limit is 1 (an EC2NodeClass's own default).

    A token's PUT is never answered to a pod. Nor is it, here, to one on its node's network, as where the endpoint is
    cut off altogether.

    Only what really asked and got no answer is a bite.
    """

    name = "aws-metadata-blocked"
    simulates = "instance metadata gives nobody a token (hop limit 1, or cut off): no notice is heard, no role taken"
    family = "spot"
    failures = (21, 52)
    needs = (Capability.STAND_IN, Capability.CLOUD)
    shows = Evidence.CALL

    def unsuited_executor(self, layer_name: str, cron_job: Obj) -> str | None:
        """Nothing asks."""
        return _does_not_ask(layer_name, cron_job)

    def plan(self, stage: Stage, layer: LayerRun) -> Plan:
        """Nothing that exists in the cluster is changed."""
        return Plan(("no machine's metadata gives a token any more",), edits=("the machines' metadata",))

    def inject(self, stage: Stage, layer: LayerRun) -> Sequence[str]:
        """Turn it off for every machine."""
        what = "instance metadata answers no request for a token"
        stage.journal.set_attribute(Capability.CLOUD, what, "metadata_blocked", True)
        return [what]

    def bitten(self, stage: Stage, layer: LayerRun) -> str | None:
        """Somebody asked, and was not answered."""
        cloud = present(stage.cluster.capabilities.cloud)
        who = next(iter(cloud.metadata_unheard), "")
        return f"{who} asked 169.254.169.254 for a token and got no answer" if who else None


class MetadataDenied(EgressFault):
    """Reproduces row 21, on any cluster: a NetworkPolicy keeps the drill's own pods from instance metadata.

    AWS advises it where pods have roles of their own (EKS best practices, "Restrict access to the instance profile").

    An executor that takes its role or its region from its node is left without. What bites is its own word for it,
    where a probe pod was seen to be held back.
    """

    name = "metadata-denied"
    simulates = "the executor cannot reach instance metadata: no role from its node, no region"
    family = "credentials"
    failures = (21,)
    reaches, port = ADDRESSES[0], "80"
    #: boto3, the AWS command line and SDKs, Google's and Azure's clients.
    words = (
        f"{UNREACHED}|unable to locate credentials|no ?credential|could not connect to the endpoint url"
        "|metadata (server|service)|no ec2 imds role|default credentials"
    )

    def unsuited_executor(self, layer_name: str, cron_job: Obj) -> str | None:
        """Nothing asks."""
        return _does_not_ask(layer_name, cron_job)

    def egress(self, stage: Stage) -> list[Obj]:
        """Every address but metadata's."""
        return all_but(ADDRESSES)
