"""What else turns workloads off: scalers of kinds that are not drilled, annotations that ask one, ends that are set.

Each is told as not understood, by name: "nothing fires here" is only true where none of these does either. Data first:
the annotations and fields are those of the projects' documentation, as of 2026.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence

from killcheck.kube import resources as r
from killcheck.kube.objects import Obj, annotations_of, dig, labels_of, name_of, namespace_of, ref_of
from killcheck.spec.killpath import Target
from killcheck.text.yamlfile import Path, format_path

__all__ = ["others"]

#: Annotations by which an operator is asked to turn their object off: kube-downscaler and py-kube-downscaler,
#: kube-janitor, Snorlax, Sleepcycles; and whatever else says so in its own name.
_ANNOTATION = re.compile(
    r"downscaler/.+|janitor/(ttl|expires)|.*(uptime|downtime|downscale|sleep|shutdown|turn-?off|power-?off|scale-?to-?zero"
    r"|hibernat).*",
    re.IGNORECASE,
)
#: Kinds that act on a whole namespace: kube-green.
_OF_NAMESPACES = frozenset({"SleepInfo"})
#: Where scalers name what they scale: CronHPA (Alibaba, Karmada), aibrix, CronJobScaleDown, and kinds never heard of.
_REFERENCES: tuple[Path, ...] = (
    ("spec", "scaleTargetRef"),
    ("spec", "targetRef"),
    ("spec", "target"),
    ("spec", "workloadRef"),
    ("spec", "scaleTarget"),
    ("spec", "resourceRef"),
)
#: Kinds that name a workload and never turn it off.
_NO_SCALERS = frozenset(
    {
        "VerticalPodAutoscaler",
        "TriggerAuthentication",
        "PodDisruptionBudget",
        "ServiceMonitor",
        "RolloutManager",
        "Canary",
        "ScaledJob",
    }
)
#: Fields of a workload by which it ends itself, with what is true of it.
_ENDS: tuple[tuple[Path, str], ...] = (
    (("spec", "enableInTreeAutoscaling"), "Ray's own autoscaler takes idle workers"),
    (("spec", "shutdownAfterJobFinishes"), "its cluster goes when its job ends"),
    (("spec", "activeDeadlineSeconds"), "it is failed after that time"),
    (("spec", "runPolicy", "activeDeadlineSeconds"), "it is failed after that time"),
    (("spec", "ttlSecondsAfterFinished"), "it is deleted that long after it ended by itself"),
    (("spec", "runPolicy", "ttlSecondsAfterFinished"), "it is deleted that long after it ended by itself"),
    (("spec", "maximumExecutionTimeSeconds"), "Kueue suspends it after that time"),
)
_MAX_EXECUTION = "kueue.x-k8s.io/max-exec-time-seconds"


def others(objects: Iterable[Obj], targets: Sequence[Target], by_target: Mapping[str, Obj]) -> list[str]:
    """A sentence for each thing that may turn a target off and is not read further."""
    everything = list(objects)
    found = [line for target in targets for line in _of_target(target, by_target[target.name], everything)]
    return [*found, *(line for obj in everything for line in _of_scaler(obj, targets))]


def _of_target(target: Target, obj: Obj, objects: Iterable[Obj]) -> Iterator[str]:
    """What its own annotations, those of its namespace, and its own fields say."""
    namespaces = [o for o in objects if o.get("kind") == "Namespace" and name_of(o) == target.namespace]
    for where in (obj, *namespaces):
        for key, value in annotations_of(where).items():
            if _ANNOTATION.fullmatch(key):
                yield f"{ref_of(where)}: its annotation {key} ({value}) scales {target}, not understood"
    for path, what in _ENDS:
        value = dig(obj, *path)
        if value not in (None, False, 0) and (target.kind != "Job" or path[-1] != "activeDeadlineSeconds"):
            yield f"{target} has {format_path(path)} ({value}): {what}, not drilled"
    limit = labels_of(obj).get(_MAX_EXECUTION)
    if limit:
        yield f"{target} has the label {_MAX_EXECUTION} ({limit}): Kueue suspends it after that time, not drilled"


def _of_scaler(obj: Obj, targets: Sequence[Target]) -> Iterator[str]:
    drilled = r.is_of(obj, r.SCALEDOBJECTS, r.HTTPSCALEDOBJECTS)
    if drilled or obj.get("kind") in _NO_SCALERS or "." not in str(obj.get("apiVersion", "")):
        return
    for target in targets:
        same = (namespace_of(obj) or "default") == target.namespace
        named = obj.get("kind") in _OF_NAMESPACES or any(_names(dig(obj, *path), target) for path in _REFERENCES)
        if same and named:
            yield f"{ref_of(obj)} scales {target}, not understood"


def _names(reference: object, target: Target) -> bool:
    if not isinstance(reference, dict) or reference.get("name") != target.object:
        return False
    return reference.get("kind") in (None, target.kind)
