"""Which of the nodes that fit is best: emptiest and most evenly used first, then preferences.

A reduced form of the default profile's scoring: least allocated (weight 1), balanced allocation (1), preferred node
affinity (2), preferred inter-pod affinity (2), soft spread and spreading of siblings (2), PreferNoSchedule taints (3).
"""

from __future__ import annotations

from collections.abc import Callable

from killcheck.embedded.controllers.scheduler.affinity import NamespaceLabels, Spread, Term, terms_of
from killcheck.embedded.controllers.scheduler.filters import matches_term, tolerates
from killcheck.embedded.controllers.scheduler.nodes import NodeInfo, PodInfo
from killcheck.kube.objects import Obj

__all__ = ["allocation", "best_node"]

_WEIGHTED = "preferredDuringSchedulingIgnoredDuringExecution"


def best_node(
    info: PodInfo,
    nodes: list[NodeInfo],
    everywhere: list[NodeInfo],
    labels_of_namespace: NamespaceLabels,
    totals: dict[str, float],
) -> NodeInfo:
    """The best of ``nodes`` (at least one); of equals the first. ``totals``: their allocations, to which is added."""
    if len(nodes) == 1:
        return nodes[0]
    pod = info.pod
    affinity = pod["spec"].get("affinity") or {}
    preferred = (affinity.get("nodeAffinity") or {}).get(_WEIGHTED) or []
    if preferred:
        _add(totals, nodes, 2, lambda at: _preference(preferred, at))
    pods = [(1, affinity.get("podAffinity") or {}), (-1, affinity.get("podAntiAffinity") or {})]
    weighted = [
        (sign * int(entry["weight"]), terms_of(info, [entry["podAffinityTerm"]])[0])
        for sign, side in pods
        for entry in side.get(_WEIGHTED) or ()
    ]
    if weighted:
        counts = _domains(weighted, everywhere, labels_of_namespace)
        _add(totals, nodes, 2, lambda at: sum(counts.get(pair, 0.0) for pair in at.labels.items()))
    _add(totals, nodes, 2, _crowd(info, everywhere), fewer_is_better=True)
    if any(at.discouraged for at in nodes):
        tolerations = pod["spec"].get("tolerations") or []
        _add(
            totals,
            nodes,
            3,
            lambda at: float(sum(not tolerates(tolerations, taint) for taint in at.discouraged)),
            fewer_is_better=True,
        )
    return max(nodes, key=lambda at: totals[at.name])


def _add(
    totals: dict[str, float],
    nodes: list[NodeInfo],
    weight: int,
    score: Callable[[NodeInfo], float],
    *,
    fewer_is_better: bool = False,
) -> None:
    """Scale a score to 0..100 over the nodes and add it with its weight."""
    raw = {at.name: score(at) for at in nodes}
    low, high = min(raw.values()), max(raw.values())
    if low == high:
        return
    for name, value in raw.items():
        scaled = 100.0 * (value - low) / (high - low)
        totals[name] += weight * (100.0 - scaled if fewer_is_better else scaled)


def allocation(info: PodInfo, at: NodeInfo) -> float:
    """Least allocated and balanced allocation over CPU and memory."""
    shares = []
    for used, more, name in zip(at.scored, info.scored, ("cpu", "memory"), strict=True):
        total = at.allocatable.get(name, 0)
        if total:
            shares.append(min(1.0, (used + more) / total))
    if not shares:
        return 0.0
    least = sum(int(100 * (1 - share)) for share in shares) // len(shares)
    spread = abs(shares[0] - shares[-1]) / 2
    return least + int(100 * (1 - spread))


def _preference(terms: list[Obj], at: NodeInfo) -> float:
    node = at.node or {}
    return float(sum(int(t["weight"]) for t in terms if matches_term(t["preference"], node, at.labels)))


def _domains(
    weighted: list[tuple[int, Term]],
    nodes: list[NodeInfo],
    labels_of_namespace: NamespaceLabels,
) -> dict[tuple[str, str], float]:
    counts: dict[tuple[str, str], float] = {}
    for at in nodes:
        for weight, term in weighted:
            value = at.labels.get(term.topology_key)
            found = 0 if value is None else sum(term.matches(o, labels_of_namespace) for o in at.pods.values())
            if found and value is not None:
                pair = (term.topology_key, value)
                counts[pair] = counts.get(pair, 0.0) + weight * found
    return counts


def _crowd(info: PodInfo, everywhere: list[NodeInfo]) -> Callable[[NodeInfo], float]:
    """How crowded a node is by the pod's own kind: by its soft constraints, else by pods of the same owner."""
    soft = Spread(info, everywhere, when="ScheduleAnyway")
    if soft.constraints:
        return lambda at: float(sum(c.counts.get(at.labels.get(c.key, ""), 0) for c in soft.constraints))
    owner = info.owner
    return lambda at: float(at.siblings.get(owner, 0))
