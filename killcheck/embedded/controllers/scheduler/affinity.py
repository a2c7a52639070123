"""Inter-pod affinity and anti-affinity, and topology spread: constraints that look at other nodes' pods too.

Source: pkg/scheduler/framework/plugins/{interpodaffinity,podtopologyspread}/filtering.go of Kubernetes v1.36.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from msgspec import Struct, field

from killcheck.embedded.controllers.scheduler.filters import selects, tolerates
from killcheck.embedded.controllers.scheduler.nodes import NodeInfo, PodInfo, Reject
from killcheck.kube.objects import Obj, dig
from killcheck.kube.selectors import LabelSelector, Requirement, from_match_labels

__all__ = ["InterPod", "Spread", "Term", "spread_constraints", "terms_of"]

_EXISTING = Reject("InterPodAffinity", ("node(s) didn't satisfy existing pods anti-affinity rules",), resolvable=True)
_AFFINITY = Reject("InterPodAffinity", ("node(s) didn't match pod affinity rules",))
_ANTI = Reject("InterPodAffinity", ("node(s) didn't match pod anti-affinity rules",), resolvable=True)
_SPREAD = "node(s) didn't match pod topology spread constraints"
_SKEW = Reject("PodTopologySpread", (_SPREAD,), resolvable=True)
_NO_LABEL = Reject("PodTopologySpread", (f"{_SPREAD} (missing required label)",))

#: The labels of a namespace, for terms with a namespaceSelector.
NamespaceLabels = Callable[[str], Mapping[str, str]]
Domain = tuple[str, str]


class Term(Struct, frozen=True):
    """One affinity term, ready to be matched."""

    selector: LabelSelector
    topology_key: str
    namespaces: frozenset[str]
    namespace_selector: LabelSelector | None

    def matches(self, other: PodInfo, labels_of_namespace: NamespaceLabels) -> bool:
        """Whether a pod is meant."""
        selector = self.namespace_selector
        there = other.namespace in self.namespaces or (
            selector is not None and selector.matches(labels_of_namespace(other.namespace))
        )
        return there and self.selector.matches(other.labels)


def _with_keys(selector: LabelSelector, term: Obj, labels: Mapping[str, str]) -> LabelSelector:
    """``matchLabelKeys`` and ``mismatchLabelKeys`` take their values from the pod itself."""
    extra = [Requirement(k, "in", (labels[k],)) for k in term.get("matchLabelKeys") or () if k in labels]
    extra += [Requirement(k, "notin", (labels[k],)) for k in term.get("mismatchLabelKeys") or () if k in labels]
    return LabelSelector((*selector.requirements, *extra), selector.nothing) if extra else selector


def terms_of(info: PodInfo, terms: Iterable[Obj]) -> list[Term]:
    """A pod's affinity terms."""
    result = []
    for term in terms:
        named = term.get("namespaces") or []
        by_label = term.get("namespaceSelector")
        own = [info.namespace] if not named and by_label is None else []
        selector = _with_keys(from_match_labels(term.get("labelSelector")), term, info.labels)
        result.append(
            Term(
                selector,
                term["topologyKey"],
                frozenset([*named, *own]),
                from_match_labels(by_label) if by_label is not None else None,
            )
        )
    return result


class InterPod:
    """Required (anti-)affinity of one pod against all that is there."""

    def __init__(self, info: PodInfo, nodes: list[NodeInfo], labels_of_namespace: NamespaceLabels) -> None:
        self.info = info
        self.lookup = labels_of_namespace
        self.wanted = terms_of(info, info.affinity)
        self.shunned = terms_of(info, info.anti_affinity)
        self.attracted: dict[Domain, int] = {}
        self.repelled: dict[Domain, int] = {}
        self.repelling: dict[Domain, int] = {}
        looks = bool(self.wanted or self.shunned)
        for at in nodes:
            for other in at.repelling.values():
                self._count_repelling(other, at, 1)
            if looks:
                for other in at.pods.values():
                    self._count(other, at, 1)

    @property
    def idle(self) -> bool:
        """Whether there is nothing to look at."""
        return not (self.wanted or self.shunned or self.repelling)

    def moved(self, other: PodInfo, at: NodeInfo, by: int) -> None:
        """Try out what happens when a pod comes (1) or goes (-1)."""
        if other.anti_affinity:
            self._count_repelling(other, at, by)
        self._count(other, at, by)

    def check(self, at: NodeInfo) -> Reject | None:
        """None: the node would do. Own affinity is asked first, then own anti-affinity, then that of others."""
        if not self._attracts(at):
            return _AFFINITY
        for term in self.shunned:
            domain = self._domain(term.topology_key, at)
            if domain and self.repelled.get(domain, 0) > 0:
                return _ANTI
        for (key, value), count in self.repelling.items():
            if count > 0 and at.labels.get(key) == value:
                return _EXISTING
        return None

    def _attracts(self, at: NodeInfo) -> bool:
        found = True
        for term in self.wanted:
            domain = self._domain(term.topology_key, at)
            if domain is None:
                return False
            if self.attracted.get(domain, 0) <= 0:
                found = False
        if found:
            return True
        # The first of a group that wants to be together may go anywhere, if it matches its own terms.
        return not any(self.attracted.values()) and all(term.matches(self.info, self.lookup) for term in self.wanted)

    def _domain(self, key: str, at: NodeInfo) -> Domain | None:
        value = at.labels.get(key)
        return None if value is None else (key, value)

    def _count(self, other: PodInfo, at: NodeInfo, by: int) -> None:
        if self.wanted and all(term.matches(other, self.lookup) for term in self.wanted):
            for term in self.wanted:
                self._add(self.attracted, term.topology_key, at, by)
        for term in self.shunned:
            if term.matches(other, self.lookup):
                self._add(self.repelled, term.topology_key, at, by)

    def _count_repelling(self, other: PodInfo, at: NodeInfo, by: int) -> None:
        for term in terms_of(other, other.anti_affinity):
            if term.matches(self.info, self.lookup):
                self._add(self.repelling, term.topology_key, at, by)

    def _add(self, counts: dict[Domain, int], key: str, at: NodeInfo, by: int) -> None:
        domain = self._domain(key, at)
        if domain is not None:
            counts[domain] = counts.get(domain, 0) + by


# -- topology spread ---------------------------------------------------------------------------------------
class Constraint(Struct):
    """One constraint and how the pods that match it are spread."""

    key: str
    max_skew: int
    selector: LabelSelector
    min_domains: int
    affinity_counts: bool
    taints_count: bool
    counts: dict[str, int] = field(default_factory=dict)

    @property
    def least(self) -> int:
        """The smallest count of any domain; 0 while there are fewer domains than asked for."""
        if len(self.counts) < self.min_domains:
            return 0
        return min(self.counts.values(), default=0)


def spread_constraints(info: PodInfo, when: str) -> list[Constraint]:
    """The pod's constraints with ``whenUnsatisfiable: when``."""
    result = []
    for raw in info.pod["spec"].get("topologySpreadConstraints") or ():
        if raw.get("whenUnsatisfiable", "DoNotSchedule") != when:
            continue
        selector = _with_keys(from_match_labels(raw.get("labelSelector")), raw, info.labels)
        result.append(
            Constraint(
                raw["topologyKey"],
                int(raw.get("maxSkew", 1)),
                selector,
                int(raw.get("minDomains") or 1),
                raw.get("nodeAffinityPolicy", "Honor") == "Honor",
                raw.get("nodeTaintsPolicy", "Ignore") == "Honor",
            )
        )
    return result


class Spread:
    """The hard spread constraints of one pod against all that is there."""

    def __init__(self, info: PodInfo, nodes: list[NodeInfo], *, when: str = "DoNotSchedule") -> None:
        self.info = info
        self.constraints = spread_constraints(info, when)
        for at in nodes if self.constraints else ():
            self._count_node(at)

    def moved(self, other: PodInfo, at: NodeInfo, by: int) -> None:
        """Try out what happens when a pod comes (1) or goes (-1)."""
        for constraint in self.constraints:
            value = at.labels.get(constraint.key)
            if value in constraint.counts and self._meant(constraint, other):
                constraint.counts[value] += by

    def check(self, at: NodeInfo) -> Reject | None:
        """None: the node would do."""
        for constraint in self.constraints:
            value = at.labels.get(constraint.key)
            if value is None:
                return _NO_LABEL
            own = int(constraint.selector.matches(self.info.labels))
            if constraint.counts.get(value, 0) + own - constraint.least > constraint.max_skew:
                return _SKEW
        return None

    def _count_node(self, at: NodeInfo) -> None:
        if at.node is None or any(constraint.key not in at.labels for constraint in self.constraints):
            return
        for constraint in self.constraints:
            if self._eligible(constraint, at):
                value = at.labels[constraint.key]
                found = sum(self._meant(constraint, other) for other in at.pods.values())
                constraint.counts[value] = constraint.counts.get(value, 0) + found

    def _eligible(self, constraint: Constraint, at: NodeInfo) -> bool:
        node = at.node or {}
        if constraint.affinity_counts and not selects(self.info.pod, node, at.labels):
            return False
        tolerations = self.info.pod["spec"].get("tolerations") or []
        taints = dig(node, "spec", "taints", default=[]) if constraint.taints_count else []
        return all(tolerates(tolerations, taint) for taint in taints if taint["effect"] in ("NoSchedule", "NoExecute"))

    def _meant(self, constraint: Constraint, other: PodInfo) -> bool:
        return (
            other.namespace == self.info.namespace
            and "deletionTimestamp" not in other.pod["metadata"]
            and constraint.selector.matches(other.labels)
        )
