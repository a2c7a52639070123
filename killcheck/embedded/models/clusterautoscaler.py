"""A model of the cluster autoscaler over the node groups of :mod:`killcheck.embedded.models.nodegroups`.

Settings are keys of the same ConfigMap, named as its flags are: ``scale-down-enabled`` (true),
``scale-down-unneeded-time`` (10m), ``scale-down-delay-after-add`` (10m), ``scale-down-utilization-threshold`` (0.5),
``scan-interval`` (10s), ``max-graceful-termination-sec`` (600).

Source: kubernetes/autoscaler cluster-autoscaler core/scaledown, utils/drain, processors/status (2026). It looks every
scan interval; here it looks at the next such moment after something changed, or when a node's time is up. Left out:
balancing, expanders other than the first group that fits, scale-down of several nodes with pods at once.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import ClassVar

from killcheck.embedded.controllers.runtime import Controller
from killcheck.embedded.models.cloud import Cloud
from killcheck.embedded.models.cloud_errors import CloudError
from killcheck.embedded.models.cloudnodes import node_object
from killcheck.embedded.models.instance import Instance
from killcheck.embedded.models.karpenter.conditions import is_true
from killcheck.embedded.models.karpenter.packing import Existing
from killcheck.embedded.models.karpenter.pods import (
    alternatives,
    is_active,
    is_daemon,
    is_mirror,
    is_provisionable,
    is_terminal,
    requests,
)
from killcheck.embedded.models.nodegroups import GROUP_TAG, SELECTOR, NodeGroup
from killcheck.instances.amounts import amounts, total
from killcheck.kube import resources as r
from killcheck.kube.errors import ApiError, NotFound, TooManyRequests
from killcheck.kube.informer import Change
from killcheck.kube.objects import (
    Obj,
    annotations_of,
    controller_of,
    dig,
    labels_of,
    name_of,
    namespace_of,
    uid_of,
)
from killcheck.text.durations import parse_duration

__all__ = ["ClusterAutoscaler"]

TO_BE_DELETED = "ToBeDeletedByClusterAutoscaler"
CANDIDATE = "DeletionCandidateOfClusterAutoscaler"
SCALE_DOWN_DISABLED = "cluster-autoscaler.kubernetes.io/scale-down-disabled"
SAFE_TO_EVICT = "cluster-autoscaler.kubernetes.io/safe-to-evict"
#: Evictions of one drain are tried for this long, at this interval (MaxPodEvictionTime, EvictionRetryTime).
EVICTION_S, EVICTION_RETRY_S = 120.0, 10.0

_SCAN = ("", "scan")


@dataclass(eq=False, repr=False)
class ClusterAutoscaler(Controller):
    """Grows groups for pending pods; shrinks them, down to their floors, when nodes are unneeded for long enough."""

    cloud: Cloud

    name: ClassVar[str] = "cluster-autoscaler"
    takes: ClassVar[tuple[str, ...]] = ("cloud",)

    def setup(self) -> None:
        """Follow what a scan looks at."""
        self._unneeded: dict[str, datetime] = {}
        self._draining: dict[str, datetime] = {}
        self._added: datetime | None = None
        self._told: set[str] = set()
        self.configs = self.informers.of(r.CONFIGMAPS)
        self.pods, self.nodes = self.informers.of(r.PODS), self.informers.of(r.NODES)
        self.follow(r.CONFIGMAPS, self._config)
        self.follow(r.PODS, self._pod)
        self.follow(r.NODES, self._node)
        self._by_node = self.informers.index(
            r.PODS, "spec.nodeName", lambda pod: [name] if (name := dig(pod, "spec", "nodeName")) else []
        )

    def reconcile(self, key: tuple[str, str]) -> None:
        """One scan, or one step of a drain."""
        if key[0] == "drain":
            self._drain(key[1])
            return
        if not self.cloud.groups:
            return
        if not self._scale_up():
            self._scale_down()

    # -- when to look --------------------------------------------------------------------------------------
    def _pod(self, change: Change, old: Obj | None, new: Obj) -> list[tuple[str, str]]:
        if not self.cloud.groups:
            return []
        if (
            change != "modified"
            or old is None
            or is_active(old) != is_active(new)
            or (dig(old, "spec", "nodeName") != dig(new, "spec", "nodeName"))
            or (is_provisionable(old) != is_provisionable(new))
            or annotations_of(old) != annotations_of(new)
        ):
            self._scan_soon()
        node = dig(new, "spec", "nodeName")
        return [("drain", node)] if node in self._draining else []

    def _node(self, change: Change, old: Obj | None, new: Obj) -> list[tuple[str, str]]:
        if change == "deleted":
            self._unneeded.pop(name_of(new), None)
            self._draining.pop(name_of(new), None)
        if not self.cloud.groups:
            return []
        if (
            change != "modified"
            or old is None
            or is_true(old, "Ready") != is_true(new, "Ready")
            or (annotations_of(old) != annotations_of(new))
        ):
            self._scan_soon()
        return []

    def _config(self, _change: Change, _old: Obj | None, new: Obj) -> list[tuple[str, str]]:
        if labels_of(new).get(SELECTOR) == "true":
            self._scan_soon()
        return []

    def _scan_soon(self, at_least_s: float = 0.0) -> None:
        interval_s = self._seconds("scan-interval", 10.0)
        now = self.loop.monotonic()
        turn = (math.floor((now + at_least_s) / interval_s) + 1) * interval_s
        self.queue.add(_SCAN, turn - now)

    # -- settings ------------------------------------------------------------------------------------------
    def _settings(self) -> Mapping[str, str]:
        for config in self.configs.values():
            if labels_of(config).get(SELECTOR) == "true":
                return dig(config, "data", default={})  # type: ignore[no-any-return]
        return {}

    def _seconds(self, name: str, default: float) -> float:
        text = self._settings().get(name)
        return parse_duration(text) if text else default

    # -- up ------------------------------------------------------------------------------------------------
    def _scale_up(self) -> bool:
        """Make room for the pods that have none; answers whether a group grew."""
        room = [*self._rooms(), *self._upcoming()]
        grown: dict[str, list[Obj]] = {}
        for pod in sorted(self._pending(), key=uid_of):
            wanted, needs = list(alternatives(pod["spec"])), requests(pod["spec"])
            if any(one.take(pod, needs, wanted) for one in room):
                continue
            for group in self.cloud.groups.values():
                fresh = self._template(group)
                planned = group.desired + len([one for one in room if one.name == group.name])
                if planned < group.maximum and fresh.take(pod, needs, wanted):
                    room.append(fresh)
                    grown.setdefault(group.name, []).append(pod)
                    break
            else:
                self._refuse(pod, needs)
        for name, pods in grown.items():
            self._grow(self.cloud.groups[name], sum(1 for one in room if one.name == name), pods)
        return bool(grown)

    def _grow(self, group: NodeGroup, by: int, pods: Iterable[Obj]) -> None:
        before, group.desired = group.desired, group.desired + by
        self._added = self.loop.now()
        for pod in pods:
            self.events.emit(
                pod,
                "Normal",
                "TriggeredScaleUp",
                f"pod triggered scale-up: [{{{group.name} {before}->{group.desired} (max: {group.maximum})}}]",
            )
        for listener in self.cloud.group_listeners:
            listener(group.name)

    def _refuse(self, pod: Obj, needs: Mapping[str, float]) -> None:
        if uid_of(pod) in self._told:
            return
        self._told.add(uid_of(pod))
        reasons: dict[str, int] = {}
        for group in self.cloud.groups.values():
            free = self._template(group).free
            lacking = [name for name, value in needs.items() if value > free.get(name, 0.0)]
            full = group.desired >= group.maximum
            why = (
                f"Insufficient {lacking[0]}"
                if lacking
                else ("max node group size reached" if full else "node(s) didn't match Pod's node affinity/selector")
            )
            reasons[why] = reasons.get(why, 0) + 1
        spelt = ", ".join(f"{count} {why}" for why, count in sorted(reasons.items()))
        self.events.emit(pod, "Normal", "NotTriggerScaleUp", f"pod didn't trigger scale-up: {spelt}")

    def _pending(self) -> list[Obj]:
        return [pod for pod in self.pods.values() if is_provisionable(pod)]

    def _template(self, group: NodeGroup) -> Existing:
        """A node of a group before there is one."""
        kind = self.cloud.catalogue.get(group.instance_type)
        if kind is None:
            return Existing(group.name, {}, (), {})
        sample = Instance(
            "i-template",
            kind,
            group.zone(self.cloud),
            group.capacity_type,
            self.loop.now(),
            "template",
            node={"labels": group.labels_of_nodes(self.cloud)},
        )
        node = node_object(sample, "template", self.informers.release.version)
        return Existing(group.name, labels_of(node), group.taints, amounts(node["status"]["allocatable"]))

    def _rooms(self, without: str = "") -> list[Existing]:
        """What is free on the nodes that are ready and stay."""
        return [
            Existing(name_of(node), labels_of(node), dig(node, "spec", "taints", default=()), self._free(node))
            for node in self.nodes.values()
            if is_true(node, "Ready")
            and not dig(node, "spec", "unschedulable")
            and name_of(node) != without
            and name_of(node) not in self._draining
        ]

    def _upcoming(self) -> list[Existing]:
        """Nodes that groups are still to bring."""
        found = []
        for group in self.cloud.groups.values():
            ready = sum(
                1
                for one in group.members(self.cloud)
                if (node := self.nodes.get(one.node_name)) is not None and is_true(node, "Ready")
            )
            for _ in range(group.desired - ready):
                fresh = self._template(group)
                fresh.name = f"upcoming {group.name}"
                found.append(fresh)
        return found

    def _free(self, node: Obj) -> dict[str, float]:
        used = total(requests(pod["spec"]) for pod in self._by_node.get(name_of(node)) if not is_terminal(pod))
        return {
            name: value - used.get(name, 0.0) for name, value in amounts(dig(node, "status", "allocatable")).items()
        }

    # -- down ----------------------------------------------------------------------------------------------
    def _scale_down(self) -> None:
        """Note what is unneeded since when; remove what has been for long enough."""
        if self._settings().get("scale-down-enabled", "true") == "false":
            return
        now, due_s = self.loop.now(), self._seconds("scale-down-unneeded-time", 600.0)
        for name in [one for one in self._unneeded if self.nodes.get(one) is None]:
            del self._unneeded[name]
        cool = (
            self._added + timedelta(seconds=self._seconds("scale-down-delay-after-add", 600.0)) if self._added else now
        )
        for node in sorted(self.nodes.values(), key=name_of):
            group = self._group_of(node)
            if group is None or name_of(node) in self._draining:
                continue
            if not self._is_unneeded(node):
                self._unneeded.pop(name_of(node), None)
                continue
            since = self._unneeded.setdefault(name_of(node), now)
            ready_at = max(since + timedelta(seconds=due_s), cool)
            if ready_at > now:
                self._scan_soon((ready_at - now).total_seconds() - 0.001)
            elif group.desired - self._leaving(group) > group.minimum:
                self._remove(node)

    def _leaving(self, group: NodeGroup) -> int:
        nodes = [self.nodes.get(name) for name in self._draining]
        return sum(1 for node in nodes if node is not None and self._group_of(node) is group)

    def _group_of(self, node: Obj) -> NodeGroup | None:
        instance = self.cloud.by_provider_id(dig(node, "spec", "providerID", default=""))
        return self.cloud.groups.get(instance.tags.get(GROUP_TAG, "")) if instance else None

    def _is_unneeded(self, node: Obj) -> bool:
        """Little used, nothing on it that forbids eviction, and room elsewhere for what would have to move."""
        if annotations_of(node).get(SCALE_DOWN_DISABLED) == "true" or not is_true(node, "Ready"):
            return False
        if self._utilization(node) >= float(self._settings().get("scale-down-utilization-threshold", "0.5")):
            return False
        moving = self._moving(node)
        if any(self._blocks(pod) for pod in moving):
            return False
        rooms = self._rooms(without=name_of(node))
        return all(
            any(room.take(pod, requests(pod["spec"]), list(alternatives(pod["spec"]))) for room in rooms)
            for pod in moving
        )

    def _moving(self, node: Obj) -> list[Obj]:
        """The pods that would have to run elsewhere."""
        return [
            pod
            for pod in self._by_node.get(name_of(node))
            if not is_daemon(pod) and not is_mirror(pod) and not is_terminal(pod)
        ]

    def _utilization(self, node: Obj) -> float:
        """The fuller of cpu and memory; of a node with GPUs, their share alone."""
        held = amounts(dig(node, "status", "allocatable"))
        used = total(requests(pod["spec"]) for pod in self._moving(node))
        gpus = [name for name in held if name.endswith("/gpu") and held[name]]
        counted = gpus or ["cpu", "memory"]
        return max((used.get(name, 0.0) / held[name] for name in counted if held.get(name)), default=0.0)

    def _blocks(self, pod: Obj) -> bool:
        """Whether the pod keeps its node (utils/drain): unsafe to evict, bare, of kube-system, with local storage."""
        safe = annotations_of(pod).get(SAFE_TO_EVICT)
        if safe is not None:
            return safe == "false"
        local = any("emptyDir" in one or "hostPath" in one for one in dig(pod, "spec", "volumes", default=()))
        return controller_of(pod) is None or local or namespace_of(pod) == "kube-system"

    def _remove(self, node: Obj) -> None:
        """Mark a node, then drain and delete it."""
        name = name_of(node)
        stamp = str(int(self.loop.now().timestamp()))
        taints = [t for t in dig(node, "spec", "taints", default=()) if t["key"] != CANDIDATE]
        taints.append({"key": TO_BE_DELETED, "value": stamp, "effect": "NoSchedule"})
        self.kube.patch(
            r.NODES,
            name,
            {"metadata": {"resourceVersion": node["metadata"]["resourceVersion"]}, "spec": {"taints": taints}},
        )
        self.events.emit(node, "Normal", "ScaleDown", "marked the node as toBeDeleted/unschedulable")
        self._unneeded.pop(name, None)
        self._draining[name] = self.loop.now()
        self.queue.add(("drain", name))

    def _drain(self, name: str) -> None:
        """Evict what is left; once nothing is, terminate the instance; after too long give up."""
        node, began = self.nodes.get(name), self._draining.get(name)
        if node is None or began is None:
            self._draining.pop(name, None)
            return
        left = self._moving(node)
        if not left:
            self._delete(node)
            return
        longest_s = float(self._settings().get("max-graceful-termination-sec", "600"))
        passed_s = (self.loop.now() - began).total_seconds()
        waiting = [pod for pod in left if is_active(pod)]
        if passed_s > (EVICTION_S if waiting else EVICTION_S + longest_s):
            self._give_up(node)
            return
        for pod in waiting:
            try:
                self.kube.evict(name_of(pod), namespace_of(pod))
            except (TooManyRequests, NotFound):
                continue
            except ApiError:
                self._give_up(node)
                return
            self.events.emit(pod, "Normal", "ScaleDown", "deleting pod for node scale down")
        self.queue.add(("drain", name), EVICTION_RETRY_S)

    def _delete(self, node: Obj) -> None:
        """Terminate the instance and make the group smaller, in one call."""
        instance = self.cloud.by_provider_id(dig(node, "spec", "providerID", default=""))
        group = self._group_of(node)
        try:
            if instance is not None:
                self.cloud.hooks.terminate(
                    instance, group.name if group else "", group.hook if group else None, by="cluster-autoscaler"
                )
        except CloudError as error:
            self.events.emit(node, "Warning", "ScaleDownFailed", f"failed to delete the node: {error}")
            self._give_up(node)
            return
        if group is not None:
            group.desired -= 1
        self._draining.pop(name_of(node), None)
        self.events.emit(node, "Normal", "ScaleDown", "node removed by cluster autoscaler")

    def _give_up(self, node: Obj) -> None:
        """Take the taint off; the group keeps its size."""
        self._draining.pop(name_of(node), None)
        taints = [t for t in dig(node, "spec", "taints", default=()) if t["key"] != TO_BE_DELETED]
        self.kube.patch(r.NODES, name_of(node), {"spec": {"taints": taints or None}})
        self.events.emit(node, "Warning", "ScaleDownFailed", "failed to drain the node, aborting ScaleDown")
