"""What others than killcheck itself were seen to do about machines: a handler's word, a kubelet's silence, a node gone.

That a capability was used is no evidence that anything came of it: what the API server, a handler or the cloud's
own record of a machine's end shows is. What may *not* live here: faults.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from datetime import datetime

from killcheck.kube.objects import condition, dig, name_of, parse_time
from killcheck.layers.base import Stage
from killcheck.watch.scene import Scene, event_time

__all__ = ["HEARD", "heard", "left", "silent"]

#: What Karpenter and aws-node-termination-handler say of a message that they acted on (their events' reasons), by what
#: the message is. A machine that is ended for another reason makes Karpenter say InstanceTerminating.
HEARD: Mapping[str, frozenset[str]] = {
    "interruption": frozenset({"SpotInterrupted", "SpotInterruption"}),
    "rebalance": frozenset({"SpotRebalanceRecommendation", "RebalanceRecommendation"}),
    "state-change": frozenset({"InstanceStopping", "InstanceTerminating", "StateChange"}),
    "health": frozenset({"InstanceUnhealthy", "ScheduledEvent"}),
}


def heard(stage: Stage, kind: str, since: datetime, nodes: Collection[str] | None = None) -> tuple[str, float] | None:
    """A handler's first word on a node in scope, or on its NodeClaim, since then; how many seconds after it that was.

    ``kind``: of a message, a key of :data:`HEARD`. ``nodes``: the names of those that it must be about; None:
    any that was seen in scope.
    """
    names = stage.scene.known_nodes if nodes is None else nodes
    ours = {("Node", name) for name in names} | {
        ("NodeClaim", name_of(claim))
        for claim in stage.scene.claims.values()
        if dig(claim, "status", "nodeName") in names
    }
    for said in stage.scene.events.values():
        about = (dig(said, "involvedObject", "kind"), dig(said, "involvedObject", "name"))
        if said.get("reason") in HEARD[kind] and about in ours and event_time(said):
            after_s = (parse_time(event_time(said)) - since).total_seconds()
            if after_s >= -1:  # the API server writes whole seconds
                return f"{' '.join(about)}: {said['reason']}", after_s
    return None


def silent(scene: Scene, names: Collection[str]) -> str | None:
    """A node whose kubelet no longer speaks to the API server, in the node controller's words; None: none."""
    return next(_unknown(scene, names), None)


def _unknown(scene: Scene, names: Collection[str]) -> Iterator[str]:
    for name in names:
        ready = condition(scene.known_nodes.get(name) or {}, "Ready") or {}
        if ready.get("status") == "Unknown":
            yield f"node {name}: Ready Unknown: {ready.get('reason')}: {ready.get('message')}"


def left(scene: Scene, names: Collection[str]) -> str | None:
    """A node whose object went; None: none did."""
    return next(
        (f"node {name} left at {scene.gone_at[name]:%H:%M:%S}" for name in names if name in scene.gone_at), None
    )
