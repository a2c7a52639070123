"""Pods on spot machines that ask for more time than a notice leaves."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from killcheck.probes.base import Finding, Probe
from killcheck.probes.world import World

from killcheck.discover.spot_pools import is_spot, lands_only_on
from killcheck.instances.provided import provided
from killcheck.instances.reclaims import NOTICE_S
from killcheck.kube.objects import Obj, dig
from killcheck.kube.provider_pools import GKE_POOL
from killcheck.kube.workloads import templates

__all__ = ["SpotGrace"]

#: What GKE's kubelet leaves pods that are not critical, of the 30 s of the notice.
_GKE_S = 15.0


class SpotGrace(Probe):
    """What a worker does last, a checkpoint say, is cut off where its cloud has taken the machine by then."""

    id = "spot-grace"
    claim = "Pods on spot machines stop within what a spot notice leaves."
    remedy = "Write checkpoints all the time, and stop within the notice: terminationGracePeriodSeconds below it."
    severity = "warning"
    failures = (52,)
    sources = (
        "EC2 user guide: Spot Instance interruption notices (two minutes)",
        "cloud.google.com/kubernetes-engine/docs/concepts/spot-vms (15 s for pods that are not critical)",
        "learn.microsoft.com: Scheduled Events, Preempt (30 s)",
    )

    def ask(self, world: World) -> Iterable[Finding]:
        """Each holder's grace against the notice of the pools that it can land on, where those are spot alone."""
        every = list(world.of("NodePool"))
        spot = [pool for pool in every if is_spot(pool)]
        groups = list(provided(world.of("ContainerNodePool", "ManagedClustersAgentPool")))
        for holder in world.holders:
            for template in templates(holder.obj):
                left_s, whose = _notice(holder.obj, template.spec, spot, every, groups)
                grace_s = float(dig(template.spec, "terminationGracePeriodSeconds", default=30))
                if whose and grace_s > left_s:
                    path = (*template.path, "terminationGracePeriodSeconds")
                    message = f"asks for {grace_s:.0f} s to stop, and a spot notice of {whose} leaves it {left_s:.0f} s"
                    yield self.finding(world, holder.obj, path, message)


def _notice(obj: Obj, spec: Obj, spot: list[Obj], every: list[Obj], groups: list[dict[str, Any]]) -> tuple[float, str]:
    """(seconds that a notice leaves a pod, whose notice); no name: it may be on a machine that is not spot."""
    found = [_of_group(group) for group in groups if _lands(spec, group)]
    if found and all(left_s for left_s, _ in found):
        return min(found)
    if spot and not found and lands_only_on(obj, spot, every):
        return NOTICE_S["aws"], "EC2"
    return 0.0, ""


def _of_group(group: dict[str, Any]) -> tuple[float, str]:
    if group["capacityType"] != "spot":
        return 0.0, ""
    return (_GKE_S, "GKE") if GKE_POOL in group["labels"] else (NOTICE_S["azure"], "Azure")


def _lands(spec: Obj, group: dict[str, Any]) -> bool:
    """By the labels that it selects, one at least, and the taints that it tolerates."""
    from killcheck.embedded import tolerates

    selected, labels = dig(spec, "nodeSelector", default={}), group["labels"]
    named = bool(selected) and all(labels.get(key) == value for key, value in selected.items())
    return named and tolerates(spec, group["taints"]) is None
