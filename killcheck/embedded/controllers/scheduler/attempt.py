"""One attempt to find a node for one pod: every filter, in order, with what each needs to know prepared once."""

from __future__ import annotations

from killcheck.embedded.controllers.scheduler.affinity import InterPod, NamespaceLabels, Spread
from killcheck.embedded.controllers.scheduler.claims import ClaimCheck
from killcheck.embedded.controllers.scheduler.filters import StaticFilter, fits_resources, free_ports
from killcheck.embedded.controllers.scheduler.nodes import NodeInfo, PodInfo, Reject, Snapshot
from killcheck.embedded.controllers.scheduler.scores import allocation
from killcheck.embedded.controllers.scheduler.volumes import VolumeCheck

__all__ = ["Attempt", "Judged", "fit_message"]

#: Nodes are looked at until so many fit, at least; on large clusters a share of them (percentageOfNodesToScore).
MIN_FEASIBLE = 100


#: So many shapes of pods are remembered.
_MAX_SHAPES = 64


class Judged:
    """What nodes alone say to pods of one shape, and how well they suit: asked again of a node that has changed.

    A pod that is bound changes one node. What all others say to the next pod of its Deployment is known.
    """

    def __init__(self) -> None:
        self.static = StaticFilter()
        self._known: dict[object, dict[str, tuple[int, Reject | None, float]]] = {}

    def of(self, info: PodInfo) -> dict[str, tuple[int, Reject | None, float]]:
        """By node: its stamp then, why it did not do, and what its allocation was worth."""
        known = self._known.get(info.shape)
        if known is None:
            if len(self._known) >= _MAX_SHAPES:
                self._known.clear()
            known = self._known[info.shape] = {}
        return known

    def forget(self, node: str) -> None:
        """A node has gone."""
        self.static.forget(node)
        for known in self._known.values():
            known.pop(node, None)


class Attempt:
    """What is known while one pod is tried. ``refused`` fills up with why each node does not do."""

    def __init__(
        self,
        info: PodInfo,
        snapshot: Snapshot,
        judged: Judged,
        *,
        claims: ClaimCheck,
        volumes: VolumeCheck,
        namespaces: NamespaceLabels,
    ) -> None:
        self.info = info
        self.snapshot = snapshot
        self.static = judged.static
        self._judged = judged.of(info)
        # Of a node without them: what else there is would have to be asked in between.
        self._alone = not info.ports and not snapshot.nominated
        self.claims = claims
        self.volumes = volumes
        self.nodes = snapshot.present()
        self.inter_pod = InterPod(info, list(snapshot.nodes.values()), namespaces)
        self.spread = Spread(info, self.nodes)
        self.refused: dict[str, Reject] = {}
        #: What the allocation of each node that does is worth.
        self.allocations: dict[str, float] = {}

    def check(self, at: NodeInfo) -> Reject | None:
        """Why a node does not do, None if it does."""
        info = self.info
        return (
            self.static.check(info, at)
            or free_ports(info, at)
            or fits_resources(info, at, self.snapshot.promised(at.name, info) if self.snapshot.nominated else ())
            or self._beside(at)
        )

    def _beside(self, at: NodeInfo) -> Reject | None:
        """By what is on other nodes, and in claims."""
        return (
            self.volumes.check(at)
            or (self.spread.check(at) if self.spread.constraints else None)
            or (None if self.inter_pod.idle else self.inter_pod.check(at))
            or self.claims.check(at)
        )

    def feasible(self, start: int) -> tuple[list[NodeInfo], int]:
        """Nodes that do, beginning with the node number ``start``, and how many were looked at."""
        nodes = self.nodes
        enough = _enough(len(nodes))
        found: list[NodeInfo] = []
        looked = 0
        for number in range(len(nodes)):
            at = nodes[(start + number) % len(nodes)]
            looked += 1
            known = self._judged.get(at.name)
            if known is None or known[0] != at.stamp:
                known = self._judge(at)
            reject = (known[1] or self._beside(at)) if self._alone else self.check(at)
            if reject is not None:
                self.refused[at.name] = reject
                continue
            self.allocations[at.name] = known[2]
            found.append(at)
            if len(found) >= enough:
                break
        return found, looked

    def _judge(self, at: NodeInfo) -> tuple[int, Reject | None, float]:
        reject = self.static.check(self.info, at) or fits_resources(self.info, at)
        known = self._judged[at.name] = (at.stamp, reject, allocation(self.info, at))
        return known


def _enough(count: int) -> int:
    if count <= MIN_FEASIBLE:
        return count
    return max(MIN_FEASIBLE, count * max(5, 50 - count // 125) // 100)


def fit_message(total: int, refused: dict[str, Reject], absent: str = "") -> str:
    """How many nodes were refused for which reasons; ``absent`` is the reason of those that are not in ``refused``."""
    counts: dict[str, int] = {}
    for reject in refused.values():
        for reason in reject.reasons:
            counts[reason] = counts.get(reason, 0) + 1
    if absent and total > len(refused):
        counts[absent] = counts.get(absent, 0) + total - len(refused)
    text = ", ".join(sorted(f"{count} {reason}" for reason, count in counts.items()))
    return f"0/{total} nodes are available: {text}." if text else f"0/{total} nodes are available:"
