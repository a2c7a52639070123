"""Deadlines as sums: schedule the executor, pull, run, stop the pods, consolidate, terminate; each with its reason."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from killcheck.discover.nodes import Pools
from killcheck.kube.objects import Obj, dig, name_of, ref_of
from killcheck.kube.workloads import templates
from killcheck.spec.killpath import Deadlines, Layer
from killcheck.text.durations import format_duration

__all__ = ["Suggested", "after_idling", "go_duration_s", "grace", "suggest"]

#: What a step may take beyond what is written down, in seconds: seen on an idle cluster, times ten.
_SCHEDULE_S, _PULL_S, _START_S, _MARGIN_S = 60.0, 120.0, 30.0, 60.0
#: The longest that an executor which makes a few API calls may reasonably run, in seconds.
_EXECUTOR_S = 120.0
#: Without Karpenter: cluster-autoscaler's defaults, 10 min unneeded (``--scale-down-unneeded-time``) and its scan.
_AUTOSCALER_S = 660.0
#: How long a drained node's instance takes to terminate, in seconds.
_TERMINATE_S = 300.0
#: One more wave of nodes under a disruption budget: the earlier ones must be gone first.
_WAVE_S = 120.0
_GRACE_S = 30
_PART = re.compile(r"(\d+(?:\.\d+)?)(h|ms|m|s)")
_UNIT_S = {"h": 3600.0, "m": 60.0, "s": 1.0, "ms": 0.001}


@dataclass(frozen=True, slots=True)
class Suggested:
    """Deadlines, and what a reader should know about them."""

    deadlines: Deadlines
    notes: tuple[str, ...] = ()


def go_duration_s(text: str) -> float | None:
    """Seconds of a Go duration (``1h30m``, ``0s``); None for ``Never`` and what is none."""
    parts = _PART.findall(text)
    return sum(float(number) * _UNIT_S[unit] for number, unit in parts) if parts else None


def suggest(
    objects: Sequence[Obj],
    targets: Sequence[Obj],
    cron_jobs: Sequence[Obj],
    pools: Pools,
    ran_s: Sequence[float] = (),
) -> tuple[Suggested, dict[str, str]]:
    """Deadlines for a kill path, and a comment for each that says how it came about.

    ``ran_s``: how many seconds its programs took in a rehearsal, where there was one; twice that is allowed for.
    """
    run_s = max([*(_run_s(job) for job in cron_jobs), *(2 * seconds for seconds in ran_s)], default=_EXECUTOR_S)
    start_s = _SCHEDULE_S + _PULL_S + _START_S
    written_s = start_s + run_s
    grace_s, grace_why = max((grace(obj) for obj in targets), default=(float(_GRACE_S), ""))
    pods_s = written_s + grace_s + _MARGIN_S
    empty_s, empty_why = _empty(pools, sum(t.count for obj in targets for t in templates(obj)))
    drained_s = pods_s + empty_s + _MARGIN_S
    said = {
        "pod_scheduled_s": _SCHEDULE_S,
        "image_pulled_s": _SCHEDULE_S + _PULL_S,
        "container_started_s": start_s,
        "executor_finished_s": written_s,
        "scale_written_s": written_s,
        "pods_gone_s": pods_s,
        "node_drained_s": drained_s,
        "node_gone_s": drained_s + _TERMINATE_S,
        "instance_gone_s": drained_s + 2 * _TERMINATE_S,
    }
    spare = f"{format_duration(_MARGIN_S)} to spare"
    comments = {
        "deadlines.imagePulled": "a pull of two minutes; next to nothing where the image is on the node",
        "deadlines.scaleWritten": f"{format_duration(start_s)} to start, {format_duration(run_s)} to run"
        + (f" (seen in a rehearsal: {format_duration(round(max(ran_s)))})" if ran_s else ""),
        "deadlines.podsGone": f"{format_duration(grace_s)} of grace ({grace_why}), {spare}",
        "deadlines.nodeDrained": f"{empty_why}, {spare}",
        "deadlines.nodeGone": f"{format_duration(_TERMINATE_S)} for the instance to terminate",
    }
    return Suggested(Deadlines.fitted(said), tuple(_budget_notes(objects))), comments


def after_idling(layer: Layer, deadlines: Deadlines) -> Layer:
    """The layer with deadlines that begin to count when its target has been idle for long enough."""
    if not layer.idle_s:
        return layer
    idle_s = layer.idle_s
    late = {
        name: getattr(deadlines, name) + idle_s
        for name in ("scale_written_s", "pods_gone_s", "node_drained_s", "node_gone_s", "instance_gone_s")
    }
    return replace(layer, deadlines=Deadlines.fitted(late, deadlines))


def _run_s(cron_job: Obj) -> float:
    limit = dig(cron_job, "spec", "jobTemplate", "spec", "activeDeadlineSeconds")
    return min(float(limit), _EXECUTOR_S) if limit else _EXECUTOR_S


def grace(obj: Obj) -> tuple[float, str]:
    """How long a target's pods may take to stop, in seconds. An ordered StatefulSet stops one pod after the other."""
    found = templates(obj)
    longest = max(
        (int(dig(t.spec, "terminationGracePeriodSeconds", default=_GRACE_S)) for t in found), default=_GRACE_S
    )
    ordered = obj.get("kind") == "StatefulSet" and dig(obj, "spec", "podManagementPolicy") != "Parallel"
    pods = max(1, int(dig(obj, "spec", "replicas", default=1))) if ordered else 1
    why = f"{name_of(obj)}, {pods} pods one after the other" if pods > 1 else name_of(obj)
    return float(longest * pods), why


def _empty(pools: Pools, most_nodes: int) -> tuple[float, str]:
    """How long empty nodes stay before the last is taken away, in seconds; there are ``most_nodes`` at most."""
    if not pools.node_pools:
        return _AUTOSCALER_S, f"{format_duration(_AUTOSCALER_S)} until an autoscaler takes an empty node"
    waits: list[float] = []
    for pool in pools.node_pools:
        wait = go_duration_s(str(dig(pool, "spec", "disruption", "consolidateAfter", default="0s")))
        waits.append(_AUTOSCALER_S if wait is None else wait)
    longest = max(waits)
    # Karpenter looks every ten seconds, validates for fifteen more, and drains what daemons are left.
    at_once = min(_at_once(pool, most_nodes) for pool in pools.node_pools)
    waves = -(-most_nodes // at_once) if at_once else 1
    why = f"consolidateAfter {format_duration(longest)}, 4m to disrupt and drain"
    if waves > 1:
        why += f", and {format_duration(_WAVE_S)} for each more of {waves} waves ( {at_once} of {most_nodes} nodes)"
    return longest + 240.0 + (waves - 1) * _WAVE_S, why


def _at_once(pool: Obj, nodes: int) -> int:
    """How many of its nodes a pool's disruption budgets let go at a time; those with a schedule or a reason count too.

    Karpenter rounds a share up, and takes the smallest budget; without any it is 10 %.
    """
    allowed = nodes
    for budget in dig(pool, "spec", "disruption", "budgets", default=[{"nodes": "10%"}]):
        text = str(budget.get("nodes", "10%"))
        number = text.removesuffix("%")
        if number.isdigit():
            allowed = min(allowed, -(-nodes * int(number) // 100) if text.endswith("%") else int(number))
    return max(allowed, 0)


def _budget_notes(objects: Sequence[Obj]) -> Iterator[str]:
    for obj in objects:
        spec = obj.get("spec") or {}
        never = str(spec.get("maxUnavailable")) in ("0", "0%") or str(spec.get("minAvailable")) == "100%"
        if obj.get("kind") == "PodDisruptionBudget" and never:
            yield f"{ref_of(obj)} allows no disruption: a drain waits for ever on what it selects"
        if obj.get("kind") == "NodePool" and any(
            str(b.get("nodes")) in ("0", "0%") for b in dig(spec, "disruption", "budgets", default=[])
        ):
            yield f"{ref_of(obj)} has a disruption budget of 0: while it holds, no empty node goes"
