"""aws-node-termination-handler: cordons, taints and drains a node whose instance was given notice.

Driven by its own DaemonSet (it polls its node's instance metadata) or Deployment (``ENABLE_SQS_TERMINATION_DRAINING``:
it reads a queue of its own, which the same rules fill as Karpenter's), known by the label ``app.kubernetes.io/name:
aws-node-termination-handler`` and configured by the variables of its first container. It acts only while its pod runs.

Source: aws/aws-node-termination-handler pkg/{config,node,monitor,interruptionevent} and cmd (July 2026). Metadata and
queue are polled every 2 s, events acted upon every second; a drain evicts what is neither a DaemonSet's, static nor its
own pod, tries again every 5 s where a budget forbids (kubectl pkg/drain), and gives up after
``NODE_TERMINATION_GRACE_PERIOD`` (120 s); it is then begun anew: by the next poll, or once the message is visible
again. A drain for a lifecycle hook ends with the action completed. Left out: heartbeats of lifecycle hooks, hooks on
launch, scheduled maintenance, webhooks, labels.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, ClassVar

from msgspec import Struct

from killcheck.embedded.controllers.runtime import Controller
from killcheck.embedded.models.cloud import Cloud
from killcheck.embedded.models.cloud_errors import CloudError
from killcheck.embedded.models.instance import GONE, Instance
from killcheck.embedded.models.karpenter.pods import is_daemon, is_mirror, is_terminating
from killcheck.embedded.models.lifecyclehooks import DETAIL_TYPE
from killcheck.embedded.models.queue import Queue
from killcheck.kube import resources as r
from killcheck.kube import selectors
from killcheck.kube.errors import ApiError, KubeError, NotFound, TooManyRequests
from killcheck.kube.informer import Change
from killcheck.kube.objects import Obj, dig, key_of, labels_of, name_of, namespace_of, parse_time

__all__ = ["NodeTerminationHandler"]

NAME = "aws-node-termination-handler"
#: How often metadata and queue are looked at, and events acted upon; between tries of a refused eviction; how long a
#: message that was not dealt with stays invisible. Seconds.
POLL_S, ACT_S, RETRY_S, VISIBILITY_S = 2.0, 1.0, 5.0, 20.0
_TAINTS = {
    "spot-itn": f"{NAME}/spot-itn",
    "rebalance-recommendation": f"{NAME}/rebalance-recommendation",
    "asg-lifecycle-term": f"{NAME}/asg-lifecycle-termination",
}
_REASONS = {
    "spot-itn": "SpotInterruption",
    "rebalance-recommendation": "RebalanceRecommendation",
    "ec2-state-change-event": "StateChange",
    "asg-lifecycle-term": "ASGLifecycle",
}
#: What is read, by source and detail-type.
_DETAILS = {
    ("aws.ec2", "EC2 Spot Instance Interruption Warning"): "spot-itn",
    ("aws.ec2", "EC2 Instance Rebalance Recommendation"): "rebalance-recommendation",
    ("aws.ec2", "EC2 Instance State-change Notification"): "ec2-state-change-event",
    ("aws.autoscaling", DETAIL_TYPE): "asg-lifecycle-term",
}
_ENDING = ("stopping", "stopped", "shutting-down", "terminated")


class Settings(Struct, frozen=True):
    """A handler's environment, with its defaults."""

    workload: Obj
    env: Mapping[str, str]

    def on(self, name: str, default: bool) -> bool:
        """A switch."""
        return self.env.get(name, str(default)).lower() in ("1", "t", "true")

    @property
    def queue_mode(self) -> bool:
        """Whether it reads the queue, and not metadata."""
        return self.on("ENABLE_SQS_TERMINATION_DRAINING", False)

    @property
    def grace_s(self) -> float:
        """How long a drain may take, and how long before its instance goes it begins."""
        return float(self.env.get("NODE_TERMINATION_GRACE_PERIOD", "120"))


class Notice(Struct):
    """An interruption event. ``begins``: not before; ``until``: the drain gives up; None: it has not begun."""

    event_id: str
    kind: str
    node: str
    begins: datetime
    description: str
    drains: bool
    message: str = ""
    #: What a lifecycle hook's action is completed with, once the node is drained.
    action: Mapping[str, Any] | None = None
    until: datetime | None = None


@dataclass(eq=False, repr=False)
class NodeTerminationHandler(Controller):
    """Every handler that is deployed."""

    cloud: Cloud

    name: ClassVar[str] = NAME
    takes: ClassVar[tuple[str, ...]] = ("cloud",)

    def setup(self) -> None:
        """Follow handlers and their pods, the cloud, and a queue."""
        self._notices: dict[str, Notice] = {}
        self._done: set[str] = set()
        self._messages: list[str] = []
        self._queue = Queue(self.loop)
        self.pods, self.nodes = self.informers.of(r.PODS), self.informers.of(r.NODES)
        self._by_node = self.informers.index(
            r.PODS, "spec.nodeName", lambda pod: [name] if (name := dig(pod, "spec", "nodeName")) else []
        )
        self._deployed = (self.informers.of(r.DAEMONSETS), self.informers.of(r.DEPLOYMENTS))
        self.follow(r.DAEMONSETS, self._handler)
        self.follow(r.DEPLOYMENTS, self._handler)
        self.follow(r.PODS, self._pod)
        self.cloud.listeners.append(self._instance)
        self.cloud.queue.copies.append(self._queue)
        self._unsubscribe = self._queue.subscribe(self._message)

    def stop(self) -> None:
        """Stop; what it cordoned stays so."""
        super().stop()
        self._unsubscribe()
        if self._instance in self.cloud.listeners:
            self.cloud.listeners.remove(self._instance)
            self.cloud.queue.copies.remove(self._queue)

    # -- when to look --------------------------------------------------------------------------------------
    def _handler(self, _change: Change, _old: Obj | None, new: Obj) -> list[tuple[str, str]]:
        return self._looks() if labels_of(new).get("app.kubernetes.io/name") == NAME else []

    def _pod(self, _change: Change, _old: Obj | None, new: Obj) -> list[tuple[str, str]]:
        node = dig(new, "spec", "nodeName", default="")
        draining = any(one.node == node and one.until for one in self._notices.values())
        return [("drain", node)] if draining else self._looks() if self._settings_of(new) else []

    def _instance(self, instance: Instance, _before: str) -> None:
        if instance.node_name and instance.state not in GONE and (instance.notice or instance.rebalance):
            self._later(("metadata", instance.node_name), POLL_S)

    def _message(self, body: str) -> None:
        if any(one.queue_mode for one in self._handlers()):
            self._messages.append(body)
            self._later(("queue", ""), POLL_S)

    def _looks(self) -> list[tuple[str, str]]:
        """Whoever runs only now finds what metadata and queue say already."""
        for one in self.cloud.instances.values():
            self._instance(one, one.state)
        if self._messages:
            self._later(("queue", ""), POLL_S)
        return []

    def _later(self, key: tuple[str, str], every_s: float) -> None:
        now = self.loop.monotonic()
        self.queue.add(key, (math.floor(now / every_s) + 1) * every_s - now)

    # -- who is there --------------------------------------------------------------------------------------
    def _handlers(self) -> Iterator[Settings]:
        for informer in self._deployed:
            for workload in informer.values():
                if labels_of(workload).get("app.kubernetes.io/name") == NAME:
                    containers = dig(workload, "spec", "template", "spec", "containers", default=[{}])
                    env = {one["name"]: str(one.get("value", "")) for one in containers[0].get("env") or ()}
                    yield Settings(workload, env)

    def _settings_of(self, pod: Obj) -> Settings | None:
        for one in self._handlers():
            selector = selectors.from_match_labels(one.workload["spec"].get("selector"))
            if namespace_of(pod) == namespace_of(one.workload) and selector.matches(labels_of(pod)):
                return one
        return None

    def _running(self, node: str, *, queue_mode: bool) -> Settings | None:
        """The handler that looks after a node: its own pod's, or whichever reads the queue."""
        for pod in self._by_node.get(node) if not queue_mode else self.pods.values():
            if dig(pod, "status", "phase") != "Running" or is_terminating(pod):
                continue
            found = self._settings_of(pod)
            if found is not None and found.queue_mode == queue_mode:
                return found
        return None

    # -- what is said --------------------------------------------------------------------------------------
    def reconcile(self, key: tuple[str, str]) -> None:
        """Poll one node's metadata or the queue, act on what is due, or go on draining one node."""
        kind, name = key
        if kind == "metadata":
            self._poll_metadata(name)
        elif kind == "queue":
            self._poll_queue()
        elif kind == "act":
            self._act()
        else:
            self._drain(name)

    def _poll_metadata(self, node: str) -> None:
        instance, settings = self.cloud.of(node), self._running(node, queue_mode=False)
        if instance is None or instance.state in GONE or settings is None or not instance.metadata_tells:
            return
        if instance.type.provider != "aws":  # it asks EC2's paths, and another cloud's metadata has none of them
            return
        if self.cloud.metadata_blocked:
            self.cloud.metadata_unheard.append(f"{NAME} on {node}")
            return
        if instance.notice is not None and settings.on("ENABLE_SPOT_INTERRUPTION_DRAINING", True):
            when = f"{instance.notice:%Y-%m-%dT%H:%M:%SZ}"
            self._note(
                "spot-itn",
                f"terminate {when}",
                node,
                instance.notice - timedelta(seconds=settings.grace_s),
                f"Spot ITN received. Instance will be interrupted at {when} \n",
                True,
            )
        draining = settings.on("ENABLE_REBALANCE_DRAINING", False)
        if instance.rebalance is not None and (settings.on("ENABLE_REBALANCE_MONITORING", False) or draining):
            when = f"{instance.rebalance:%Y-%m-%dT%H:%M:%SZ}"
            self._note(
                "rebalance-recommendation",
                when,
                node,
                instance.rebalance,
                f"Rebalance recommendation received. Instance will be cordoned at {when} \n",
                draining,
            )

    def _poll_queue(self) -> None:
        waiting, self._messages = self._messages, []
        settings = self._running("", queue_mode=True)
        if settings is None:  # nobody reads: they stay in the queue
            self._messages = waiting
            return
        for body in waiting:
            self._read(settings, body)

    def _read(self, settings: Settings, body: str) -> None:
        """One message. What means nothing, or is about a machine that is none of its own, is deleted."""
        try:
            event: dict[str, Any] = json.loads(body)
        except ValueError:
            return
        detail = event.get("detail") or {}
        kind = _DETAILS.get((str(event.get("source")), str(event.get("detail-type"))), "")
        instance = self.cloud.instances.get(str(detail.get("instance-id") or detail.get("EC2InstanceId")))
        if not kind or instance is None or not instance.node_name:
            return
        state = str(detail.get("state", ""))
        if kind == "ec2-state-change-event" and state not in _ENDING:
            return
        tag = settings.env.get("MANAGED_TAG", f"{NAME}/managed")
        if settings.on("CHECK_TAG_BEFORE_DRAINING", True) and tag not in instance.tags:
            return
        when = str(event.get("time", ""))
        said = {
            "spot-itn": f"Spot Interruption notice for instance {instance.instance_id} was sent at {when} \n",
            "rebalance-recommendation": f"Rebalance recommendation event received. Instance {instance.instance_id} "
            f"will be cordoned at {when} \n",
            "ec2-state-change-event": f"EC2 State Change event received. Instance {instance.instance_id} went into "
            f"{state} at {when} \n",
            "asg-lifecycle-term": "ASG Lifecycle Termination event received. Instance will be interrupted at "
            f"{when} \n",
        }[kind]
        begins = parse_time(when) if when else self.loop.now()
        action = detail if kind == "asg-lifecycle-term" else None
        self._note(kind, str(event.get("id")), instance.node_name, begins, said, True, message=body, action=action)

    def _note(  # noqa: PLR0917 - one event, told in full
        self,
        kind: str,
        identity: str,
        node: str,
        begins: datetime,
        description: str,
        drains: bool,
        *,
        message: str = "",
        action: Mapping[str, Any] | None = None,
    ) -> None:
        event_id = f"{kind}-{hashlib.sha256(identity.encode()).hexdigest()}"
        if event_id in self._notices or event_id in self._done:
            return
        self._notices[event_id] = Notice(event_id, kind, node, begins, description, drains, message, action)
        left = (begins - self.loop.now()).total_seconds()
        self._later(("act", ""), ACT_S) if left <= 0 else self.queue.add(("act", ""), left)

    # -- what is done --------------------------------------------------------------------------------------
    def _act(self) -> None:
        now = self.loop.now()
        for notice in list(self._notices.values()):
            if notice.until is None and notice.begins <= now:
                self._begin(notice)

    def _begin(self, notice: Notice) -> None:
        settings = self._running(notice.node if not notice.message else "", queue_mode=bool(notice.message))
        if settings is None:
            return
        self._emit(settings, notice.node, "Normal", _REASONS[notice.kind], notice.description)
        node = self.nodes.get(notice.node)
        if node is None:
            self._failed(notice)
            return
        try:
            self._taint(settings, node, notice)
            if not dig(node, "spec", "unschedulable"):
                self.kube.patch(r.NODES, notice.node, {"spec": {"unschedulable": True}})
        except KubeError as error:
            self._emit(
                settings,
                notice.node,
                "Warning",
                "CordonError",
                f"There was a problem while trying to cordon the node: {error}",
            )
            self._failed(notice)
            return
        if settings.on("CORDON_ONLY", False) or not notice.drains:
            self._emit(settings, notice.node, "Normal", "Cordon", "Node successfully cordoned")
            self._processed(settings, notice)
            return
        local = (
            []
            if settings.on("DELETE_LOCAL_DATA", True)
            else [
                f"{namespace_of(pod)}/{name_of(pod)}"
                for pod in self._moving(notice.node, settings)
                if any("emptyDir" in one for one in dig(pod, "spec", "volumes", default=()))
            ]
        )
        if local:
            self._give_up(
                settings,
                notice,
                f"cannot delete Pods with local storage (use --delete-emptydir-data to override): {', '.join(local)}",
            )
            return
        notice.until = self.loop.now() + timedelta(seconds=settings.grace_s)
        self.queue.add(("drain", notice.node))

    def _taint(self, settings: Settings, node: Obj, notice: Notice) -> None:
        key = _TAINTS.get(notice.kind)
        taints = dig(node, "spec", "taints", default=[])
        if not settings.on("TAINT_NODE", False) or key is None or any(one["key"] == key for one in taints):
            return
        taint = {"key": key, "value": notice.event_id[:63], "effect": settings.env.get("TAINT_EFFECT", "NoSchedule")}
        self.kube.patch(
            r.NODES,
            name_of(node),
            {
                "metadata": {"resourceVersion": node["metadata"]["resourceVersion"]},
                "spec": {"taints": [*taints, taint]},
            },
        )

    def _drain(self, node: str) -> None:
        """Evict what is left; done when nothing is, or when the time is up."""
        for notice in [one for one in self._notices.values() if one.node == node and one.until]:
            settings = self._running(node if not notice.message else "", queue_mode=bool(notice.message))
            if settings is None or notice.until is None:  # the handler itself has gone
                self._notices.pop(notice.event_id, None)
                continue
            left = self._moving(node, settings)
            if not left or self.nodes.get(node) is None:
                self._emit(settings, node, "Normal", "CordonAndDrain", "Node successfully cordoned and drained")
                self._processed(settings, notice)
            elif self.loop.now() >= notice.until:
                names = ", ".join(f'"{name_of(pod)}" -n "{namespace_of(pod)}"' for pod in left)
                self._give_up(
                    settings,
                    notice,
                    f"error when evicting pods {names}: global timeout reached: {_go(settings.grace_s)}",
                )
            else:
                refused = [pod for pod in left if not is_terminating(pod) and not self._evict(pod)]
                due_s = (notice.until - self.loop.now()).total_seconds()
                self.queue.add(("drain", node), min(RETRY_S, due_s) if refused else due_s)

    def _evict(self, pod: Obj) -> bool:
        try:
            self.kube.evict(name_of(pod), namespace_of(pod))
        except (TooManyRequests, ApiError) as error:
            return isinstance(error, NotFound)
        return True

    def _moving(self, node: str, settings: Settings) -> list[Obj]:
        """What a drain evicts: not DaemonSets' pods, not static ones, not the handler itself."""
        own = {key_of(pod) for pod in self._by_node.get(node) if self._settings_of(pod) is not None}
        return [
            pod
            for pod in self._by_node.get(node)
            if not is_mirror(pod)
            and key_of(pod) not in own
            and not (is_daemon(pod) and settings.on("IGNORE_DAEMON_SETS", True))
        ]

    def _processed(self, settings: Settings, notice: Notice) -> None:
        """The node is done with, whatever else was said of it; a hook that waits for it is told."""
        if notice.action is not None:
            try:
                self.cloud.hooks.complete(notice.action)
            except CloudError as error:
                self._emit(
                    settings,
                    notice.node,
                    "Warning",
                    "PostDrainError",
                    f"There was a problem executing the post-drain task: {error}",
                )
            else:
                self._emit(settings, notice.node, "Normal", "PostDrain", "Post-drain task successfully executed")
        for one in [one for one in self._notices.values() if one.node == notice.node]:
            self._done.add(one.event_id)
            del self._notices[one.event_id]

    def _give_up(self, settings: Settings, notice: Notice, why: str) -> None:
        self._emit(
            settings,
            notice.node,
            "Warning",
            "CordonAndDrainError",
            f"There was a problem while trying to cordon and drain the node: {why}",
        )
        self._failed(notice)

    def _failed(self, notice: Notice) -> None:
        """Forget the event: the next poll of metadata finds it again; a message comes back once it is visible."""
        self._notices.pop(notice.event_id, None)
        if notice.message:
            self.loop.call_later(VISIBILITY_S, self._message, notice.message)
        else:
            self._later(("metadata", notice.node), POLL_S)

    def _emit(self, settings: Settings, node: str, kind: str, reason: str, message: str) -> None:
        found = self.nodes.get(node)
        if found is not None and settings.on("EMIT_KUBERNETES_EVENTS", False):
            self.events.emit(found, kind, reason, message)


def _go(seconds: float) -> str:
    minutes, rest = divmod(int(seconds), 60)
    return f"{minutes}m{rest}s" if minutes else f"{rest}s"
