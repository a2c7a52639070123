"""What the cloud tells Karpenter, and what Karpenter finds out by itself: interruption messages, garbage collection.

Source: karpenter-provider-aws pkg/controllers/{interruption,nodeclaim/garbagecollection} and sigs.k8s.io/karpenter
pkg/controllers/nodeclaim/garbagecollection, v1.14. Every message is deleted once read, also those that mean nothing.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from typing import Any

from killcheck.embedded.models.cloud_errors import CloudError
from killcheck.embedded.models.instance import GONE, Instance
from killcheck.embedded.models.karpenter import names as n
from killcheck.embedded.models.karpenter.conditions import is_true
from killcheck.embedded.models.karpenter.state import Part
from killcheck.kube import resources as r
from killcheck.kube.errors import KubeError
from killcheck.kube.informer import Change
from killcheck.kube.objects import Obj, dig, labels_of, name_of

__all__ = ["GarbageCollection", "Interruption", "instance_ids"]

#: (event type, reason, message) by what a message means; all but the last drain.
_SPOT = ("Warning", "SpotInterrupted", "Spot interruption warning was triggered")
_RESERVATION = (
    "Warning",
    "CapacityReservationInstanceInterrupted",
    "Capacity Reservation interruption warning was triggered",
)
_UNHEALTHY = ("Warning", "InstanceUnhealthy", "An unhealthy warning was triggered for the instance")
_STOPPING = ("Warning", "InstanceStopping", "Instance is stopping")
_TERMINATING = ("Warning", "InstanceTerminating", "Instance is terminating")
_REBALANCE = ("Normal", "SpotRebalanceRecommendation", "Spot rebalance recommendation was triggered")

#: How often Karpenter compares the cloud's instances with its NodeClaims.
COLLECT_S = 120.0
#: An instance without a NodeClaim younger than this may be one that is just being launched.
YOUNG_S = 30.0


def _meaning(message: Mapping[str, Any]) -> tuple[str, str, str] | None:
    """What a message means; None for one that Karpenter deletes silently. Keyed as Karpenter's parsers are."""
    key = (message.get("version"), message.get("source"), message.get("detail-type"))
    detail = message.get("detail") or {}
    if key == ("0", "aws.ec2", "EC2 Spot Instance Interruption Warning"):
        return _SPOT
    if key == ("0", "aws.ec2", "EC2 Capacity Reservation Instance Interruption Warning"):
        return _RESERVATION
    if key == ("0", "aws.ec2", "EC2 Instance Rebalance Recommendation"):
        return _REBALANCE
    if key == ("0", "aws.ec2", "EC2 Instance State-change Notification"):
        return {
            "stopping": _STOPPING,
            "stopped": _STOPPING,
            "shutting-down": _TERMINATING,
            "terminated": _TERMINATING,
        }.get(str(detail.get("state", "")).lower())
    if key == ("0", "aws.health", "AWS Health Event"):
        scheduled = detail.get("service") == "EC2" and detail.get("eventTypeCategory") == "scheduledChange"
        return _UNHEALTHY if scheduled else None
    return None


def instance_ids(message: Mapping[str, Any]) -> list[str]:
    """The instances that a message is about."""
    detail = message.get("detail") or {}
    entities = [str(one.get("entityValue", "")) for one in detail.get("affectedEntities") or ()]
    return entities or [str(detail.get("instance-id", ""))]


class Interruption(Part):
    """Reads the interruption queue."""

    def setup(self) -> None:
        """Subscribe to the queue."""
        assert self.state is not None
        self._unsubscribe: Callable[[], None] = self.state.cloud.queue.subscribe(self._receive)

    def stop(self) -> None:
        """Leave the messages where they are."""
        super().stop()
        self._unsubscribe()

    def reconcile(self, key: tuple[str, str]) -> None:
        """Nothing is reconciled: messages are."""

    def _receive(self, body: str) -> None:
        try:
            message = json.loads(body)
        except ValueError:
            return
        meaning = _meaning(message) if isinstance(message, dict) else None
        if meaning is None:
            return
        for instance_id in instance_ids(message):
            try:
                self._handle(meaning, instance_id)
            except KubeError:
                # Not handled: it becomes visible again, as an SQS message does.
                assert self.state is not None
                self.state.cloud.queue.send(body)

    def _handle(self, meaning: tuple[str, str, str], instance_id: str) -> None:
        assert self.state is not None
        state = self.state
        for claim in state.claims.values():
            if dig(claim, "status", "providerID", default="").rpartition("/")[2] != instance_id:
                continue
            node = state.node_of(claim)
            for about in (claim, node):
                if about is not None:
                    state.events.publish(about, *meaning)
            if meaning == _SPOT:
                labels = labels_of(claim)
                state.mark_unavailable(labels.get(n.INSTANCE_TYPE, ""), "spot", labels.get(n.ZONE, ""))
            if meaning == _REBALANCE or dig(claim, "metadata", "deletionTimestamp"):
                continue
            state.delete_claim(claim)
            for about, word in ((claim, "NodeClaim"), (node, "Node")):
                if about is not None:
                    state.events.publish(
                        about,
                        "Warning",
                        "TerminatingOnInterruption",
                        f"Interruption triggered termination for the {word}",
                    )


class GarbageCollection(Part):
    """NodeClaims whose instance is gone, and Karpenter's own instances that no NodeClaim stands for."""

    def setup(self) -> None:
        """Follow the cloud, claims and nodes."""
        assert self.state is not None
        self.state.cloud.listeners.append(self._instance)
        self.follow(r.NODECLAIMS, self._claim, optional=True)
        self.follow(r.NODES, self._node)

    def stop(self) -> None:
        """Stop following."""
        super().stop()
        if self._instance in self.state.cloud.listeners:
            self.state.cloud.listeners.remove(self._instance)

    def _instance(self, instance: Instance, _before: str) -> None:
        if instance.state in GONE:
            self._collect_soon()

    def _claim(self, change: Change, _old: Obj | None, _new: Obj) -> list[tuple[str, str]]:
        if change == "deleted":
            self._collect_soon()
        return []

    def _node(self, change: Change, old: Obj | None, new: Obj) -> list[tuple[str, str]]:
        if change == "deleted" or (old is not None and is_true(old, "Ready") and not is_true(new, "Ready")):
            self._collect_soon()
        return []

    def _collect_soon(self) -> None:
        now = self.loop.monotonic()
        self.queue.add(("", "collect"), (math.floor(now / COLLECT_S) + 1) * COLLECT_S - now)

    def reconcile(self, key: tuple[str, str]) -> None:
        """One comparison."""
        assert self.state is not None
        state, again = self.state, False
        standing = {dig(claim, "status", "providerID") for claim in state.claims.values()}
        for claim in state.claims.values():
            instance = state.cloud.by_provider_id(dig(claim, "status", "providerID", default=""))
            lost = instance is None or instance.state in GONE
            if not lost or not is_true(claim, "Registered") or dig(claim, "metadata", "deletionTimestamp"):
                continue
            node = state.node_of(claim)
            if node is not None and is_true(node, "Ready"):
                again = True
            else:
                state.delete_claim(claim)
        for instance in state.cloud.billed():
            if n.NODEPOOL not in instance.tags or instance.state in GONE or instance.provider_id in standing:
                continue
            if (self.loop.now() - instance.launched).total_seconds() <= YOUNG_S:
                again = True
                continue
            again |= not self._collect(instance)
        if again:
            self._collect_soon()

    def _collect(self, instance: Instance) -> bool:
        assert self.state is not None
        try:
            self.state.cloud.terminate(instance.instance_id, by="karpenter/garbage-collection")
        except CloudError:
            return False
        for node in self.state.nodes.values():
            if dig(node, "spec", "providerID") == instance.provider_id:
                self.kube.delete(r.NODES, name_of(node))
        return True
