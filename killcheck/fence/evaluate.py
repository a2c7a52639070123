"""The evaluation: plain objects in, a report out. It asks nobody and changes nothing."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from killcheck.cloud.catalogue import Catalogue, shipped
from killcheck.cloud.launchable import launchable
from killcheck.fence.ceiling import Ceiling
from killcheck.fence.karpenter import Context, feature_gates, node_classes, read_node_claim, read_node_pool
from killcheck.fence.overlays import read_overlays
from killcheck.fence.pools import Pool
from killcheck.fence.remedies import close
from killcheck.fence.report import FenceReport, FenceResult, worst_verdict
from killcheck.fence.verdict import judge, judge_together
from killcheck.kube.objects import Obj

__all__ = ["evaluate"]


def evaluate(objects: Iterable[Obj], ceiling: Ceiling, catalogue: Catalogue | None = None) -> FenceReport:
    """What could be launched at worst by everything in ``objects``, against ``ceiling``.

    ``objects`` are manifests or live objects; what is no pool or fence among them is passed over.
    """
    found = list(objects)
    catalogue = catalogue or shipped()
    context = Context(launchable(catalogue), node_classes(found), read_overlays(found), feature_gates(found))
    pools = _pools(found, context)
    results = [close(judge(pool, ceiling), pool, ceiling, context) for pool in pools]
    return FenceReport(tuple(results), _together(results, judge_together(pools, ceiling)), rests_on=catalogue.sources)


def _together(results: Sequence[FenceResult], cluster: FenceResult) -> FenceResult:
    """The whole cluster is at best what its worst pool is."""
    worst = worst_verdict([cluster.verdict, *(one.verdict for one in results)])
    if worst == cluster.verdict:
        return cluster
    first = next(one for one in results if one.verdict == worst)
    return replace(
        cluster, verdict=worst, door=first.door, remedy=first.remedy,
        reasons=(*cluster.reasons, *(f"{one.pool} is {one.verdict}" for one in results if one.verdict == worst)))


def _pools(objects: Sequence[Obj], context: Context) -> list[Pool]:
    found = []
    for one in objects:
        if one.get("kind") == "NodePool" and str(one.get("apiVersion", "")).startswith("karpenter.sh/"):
            found.append(read_node_pool(one, context))
        elif one.get("kind") == "NodeClaim" and not (one.get("metadata") or {}).get("ownerReferences"):
            found.append(read_node_claim(one, context))
    return found
