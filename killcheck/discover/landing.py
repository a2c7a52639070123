"""Where pods land: whether they may run on the machines that a call, or a command of a cloud, takes away.

Only a contradiction rules a target out: a label that it selects, and that those machines have with another value; a
taint of theirs that it does not tolerate. Labels of node groups are the clouds' own; what else a machine is labelled or
tainted with is in the object that makes it, and on nodes that are here.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise

from msgspec import Struct

from killcheck.executor.api_calls import ApiCall
from killcheck.kube.objects import Obj, dig, labels_of, name_of, namespace_of
from killcheck.kube.plurals import plural_of
from killcheck.kube.selectors import node_terms
from killcheck.kube.workloads import templates
from killcheck.text import lazy_re

__all__ = ["Machines", "grows", "machines_of_call", "machines_of_command", "may_land"]

Labels = Mapping[str, str]
#: Options that name a group of machines, and the labels by which its nodes are known.
_NAMED_BY: Mapping[str, tuple[str, ...]] = {
    "--nodegroup-name": ("eks.amazonaws.com/nodegroup", "alpha.eksctl.io/nodegroup-name"),
    "--nodegroup": ("eks.amazonaws.com/nodegroup", "alpha.eksctl.io/nodegroup-name"),
    "--node-pool": ("cloud.google.com/gke-nodepool",),
    "--nodepool-name": ("kubernetes.azure.com/agentpool", "agentpool"),
}
#: Commands whose ``--name`` is such a group.
_NAME_OF = (
    (lazy_re.compile(r"^eksctl (scale|delete) (nodegroup|ng)\b"), "--nodegroup"),
    (lazy_re.compile(r"^az aks nodepool\b"), "--nodepool-name"),
)
#: Where a command says how many machines there shall be.
_SIZE = lazy_re.compile(
    r"(?:--num-nodes|--size|--node-count|--desired-capacity|--nodes|--count|-N|desiredSize)[ =](\d+)\b"
)
#: Where the labels of the nodes that an object makes are.
_NODE_LABELS = (
    ("spec", "template", "spec", "metadata", "labels"),  # MachineSets
    ("spec", "template", "metadata", "labels"),  # NodePools
    ("spec", "labels"),
)


#: Where their taints are: MachineSets and NodePools, MachinePools, nodes.
_NODE_TAINTS = (("spec", "template", "spec", "taints"), ("spec", "taints"), ("spec", "template", "taints"))
#: What keeps a pod away that does not tolerate it.
_KEEPS_AWAY = frozenset({"NoSchedule", "NoExecute"})
#: Taints of a node's state, which come and go under pods that run there.
_PASSING = lazy_re.compile(r"node\.(cloudprovider\.)?kubernetes\.io/|karpenter\.sh/|(ToBeDeleted|DeletionCandidate)")
#: Who is admitted by Kueue gets the tolerations of the flavor that it is given.
_QUEUED = "kueue.x-k8s.io/queue-name"


class Machines(Struct, frozen=True):
    """What is known of some machines: the labels of their nodes, and their taints."""

    labels: Labels
    taints: tuple[Obj, ...] = ()


def may_land(target: Obj, machines: Machines) -> bool:
    """Whether pods of a target may run on such machines, as far as they are known."""
    found = templates(target)
    queued = _QUEUED in labels_of(target)
    return not found or any(
        _fits(template.spec, machines.labels) and (queued or _tolerates(template.spec, machines.taints))
        for template in found
    )


def machines_of_call(call: ApiCall, objects: Iterable[Obj]) -> list[Machines]:
    """The machines that a call on capacity is about; empty: of none here is anything known."""
    return [Machines(_made_with(obj), _tainted(obj)) for obj in objects if _is_about(call, obj)]


def machines_of_command(command: str, objects: Iterable[Obj]) -> Machines | None:
    """The machines that a cloud's command names; None where it names no group of them."""
    words = [part for word in command.split() for part in (word.split("=", 1) if word.startswith("--") else [word])]
    named = next((option for pattern, option in _NAME_OF if pattern.search(command)), "")
    aliases = {"--name": named, "-n": named} if named else {}
    for option, value in pairwise(words):
        known = _NAMED_BY.get(aliases.get(option, option))
        if known and re.fullmatch(r"[\w.-]+", value):
            labels = dict.fromkeys(known, value)
            return Machines(labels, _of_every_node(labels, objects))
    return None


def _of_every_node(labels: Labels, objects: Iterable[Obj]) -> tuple[Obj, ...]:
    """The taints that all nodes here have which are labelled as a group's are."""
    nodes = [obj for obj in objects if obj.get("kind") == "Node" and _is_labelled(obj, labels)]
    return (
        tuple(taint for taint in _tainted(nodes[0]) if all(taint in _tainted(node) for node in nodes)) if nodes else ()
    )


def _is_labelled(node: Obj, labels: Labels) -> bool:
    return any(labels_of(node).get(key) == value for key, value in labels.items())


def _tainted(obj: Obj) -> tuple[Obj, ...]:
    """The taints of the nodes that an object makes; a node's own."""
    found: Sequence[Obj] = next((dig(obj, *path) for path in _NODE_TAINTS if isinstance(dig(obj, *path), list)), [])
    return tuple(taint for taint in found if isinstance(taint, dict) and _keeps_away(taint))


def _keeps_away(taint: Obj) -> bool:
    return taint.get("effect") in _KEEPS_AWAY and not _PASSING.match(str(taint.get("key")))


def _tolerates(spec: Obj, taints: Sequence[Obj]) -> bool:
    """Whether nothing keeps a pod away. What is tainted with the name of a device lets those in that ask for one: where
    ExtendedResourceToleration admits pods (GKE's do), they get that toleration."""
    from killcheck.embedded import tolerates

    asked = {
        str(name)
        for container in dig(spec, "containers", default=[])
        for kind in ("limits", "requests")
        for name in dig(container, "resources", kind, default={})
    }
    return tolerates(spec, [taint for taint in taints if taint.get("key") not in asked]) is None


def grows(command: str) -> bool:
    """Whether a cloud's command asks for a number of machines that is not zero."""
    return any(int(size) for size in _SIZE.findall(command))


def _is_about(call: ApiCall, obj: Obj) -> bool:
    if plural_of(str(obj.get("kind"))) != call.resource:
        return False
    return call.about(namespace_of(obj) or call.namespace, name_of(obj), labels_of(obj))


def _made_with(obj: Obj) -> Labels:
    """The labels that nodes have which an object makes; a node's own."""
    if obj.get("kind") == "Node":
        return labels_of(obj)
    found: Obj = next((dig(obj, *path) for path in _NODE_LABELS if isinstance(dig(obj, *path), dict)), {})
    own = {"karpenter.sh/nodepool": name_of(obj)} if obj.get("kind") == "NodePool" else {}
    return {**{str(key): str(value) for key, value in found.items()}, **own}


def _fits(spec: Obj, machines: Labels) -> bool:
    """Whether nothing that a pod selects contradicts the labels."""
    selected = dig(spec, "nodeSelector", default={})
    if any(key in machines and machines[key] != str(value) for key, value in selected.items()):
        return False
    terms = node_terms(spec)
    return not terms or any(all(_holds(one, machines) for one in _expressions(term)) for term in terms)


def _expressions(term: Obj) -> Iterator[Obj]:
    return (one for one in term.get("matchExpressions") or () if isinstance(one, dict))


def _holds(expression: Obj, machines: Labels) -> bool:
    key = str(expression.get("key"))
    values = [str(value) for value in expression.get("values") or ()]
    if key not in machines:
        return True
    if expression.get("operator") == "In":
        return machines[key] in values
    return expression.get("operator") != "NotIn" or machines[key] not in values
