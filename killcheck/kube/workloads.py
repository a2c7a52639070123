"""Pods that a workload of any kind makes: its pod templates, how many of each, and who owns what.

Written so that a kind nobody here has heard of works too: wherever a list of containers is, there is a pod template,
and the replica fields on the way to it multiply. Kinds that say it otherwise (LeaderWorkerSet, KServe) are spelt out.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass

from killcheck.kube.gpus import Claims, spec_devices, unaccounted
from killcheck.kube.objects import Obj, annotations_of, controller_of, dig, namespace_of, owners
from killcheck.text.yamlfile import Path

__all__ = ["PodTemplate", "devices_of", "holds", "root_of", "templates"]

#: Fields that multiply what is below them; absent, they count as one.
_MULTIPLIERS = ("replicas", "parallelism", "numOfHosts")
#: Parts of a spec that hold pods of something else, or none.
_NO_TEMPLATES = frozenset({"status", "metadata", "podDisruptionBudget"})
_MAX_DEPTH = 12


@dataclass(frozen=True, slots=True)
class PodTemplate:
    """One template of a workload. ``path`` leads to its pod *spec*; ``count`` is how many pods of it are wanted now.

    ``count`` of a DaemonSet's is one a node, unknown here: 1. Where a workload is suspended or stopped it is 0.
    """

    path: Path
    spec: Obj
    metadata: Obj
    count: int


def templates(obj: Obj) -> list[PodTemplate]:
    """Every pod template of an object: its own spec for a Pod, none for what makes no pods."""
    kind = obj.get("kind")
    spec = obj.get("spec")
    if not isinstance(spec, dict):
        return []
    if kind == "Pod":
        return [PodTemplate(("spec",), spec, obj.get("metadata", {}), 1)]
    if kind == "LeaderWorkerSet":
        found = list(_leader_worker(spec))
    elif kind in ("InferenceService", "NIMService"):
        found = list(_inference(obj))
    else:
        found = list(_search(spec, ("spec",), 1))
    if _stopped(obj):
        found = [PodTemplate(t.path, t.spec, t.metadata, 0) for t in found]
    return found


def devices_of(obj: Obj, claims: Claims | None = None, *, wanted: bool = False) -> int:
    """How many accelerators the pods of a workload ask for together.

    As it is scaled now, or with ``wanted`` as if each of its templates had at least one pod.
    """
    namespace = namespace_of(obj)
    return sum(
        (max(1, template.count) if wanted else template.count)
        * (
            spec_devices(template.spec, namespace, claims, metadata=template.metadata)
            or int(bool(unaccounted(template.spec)))
        )
        for template in templates(obj)
    )


def holds(template: PodTemplate, namespace: str = "", claims: Claims | None = None) -> bool:
    """Whether pods of a template hold accelerators: asked for, shared by annotation, or reached past all accounting."""
    asked = spec_devices(template.spec, namespace, claims, metadata=template.metadata)
    return bool(asked or unaccounted(template.spec))


def _stopped(obj: Obj) -> bool:
    """Suspended Jobs and clusters, notebooks that Kubeflow's culler stopped. A CronJob's suspend stops no pod."""
    if obj.get("kind") != "CronJob" and dig(obj, "spec", "suspend") is True:
        return True
    return "kubeflow-resource-stopped" in annotations_of(obj)


def _search(node: Obj, path: Path, count: int, depth: int = 0) -> Iterator[PodTemplate]:
    """Wherever containers are below ``node``."""
    if depth > _MAX_DEPTH:
        return
    count *= _multiplied(node)
    for key, value in node.items():
        if key in _NO_TEMPLATES:
            continue
        if isinstance(value, dict):
            if _is_pod_spec(value):
                yield PodTemplate((*path, key), value, node.get("metadata") or {}, count)
            else:
                yield from _search(value, (*path, key), count, depth + 1)
        elif isinstance(value, list):
            for i, item in enumerate(value):
                if isinstance(item, dict) and key not in ("containers", "initContainers"):
                    yield from _search(item, (*path, key, i), count, depth + 1)


def _is_pod_spec(value: Obj) -> bool:
    containers = value.get("containers")
    return isinstance(containers, list) and any(isinstance(c, dict) and c.get("name") for c in containers)


def _multiplied(node: Obj) -> int:
    product = 1
    for name in _MULTIPLIERS:
        number = node.get(name)
        if isinstance(number, int) and not isinstance(number, bool):
            product *= number
    return product


def _leader_worker(spec: Obj) -> Iterator[PodTemplate]:
    """A group is one leader and size - 1 workers; without a template of its own the leader is like the workers."""
    parts = dig(spec, "leaderWorkerTemplate", default={})
    groups, size = int(dig(spec, "replicas", default=1)), int(dig(parts, "size", default=1))
    leader = "leaderTemplate" in parts
    for name, count in (("leaderTemplate", groups), ("workerTemplate", groups * (size - leader))):
        template = parts.get(name)
        if template:
            path: Path = ("spec", "leaderWorkerTemplate", name, "spec")
            yield PodTemplate(path, template.get("spec") or {}, template.get("metadata") or {}, count)


def _inference(obj: Obj) -> Iterator[PodTemplate]:
    """KServe's ``predictor.model`` (or the older ``predictor.pytorch``...) and NIM's spec are containers themselves."""
    for part in ("predictor", "transformer", "explainer"):
        section = dig(obj, "spec", part, default={})
        count = int(dig(section, "minReplicas", default=1))
        for key, value in section.items():
            if isinstance(value, dict) and "resources" in value and not _is_pod_spec(section):
                yield PodTemplate(("spec", part), {**section, "containers": [{"name": key, **value}]}, {}, count)
        if _is_pod_spec(section):
            yield PodTemplate(("spec", part), section, {}, count)
        if isinstance(section.get("workerSpec"), dict):
            yield from _search({"workerSpec": section["workerSpec"]}, ("spec", part), count)
    if obj.get("kind") == "NIMService" and dig(obj, "spec", "resources"):
        count = int(dig(obj, "spec", "replicas", default=1))
        yield PodTemplate(("spec",), {"containers": [{"name": "nim", **obj["spec"]}]}, {}, count)


def root_of(
    obj: Obj,
    find: Callable[[Obj, str], Obj | None],
    *,
    stop_at: Collection[str] = ("Node",),
) -> Obj:
    """What an object belongs to in the end, up its owners; itself where nobody owns it, or only a kind in ``stop_at``.

    ``find(owner_reference, namespace)`` gets an owner, None where it cannot be had: then the last reference stands for
    it (an object of only apiVersion, kind and metadata).
    """
    seen: set[str] = set()
    while True:
        owner = controller_of(obj) or next(owners(obj), None)
        if owner is None or owner.get("uid", "") in seen or owner.get("kind") in stop_at:
            return obj
        seen.add(str(owner.get("uid", "")))
        found = find(owner, namespace_of(obj))
        if found is None:
            metadata = {"name": owner.get("name"), "namespace": namespace_of(obj), "uid": owner.get("uid")}
            return {"apiVersion": owner.get("apiVersion"), "kind": owner.get("kind"), "metadata": metadata}
        obj = found
