"""Executors that no node takes."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from killcheck.probes.base import Finding, Probe
from killcheck.probes.world import Executor, World

from killcheck.instances.requirements import RequirementError, Requirements
from killcheck.kube.objects import Obj, dig, labels_of, name_of
from killcheck.kube.quantities import parse
from killcheck.text import lazy_re

__all__ = ["Unschedulable"]

#: Domains of labels that nodes of any pool carry: their system, their zone, their machine's type.
_ANY_NODES = lazy_re.compile(r"(.*\.)?(kubernetes\.io|k8s\.io)|karpenter\..+")


class Unschedulable(Probe):
    """A node selector for a pool that is gone, a request larger than any node: FailedScheduling, all night."""

    id = "unschedulable"
    claim = "Some node that is there takes the executor's pod."
    remedy = "Select a pool that is always there, ask for less (10m of CPU is plenty), tolerate its taint."
    failures = (12,)
    sources = ("scylladb/scylla-operator#1490", "recordings 16 to 16d")
    needs = ("Node",)

    def ask(self, world: World) -> Iterable[Finding]:
        """Node by node: labels, taints, the size of the node. What else runs there is not counted."""
        nodes = [node for node in world.of("Node") if not dig(node, "spec", "unschedulable")]
        for one in world.layer_executors:
            if one.seen is None:  # fails-when-fired has seen it
                yield from self._of_pools(world, one, nodes)
            if not nodes or len(list(world.of("NodePool"))) > len(world.gpu_pools):
                continue  # Karpenter makes the node that is missing
            wanted = dig(one.spec, "nodeSelector", default={})
            labelled = [n for n in nodes if _has(n, wanted)]
            tolerated = [n for n in labelled if not _untolerated(n, one.spec)]
            if not labelled:
                message = f"no node has the labels that it selects ({', '.join(f'{k}={v}' for k, v in wanted.items())})"
                yield self.finding(world, one.owner, (*one.path, "nodeSelector"), message)
            elif not tolerated:
                taint = _untolerated(labelled[0], one.spec)
                message = f"no node without a taint that it does not tolerate: {taint}"
                yield self.finding(world, one.owner, one.path, message)
            elif not any(_fits(n, one.spec) for n in tolerated):
                yield self.finding(world, one.owner, one.path, "asks for more CPU or memory than any node has")

    def _of_pools(self, world: World, one: Executor, nodes: list[Obj]) -> Iterable[Finding]:
        """A node selector for NodePools of which each one's nodes have a taint that the pod does not tolerate."""
        wanted = dig(one.spec, "nodeSelector", default={})
        pools = [pool for pool in world.of("NodePool") if wanted and _offers(pool, wanted)]
        taints = [_untolerated(dig(pool, "spec", "template", default={}), one.spec) for pool in pools]
        there = any(_has(node, wanted) and not _untolerated(node, one.spec) for node in nodes)
        if pools and all(taints) and not there:
            selected = ", ".join(f"{key}={value}" for key, value in wanted.items())
            message = (
                f"selects {selected}, and does not tolerate the taint of NodePool {name_of(pools[0])}: {taints[0]}"
            )
            yield self.finding(world, one.owner, (*one.path, "nodeSelector"), message)


def _has(node: Obj, wanted: Mapping[str, str]) -> bool:
    return all(labels_of(node).get(key) == value for key, value in wanted.items())


def _offers(pool: Obj, wanted: Mapping[str, str]) -> bool:
    """Whether a NodePool's own labels or requirements name something that is selected, and none of them another."""
    template = dig(pool, "spec", "template", default={})
    labels = {**dig(template, "metadata", "labels", default={}), "karpenter.sh/nodepool": name_of(pool)}
    try:
        own = Requirements.of(dig(template, "spec", "requirements", default=[]), labels)
        asked = Requirements.of((), wanted)
    except RequirementError:
        return False
    return any(key in own and _is_a_pools(key) for key in asked) and not asked.conflicts(own)


def _is_a_pools(label: str) -> bool:
    """Whether a label tells pools apart, rather than being one that nodes of any kind carry."""
    domain = label.partition("/")[0] if "/" in label else ""
    return label == "karpenter.sh/nodepool" or not re.fullmatch(
        r"(.*\.)?(kubernetes\.io|k8s\.io|karpenter\.\S+)", domain
    )


def _untolerated(node: Obj, spec: Obj) -> str | None:
    for taint in dig(node, "spec", "taints", default=[]):
        passing = str(taint.get("key", "")).startswith("node.kubernetes.io/")  # not ready, under pressure
        hard = taint.get("effect") in ("NoSchedule", "NoExecute") and not passing
        if hard and not any(_tolerates(entry, taint) for entry in spec.get("tolerations") or ()):
            return f"{taint.get('key')}:{taint.get('effect')}"
    return None


def _tolerates(entry: Obj, taint: Obj) -> bool:
    if entry.get("effect") not in (None, "", taint.get("effect")):
        return False
    if entry.get("operator") == "Exists":
        return entry.get("key") in (None, "", taint.get("key"))
    return (entry.get("key"), entry.get("value") or "") == (taint.get("key"), taint.get("value") or "")


def _fits(node: Obj, spec: Obj) -> bool:
    for name in ("cpu", "memory"):
        has = dig(node, "status", "allocatable", name)
        asked = sum(
            parse(str(dig(container, "resources", "requests", name, default="0")))
            for container in spec.get("containers") or ()
        )
        if has is not None and asked > parse(str(has)):
            return False
    return True
