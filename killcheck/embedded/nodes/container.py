"""One container of a pod as its kubelet knows it, and its entry in the pod's status."""

from __future__ import annotations

from datetime import datetime
from typing import Literal

from msgspec import Struct, field

from killcheck.embedded.containerlog import ContainerLog
from killcheck.embedded.nodes.execution import Exit, Running
from killcheck.kube.objects import Obj, format_time

__all__ = ["Container", "Role", "State"]

Role = Literal["init", "sidecar", "main", "ephemeral"]
State = Literal["none", "running", "exited"]

EPOCH = "1970-01-01T00:00:00Z"


class Container(Struct):
    """``reason`` and ``message`` are why it is not running now (the kubelet's reason cache), shown one pass later."""

    spec: Obj
    role: Role
    state: State = "none"
    reason: str = ""
    message: str = ""
    image: str = ""
    image_id: str = ""
    container_id: str = ""
    started_at: datetime | None = None
    finished_at: datetime | None = None
    finished_mono: float = 0.0
    exit: Exit | None = None
    last: Obj | None = None
    restarts: int = 0
    passed_startup: bool = False
    ready: bool = False
    running: Running | None = None
    log: ContainerLog = field(default_factory=ContainerLog)
    previous_log: ContainerLog = field(default_factory=ContainerLog)
    stopping: bool = False
    unknown: str = ""
    #: Whether its own program has been started, ever.
    ran: bool = False
    lost: bool = False
    #: It is stopped so that it starts again, with other resources or another image.
    again: bool = False
    steps: list[object] = field(default_factory=list)

    @property
    def name(self) -> str:
        """Its name in the pod."""
        return str(self.spec["name"])

    @property
    def alive(self) -> bool:
        """Whether its process runs."""
        return self.state == "running"

    @property
    def succeeded(self) -> bool:
        """Whether it ended with 0."""
        return self.state == "exited" and self.exit is not None and self.exit.code == 0

    def restarts_by(self, policy: str) -> bool:
        """Whether the kubelet would start it (again), given the pod's restartPolicy."""
        if self.role == "sidecar" or self.again:
            return True
        if self.role == "ephemeral":
            return self.state == "none"
        if self.role == "init":
            policy = "OnFailure" if policy == "Always" else policy
        if self.state != "exited":
            return True
        return policy == "Always" or (policy == "OnFailure" and not self.succeeded)

    # -- status --------------------------------------------------------------------------------------------
    def status(self, policy: str, waiting_for: str) -> Obj:
        """Its ContainerStatus; ``waiting_for`` is the reason while nothing has happened yet."""
        state, last = self._states(policy, waiting_for)
        result: Obj = {
            "name": self.name,
            "state": state,
            "lastState": last or {},
            "ready": self.succeeded if self.role == "init" else self.ready and self.alive,
            "restartCount": self.restarts,
            "image": self.image or self.spec["image"],
            "imageID": self.image_id,
        }
        if self.role == "ephemeral":
            result["ready"] = False
        else:
            result["started"] = self.alive and self.passed_startup
        if self.container_id:
            result["containerID"] = self.container_id
        if self.state != "none":
            resources = self.spec.get("resources") or {}
            if resources.get("requests"):
                result["allocatedResources"] = resources["requests"]
            result["resources"] = resources
        mounts = self.spec.get("volumeMounts")
        if mounts:
            result["volumeMounts"] = [_mount(mount) for mount in mounts]
        return result

    def _states(self, policy: str, waiting_for: str) -> tuple[Obj, Obj | None]:
        if self.lost:
            return {
                "terminated": {
                    "exitCode": 137,
                    "reason": "ContainerStatusUnknown",
                    "startedAt": None,
                    "finishedAt": None,
                    "message": "The container could not be located when the pod was terminated",
                }
            }, self.last
        if self.state == "running":
            return {"running": {"startedAt": _time(self.started_at)}}, self.last
        if self.state == "exited":
            terminated = self.terminated()
            if self.reason and self.restarts_by(policy):
                return _waiting(self.reason, self.message), terminated
            return terminated, self.last
        return _waiting(self.reason or waiting_for, self.message), self.last

    def terminated(self) -> Obj:
        """Its last run as ``state.terminated``."""
        ended = self.exit or Exit(137)
        state: Obj = {"exitCode": ended.code, "reason": ended.reason or ("Completed" if ended.code == 0 else "Error")}
        if ended.signal and not self.started_at:
            state["signal"] = ended.signal
        if ended.message:
            state["message"] = ended.message
        state["startedAt"] = EPOCH if ended.reason == "StartError" else _time(self.started_at)
        state["finishedAt"] = _time(self.finished_at)
        if self.container_id:
            state["containerID"] = self.container_id
        return {"terminated": state}


def _waiting(reason: str, message: str) -> Obj:
    return {"waiting": {"reason": reason} | ({"message": message} if message else {})}


def _time(when: datetime | None) -> str:
    return EPOCH if when is None else format_time(when)


def _mount(mount: Obj) -> Obj:
    result: Obj = {"name": mount["name"], "mountPath": mount["mountPath"]}
    if mount.get("readOnly"):
        result |= {"readOnly": True, "recursiveReadOnly": mount.get("recursiveReadOnly", "Disabled")}
    return result
