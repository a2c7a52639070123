"""Which admitted Workloads would have to go for one that waits.

Source: kubernetes-sigs/kueue pkg/scheduler/preemption (classical preemption: within the ClusterQueue, and reclaiming
what other queues of the cohort have borrowed). Left out: preemption while borrowing, fair sharing.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from msgspec import Struct

from killcheck.embedded.models.kueue.quota import FlavorResource, Quotas
from killcheck.kube.objects import Obj, dig, uid_of

__all__ = ["REASONS", "Holder", "targets"]

#: What a preemption's reason is in its message.
REASONS = {
    "InClusterQueue": "prioritization in the ClusterQueue",
    "InCohortReclamation": "reclamation within the cohort",
}


class Holder(Struct, frozen=True):
    """A Workload that holds a reservation in ``queue``."""

    workload: Obj
    queue: str
    usage: Mapping[FlavorResource, float]

    @property
    def priority(self) -> int:
        """``spec.priority``."""
        return int(dig(self.workload, "spec", "priority", default=0))


def targets(
    preemptor: Obj,
    queue: Obj,
    wanted: Mapping[FlavorResource, float],
    holders: Iterable[Holder],
    quotas: Quotas,
) -> list[tuple[Holder, str]]:
    """The fewest that make room, each with its reason; empty where no eviction would. ``quotas`` stays as it was."""
    name = str(queue["metadata"]["name"])
    candidates = sorted(
        ((one, reason) for one in holders if (reason := _reason(preemptor, queue, one, wanted, quotas))),
        key=lambda pair: (pair[0].queue == name, pair[0].priority, _newest_first(pair[0])),
    )
    chosen: list[tuple[Holder, str]] = []
    room = False
    for holder, reason in candidates:
        if reason == "InCohortReclamation" and not quotas.borrows(holder.queue, wanted):
            continue
        quotas.add(holder.queue, holder.usage, -1)
        chosen.append((holder, reason))
        room = quotas.fits(name, wanted)
        if room:
            break
    needed = list(chosen) if room else []
    for holder, reason in reversed(needed[:-1]):  # what need not go after all
        quotas.add(holder.queue, holder.usage)
        if quotas.fits(name, wanted):
            needed.remove((holder, reason))
        else:
            quotas.add(holder.queue, holder.usage, -1)
    for holder, _ in needed if room else chosen:
        quotas.add(holder.queue, holder.usage)
    return needed


def _reason(
    preemptor: Obj,
    queue: Obj,
    other: Holder,
    wanted: Mapping[FlavorResource, float],
    quotas: Quotas,
) -> str | None:
    """Why ``other`` may be preempted; None: it may not."""
    if uid_of(other.workload) == uid_of(preemptor) or not any(key in other.usage for key in wanted):
        return None
    mine = int(dig(preemptor, "spec", "priority", default=0))
    if other.queue == queue["metadata"]["name"]:
        policy = dig(queue, "spec", "preemption", "withinClusterQueue", default="Never")
        newer = other.priority == mine and _created(other.workload) > _created(preemptor)
        allowed = policy != "Never" and (other.priority < mine or (policy == "LowerOrNewerEqualPriority" and newer))
        return "InClusterQueue" if allowed else None
    if other.queue not in quotas.members(str(queue["metadata"]["name"])) or not quotas.borrows(other.queue, wanted):
        return None
    policy = dig(queue, "spec", "preemption", "reclaimWithinCohort", default="Never")
    return "InCohortReclamation" if policy == "Any" or (policy == "LowerPriority" and other.priority < mine) else None


def _created(workload: Obj) -> str:
    return str(workload["metadata"]["creationTimestamp"])


def _newest_first(holder: Holder) -> tuple[int, ...]:
    return tuple(-ord(letter) for letter in _created(holder.workload))
