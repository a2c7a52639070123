"""Lifecycle hooks of Auto Scaling groups: a machine that a group ends waits until somebody says that it may go.

The group puts it into ``Terminating:Wait`` and EventBridge says so in the queue; it ends when the action is completed
(either result does), or when nobody has by the hook's heartbeat timeout. What ends a machine behind the group's back (a
spot reclaim, ``TerminateInstances``) knows no hook. Source: docs.aws.amazon.com, Amazon EC2 Auto Scaling lifecycle
hooks; the event's form: aws/aws-node-termination-handler pkg/monitor/sqsevent/asg-lifecycle-event.go.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from random import Random
from typing import Any, Protocol

from msgspec import Struct

from killcheck.clock import Loop, Timer
from killcheck.embedded.models.cloud_errors import CloudError, NoSuchInstance
from killcheck.embedded.models.instance import Instance
from killcheck.embedded.models.queue import Queue

__all__ = ["DETAIL_TYPE", "WAITING", "Hook", "LifecycleHooks"]

DETAIL_TYPE = "EC2 Instance-terminate Lifecycle Action"
TRANSITION = "autoscaling:EC2_INSTANCE_TERMINATING"
WAITING = "Terminating:Wait"


class Hook(Struct, frozen=True):
    """One on termination. ``timeout_s``: AWS' default is an hour."""

    name: str
    timeout_s: float = 3600.0


class Account(Protocol):
    """Of the cloud, what its hooks work with. ``denied``: the API actions that it refuses."""

    loop: Loop
    rng: Random
    account: str
    region: str
    queue: Queue
    denied: set[str]

    def event(self, detail_type: str, instance: Instance, detail: Mapping[str, Any]) -> dict[str, Any]:
        """An EventBridge event about an instance, as it arrives in a queue."""

    def terminate(self, instance_id: str, *, by: str) -> None:
        """End a machine. Raises CloudError."""


class LifecycleHooks:
    """The actions that are under way in a cloud."""

    def __init__(self, cloud: Account) -> None:
        self.cloud = cloud
        self._waiting: dict[str, tuple[str, Hook, str, Timer]] = {}

    def terminate(self, instance: Instance, group: str, hook: Hook | None, *, by: str) -> None:
        """End a member of a group, once its hook lets it go. Raises what ``Cloud.terminate`` raises."""
        if hook is None or instance.state != "running":
            self.cloud.terminate(instance.instance_id, by=by)
            return
        if instance.lifecycle == WAITING:
            return
        instance.lifecycle = WAITING
        token = f"{self.cloud.rng.getrandbits(128):032x}"
        timer = self.cloud.loop.call_later(hook.timeout_s, self._end, instance.instance_id)
        self._waiting[instance.instance_id] = (token, hook, by, timer)
        event = self.cloud.event(DETAIL_TYPE, instance, {})
        account, region = self.cloud.account, self.cloud.region
        self.cloud.queue.send(
            event
            | {
                "source": "aws.autoscaling",
                "resources": [
                    f"arn:aws:autoscaling:{region}:{account}:autoScalingGroup:{token}:autoScalingGroupName/{group}"
                ],
                "detail": {
                    "LifecycleActionToken": token,
                    "AutoScalingGroupName": group,
                    "LifecycleHookName": hook.name,
                    "EC2InstanceId": instance.instance_id,
                    "LifecycleTransition": TRANSITION,
                },
            }
        )

    def complete(self, detail: Mapping[str, Any]) -> None:
        """``CompleteLifecycleAction``, told with the event's own detail. Raises CloudError where nothing waits."""
        if "autoscaling:CompleteLifecycleAction" in self.cloud.denied:
            raise CloudError("AccessDenied", "not authorized to perform: autoscaling:CompleteLifecycleAction")
        instance_id = str(detail.get("EC2InstanceId", ""))
        known = self._waiting.get(instance_id)
        if known is None or known[0] != detail.get("LifecycleActionToken"):
            raise CloudError("ValidationError", f"No active Lifecycle Action found with instance ID {instance_id}")
        self._end(instance_id)

    def stop(self) -> None:
        """Drop every timer."""
        for _, _, _, timer in self._waiting.values():
            timer.cancel()
        self._waiting.clear()

    def _end(self, instance_id: str) -> None:
        _, _, by, timer = self._waiting.pop(instance_id)
        timer.cancel()
        with suppress(NoSuchInstance):  # it has gone meanwhile: a reclaim asks nobody
            self.cloud.terminate(instance_id, by=by)
