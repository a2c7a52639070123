"""What ``kubectl get pods`` says of a pod: the word for its state, readiness, restarts.

Source: ``printPod`` in pkg/printers/internalversion/printers.go of Kubernetes v1.36.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from msgspec import Struct

from killcheck.kube.objects import Obj, condition, dig

__all__ = ["cells", "row_conditions"]

Ago = Callable[[str | None], str]


class _Summary(Struct):
    reason: str
    ready: int = 0
    restarts: int = 0
    last_restart: str = ""

    def restarted(self, status: Obj) -> None:
        """Count a container's restarts and remember the last."""
        self.restarts += status.get("restartCount", 0)
        self.last_restart = max(self.last_restart, dig(status, "lastState", "terminated", "finishedAt", default=""))


def row_conditions(pod: Obj) -> list[Obj]:
    """What a table's row says of a pod that has ended."""
    phase = dig(pod, "status", "phase")
    if phase == "Succeeded":
        message = "The pod has completed successfully."
    elif phase == "Failed":
        message = "The pod failed."
    else:
        return []
    return [{"type": "Completed", "status": "True", "reason": phase, "message": message}]


def cells(pod: Obj, age: Ago) -> list[Any]:
    """Name, ready, status, restarts, age; and, for ``-o wide``, IP, node, nominated node, readiness gates."""
    spec, status = pod.get("spec") or {}, pod.get("status") or {}
    sidecars = {c["name"] for c in spec.get("initContainers") or [] if c.get("restartPolicy") == "Always"}
    summary = _summary(pod, sidecars)
    total = len(spec.get("containers") or []) + len(sidecars)
    restarts = str(summary.restarts)
    if summary.restarts and summary.last_restart:
        restarts = f"{summary.restarts} ({age(summary.last_restart)} ago)"
    meta = pod["metadata"]
    return [
        meta["name"],
        f"{summary.ready}/{total}",
        summary.reason,
        restarts,
        age(meta.get("creationTimestamp")),
        dig(status, "podIPs", 0, "ip") or status.get("podIP") or "<none>",
        spec.get("nodeName") or "<none>",
        status.get("nominatedNodeName") or "<none>",
        _gates(pod),
    ]


def _summary(pod: Obj, sidecars: set[str]) -> _Summary:
    status = pod.get("status") or {}
    phase = status.get("phase", "")
    summary = _Summary(status.get("reason") or phase)
    scheduled = condition(pod, "PodScheduled")
    if scheduled is not None and scheduled.get("reason") == "SchedulingGated":
        summary.reason = "SchedulingGated"
    initialized = condition(pod, "Initialized")
    if not _initializing(pod, sidecars, summary) or (initialized or {}).get("status") == "True":
        _running(pod, sidecars, summary)
    if pod["metadata"].get("deletionTimestamp"):
        if status.get("reason") == "NodeLost":
            summary.reason = "Unknown"
        elif phase not in ("Succeeded", "Failed"):
            summary.reason = "Terminating"
    return summary


def _initializing(pod: Obj, sidecars: set[str], summary: _Summary) -> bool:
    """Look through the init containers up to the first that is not done; whether there is one."""
    total = len(dig(pod, "spec", "initContainers", default=[]))
    for i, status in enumerate(dig(pod, "status", "initContainerStatuses", default=[])):
        summary.restarted(status)
        state = status.get("state") or {}
        ended = state.get("terminated")
        if ended is not None and ended.get("exitCode", 0) == 0:
            continue
        if status.get("name") in sidecars and status.get("started"):
            summary.ready += bool(status.get("ready"))
            continue
        waiting = (state.get("waiting") or {}).get("reason", "")
        if ended is not None:
            summary.reason = f"Init:{_ended(ended)}"
        elif waiting and waiting != "PodInitializing":
            summary.reason = f"Init:{waiting}"
        else:
            summary.reason = f"Init:{i}/{total}"
        return True
    return False


def _running(pod: Obj, sidecars: set[str], summary: _Summary) -> None:
    """The containers themselves; of the init containers' restarts only those of sidecars count."""
    summary.restarts, summary.last_restart = 0, ""
    for status in dig(pod, "status", "initContainerStatuses", default=[]):
        if status.get("name") in sidecars:
            summary.restarted(status)
    running, error = False, ""
    for status in reversed(dig(pod, "status", "containerStatuses", default=[])):
        summary.restarted(status)
        state = status.get("state") or {}
        waiting, ended = (state.get("waiting") or {}).get("reason", ""), state.get("terminated")
        if waiting:
            summary.reason = waiting
        elif ended is not None:
            summary.reason = _ended(ended)
            error = summary.reason if ended.get("exitCode", 0) else error
        elif status.get("ready") and state.get("running") is not None:
            running = True
            summary.ready += 1
    if summary.reason == "Completed":
        ready = (condition(pod, "Ready") or {}).get("status") == "True"
        summary.reason = "Running" if running and ready else error or ("NotReady" if running else "Completed")


def _ended(terminated: Obj) -> str:
    if terminated.get("reason"):
        return str(terminated["reason"])
    if terminated.get("signal"):
        return f"Signal:{terminated['signal']}"
    return f"ExitCode:{terminated.get('exitCode', 0)}"


def _gates(pod: Obj) -> str:
    gates = dig(pod, "spec", "readinessGates", default=[])
    if not gates:
        return "<none>"
    true = sum((condition(pod, gate.get("conditionType", "")) or {}).get("status") == "True" for gate in gates)
    return f"{true}/{len(gates)}"
