"""Karpenter pools that keep empty nodes."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import timedelta

from killcheck.probes.base import Finding, Probe, merge_patch
from killcheck.probes.schedules import schedule_of
from killcheck.probes.world import World

from killcheck.discover.deadlines import go_duration_s
from killcheck.kube.objects import Obj, dig
from killcheck.kube.schedule import Schedule, ScheduleError, parse

__all__ = ["NoConsolidation"]


class NoConsolidation(Probe):
    """consolidateAfter: Never, a budget of 0, a window in UTC: the GPUs are idle, the nodes stay until expireAfter."""

    id = "no-consolidation"
    claim = "Karpenter may take an empty GPU node away at any hour, soon after its last pod."
    remedy = "Set consolidateAfter: 1m and a budget with nodes: 100% for reason Empty."
    failures = (47,)
    sources = ("sigs.k8s.io/karpenter pkg/apis/v1/nodepool.go", "karpenter.sh/docs: disruption budgets (UTC)")

    def ask(self, world: World) -> Iterable[Finding]:
        """The kill path's NodePools."""
        for pool in world.gpu_pools:
            after = dig(pool, "spec", "disruption", "consolidateAfter", default="0s")
            path = ("spec", "disruption", "consolidateAfter")
            limit = world.kill_path.deadlines.node_drained_s
            seconds = go_duration_s(str(after))
            if after == "Never":
                yield self.finding(
                    world,
                    pool,
                    path,
                    "never takes an empty node away",
                    patch=merge_patch(pool, {"spec": {"disruption": {"consolidateAfter": "1m"}}}),
                )
            elif seconds is not None and seconds >= min(limit, _LONGEST_S):
                yield self.finding(
                    world, pool, path, f"keeps an empty node for {after} (the deadline for it is {limit:.0f} s)"
                )
            for index, budget in enumerate(dig(pool, "spec", "disruption", "budgets", default=[])):
                yield from self._budget(world, pool, index, budget)

    def _budget(self, world: World, pool: Obj, index: int, budget: Obj) -> Iterable[Finding]:
        path = ("spec", "disruption", "budgets", index, "nodes")
        reasons = budget.get("reasons")
        if str(budget.get("nodes")) not in ("0", "0%") or (reasons and "Empty" not in reasons):
            return
        if not budget.get("schedule"):
            yield self.finding(world, pool, path, "a budget of 0 nodes, always: no empty node is taken away")
            return
        window = f"{budget['schedule']} for {budget.get('duration')}"
        firings = [f for _, obj in world.schedules for f in [schedule_of(obj)] if f]
        closed = any(_closed(world, budget, firing) for firing in firings)
        yield self.finding(
            world,
            pool,
            path,
            f"takes no empty node away in the window {window} (UTC)" + (", when the layer fires" if closed else ""),
            severity="error" if closed else "warning",
        )


def _closed(world: World, budget: Obj, firing: Schedule) -> bool:
    """Whether the first firing falls into the budget's window."""
    length = go_duration_s(str(budget.get("duration", "")))
    moment = firing.next(world.now)
    try:
        window = parse(str(budget["schedule"]))
    except ScheduleError:
        return False
    if moment is None or length is None:
        return False
    return next(window.between(moment - timedelta(seconds=length), moment), None) is not None


#: Seconds: an hour of an empty eight-GPU node is 25 to 100 dollars.
_LONGEST_S = 3600.0
