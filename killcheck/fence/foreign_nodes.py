"""The nodes of a live cluster whose makers are not in its API: node groups of a cloud, which nobody read.

A node says who launched it by its labels. GKE's and AKS' autoscalers run outside the cluster, and a group at zero has
no node: what nobody exported of them is not known. EKS' groups are known by name; where all nodes of one have no
devices, it counts where dollars or nodes have a ceiling.

Sources: the labels that EKS, eksctl, GKE, AKS and Karpenter give nodes; cloud providers' ``spec.providerID``.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from msgspec import Struct

from killcheck.entries import Becomes, leaves
from killcheck.fence.pools import Pool
from killcheck.kube import gpus
from killcheck.kube.objects import Obj, dig, labels_of, name_of
from killcheck.kube.provider_pools import KINDS

__all__ = ["Standing", "unread"]

#: What EKS and eksctl call the group of a node.
_EKS = ("eks.amazonaws.com/nodegroup", "alpha.eksctl.io/nodegroup-name")
#: How GKE's and AKS' groups are exported, by the label that their nodes carry.
_EXPORTS = dict(zip(KINDS.values(), ("gcloud container clusters describe", "az aks nodepool list"), strict=True))
#: ``spec.providerID`` of machines that nothing launches by itself: of this machine, of one's own.
_FIXED = frozenset({"", "kind", "k3s", "eks-hybrid"})
_KARPENTER = "karpenter.sh/nodepool"


class Standing(Struct, frozen=True):
    """A group of nodes that no pool stands for, in a sentence. ``devices``: it may have some."""

    said: str
    devices: bool


@leaves("fences", "node groups of a cloud that a live cluster's API does not have", Becomes.UNPROVEN)
def unread(nodes: Sequence[Obj], pools: Sequence[Pool], *, asked: bool) -> Iterator[Standing]:
    """The groups of standing nodes, each once. ``asked``: an account was exported, or asked."""
    names = {part for pool in pools for part in re.split(r"[/]", pool.name)[1:]}
    groups: dict[tuple[str, str], list[Obj]] = {}
    for node in nodes:
        group = _group(node)
        if group is not None and group[1] not in names:
            groups.setdefault(group, []).append(node)
    for (label, name), found in sorted(groups.items()):
        if name:
            yield _of_group(label, name, found)
        elif not asked:
            first = f"Node/{name_of(found[0])}" + (f" and {len(found) - 1} more" if len(found) > 1 else "")
            said = f"{first}: no pool that was read launched it; {_remedy(label)}"
            yield Standing(said, devices=True)


def _of_group(label: str, name: str, nodes: Sequence[Obj]) -> Standing:
    hidden = label in _EXPORTS
    devices = hidden or any(map(gpus.node_devices, nodes))
    said = f"node group {name} ({len(nodes)} node{'s' * (len(nodes) > 1)}, by {label}) is not in the cluster's API"
    return Standing(f"{said}: {_remedy(label)}", devices)


def _remedy(label: str) -> str:
    if label in _EXPORTS:
        return f"give what '{_EXPORTS[label]}' prints as JSON (--account)"
    return "ask the account (--aws --eks CLUSTER) or give its export (--account)"


def _group(node: Obj) -> tuple[str, str] | None:
    """(label, name) of what launched a node; None: nothing that could launch more, or a NodePool."""
    labels = labels_of(node)
    scheme = str(dig(node, "spec", "providerID", default="")).partition(":")[0]
    if labels.get(_KARPENTER) or labels.get("eks.amazonaws.com/compute-type") == "fargate":
        return None
    for label in (*_EKS, *_EXPORTS):
        if labels.get(label):
            return label, labels[label]
    return None if scheme in _FIXED else ("", "")
