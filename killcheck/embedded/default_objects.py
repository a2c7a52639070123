"""What manifests stand on where they bring none: namespaces, CPU nodes, what holders of GPUs refer to.

Everything made here is said in a note: a drill on it rests on these assumptions.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from killcheck.embedded import standins
from killcheck.embedded.models.assumednodes import ASSUMED, Assumptions, node
from killcheck.embedded.models.nodegroups import SELECTOR as NODE_GROUPS
from killcheck.entries import Assumption
from killcheck.instances.provided import provided
from killcheck.kube import gpus
from killcheck.kube import resources as r
from killcheck.kube.client import Kube
from killcheck.kube.objects import Obj, dig, labels_of, namespace_of
from killcheck.kube.selectors import labels_selected
from killcheck.kube.workloads import templates

__all__ = ["missing_objects"]

#: The CPU pool: what a small team's cluster has.
CPU_NODES = 2


def missing_objects(objects: Iterable[Obj], kube: Kube, assumptions: Assumptions) -> tuple[list[Obj], list[Assumption]]:
    """What to create beside ``objects`` and what is there already, and what to say about it.

    What nodes may be made later, as pods ask for them, is written into ``assumptions``.
    """
    objects = list(objects)
    extra: list[Obj] = []
    notes: list[Assumption] = []
    named = {o["metadata"]["name"] for o in objects if o.get("kind") == "Namespace"}
    absent = sorted({namespace_of(o) for o in objects if namespace_of(o)} - named)
    for name in absent:
        if kube.find(kube.resource_for("v1", "Namespace"), name) is None:
            extra.append({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
            said = f"namespace {name} is in no manifest: made without labels, quotas or policies"
            notes.append(Assumption(said, f"namespace {name}"))
    made, told = standins.missing(objects, kube)
    groups = list(provided(objects))
    if groups:
        made.append(_described(groups))
        notes += [_told(one) for one in groups]
    nodes = [o for o in objects if o.get("kind") == "Node"] + kube.list(r.NODES).items
    pools = [
        *objects,
        *made,
        *kube.list(r.NODEPOOLS).items,
        *kube.list(r.CONFIGMAPS, labels=f"{NODE_GROUPS}=true").items,
    ]
    if not nodes:
        made += [
            node(f"cpu-{number}", "m6i.xlarge", cpu=4, memory="16Gi", labels={ASSUMED: "true"})
            for number in range(1, CPU_NODES + 1)
        ]
        assumptions.cpu_nodes = True
    if not any(gpus.node_devices(n) for n in nodes) and not any(_brings_nodes(o) for o in pools):
        assumptions.gpu_nodes = True
        made += list(_for_daemons(objects, assumptions))
    return [*extra, *made], [*notes, *told]


def _described(groups: Sequence[dict[str, Any]]) -> Obj:
    """What the models of node groups and of their autoscaler read; JSON is YAML."""
    metadata = {"name": "killcheck-node-pools", "namespace": "kube-system", "labels": {NODE_GROUPS: "true"}}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"groups": json.dumps(groups)}}


def _told(group: dict[str, Any]) -> Assumption:
    size = f"{group['min']} to {group['max']}" if group["min"] != group["max"] else f"always {group['min']}"
    return Assumption(
        f"node pool {group['name']}: {size} of {group['instanceType']}, {group['capacityType']}; its provider's "
        "autoscaler is modelled, which takes a node away when it was not needed for 10 min"
    )


def _for_daemons(objects: Sequence[Obj], assumptions: Assumptions) -> Iterator[Obj]:
    """A node for each DaemonSet with GPUs, where nothing else asks for some: no pod of it makes one come."""
    others = {"DaemonSet", "CronJob"}
    if any(gpus.spec_devices(t.spec) for o in objects if o.get("kind") not in others for t in templates(o)):
        return
    for obj in objects:
        spec = dig(obj, "spec", "template", "spec", default={})
        if obj.get("kind") == "DaemonSet" and gpus.spec_devices(spec):
            name = f"gpu-{len(assumptions.made) + 1}"
            assumptions.made[name] = "gpu"
            yield node(
                name,
                "",
                cpu=96,
                memory="1152Gi",
                devices=gpus.requests(spec),
                labels={ASSUMED: "true", **labels_selected(spec)},
                taints=[
                    {"key": one["key"], "value": one.get("value", ""), "effect": one.get("effect") or "NoSchedule"}
                    for one in spec.get("tolerations") or ()
                    if one.get("key") in gpus.requests(spec)
                ],
            )


def _brings_nodes(obj: Obj) -> bool:
    """Whether GPU nodes come from it: Karpenter's pools, node groups, devices that a DRA driver advertises."""
    return (
        r.is_of(obj, r.NODEPOOLS)
        or obj.get("kind") == "ResourceSlice"
        or (obj.get("kind") == "ConfigMap" and labels_of(obj).get(NODE_GROUPS) == "true")
    )
