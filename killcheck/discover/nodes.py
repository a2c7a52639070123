"""Where the GPUs are: Karpenter pools, node groups by their label, or single nodes."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence

from msgspec import Struct

from killcheck.instances.provided import is_provided
from killcheck.kube import gpus, provider_pools
from killcheck.kube import resources as r
from killcheck.kube.custom_holders import is_capacity, mention
from killcheck.kube.objects import Obj, dig, labels_of, name_of, ref_of
from killcheck.kube.selectors import is_requirement, node_terms
from killcheck.kube.workloads import templates
from killcheck.spec.killpath import NodePool
from killcheck.text import lazy_re

__all__ = ["Pools", "find", "has_gpus"]

#: Labels by which clouds group nodes, the first that a node has counts.
_GROUPS = (
    "karpenter.sh/nodepool",
    "eks.amazonaws.com/nodegroup",
    "alpha.eksctl.io/nodegroup-name",
    "cloud.google.com/gke-nodepool",
    "kubernetes.azure.com/agentpool",
    "agentpool",
    "doks.digitalocean.com/node-pool",
)
_TYPE = "node.kubernetes.io/instance-type"
#: Families with accelerators of EC2, GCE and Azure: enough to recognise a pool (the catalogue knows each type).
_FAMILIES = lazy_re.compile(
    r"(p\d|g\d|gr\d|trn\d|inf\d|dl\d)\w*(-\w+)?(\..+)?|(a2|a3|a4|g2|ct\d\w*)-.+|Standard_N[CDV].*"
)

#: The ConfigMap that describes node groups to the embedded cluster.
_NODE_GROUPS = "killcheck.dev/node-groups"
_UNREAD = "the cluster's node pools could not be read"
_NOT_JUDGED = (
    "nodes are not judged, only pods: {}. To have them judged, say under nodes: who removes an empty node (removedBy) "
    "and by when (removedAfter), and add P2 to proof"
)


class Pools(Struct, frozen=True):
    """``pools`` for the spec; ``node_pools``: the Karpenter objects behind them.

    ``described``: whether anything says what these nodes are; what is only selected by pods says nothing of them.
    """

    pools: tuple[NodePool, ...]
    node_pools: tuple[Obj, ...]
    notes: tuple[str, ...] = ()
    described: bool = True


def find(objects: Sequence[Obj], targets: Sequence[Obj], *, listed: Collection[str] = ()) -> Pools:
    """The pools that the targets' pods run on. ``listed``: kinds of which a cluster was read and all is here."""
    node_pools = [obj for obj in objects if r.is_of(obj, r.NODEPOOLS)]
    named = set(_selected(targets, "karpenter.sh/nodepool"))
    # One that no target selects is in scope too: whatever it keeps on bills.
    chosen = [pool for pool in node_pools if name_of(pool) in named or has_gpus(pool)]
    if chosen:
        pools = tuple(NodePool(name_of(pool), node_pool=name_of(pool)) for pool in chosen)
        return Pools(pools, tuple(chosen), tuple(_pool_notes(chosen)))
    provided = [obj for obj in objects if is_provided(obj)]
    if provided:
        return Pools(tuple(NodePool(name_of(p), selector=provider_pools.selector(p)) for p in provided), ())
    sliced = {str(dig(o, "spec", "nodeName")) for o in objects if o.get("kind") == "ResourceSlice" and _of_gpus(o)}
    nodes = [obj for obj in objects if obj.get("kind") == "Node" and (gpus.node_devices(obj) or name_of(obj) in sliced)]
    if nodes:
        own = [node for node in nodes if not dig(node, "spec", "providerID")]
        names = ", ".join(name_of(n) for n in own)
        note = (f"{names}: no cloud's (no providerID), so it never leaves, and is not judged",) if own else ()
        # Of nodes that never leave nothing is proven by waiting: P2 is not asked for, and the note says why.
        grouped = tuple(_groups(nodes, pools_known=r.NODEPOOLS.kind in listed))
        return Pools(grouped, (), note, described=len(own) < len(nodes))
    # Where a cluster has no such NodePool, the label is one of its nodes and no more.
    selected = _by_selector(targets, pools_known=r.NODEPOOLS.kind in listed)
    if any(labels_of(obj).get(_NODE_GROUPS) == "true" for obj in objects):
        return Pools(selected, (), ())
    machines = ", ".join(ref_of(obj) for obj in objects if is_capacity(str(obj.get("kind"))) and mention(obj))
    nowhere = "the cluster has no node pool" if r.NODEPOOLS.kind in listed else "no node pool is in the manifests"
    if listed and r.NODEPOOLS.kind not in listed:
        nowhere = _UNREAD
    if selected and nowhere != _UNREAD:
        first = ", ".join(pool.name for pool in selected[:3])
        more = f" (nor of {len(selected) - 3} more)" if len(selected) > 3 else ""
        nowhere = f"{nowhere} that makes the nodes of {first}{more}"
    why = f"what makes these nodes is not modelled ({machines})" if machines else nowhere
    return Pools(selected, (), (_NOT_JUDGED.format(why),), described=False)


def _of_gpus(resource_slice: Obj) -> bool:
    """Whether a DRA driver's devices are accelerators."""
    driver = str(dig(resource_slice, "spec", "driver", default=""))
    return not re.search(r"(^|[.-])(nic|net|dranet|rdma|cpu|memory)([.-]|$)|compute-domain", driver)


def _selected(targets: Sequence[Obj], key: str) -> Iterator[str]:
    """The values of a node label that the targets' pods select."""
    for obj in targets:
        for template in templates(obj):
            value = dig(template.spec, "nodeSelector", key)
            if value:
                yield str(value)
            for term in node_terms(template.spec):
                for expression in term.get("matchExpressions") or ():
                    if expression.get("key") == key and expression.get("operator") == "In":
                        yield from expression.get("values") or ()


def has_gpus(pool: Obj) -> bool:
    """Whether a Karpenter pool can have accelerators: by its requirements, taints or limits."""
    spec = dig(pool, "spec", "template", "spec", default={})
    if any(gpus.is_device(name) for name in dig(pool, "spec", "limits", default={})):
        return True
    if any(gpus.is_known_device(str(taint.get("key", ""))) for taint in spec.get("taints") or ()):
        return True
    for requirement in spec.get("requirements") or ():
        key, operator = str(requirement.get("key", "")), requirement.get("operator")
        values = [str(value) for value in requirement.get("values") or ()]
        if re.search(r"/instance-(gpu|accelerator)-", key) and operator not in ("DoesNotExist", "NotIn"):
            return values != ["0"] or operator == "Gt"
        if operator == "In" and (key.endswith(("/instance-type", "/instance-family", "/instance-category"))):
            return any(_FAMILIES.fullmatch(value) or value in ("g", "p", "trn", "inf", "dl") for value in values)
    return False


def _pool_notes(pools: Sequence[Obj]) -> Iterator[str]:
    for pool in pools:
        if dig(pool, "spec", "disruption", "consolidateAfter") == "Never":
            yield f"{ref_of(pool)} has consolidateAfter: Never: an empty node stays and bills"
        if dig(pool, "spec", "replicas"):
            yield f"{ref_of(pool)} is static ({dig(pool, 'spec', 'replicas')} nodes): zero pods frees no node"


def _groups(nodes: Sequence[Obj], *, pools_known: bool = False) -> Iterator[NodePool]:
    """Nodes by the label that their cloud groups them with; those without one by their names.

    ``pools_known``: no NodePool is behind them, whatever their labels say.
    """
    groups: dict[tuple[str, str], list[Obj]] = {}
    alone: list[Obj] = []
    for node in nodes:
        key = next((label for label in _GROUPS if label in labels_of(node)), None)
        if key:
            groups.setdefault((key, labels_of(node)[key]), []).append(node)
        else:
            alone.append(node)
    for (key, value), members in groups.items():
        types = {labels_of(node).get(_TYPE, "") for node in members}
        pool = value if key == _GROUPS[0] and not pools_known else ""
        selector = "" if pool else f"{key}={value}"
        yield NodePool(value, node_pool=pool, selector=selector, instance_type=types.pop() if len(types) == 1 else "")
    if alone:
        hosts = ",".join(sorted(labels_of(node).get("kubernetes.io/hostname", name_of(node)) for node in alone))
        floor = sum(not dig(node, "spec", "providerID") for node in alone)
        yield NodePool("gpu-nodes", selector=f"kubernetes.io/hostname in ({hosts})", floor=floor)


def _called(key: str, value: str) -> str:
    """What a label calls a pool: by its value, or by its key where the value is no more than a yes."""
    said = (
        key.rpartition("/")[2] if value.casefold() in ("true", "false", "yes", "no", "on", "off", "1", "0") else value
    )
    return re.sub(r"[^A-Za-z0-9.-]+", "-", said).strip("-.") or "gpu"


def _by_selector(targets: Sequence[Obj], *, pools_known: bool = False) -> tuple[NodePool, ...]:
    """Without any node to look at: the labels that the targets' pods select.

    ``pools_known``: every NodePool that there is was looked at, and none is the one.
    """
    found: dict[str, NodePool] = {}
    for obj in targets:
        for template in templates(obj):
            selected = {
                key: str(value)
                for key, value in dig(template.spec, "nodeSelector", default={}).items()
                if not key.startswith(("kubernetes.io/", "beta.kubernetes.io/")) and is_requirement(key, str(value))
            }
            pool = "" if pools_known else selected.pop(_GROUPS[0], "")
            selector = ",".join(f"{key}={value}" for key, value in sorted(selected.items()))
            if pool or selector:
                name = pool or _called(*next(iter(selected.items())))
                found.setdefault(f"{pool} {selector}", NodePool(name, node_pool=pool, selector=selector))
    names = [pool.name for pool in found.values()]
    return tuple(
        pool if names.count(pool.name) == 1 else NodePool(f"{pool.name}-{i}", pool.node_pool, pool.selector)
        for i, pool in enumerate(found.values(), 1)
    )
