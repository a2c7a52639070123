"""What is proven of nodes: which are judged, which the spec lets stay on, and when no more than those are left."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

from killcheck.entries import Becomes, leaves
from killcheck.kube.objects import Obj, labels_of, name_of
from killcheck.spec.killpath import KillPath, NodePool
from killcheck.watch.cost import Meter, instance_type
from killcheck.watch.scene import ASSUMED, Scene, matches_pool

__all__ = ["above_floor", "emptied", "floors", "kept", "not_judged", "within"]


@leaves("clouds", "node groups of EKS from manifests: read, and no drill has their nodes", Becomes.SAID)
def not_judged(scene: Scene, kill_path: KillPath) -> str | None:
    """Why nothing is proven of nodes here; None: it is. What killcheck made itself says nothing of a team's pools."""
    made = [node for node in scene.pool_nodes() if ASSUMED in labels_of(node) and not _removed(kill_path, node)]
    if not made and scene.pool_nodes():
        return None
    return (
        "nodes are not judged, only pods: no manifest describes the node pool. To have them judged, add it, or say "
        "under nodes: who removes an empty node (removedBy) and by when (removedAfter)"
    )


def _removed(kill_path: KillPath, node: Obj) -> bool:
    return any(pool.removed_by and matches_pool(pool, node) for pool in kill_path.nodes)


def floors(kill_path: KillPath) -> tuple[NodePool, ...]:
    """The pools of which nodes may stay on."""
    return tuple(pool for pool in kill_path.nodes if pool.floor)


def within(pools: Sequence[NodePool], there: Mapping[str, Obj | None], off: Collection[str]) -> bool:
    """Whether every node is ``off`` but for as many of each pool as its floor lets stay.

    ``there``: nodes by name as they are, None: gone. Where none is off, nothing was seen, whatever the floor says.
    """
    if there and not off:
        return False
    left = [node for name, node in there.items() if name not in off and node is not None]
    return not above(pools, left)


def above(pools: Sequence[NodePool], left: Iterable[Obj]) -> bool:
    """Whether more of these nodes are there than floors allow; each pool's floor is for its own nodes alone."""
    room = {pool.name: pool.floor for pool in pools}
    for node in left:
        pool = next((p for p in pools if matches_pool(p, node) and room[p.name] > 0), None)
        if pool is None:
            return True
        room[pool.name] -= 1
    return False


def above_floor(kill_path: KillPath, nodes: Iterable[Obj]) -> bool:
    """Whether more nodes are there than the spec lets stay on."""
    return above(floors(kill_path), nodes)


def emptied(scene: Scene, kill_path: KillPath) -> str | None:
    """Why P2 would prove nothing: the floors let every node stay that is on; None: they do not."""
    nodes = scene.pool_nodes()
    if not nodes or above_floor(kill_path, nodes):
        return None
    said = ", ".join(f"floor {pool.floor} of {pool.name}" for pool in floors(kill_path))
    return (
        f"P2 asks for nodes to go and {said} lets {'all of them' if len(nodes) > 1 else 'the only one'} stay "
        f"({', '.join(name_of(n) for n in nodes)}): nothing would be proven. Lower the floor, or take P2 out of "
        "proof"
    )


def kept(scene: Scene, kill_path: KillPath, meter: Meter) -> Iterator[str]:
    """What the spec lets stay on, with its dollars."""
    for pool in floors(kill_path):
        nodes = [node for node in scene.pool_nodes() if matches_pool(pool, node)]
        count = min(pool.floor, len(nodes))
        prices = {meter.usd_per_hour(pool.instance_type or instance_type(node)) for node in nodes}
        known = [price for price in prices if price is not None]
        usd = f"${max(known) * count:.2f} an hour" if known and len(known) == len(prices) else "at an unknown price"
        if count:
            yield f"{count} node(s) of {pool.name} may stay on by the spec (floor {pool.floor}): {usd}, and billed on"
