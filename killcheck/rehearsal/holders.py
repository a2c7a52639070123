"""What holds GPUs on a stage: who wants how many pods, and how many are on nodes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Protocol

from msgspec import Struct

from killcheck.kube import gpus
from killcheck.kube.objects import Obj, copy, dig, name_of, namespace_of, uid_of
from killcheck.kube.workloads import root_of, templates
from killcheck.rehearsal.record import Change, Firing

__all__ = ["Holders", "Scene", "Standing", "changes", "lit", "stands_as_before"]

#: Kinds that only make other holders, or that go with their nodes.
_NO_HOLDERS = frozenset({"CronJob", "DaemonSet", "PodTemplate", "ControllerRevision", "ReplicaSet"})
#: Of what there is much, and nothing of it holds or owns pods.
_PASSED_OVER = frozenset(
    {
        ("", "configmaps"),
        ("", "events"),
        ("", "namespaces"),
        ("", "secrets"),
        ("", "serviceaccounts"),
        ("", "services"),
        ("apiextensions.k8s.io", "customresourcedefinitions"),
        ("coordination.k8s.io", "leases"),
        ("discovery.k8s.io", "endpointslices"),
        ("rbac.authorization.k8s.io", "clusterrolebindings"),
        ("rbac.authorization.k8s.io", "clusterroles"),
        ("rbac.authorization.k8s.io", "rolebindings"),
        ("rbac.authorization.k8s.io", "roles"),
    }
)


class Store(Protocol):
    """What a cluster holds, as the embedded API server keeps it; nothing of it is to be changed."""

    def tables(self) -> list[tuple[str, str]]:
        """(group, resource) of each that holds something."""

    def values(self, table: tuple[str, str]) -> Iterator[Obj]:
        """Its objects."""


class Standing(Struct, frozen=True):
    """``wanted``: GPU pods as it is scaled; ``pods``: the uids of those that are on a node and have not finished."""

    wanted: int
    pods: frozenset[str]


class Scene(Struct, frozen=True):
    """What stands on a stage: ``holders`` by (kind, namespace, name); ``staying``: uids of GPU pods on nodes that
    nobody has told to end, whoever they belong to."""

    holders: Mapping[tuple[str, str, str], Standing]
    staying: frozenset[str] = frozenset()


def lit(obj: Obj) -> Obj:
    """A manifest as it is when there is something to turn off: what is declared with no replicas has one."""
    if dig(obj, "spec", "replicas") != 0 or not any(gpus.spec_devices(t.spec) for t in templates(obj)):
        return obj
    changed = copy(obj)
    changed["spec"]["replicas"] = 1
    return changed


class Holders:
    """Every root workload with GPU pods on one stage; what an object asks for is read once for each of its versions."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._asked: dict[tuple[str, str], tuple[int, int]] = {}

    def __call__(self) -> Scene:
        """As they stand now."""
        objects = [
            obj for table in self._store.tables() if table not in _PASSED_OVER for obj in self._store.values(table)
        ]
        by_uid = {uid_of(obj): obj for obj in objects}
        on: dict[tuple[str, str, str], set[str]] = {}
        staying = set()
        found = {}
        for obj in objects:
            devices, wanted = self._read(obj)
            placed = obj["kind"] == "Pod" and devices and dig(obj, "spec", "nodeName")
            if placed and gpus.hold(obj) is not gpus.Hold.FINISHED:
                root = root_of(obj, lambda owner, _: by_uid.get(str(owner.get("uid"))), stop_at=("CronJob", "Node"))
                on.setdefault(_key(root), set()).add(uid_of(obj))
                if "deletionTimestamp" not in obj["metadata"]:
                    staying.add(uid_of(obj))
            if wanted >= 0 and obj["kind"] not in _NO_HOLDERS and not dig(obj, "metadata", "ownerReferences"):
                found[_key(obj)] = wanted
        standing = {key: Standing(wanted, frozenset(on.get(key, ()))) for key, wanted in found.items()}
        return Scene(standing, frozenset(staying))

    def _read(self, obj: Obj) -> tuple[int, int]:
        """(GPUs of a pod, GPU pods that are wanted or -1 for what holds none)."""
        version = uid_of(obj), str(obj["metadata"].get("resourceVersion"))
        if version not in self._asked:
            own = [t for t in templates(obj) if gpus.spec_devices(t.spec)]
            wanted = sum(t.count for t in own) if own else -1
            self._asked[version] = gpus.devices(obj) if obj["kind"] == "Pod" else 0, wanted
        return self._asked[version]


def _key(obj: Obj) -> tuple[str, str, str]:
    return str(obj.get("kind")), namespace_of(obj), name_of(obj)


def changes(before: Scene, after: Scene) -> tuple[Change, ...]:
    """What became of each holder from one scene to another."""
    made = []
    for key, was in before.holders.items():
        now = after.holders.get(key)
        left = now.pods if now else was.pods & after.staying
        made.append(Change(*key, was.wanted, now.wanted if now else 0, len(was.pods), len(left), gone=now is None))
    return tuple(made)


def stands_as_before(firing: Firing, scene: Scene) -> bool:
    """Whether each holder wants as many pods as before a firing, and has as many on nodes."""
    found = {key: (one.wanted, len(one.pods)) for key, one in scene.holders.items()}
    return all(
        found.get((one.kind, one.namespace, one.name), (one.before, one.pods_before)) == (one.before, one.pods_before)
        for one in firing.changes
    )
