"""Pods that a workload of any kind makes: its pod templates, how many of each, and who owns what.

Written so that a kind nobody here has heard of works too: wherever a list of containers is, there is a pod template;
wherever something has resources as a container has them and asks for accelerators, it stands for a container; and the
replica fields on the way multiply. Kinds that count otherwise (LeaderWorkerSet, KServe, KubeAI, KAITO) are spelt out.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping

from msgspec import Struct

from killcheck.kube.custom_holders import COUNTS, FACTORS, HOLDS_NOTHING, machine_of, requested
from killcheck.kube.gpus import Claims, is_device, requests, spec_devices, unaccounted
from killcheck.kube.objects import Obj, annotations_of, condition, controller_of, dig, mappings, namespace_of, owners
from killcheck.kube.pod_shapes import as_typed
from killcheck.text.accelerators import GPU, called
from killcheck.text.yamlfile import Path

__all__ = [
    "STOP_MARKS",
    "PodTemplate",
    "devices_of",
    "has_ended",
    "holds",
    "is_stopped",
    "resources_of",
    "root_of",
    "templates",
]

#: Kinds that an annotation turns off, and which (Kubeflow's culler: with any value; KServe's constants.go, 0.15).
STOP_MARKS: Mapping[str, str] = {
    "Notebook": "kubeflow-resource-stopped",
    "InferenceService": "serving.kserve.io/stop",
    "LLMInferenceService": "serving.kserve.io/stop",
}

#: Parts of an object that hold pods of something else, or none.
_NO_TEMPLATES = frozenset({"apiVersion", "kind", "status", "metadata", "podDisruptionBudget"})
#: What a part that has resources of its own says of the pod around it.
_OF_PODS = frozenset(
    {
        "nodeSelector",
        "tolerations",
        "affinity",
        "resourceClaims",
        "volumes",
        "serviceAccountName",
        "schedulerName",
        "priorityClassName",
        "runtimeClassName",
        "terminationGracePeriodSeconds",
    }
)
_MAX_DEPTH = 12
#: No node without one of these says how many there are of anything.
_NUMBERED = frozenset(path[0] for path in (*COUNTS, *FACTORS))


class PodTemplate(Struct, frozen=True):
    """One template of a workload. ``path`` leads to its pod *spec*; ``count`` is how many pods of it are wanted now.

    ``count`` of a DaemonSet's is one a node, unknown here: 1. Where a workload is suspended or stopped it is 0.
    """

    path: Path
    spec: Obj
    metadata: Obj
    count: int


def templates(obj: Obj) -> list[PodTemplate]:
    """Every pod template of an object: its own spec for a Pod, none for what makes no pods."""
    kind = str(obj.get("kind"))
    if kind in HOLDS_NOTHING:
        return []
    given = obj.get("spec")
    spec: Obj = given if isinstance(given, dict) else {}
    if kind == "Pod":
        return [PodTemplate(("spec",), spec, obj.get("metadata", {}), 1)] if spec else []
    found = list(_SPELT_OUT[kind](obj, spec)) if kind in _SPELT_OUT else []
    found = found or list(_search(obj, (), 1))
    if "." in str(obj.get("apiVersion", "")).partition("/")[0]:  # of a type that this program has no schema of
        found = [
            PodTemplate(t.path, as_typed(t.spec), t.metadata if isinstance(t.metadata, dict) else {}, t.count)
            for t in found
        ]
    if machine_of(obj) is not None and not any(spec_devices(t.spec) for t in found):
        found += _machines(obj)
    if is_stopped(obj):
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


def resources_of(objects: Iterable[Obj]) -> set[str]:
    """The extended resources that all of them ask for; as soon as one is a plain GPU, that one alone."""
    found: set[str] = set()
    for obj in objects:
        for template in templates(obj):
            asked = requests(template.spec)
            if any(called([name]) == GPU for name in asked):
                return {next(name for name in asked if called([name]) == GPU)}
            found.update(asked)
    return found


def holds(template: PodTemplate, namespace: str = "", claims: Claims | None = None) -> bool:
    """Whether pods of a template hold accelerators: asked for, shared by annotation, or reached past all accounting."""
    asked = spec_devices(template.spec, namespace, claims, metadata=template.metadata)
    return bool(asked or unaccounted(template.spec))


def has_ended(obj: Obj) -> bool:
    """Whether a Job or a pod is over, for good or for bad: neither runs again."""
    if obj.get("kind") == "Pod":
        return dig(obj, "status", "phase") in ("Succeeded", "Failed")
    said = (condition(obj, word) or {} for word in ("Complete", "Failed"))
    return obj.get("kind") == "Job" and any(one.get("status") == "True" for one in said)


def is_stopped(obj: Obj) -> bool:
    """Suspended Jobs and clusters, what its stop mark turned off. A CronJob's suspend stops no pod."""
    if obj.get("kind") != "CronJob" and dig(obj, "spec", "suspend") is True:
        return True
    said = annotations_of(obj).get(STOP_MARKS.get(str(obj.get("kind")), ""))
    return said is not None and (obj["kind"] == "Notebook" or said == "true")


def _search(node: Obj, path: Path, count: int, depth: int = 0) -> Iterator[PodTemplate]:
    """Wherever containers are below ``node``, or what asks for accelerators as a container does."""
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
                yield from _asking(node, key, value, path, count)
                yield from _search(value, (*path, key), count, depth + 1)
        elif isinstance(value, list):
            for i, item in enumerate(value):
                if isinstance(item, dict) and key not in ("containers", "initContainers"):
                    yield from _search(item, (*path, key, i), count, depth + 1)


def _asking(node: Obj, key: str, value: Obj, path: Path, count: int) -> Iterator[PodTemplate]:
    """The pod that ``node`` stands for, where its field ``key`` asks for accelerators in a container's words."""
    if "resources" not in key.lower() and (key not in ("gpu", "limits") or _is_resources(path)):
        return
    devices = requested(value)
    if devices:
        own = {name: item for name, item in node.items() if name in ("image", "command", "args", "env", "ports")}
        container = {"name": str(path[-1] if path else key), **own, "resources": {"limits": devices}}
        around = {name: item for name, item in node.items() if name in _OF_PODS}
        yield PodTemplate(path, {**around, "containers": [container]}, {}, count)


def _is_resources(path: Path) -> bool:
    """Whether what a path leads to was read as resources already."""
    return bool(path) and "resources" in str(path[-1]).lower()


def _is_pod_spec(value: Obj) -> bool:
    """By its containers; Knative gives those their names itself (serving/pkg/apis/serving/v1, SetDefaults)."""
    containers = value.get("containers")
    return isinstance(containers, list) and any(
        isinstance(c, dict) and bool(c.get("name") or c.get("image")) for c in containers
    )


def _multiplied(node: Obj) -> int:
    """How many of what is below a node its own fields ask for; 1 where they say nothing."""
    if _NUMBERED.isdisjoint(node):
        return 1
    product = next((number for path in COUNTS if (number := _number(dig(node, *path))) is not None), 1)
    for path in FACTORS:
        factor = _number(dig(node, *path))
        product *= 1 if factor is None else factor
    return product


def _number(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _machines(obj: Obj) -> Iterator[PodTemplate]:
    """One pod a machine, which has all of it."""
    found = machine_of(obj)
    if found is not None:
        row, machine = found
        count = _number(dig(obj, *row.count)) or 1
        replicas = _number(dig(obj, *row.replicas)) if row.replicas else None
        pod = {"nodeSelector": {"node.kubernetes.io/instance-type": machine}, "containers": [_one_gpu("model")]}
        yield PodTemplate(row.machine[:-1], pod, {}, count * (1 if replicas is None else replicas))


def _one_gpu(name: str, number: object = 1) -> Obj:
    return {"name": name, "resources": {"limits": {"nvidia.com/gpu": number}}}


def _leader_worker(_: Obj, spec: Obj) -> Iterator[PodTemplate]:
    """A group is one leader and size - 1 workers; without a template of its own the leader is like the workers."""
    parts = dig(spec, "leaderWorkerTemplate", default={})
    groups, size = int(dig(spec, "replicas", default=1)), int(dig(parts, "size", default=1))
    leader = "leaderTemplate" in parts
    for name, count in (("leaderTemplate", groups), ("workerTemplate", groups * (size - leader))):
        template = parts.get(name)
        if template:
            path: Path = ("spec", "leaderWorkerTemplate", name, "spec")
            yield PodTemplate(path, template.get("spec") or {}, template.get("metadata") or {}, count)


def _inference(_: Obj, spec: Obj) -> Iterator[PodTemplate]:
    """KServe's ``predictor.model`` (or the older ``predictor.pytorch``...) is a container itself.

    ``workerSpec`` are the further pods of each replica: ``pipelineParallelSize`` counts the first one too.
    """
    for part in ("predictor", "transformer", "explainer"):
        section = dig(spec, part, default={})
        count = int(dig(section, "minReplicas", default=1))
        for key, value in section.items():
            if isinstance(value, dict) and "resources" in value and not _is_pod_spec(section) and key != "workerSpec":
                yield PodTemplate(("spec", part), {**section, "containers": [{"name": key, **value}]}, {}, count)
        if _is_pod_spec(section):
            yield PodTemplate(("spec", part), section, {}, count)
        worker = section.get("workerSpec")
        if isinstance(worker, dict):
            others = count * max(1, (_number(worker.get("pipelineParallelSize")) or 2) - 1)
            yield from _search({"workerSpec": worker}, ("spec", part), others)


def _llm_inference(_: Obj, spec: Obj) -> Iterator[PodTemplate]:
    """KServe's LLMInferenceService: decode and prefill, each a number of pods or, with workers, of groups of pods.

    A group has ``data / dataLocal`` pods, else ``pipeline`` (kserve pkg/apis/serving/v1alpha1, ``GetSize``).
    """
    for path, part in ((("spec",), spec), (("spec", "prefill"), dig(spec, "prefill", default={}))):
        groups = _number(part.get("replicas"))
        groups = 1 if groups is None else groups
        workers = (_group_size(dig(part, "parallelism", default={})) - 1) * groups
        for name, count in (("template", groups), ("worker", workers)):
            pods = part.get(name)
            if isinstance(pods, dict) and _is_pod_spec(pods):
                yield PodTemplate((*path, name), pods, {}, count)


def _group_size(parallelism: Obj) -> int:
    data, local = (_number(parallelism.get(name)) for name in ("data", "dataLocal"))
    if data or local:
        return max(max(data or 1, 1) // max(local or 1, 1), 1)
    return max(_number(parallelism.get("pipeline")) or 1, 1)


def _profiled(_: Obj, spec: Obj) -> Iterator[PodTemplate]:
    """KubeAI's Model: ``resourceProfile: nvidia-gpu-l4:2`` is two of what the operator's profile says, a GPU each."""
    profile, _colon, number = str(spec.get("resourceProfile", "")).partition(":")
    if profile and not profile.startswith("cpu"):
        replicas = _number(spec.get("replicas"))
        count = replicas if replicas is not None else _number(spec.get("minReplicas")) or 0
        yield PodTemplate(("spec",), {"containers": [_one_gpu("server", number or 1)]}, {}, count)


#: Where KubeVirt's kinds have the spec of their machines (kubevirt.io/v1, pool.kubevirt.io/v1beta1).
_MACHINES_OF: Mapping[str, Path] = {
    "VirtualMachine": ("spec", "template", "spec"),
    "VirtualMachineInstance": ("spec",),
    "VirtualMachineInstanceReplicaSet": ("spec", "template", "spec"),
    "VirtualMachinePool": ("spec", "virtualMachineTemplate", "spec", "template", "spec"),
}


def _virtual_machine(obj: Obj, spec: Obj) -> Iterator[PodTemplate]:
    """KubeVirt: a pod for each machine, with the devices that its domain passes through; none for one that is off."""
    path = _MACHINES_OF[str(obj.get("kind"))]
    machine = dig(obj, *path, default={})
    devices = dig(machine, "domain", "devices", default={})
    names = [str(one.get("deviceName")) for part in ("gpus", "hostDevices") for one in mappings(devices.get(part))]
    asked = {name: names.count(name) for name in names if is_device(name)}
    wanted = dig(obj, *path[:-2], default={}) if len(path) > 2 else {}
    off = wanted.get("running") is False or wanted.get("runStrategy") == "Halted"
    count = 0 if off else int(dig(spec, "replicas", default=1))
    kept = {part: machine[part] for part in _OF_PODS if part in machine}
    kept["containers"] = [{"name": "compute", "resources": {"limits": asked}}]
    if asked:
        yield PodTemplate(path, kept, dig(obj, *path[:-1], "metadata", default={}) if len(path) > 1 else {}, count)


#: Kinds whose numbers are sums of their own.
_SPELT_OUT: dict[str, Callable[[Obj, Obj], Iterator[PodTemplate]]] = {
    "LeaderWorkerSet": _leader_worker,
    "InferenceService": _inference,
    "LLMInferenceService": _llm_inference,
    "Model": _profiled,
    **dict.fromkeys(_MACHINES_OF, _virtual_machine),
}


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
