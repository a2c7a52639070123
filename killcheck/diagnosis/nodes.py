"""Why a node is still billing after its GPU pods have gone: pods that cannot be evicted, blocked disruption, floors."""

from __future__ import annotations

from killcheck.diagnosis.case import Case, Diagnosis, said
from killcheck.kube import provider_pools, selectors
from killcheck.kube import resources as r
from killcheck.kube.errors import KubeError
from killcheck.kube.objects import (
    Obj,
    annotations_of,
    condition,
    dig,
    format_time,
    labels_of,
    name_of,
    namespace_of,
    ref_of,
)
from killcheck.text.durations import format_duration, parse_duration
from killcheck.watch.scene import event_time

__all__ = ["RULES"]

_STAGES = ("node_cordoned", "node_drained", "node_gone", "instance_gone", "held")


def blocked_pods(case: Case) -> Diagnosis | None:
    """A pod on the node must not be, or cannot be, moved."""
    if case.stuck_at not in _STAGES:
        return None
    for node in case.scene.pool_nodes():
        for pod in case.scene.pods_on(name_of(node)):
            where = f"pod {namespace_of(pod)}/{name_of(pod)} on node {name_of(node)}"
            notes = annotations_of(pod)
            for key, value in (
                ("karpenter.sh/do-not-disrupt", "true"),
                ("cluster-autoscaler.kubernetes.io/safe-to-evict", "false"),
            ):
                if notes.get(key) == value:
                    return Diagnosis(
                        cause=f"{where} says {key}: {value}",
                        evidence=(f"metadata.annotations[{key}]: {value}",),
                        remedy="take it off, or give the NodePool a terminationGracePeriod that overrides it",
                        failures=(43,),
                    )
            if "deletionTimestamp" not in pod["metadata"] and "deletionTimestamp" in node["metadata"]:
                budget = next(
                    (e for e in case.scene.events_about(pod, node) if "disruption budget" in str(e.get("message", ""))),
                    None,
                )
                if budget is not None:
                    return Diagnosis(
                        cause=f"{where} cannot be evicted: {budget.get('message')}",
                        evidence=(said(budget),),
                        remedy="give the PodDisruptionBudget room (maxUnavailable: 1), or the NodePool a "
                        "terminationGracePeriod",
                        failures=(41,),
                    )
    return None


def still_occupied(case: Case) -> Diagnosis | None:
    """Other pods keep the node."""
    if case.stuck_at not in _STAGES:
        return None
    for node in case.scene.pool_nodes():
        left = case.scene.pods_on(name_of(node))
        if left:
            names = ", ".join(f"{namespace_of(p)}/{name_of(p)}" for p in left[:5])
            budget = _budget(case, left)
            if budget:
                return Diagnosis(
                    cause=f"node {name_of(node)} is not empty: {names}, which {budget} does not let go",
                    evidence=tuple(f"{namespace_of(p)}/{name_of(p)}: {dig(p, 'status', 'phase')}" for p in left[:5]),
                    remedy="give the PodDisruptionBudget room, and keep other pods off the GPU nodes (a taint)",
                    failures=(41,),
                )
            return Diagnosis(
                cause=f"node {name_of(node)} is not empty: {names}",
                evidence=tuple(f"{namespace_of(p)}/{name_of(p)}: {dig(p, 'status', 'phase')}" for p in left[:5]),
                remedy="keep other pods off GPU nodes with a taint, so that an idle one is an empty one",
                failures=(46,),
            )
    return None


#: Reasons of events by which an autoscaler says why a node stays.
_REASONS_TO_STAY = (
    "DisruptionBlocked",
    "Unconsolidatable",
    "FailedDraining",
    "ScaleDownFailed",
    "FailedTermination",
    "TerminationGracePeriodExpiring",
)


def autoscaler_says(case: Case) -> Diagnosis | None:
    """The autoscaler told why it keeps the node."""
    if case.stuck_at not in _STAGES:
        return None
    for node in case.scene.pool_nodes():
        claim = next((c for c in case.scene.claims.values() if dig(c, "status", "nodeName") == name_of(node)), None)
        about = [node, *([claim] if claim else [])]
        began = format_time(case.timeline.start)
        events = [
            e for e in case.scene.events_about(*about) if event_time(e) >= began and e.get("reason") in _REASONS_TO_STAY
        ]
        if events:
            return Diagnosis(
                cause=f"node {name_of(node)} stays: {events[-1].get('reason')}: {events[-1].get('message')}",
                evidence=tuple(said(e) for e in events[-3:]),
                remedy=_remedy(events[-1]),
                failures=(43, 47),
            )
        detaching = condition(claim, "VolumesDetached") if claim else None
        if detaching and detaching.get("status") != "True":
            return Diagnosis(
                cause=f"node {name_of(node)} waits for its volumes to detach: {detaching.get('message', '')}",
                evidence=(f"NodeClaim {name_of(claim or {})}: VolumesDetached {detaching.get('status')}",),
                remedy="give the NodePool a terminationGracePeriod; find what keeps the volume",
                failures=(44,),
            )
    return None


def _remedy(event: Obj) -> str:
    message = str(event.get("message", "")).lower()
    if "budget" in message:
        return "give the NodePool a disruption budget that lets an empty node go at night"
    if "do-not-disrupt" in message:
        return "take karpenter.sh/do-not-disrupt off, or set terminationGracePeriod"
    return "set consolidationPolicy, consolidateAfter and terminationGracePeriod so that an empty node goes"


def pool_settings(case: Case) -> Diagnosis | None:
    """The NodePool itself keeps its nodes."""
    if case.stuck_at not in _STAGES or not case.scene.pool_nodes():
        return None
    for pool in case.pools():
        name = name_of(pool)
        after = dig(pool, "spec", "disruption", "consolidateAfter", default="0s")
        if after == "Never":
            return Diagnosis(
                cause=f"NodePool {name} never consolidates: consolidateAfter: Never",
                evidence=("spec.disruption.consolidateAfter: Never",),
                remedy="set consolidateAfter to a minute or so",
                failures=(47,),
            )
        waits_s, within_s = _seconds(after), case.timeline.deadline_s("node_drained") or 0.0
        if waits_s > within_s > 0:
            return Diagnosis(
                cause=f"NodePool {name} keeps an empty node for {after} (consolidateAfter): longer than the "
                f"{format_duration(within_s)} by which it must be drained",
                evidence=(f"spec.disruption.consolidateAfter: {after}",),
                remedy="set consolidateAfter to a minute or so",
                failures=(47,),
            )
        if dig(pool, "spec", "replicas") is not None:
            return Diagnosis(
                cause=f"NodePool {name} is static: its nodes stay whatever runs on them",
                evidence=(f"spec.replicas: {dig(pool, 'spec', 'replicas')}",),
                remedy="scale the NodePool itself to zero at night, or use a dynamic pool",
                failures=(45,),
            )
        for budget in dig(pool, "spec", "disruption", "budgets", default=[]):
            if str(budget.get("nodes")) in ("0", "0%"):
                return Diagnosis(
                    cause=f"NodePool {name} has a disruption budget of 0"
                    + (f" on schedule {budget['schedule']} (UTC)" if budget.get("schedule") else ""),
                    evidence=(f"spec.disruption.budgets: {budget}",),
                    remedy="leave a window in which an empty node may go",
                    failures=(47,),
                )
    return None


def _seconds(after: object) -> float:
    """0 for what is no duration."""
    try:
        return parse_duration(str(after))
    except ValueError:
        return 0.0


def provider_floor(case: Case) -> Diagnosis | None:
    """A node pool of GKE or AKS that is never smaller, as its manifest or export says."""
    if case.stuck_at not in _STAGES or case.scene.cluster.real:
        return None
    labels = [labels_of(node) for node in case.scene.pool_nodes()]
    for obj in case.scene.cluster.inventory().objects if labels else ():
        made = provider_pools.node_group(obj)
        if made is None or not made["min"]:
            continue
        if any(map(selectors.parse_labels(provider_pools.selector(obj)).matches, labels)):
            fixed = " and has no autoscaler" if made["fixed"] else ": its autoscaler leaves so many"
            return Diagnosis(
                cause=f"node pool {name_of(obj)} is never smaller than {made['min']} node(s){fixed}",
                evidence=(f"{ref_of(obj)}: at least {made['min']}, at most {made['max']}",),
                remedy="set its least number of nodes to 0 (minNodeCount, minCount), at night at the least",
                failures=(45,),
            )
    return None


def nobody_removes(case: Case) -> Diagnosis | None:
    """The node is empty, nothing forbids its removal, and nobody removes it."""
    if case.stuck_at not in _STAGES or not case.scene.pool_nodes():
        return None
    names = ", ".join(name_of(n) for n in case.scene.pool_nodes())
    return Diagnosis(
        cause=f"the GPU pods are gone, but nothing removes empty node(s) {names}: a pool floor, or a dead autoscaler",
        evidence=tuple(f"node {name_of(n)}: no pod left but DaemonSets'" for n in case.scene.pool_nodes()),
        remedy="check the pool's minimum size, and that its autoscaler runs and may terminate instances",
        failures=(45, 48),
    )


def _budget(case: Case, pods: list[Obj]) -> str | None:
    """A PodDisruptionBudget that forbids to evict one of these pods."""
    try:
        for place in sorted({namespace_of(pod) for pod in pods}):
            for budget in case.scene.cluster.kube.list(r.PDBS, place).items:
                selector = selectors.from_match_labels(dig(budget, "spec", "selector"))
                if not dig(budget, "status", "disruptionsAllowed") and any(
                    namespace_of(pod) == place and selector.matches(labels_of(pod)) for pod in pods
                ):
                    return f"PodDisruptionBudget {place}/{name_of(budget)}"
    except KubeError:
        return None
    return None


RULES = (blocked_pods, still_occupied, autoscaler_says, pool_settings, provider_floor, nobody_removes)
