"""What becomes of pods whose node shuts down gracefully: its machine is about to go, and its kubelet was told so.

Pods that are not critical get the first part of the time to end, critical ones what is left, and new ones are turned
away. What ends is Failed, and says that it was disrupted.
Source: pkg/kubelet/nodeshutdown/nodeshutdown_manager_linux.go of Kubernetes v1.36. GKE has it on by default at a spot
notice: 30 s, of which pods that are not critical get 15 (cloud.google.com/kubernetes-engine/docs/concepts/spot-vms).
"""

from __future__ import annotations

from collections.abc import Iterable

from killcheck.embedded.nodes.node_agent import NodeAgent
from killcheck.embedded.nodes.podlife import PodLife
from killcheck.kube import resources as r
from killcheck.kube.errors import KubeError
from killcheck.kube.objects import Obj, dig, format_time, name_of, namespace_of

__all__ = ["OTHERS_S", "end", "reject"]

#: Seconds for pods that are not critical, and for critical ones after them.
OTHERS_S, CRITICAL_S = 15.0, 15.0
#: What a kubelet takes to see a new pod and to say no.
REJECTED_S = 1.0
#: From this priority on a pod is critical (scheduling.SystemCriticalPriority).
CRITICAL = 2_000_000_000
_TERMINATED = ("Terminated", "Pod was terminated in response to imminent node shutdown.")
_REJECTED = ("NodeShutdown", "Pod was rejected as the node is shutting down.")


def end(lives: Iterable[PodLife], *, critical: bool) -> None:
    """End the pods of one sort, each within its own grace and what there is."""
    for life in lives:
        if (int(dig(life.pod, "spec", "priority", default=0) or 0) >= CRITICAL) != critical or life.final:
            continue
        life.disrupted = {
            "type": "DisruptionTarget",
            "status": "True",
            "reason": "TerminationByKubelet",
            "message": _TERMINATED[1],
            "lastTransitionTime": format_time(life.loop.now()),
        }
        life.evict(*_TERMINATED, within_s=CRITICAL_S if critical else OTHERS_S)


def reject(agent: NodeAgent, pod: Obj) -> None:
    """Turn a pod away that came too late. Its controller makes another, which comes here too where it tolerates all."""
    agent.loop.call_later(REJECTED_S, _reject, agent, pod)


def _reject(agent: NodeAgent, pod: Obj) -> None:
    if agent.stopped:
        return
    reason, message = _REJECTED
    status = {"phase": "Failed", "reason": reason, "message": message, "startTime": format_time(agent.loop.now())}
    try:
        agent.kube.patch(r.PODS, name_of(pod), {"status": status}, namespace_of(pod), subresource="status")
    except KubeError:
        return  # the machine goes in a moment, and its pods with it
