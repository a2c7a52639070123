"""Asks the cloud what bills behind the cluster's back; only where a spec says whom to ask, and of a running cluster."""

from __future__ import annotations

from collections.abc import Iterable

from killcheck.probes.base import NOT_PROVEN, Evidence, Finding, Probe
from killcheck.probes.world import World

from killcheck.cloud.billed import Billed, billed
from killcheck.cloud.other_clouds import names_machine
from killcheck.cloud.session import Aws
from killcheck.kube.objects import dig

__all__ = ["CloudBills"]


class CloudBills(Probe):
    """Instances of the cluster that no Node stands for, floors and requests that bring one back, idle reservations.

    Asked of by ``lint SPEC --on CONTEXT`` alone, where the spec's ``cloud:`` is an AWS account.
    """

    id = "cloud-bills"
    on_request = True
    claim = "Every GPU instance that the cloud bills for this cluster is a Node of it, and nothing brings one back."
    remedy = "End what no Node stands for; set minimums to zero; cancel persistent requests and unused reservations."
    failures = (45, 49, 50, 51)
    sources = (
        "CA#803",
        "KA#2734",
        "docs.aws.amazon.com/AWSEC2/latest/UserGuide/spot-requests.html",
        "docs.aws.amazon.com/AWSEC2/latest/UserGuide/capacity-reservations-pricing-billing.html",
    )
    needs = ("Node", "NodeClaim")
    live = True

    def __init__(self, aws: Aws | None = None) -> None:
        self.aws = aws

    def ask(self, world: World) -> Iterable[Finding]:
        """One finding for each thing that bills."""
        access = world.kill_path.cloud
        if access is None or access.states or access.command is not None:
            return
        known = {str(dig(node, "spec", "providerID", default="")) for node in world.of("Node")}
        known |= {str(dig(claim, "status", "providerID", default="")) for claim in world.of("NodeClaim")}
        if {"Node", "NodeClaim"} & set(world.unread):
            return  # who is a ghost cannot be told; that it could not be read is said by whoever asks
        if known - {""} and all(map(names_machine, known - {""})):
            return  # of GCP's and Azure's machines EC2 knows nothing
        for one in billed(access, known - {""}, aws=self.aws, prices=world.kill_path.prices):
            yield self._finding(one)

    def _finding(self, one: Billed) -> Finding:
        rate = f" (${one.usd_per_hour:.2f} an hour)" if one.usd_per_hour is not None else ""
        name = f"{one.what}/{one.object}"
        message = f"{NOT_PROVEN}{one.message}" if one.unproven else f"{one.message}{rate}"
        return Finding(
            self.id,
            "note" if one.unproven else self.severity,
            name,
            message,
            one.remedy,
            (Evidence(name, "", one.message),),
            unproven=one.unproven,
            failures=one.failures,
        )
