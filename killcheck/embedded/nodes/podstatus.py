"""A pod's phase and conditions out of its containers.

Source: pkg/kubelet/kubelet_pods.go (getPhase, generateAPIPodStatus) and pkg/kubelet/status/generate.go of Kubernetes
v1.36; recordings 01 (order and reasons of the conditions), 06, 07, 20b.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from killcheck.embedded.nodes.container import Container
from killcheck.kube.machineless import NOT_RUN, RAN
from killcheck.kube.objects import Obj, condition, format_time

__all__ = ["Conditions", "initialized", "phase_of"]


def phase_of(containers: Sequence[Container], policy: str, *, terminal: bool) -> str:
    """``terminal``: the pod is being ended (deleted, evicted, past its deadline), so nothing restarts."""
    pending = failed = False
    for init in (c for c in containers if c.role != "main"):
        if init.role == "sidecar":
            pending = pending or (init.state == "none" and not init.lost)
        elif init.state == "exited" and not init.succeeded:
            failed = failed or policy == "Never"
            pending = pending or policy != "Never"
        elif not init.succeeded:
            pending = True
    if failed:
        return "Failed"
    mains = [c for c in containers if c.role == "main"]
    running = any(c.alive for c in mains)
    done = all(c.succeeded for c in mains)
    if terminal and not running:
        return "Succeeded" if done else "Failed"
    if pending or any(c.state == "none" and not c.lost for c in mains):
        return "Pending"
    if running or policy == "Always" or any(c.again for c in mains):
        return "Running"
    if done:
        return "Succeeded"
    return "Failed" if policy == "Never" else "Running"


def initialized(containers: Sequence[Container]) -> list[str]:
    """The init containers that are not done: those that have to end, and sidecars that have not started."""
    return [
        c.name
        for c in containers
        if (c.role == "init" and not c.succeeded) or (c.role == "sidecar" and c.state == "none")
    ]


class Conditions:
    """The conditions that a kubelet owns, with the moments at which each last changed."""

    def __init__(self, pod: Obj) -> None:
        self._since: dict[str, tuple[str, str]] = {}
        scheduled = condition(pod, "PodScheduled")
        if scheduled is not None:
            self._since["PodScheduled"] = (scheduled["status"], scheduled["lastTransitionTime"])

    def render(
        self,
        containers: Sequence[Container],
        phase: str,
        *,
        sandbox: bool,
        now: datetime,
        generation: int,
        machine: bool = True,
    ) -> list[Obj]:
        """All of them; ``phase`` is the one that the containers call for, shown yet or not.

        ``machine``: false on a hollow node of a real cluster, where it is said whether the programs ran.
        """
        mains = [c for c in containers if c.role != "init"]
        unready = [c.name for c in mains if not (c.ready and c.alive)]
        incomplete = initialized(containers)
        ready: Obj = {"status": "True"}
        if phase in ("Succeeded", "Failed") and (unready or not mains):
            ready = {"status": "False", "reason": "PodCompleted" if phase == "Succeeded" else "PodFailed"}
        elif unready:
            ready = {
                "status": "False",
                "reason": "ContainersNotReady",
                "message": f"containers with unready status: [{' '.join(unready)}]",
            }
        init: Obj = {"status": "True"}
        if phase == "Succeeded":
            init["reason"] = "PodCompleted"
        elif incomplete:
            init = {
                "status": "False",
                "reason": "ContainersNotInitialized",
                "message": f"containers with incomplete status: [{' '.join(incomplete)}]",
            }
        wanted: list[tuple[str, Obj]] = [
            ("PodReadyToStartContainers", {"status": "True" if sandbox else "False"}),
            ("Initialized", init),
            ("Ready", ready),
            ("ContainersReady", ready),
            ("PodScheduled", {"status": "True"}),
            *(() if machine else [(RAN, _ran(containers))]),
        ]
        return [self._condition(kind, body, now, generation) for kind, body in wanted]

    def _condition(self, kind: str, body: Obj, now: datetime, generation: int) -> Obj:
        status, since = self._since.get(kind, ("", ""))
        if status != body["status"]:
            since = format_time(now)
            self._since[kind] = (body["status"], since)
        result: Obj = {"type": kind, "lastProbeTime": None, "lastTransitionTime": since}
        if generation:
            result["observedGeneration"] = generation
        return result | body


def _ran(containers: Sequence[Container]) -> Obj:
    """Whether every container's own program has been started, as a condition says it."""
    why = next((c.unknown for c in containers if c.unknown), "")
    if why:
        return {"status": "False", "reason": NOT_RUN, "message": why[:1024]}
    if all(c.ran for c in containers):
        return {"status": "True", "reason": "Started"}
    return {"status": "False", "reason": "Hollow", "message": "its node has no machine: it is a model of a pod"}
