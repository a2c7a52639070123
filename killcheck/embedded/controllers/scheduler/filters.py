"""Which nodes a pod fits on, in the order in which the default profile asks; the first refusal of a node counts.

Texts and the question whether preemption might help are those of pkg/scheduler/framework/plugins in Kubernetes v1.36.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from killcheck.embedded.controllers.scheduler.nodes import NodeInfo, PodInfo, Reject
from killcheck.kube.objects import Obj, name_of

__all__ = ["StaticFilter", "fits_resources", "free_ports", "matches_node_terms", "selects", "tolerates"]

UNSCHEDULABLE_TAINT = "node.kubernetes.io/unschedulable"

_UNSCHEDULABLE = Reject("NodeUnschedulable", ("node(s) were unschedulable",))
_NAME = Reject("NodeName", ("node(s) didn't match the requested node name",))
_TAINTS = Reject("TaintToleration", ("node(s) had untolerated taint(s)",))
_AFFINITY = Reject("NodeAffinity", ("node(s) didn't match Pod's node affinity/selector",))
_PORTS = Reject("NodePorts", ("node(s) didn't have free ports for the requested pod ports",), resolvable=True)
#: Pods are told apart by what they say about nodes; so many kinds are remembered.
_MAX_SIGNATURES = 256


def tolerates(tolerations: Iterable[Obj], taint: Mapping[str, Any]) -> bool:
    """Whether any toleration covers a taint."""
    for toleration in tolerations:
        if toleration.get("effect") not in (None, "", taint.get("effect")):
            continue
        key = toleration.get("key")
        exists = toleration.get("operator") == "Exists"
        if not key:
            if exists:
                return True
            continue
        if key == taint["key"] and (exists or str(toleration.get("value") or "") == str(taint.get("value") or "")):
            return True
    return False


def _requirement(expression: Obj, value: str | None) -> bool:
    operator, values = expression["operator"], expression.get("values") or []
    if operator == "In":
        return value is not None and value in values
    if operator == "NotIn":
        return value is None or value not in values
    if operator == "Exists":
        return value is not None
    if operator == "DoesNotExist":
        return value is None
    try:
        have, want = int(value or ""), int(values[0])
    except (ValueError, IndexError):
        return False
    return have > want if operator == "Gt" else have < want


def matches_term(term: Obj, node: Obj, labels: Mapping[str, str]) -> bool:
    """One NodeSelectorTerm: all its expressions; an empty one matches nothing."""
    expressions, fields = term.get("matchExpressions") or [], term.get("matchFields") or []
    if not expressions and not fields:
        return False
    by_field = all(_requirement(e, name_of(node) if e["key"] == "metadata.name" else None) for e in fields)
    return by_field and all(_requirement(e, labels.get(e["key"])) for e in expressions)


def matches_node_terms(terms: Iterable[Obj], node: Obj, labels: Mapping[str, str]) -> bool:
    """Any of the terms."""
    return any(matches_term(term, node, labels) for term in terms)


def selects(pod: Obj, node: Obj, labels: Mapping[str, str]) -> bool:
    """nodeSelector and required node affinity."""
    spec = pod["spec"]
    for key, value in (spec.get("nodeSelector") or {}).items():
        if labels.get(key) != value:
            return False
    required = ((spec.get("affinity") or {}).get("nodeAffinity") or {}).get(
        "requiredDuringSchedulingIgnoredDuringExecution"
    )
    return required is None or matches_node_terms(required.get("nodeSelectorTerms") or [], node, labels)


class StaticFilter:
    """What depends on the node object and the pod's spec alone, remembered for pods that say the same."""

    def __init__(self) -> None:
        self._known: dict[str, dict[str, tuple[int, Reject | None]]] = {}

    def check(self, info: PodInfo, at: NodeInfo) -> Reject | None:
        """None: the node would do."""
        known = self._known.get(info.signature)
        if known is None:
            if len(self._known) >= _MAX_SIGNATURES:
                self._known.clear()
            known = self._known[info.signature] = {}
        found = known.get(at.name)
        if found is None or found[0] != at.version:
            found = known[at.name] = (at.version, self._judge(info.pod, at))
        return found[1]

    def forget(self, node: str) -> None:
        """A node has gone; another of that name starts counting its versions anew."""
        for known in self._known.values():
            known.pop(node, None)

    def _judge(self, pod: Obj, at: NodeInfo) -> Reject | None:
        node = at.node
        if node is None:
            return _NAME
        spec = node.get("spec") or {}
        tolerations = pod["spec"].get("tolerations") or []
        cordon = {"key": UNSCHEDULABLE_TAINT, "effect": "NoSchedule"}
        if spec.get("unschedulable") and not tolerates(tolerations, cordon):
            return _UNSCHEDULABLE
        if pod["spec"].get("nodeName") not in (None, "", at.name):
            return _NAME
        for taint in spec.get("taints") or ():
            if taint["effect"] in ("NoSchedule", "NoExecute") and not tolerates(tolerations, taint):
                return _TAINTS
        return None if selects(pod, node, at.labels) else _AFFINITY


def free_ports(info: PodInfo, at: NodeInfo) -> Reject | None:
    """Whether the host ports are free."""
    if not info.ports:
        return None
    for other in at.pods.values():
        for protocol, address, port in other.ports:
            for wanted in info.ports:
                same = (protocol, port) == (wanted[0], wanted[2])
                if same and (address == wanted[1] or "0.0.0.0" in (address, wanted[1])):  # noqa: S104
                    return _PORTS
    return None


def fits_resources(info: PodInfo, at: NodeInfo, promised: Iterable[PodInfo] = ()) -> Reject | None:
    """Whether what is left on the node suffices; every resource that does not is named."""
    have, used = at.allocatable, at.requested
    reasons: list[str] = []
    resolvable = True
    kept: dict[str, int] = {}
    count = 0
    for other in promised:
        count += 1
        for name, amount in other.requests.items():
            kept[name] = kept.get(name, 0) + amount
    if len(at.pods) + count + 1 > have.get("pods", 0):
        reasons.append("Too many pods")
    for name, amount in info.requests.items():
        total = have.get(name, 0)
        if amount > total - used.get(name, 0) - kept.get(name, 0):
            reasons.append(f"Insufficient {name}")
            resolvable = resolvable and amount <= total
    return Reject("NodeResourcesFit", tuple(reasons), resolvable) if reasons else None
