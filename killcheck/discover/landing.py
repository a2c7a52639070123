"""Where pods land: whether they may run on the machines that a call, or a command of a cloud, takes away.

Only a contradiction rules a target out: a label that it selects, and that those machines have with another value.
Labels of node groups are the clouds' own; what else a machine is labelled with is in the object that makes it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise

from killcheck.executor.api_calls import ApiCall
from killcheck.kube.objects import Obj, dig, labels_of, name_of, namespace_of
from killcheck.kube.plurals import plural_of
from killcheck.kube.workloads import templates

__all__ = ["Labels", "grows", "machines_of_call", "machines_of_command", "may_land"]

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
    (re.compile(r"^eksctl (scale|delete) (nodegroup|ng)\b"), "--nodegroup"),
    (re.compile(r"^az aks nodepool\b"), "--nodepool-name"),
)
#: Where a command says how many machines there shall be.
_SIZE = re.compile(r"(?:--num-nodes|--size|--node-count|--desired-capacity|--nodes|--count|-N|desiredSize)[ =](\d+)\b")
#: Where the labels of the nodes that an object makes are.
_NODE_LABELS = (
    ("spec", "template", "spec", "metadata", "labels"),  # MachineSets
    ("spec", "template", "metadata", "labels"),  # NodePools
    ("spec", "labels"),
)


def may_land(target: Obj, machines: Labels) -> bool:
    """Whether pods of a target may run on machines with these labels, as far as they are known."""
    found = templates(target)
    return not found or any(_fits(template.spec, machines) for template in found)


def machines_of_call(call: ApiCall, objects: Iterable[Obj]) -> list[Labels]:
    """The labels of the machines that a call on capacity is about; empty: of none here is anything known."""
    return [_made_with(obj) for obj in objects if _is_about(call, obj)]


def machines_of_command(command: str) -> Labels:
    """The labels of the machines that a cloud's command names; empty where it names no group of them."""
    words = [part for word in command.split() for part in (word.split("=", 1) if word.startswith("--") else [word])]
    named = next((option for pattern, option in _NAME_OF if pattern.search(command)), "")
    aliases = {"--name": named, "-n": named} if named else {}
    for option, value in pairwise(words):
        labels = _NAMED_BY.get(aliases.get(option, option))
        if labels and re.fullmatch(r"[\w.-]+", value):
            return dict.fromkeys(labels, value)
    return {}


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
    path = ("affinity", "nodeAffinity", "requiredDuringSchedulingIgnoredDuringExecution", "nodeSelectorTerms")
    terms: Sequence[Obj] = dig(spec, *path, default=[])
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
