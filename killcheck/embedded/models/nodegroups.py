"""Node groups outside Karpenter: Auto Scaling groups with floors, as one ConfigMap describes them.

A ConfigMap with the label ``killcheck.dev/node-groups: "true"``, in any namespace, declares groups under
``data.groups``, a YAML list. Only ``name`` and ``instanceType`` are compulsory; sizes default as shown::

    - name: gpu
      instanceType: p4d.24xlarge
      min: 0              # the floor: the group never has fewer, whatever pods want
      max: 10
      desired: 0          # at the start (default: min); afterwards the cloud's
      capacityType: on-demand
      fixed: false        # whether nothing scales it (a pool of GKE or AKS without an autoscaler)
      zones: [us-east-1a] # where its machines are launched, by turns (default: the cloud's first)
      labels: {pool: gpu}
      taints: [{key: nvidia.com/gpu, value: "true", effect: NoSchedule}]
      tags: {aws-node-termination-handler/managed: ""}    # propagated to its instances
      lifecycleHook: {name: drain, heartbeatTimeout: 600} # what it ends waits so long, or until somebody lets it go

A group replaces what it loses: an instance terminated by anything but a scale-in comes back. The cluster autoscaler
beside it is in :mod:`killcheck.embedded.models.clusterautoscaler`; its settings are further keys of the same ConfigMap.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from msgspec import Struct

from killcheck.embedded.controllers.runtime import Controller
from killcheck.embedded.models.cloud import Cloud
from killcheck.embedded.models.cloud_errors import CloudError
from killcheck.embedded.models.instance import GONE, Instance
from killcheck.embedded.models.lifecyclehooks import WAITING, Hook
from killcheck.kube import resources as r
from killcheck.kube.informer import Change
from killcheck.kube.objects import Obj, dig, labels_of, name_of, namespace_of
from killcheck.text.yamlfile import YamlError, documents

__all__ = ["GROUP_TAG", "SELECTOR", "NodeGroup", "NodeGroups", "read_groups"]

#: What marks the ConfigMap.
SELECTOR = "killcheck.dev/node-groups"
#: The tag that says which group an instance belongs to.
GROUP_TAG = "aws:autoscaling:groupName"
#: An Auto Scaling group looks at itself this long after something happened to it, and retries a failed launch.
REACTION_S = 20.0
RETRY_S = 60.0


class NodeGroup(Struct):
    """One group. ``desired`` is its target size, between ``minimum`` and ``maximum``; ``fixed``: nothing scales it."""

    name: str
    instance_type: str
    minimum: int = 0
    maximum: int = 10
    desired: int = 0
    capacity_type: str = "on-demand"
    labels: dict[str, str] = {}
    taints: list[Obj] = []
    tags: dict[str, str] = {}
    hook: Hook | None = None
    zones: list[str] = []
    fixed: bool = False
    #: Who gave it its size, where that was a program.
    sized_by: str = ""

    def labels_of_nodes(self, cloud: Cloud) -> dict[str, str]:
        """What its nodes carry: EKS' own label where they are EC2's."""
        kind = cloud.catalogue.get(self.instance_type)
        own = {"eks.amazonaws.com/nodegroup": self.name} if kind is None or kind.provider == "aws" else {}
        return {**own, **self.labels}

    def zone(self, cloud: Cloud) -> str:
        """Where its next machine is launched: its zones by turns."""
        kind = cloud.catalogue.get(self.instance_type)
        zones = self.zones or [cloud.zone_of(kind.provider if kind else "")]
        return zones[len(self.members(cloud)) % len(zones)]

    def members(self, cloud: Cloud) -> list[Instance]:
        """Its instances that are not on their way out, oldest first."""
        return [
            one
            for one in cloud.instances.values()
            if one.tags.get(GROUP_TAG) == self.name and one.state not in GONE and one.lifecycle != WAITING
        ]


def read_groups(config: Obj) -> dict[str, NodeGroup]:
    """The groups of a ConfigMap. Raises ValueError for what cannot be read."""
    text = dig(config, "data", "groups", default="")
    try:
        parsed = [document.value for document in documents(text, "data.groups")]
    except YamlError as error:
        raise ValueError(str(error)) from error
    found: dict[str, NodeGroup] = {}
    for entry in parsed[0] if parsed else []:
        group = _group(entry)
        found[group.name] = group
    return found


def _group(entry: Mapping[str, Any]) -> NodeGroup:
    known = {
        "name",
        "instanceType",
        "min",
        "max",
        "desired",
        "capacityType",
        "labels",
        "taints",
        "tags",
        "lifecycleHook",
        "zones",
        "fixed",
    }
    unknown = sorted(set(entry) - known)
    if unknown or "name" not in entry or "instanceType" not in entry:
        raise ValueError(f"a node group has name, instanceType and maybe {sorted(known)}; found {sorted(entry)}")
    minimum = int(entry.get("min", 0))
    maximum = int(entry.get("max", max(10, minimum)))
    return NodeGroup(
        str(entry["name"]),
        str(entry["instanceType"]),
        minimum,
        maximum,
        int(entry.get("desired", minimum)),
        str(entry.get("capacityType", "on-demand")),
        dict(entry.get("labels") or {}),
        list(entry.get("taints") or []),
        dict(entry.get("tags") or {}),
        _hook(entry.get("lifecycleHook")),
        [str(zone) for zone in entry.get("zones") or ()],
        bool(entry.get("fixed")),
    )


def _hook(entry: Mapping[str, Any] | None) -> Hook | None:
    if entry is None:
        return None
    if "name" not in entry or set(entry) - {"name", "heartbeatTimeout"}:
        raise ValueError(f"a lifecycle hook has name and maybe heartbeatTimeout; found {sorted(entry)}")
    return Hook(str(entry["name"]), float(entry.get("heartbeatTimeout", 3600)))


@dataclass(eq=False, repr=False)
class NodeGroups(Controller):
    """Keeps every group at its desired size. ``groups`` is what the cluster autoscaler reads and sets."""

    cloud: Cloud

    name: ClassVar[str] = "auto-scaling-groups"
    takes: ClassVar[tuple[str, ...]] = ("cloud",)

    def setup(self) -> None:
        """Follow the ConfigMap and the cloud."""
        self.cloud.listeners.append(self._changed)
        self.cloud.group_listeners.append(self._resized)
        self._configs = self.follow(r.CONFIGMAPS, self._config)

    def stop(self) -> None:
        """Stop following; the groups stay as they are."""
        super().stop()
        if self._changed in self.cloud.listeners:
            self.cloud.listeners.remove(self._changed)
            self.cloud.group_listeners.remove(self._resized)

    @property
    def groups(self) -> dict[str, NodeGroup]:
        """The groups, by name; kept with the cloud, so that they outlive this controller."""
        return self.cloud.groups

    def reconcile(self, key: tuple[str, str]) -> None:
        """Read the ConfigMap, or (namespace ``group``) bring one group to its size."""
        if key[0] != "group":
            self._read(key)
            return
        group = self.groups.get(key[1])
        if group is None:
            return
        group.desired = max(group.minimum, min(group.maximum, group.desired))
        members = group.members(self.cloud)
        for _ in range(group.desired - len(members)):
            try:
                self._launch(group)
            except CloudError:
                self.queue.add(key, RETRY_S)
                return
        for instance in members[: max(0, len(members) - group.desired)]:
            self.cloud.hooks.terminate(instance, group.name, group.hook, by=group.sized_by or f"asg/{group.name}")

    # -- inside --------------------------------------------------------------------------------------------
    def _config(self, change: Change, _old: Obj | None, new: Obj) -> list[tuple[str, str]]:
        marked = labels_of(new).get(SELECTOR) == "true" and change != "deleted"
        return [(namespace_of(new), name_of(new))] if marked else []

    def _read(self, key: tuple[str, str]) -> None:
        config = self._configs.get(key[1], key[0])
        if config is None:
            return
        try:
            declared = read_groups(config)
        except ValueError as error:
            self.events.emit(config, "Warning", "InvalidNodeGroups", str(error))
            return
        for name, group in declared.items():
            before = self.groups.get(name)
            if before is not None:
                group.desired = before.desired
            self.groups[name] = group
            self.queue.add(("group", name))

    def _launch(self, group: NodeGroup) -> None:
        self.cloud.launch(
            group.instance_type,
            by=f"asg/{group.name}",
            capacity_type=group.capacity_type,
            zone=group.zone(self.cloud),
            tags={**group.tags, GROUP_TAG: group.name, "Name": group.name},
            node={"labels": group.labels_of_nodes(self.cloud), "taints": group.taints},
        )

    def _resized(self, group: str) -> None:
        self.queue.add(("group", group))

    def _changed(self, instance: Instance, before: str) -> None:
        """Something ended: the group notices, and replaces it."""
        group = instance.tags.get(GROUP_TAG)
        if group and instance.state in GONE and before not in GONE:
            self.queue.add(("group", group), REACTION_S)
