"""What holds GPUs on a stage: who wants how many pods, and how many are on nodes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from killcheck.kube import gpus
from killcheck.kube import resources as r
from killcheck.kube.client import Kube
from killcheck.kube.errors import KubeError
from killcheck.kube.objects import Obj, copy, dig, name_of, namespace_of, uid_of
from killcheck.kube.workloads import root_of, templates

__all__ = ["Standing", "holders", "lit"]

#: Kinds that only make other holders, or that go with their nodes.
_NO_HOLDERS = frozenset({"CronJob", "DaemonSet", "PodTemplate", "ControllerRevision", "ReplicaSet"})


@dataclass(frozen=True, slots=True)
class Standing:
    """``wanted``: GPU pods as it is scaled; ``pods``: those that are on a node and have not finished."""

    wanted: int
    pods: int


def lit(obj: Obj) -> Obj:
    """A manifest as it is when there is something to turn off: what is declared with no replicas has one."""
    if dig(obj, "spec", "replicas") != 0 or not any(gpus.spec_devices(t.spec) for t in templates(obj)):
        return obj
    changed = copy(obj)
    changed["spec"]["replicas"] = 1
    return changed


def holders(kube: Kube) -> dict[tuple[str, str, str], Standing]:
    """Every root workload with GPU pods, by (kind, namespace, name)."""
    objects = list(_everything(kube))
    by_uid = {uid_of(obj): obj for obj in objects}
    on: dict[tuple[str, str, str], int] = {}
    for pod in objects:
        if (
            pod["kind"] == "Pod"
            and gpus.devices(pod)
            and dig(pod, "spec", "nodeName")
            and (gpus.hold(pod) is not gpus.Hold.FINISHED)
        ):
            key = _key(root_of(pod, lambda owner, _: by_uid.get(str(owner.get("uid"))), stop_at=("CronJob", "Node")))
            on[key] = on.get(key, 0) + 1
    found = {}
    for obj in objects:
        own = [t for t in templates(obj) if gpus.spec_devices(t.spec)]
        owned = bool(dig(obj, "metadata", "ownerReferences"))
        if own and obj["kind"] not in _NO_HOLDERS and not owned:
            found[_key(obj)] = Standing(sum(t.count for t in own), on.get(_key(obj), 0))
    return found


def _key(obj: Obj) -> tuple[str, str, str]:
    return str(obj.get("kind")), namespace_of(obj), name_of(obj)


def _everything(kube: Kube) -> Iterator[Obj]:
    """Every object of every kind that can hold pods."""
    from killcheck.kube.listing import read

    try:
        yield from read(kube).objects
    except KubeError:
        yield from kube.list(r.PODS).items
