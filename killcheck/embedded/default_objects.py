"""The ground that manifests stand on where they bring none: namespaces, CPU nodes, GPU nodes for what asks for GPUs.

Everything made here is said in a note: a drill on it rests on these assumptions.
"""

from __future__ import annotations

from collections.abc import Iterable

from killcheck.embedded.models.nodegroups import SELECTOR as NODE_GROUPS
from killcheck.kube import gpus, workloads
from killcheck.kube import resources as r
from killcheck.kube.client import Kube
from killcheck.kube.objects import Obj, labels_of, namespace_of

__all__ = ["missing_ground", "node"]

#: The CPU pool: what a small team's cluster has.
CPU_NODES = 2
#: EC2 types by how many GPUs one pod asks for; prices and sizes are the catalogue's.
GPU_TYPES = {1: "g6.4xlarge", 4: "g6.12xlarge", 8: "p4d.24xlarge"}


def missing_ground(objects: Iterable[Obj], kube: Kube) -> tuple[list[Obj], list[str]]:
    """What to create beside ``objects`` and what is there already, and what to say about it."""
    objects = list(objects)
    extra: list[Obj] = []
    notes: list[str] = []
    named = {o["metadata"]["name"] for o in objects if o.get("kind") == "Namespace"}
    absent = sorted({namespace_of(o) for o in objects if namespace_of(o)} - named)
    for name in absent:
        if kube.find(kube.resource_for("v1", "Namespace"), name) is None:
            extra.append({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
            notes.append(f"namespace {name} is in no manifest: made without labels, quotas or policies")
    nodes = [o for o in objects if o.get("kind") == "Node"] + kube.list(r.NODES).items
    pools = [*objects, *kube.list(r.NODEPOOLS).items, *kube.list(r.CONFIGMAPS, labels=f"{NODE_GROUPS}=true").items]
    if not nodes:
        extra += [node(f"cpu-{number}", "m6i.xlarge", cpu=4, memory="16Gi") for number in range(1, CPU_NODES + 1)]
    if not any(gpus.node_devices(n) for n in nodes) and not any(_brings_nodes(o) for o in pools):
        gpu = _gpu_nodes(objects)
        extra += gpu
        if gpu:
            notes.append(f"no node pool is in the manifests: {len(gpu)} GPU node(s) made, which nothing removes")
    return extra, notes


def _brings_nodes(obj: Obj) -> bool:
    """Whether GPU nodes come from it: Karpenter's pools, node groups, devices that a DRA driver advertises."""
    return obj.get("kind") in ("NodePool", "ResourceSlice") or (
        obj.get("kind") == "ConfigMap" and labels_of(obj).get(NODE_GROUPS) == "true"
    )


def node(
    name: str,
    instance_type: str,
    *,
    cpu: int,
    memory: str,
    devices: dict[str, int] | None = None,
    labels: dict[str, str] | None = None,
    taints: list[Obj] | None = None,
) -> Obj:
    """A Node as a kubelet would register it."""
    capacity = {"cpu": str(cpu), "memory": memory, "pods": "110", "ephemeral-storage": "100Gi"}
    capacity |= {key: str(count) for key, count in (devices or {}).items()}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": name,
            "labels": {
                "kubernetes.io/arch": "amd64",
                "kubernetes.io/os": "linux",
                "kubernetes.io/hostname": name,
                "node.kubernetes.io/instance-type": instance_type,
                **(labels or {}),
            },
        },
        "spec": {"taints": taints} if taints else {},
        "status": {"capacity": capacity, "allocatable": dict(capacity)},
    }


def _gpu_nodes(objects: list[Obj]) -> list[Obj]:
    made: list[Obj] = []
    for obj in objects:
        if obj.get("kind") == "CronJob":
            continue
        for template in workloads.templates(obj):
            spec = template.spec
            wanted = gpus.requests(spec)
            if not wanted:
                continue
            count = max(wanted.values())
            kind = GPU_TYPES.get(count) or GPU_TYPES[min((c for c in GPU_TYPES if c >= count), default=8)]
            for _ in range(template.count):
                made.append(
                    node(
                        f"gpu-{len(made) + 1}",
                        kind,
                        cpu=96,
                        memory="1152Gi",
                        devices=wanted,
                        labels=dict(spec.get("nodeSelector") or {}),
                    )
                )
    return made
