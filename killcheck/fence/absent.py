"""Pools that the spec names and of which nothing was read that launches them: no ceiling holds for what nobody saw."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from killcheck.fence.pools import Pool
from killcheck.kube import resources as r
from killcheck.kube.objects import Obj, dig, items, mappings, name_of, ref_of
from killcheck.kube.selectors import parse_labels
from killcheck.spec.killpath import NodePool
from killcheck.text import lazy_re

__all__ = ["NO_POOL", "autoscaled", "unread"]

#: Doors beside the pools, and what Karpenter makes: neither is what a node group of a cloud is made by.
_NO_GROUPS = ("RBAC/", "NodeClaim/", "NodePool/", "Credentials/")
#: Options by which it is told its groups.
_GROUPS = lazy_re.compile(r"--node-group-auto-discovery\b|--nodes[= ]\d+:\d+:")
#: How many pools of which nothing was read are named.
_SHOWN = 3
_ADD = "add what makes them (--manifests, --account, --aws)"
#: GPUs run on something: what nobody read is under no ceiling.
NO_POOL = f"no node pool was read, so what can be launched is not known: {_ADD}"


def unread(named: Iterable[NodePool], objects: Sequence[Obj], pools: Sequence[Pool]) -> Iterator[str]:
    """What of the pools of the spec no evaluated pool launches, by their names: what they could launch is not known."""
    there = [obj for obj in objects if r.is_of(obj, r.NODEPOOLS)]
    groups = any(not pool.name.startswith(_NO_GROUPS) for pool in pools)
    lost = []
    for pool in named:
        if pool.node_pool:
            if not any(name_of(obj) == pool.node_pool for obj in there):
                yield f"NodePool/{pool.node_pool}, which the spec names (nodes: {pool.name}), was not read: {_ADD}"
        elif not groups and not any(_launches(obj, pool) for obj in there):
            lost.append(f"{pool.name} ({pool.selector or 'any'})")
    if lost:
        of = "pool" if len(lost) == 1 else f"{len(lost)} pools:"
        more = f", and {len(lost) - _SHOWN} more" if len(lost) > _SHOWN else ""
        yield f"nothing that was read launches the nodes of {of} {', '.join(lost[:_SHOWN])}{more}: {_ADD}"


def autoscaled(objects: Iterable[Obj], pools: Sequence[Pool]) -> Iterator[str]:
    """The cluster autoscalers that scale groups of which none was read."""
    if any(not pool.name.startswith(_NO_GROUPS) for pool in pools):
        return
    for obj in objects:
        containers = dig(obj, "spec", "template", "spec", "containers", default=[]) if obj.get("spec") else []
        if any(_scales_groups(one) for one in mappings(containers)):
            yield f"{ref_of(obj)} scales node groups, and none was read: {_ADD}"


def _scales_groups(container: Obj) -> bool:
    """Whether it is a cluster autoscaler: by its image, its program, or the groups that it is told."""
    words = " ".join(map(str, (*items(container.get("command")), *items(container.get("args")))))
    return "cluster-autoscaler" in f"{container.get('image')} {words}" or _GROUPS.search(words) is not None


def _launches(obj: Obj, pool: NodePool) -> bool:
    """Whether the nodes of a NodePool carry what the pool selects, as far as its template says."""
    labels = {"karpenter.sh/nodepool": name_of(obj), **dig(obj, "spec", "template", "metadata", "labels", default={})}
    for one in dig(obj, "spec", "template", "spec", "requirements", default=[]):
        if one.get("operator") == "In" and len(one.get("values") or ()) == 1:
            labels[str(one.get("key"))] = str(one["values"][0])
    return parse_labels(pool.selector).matches(labels)
