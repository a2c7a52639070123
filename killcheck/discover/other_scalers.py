"""What else turns workloads off: scalers of kinds that are not drilled, annotations that ask one, ends that are set.

Each is told as not understood, by name: "nothing fires here" is only true where none of these does either. Data first:
the annotations and fields are those of the projects' documentation, as of 2026.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence

from msgspec import Struct

from killcheck.kube import downtimes
from killcheck.kube import resources as r
from killcheck.kube.custom_holders import is_capacity, mention
from killcheck.kube.objects import Obj, annotations_of, dig, labels_of, name_of, namespace_of, owners, ref_of
from killcheck.kube.time_limits import MOST
from killcheck.spec.killpath import Target
from killcheck.text import lazy_re
from killcheck.text.yamlfile import Path, format_path

__all__ = ["others", "who_may_turn_off"]

#: Annotations by which an operator is asked to turn their object off: kube-downscaler and py-kube-downscaler,
#: kube-janitor, Snorlax, Sleepcycles; and whatever else says so in its own name.
_ANNOTATION = lazy_re.compile(
    r"downscaler/.+|janitor/(ttl|expires)|.*(uptime|downtime|downscale|sleep|shutdown|turn-?off|power-?off|scale-?to-?zero"
    r"|hibernat).*",
    re.IGNORECASE,
)
#: Where scalers name what they scale without saying its kind.
_REFERENCES = frozenset({"scaleTargetRef", "targetRef", "target", "workloadRef", "scaleTarget", "resourceRef"})
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
        "ExternalSecret",
        "PushSecret",
    }
)
#: Fields that name workloads and leave them alone: Flux, Argo CD, and whoever says whose part something is.
_LEAVE_ALONE = frozenset(
    {"healthChecks", "ignoreDifferences", "dependsOn", "conditions", "status", "controllerRef", "ownerRef"}
)
#: Groups of the API server's own: none of their kinds scales anything (scheduling.k8s.io's Workload is scheduled).
_BUILT_IN = lazy_re.compile(r"(?:[^/]*[^x/-])?\bk8s\.io/.*")
#: Fields by which what ended by itself is cleared away: of what does not end they turn nothing off.
_CLEARED: Mapping[str, str] = {
    "shutdownAfterJobFinishes": "its cluster goes when its job ends",
    "ttlSecondsAfterFinished": "it is deleted that long after it ended by itself",
    "ttlSecondsAfterFinish": "it is deleted that long after it ended by itself",
    "secondsAfterCompletion": "it is deleted that long after it ended by itself",
}
#: Fields by which a workload ends itself, wherever in it they are, with what is true of it.
_ENDS: Mapping[str, str] = {
    **_CLEARED,
    "enableInTreeAutoscaling": "Ray's own autoscaler takes idle workers",
    "activeDeadlineSeconds": "it is failed after that time",
    "maximumExecutionTimeSeconds": "Kueue suspends it after that time",
    "scaleDownDelaySeconds": "its operator scales it down when idle",
    "scaleToZeroPodRetentionPeriod": "Knative scales it to zero when idle",
}
#: So many targets are named of which the same is true.
_SHOWN = 3
#: On a MachineSet or MachineDeployment of Cluster API: below how many machines the cluster autoscaler never goes.
_MIN_SIZE = "cluster.x-k8s.io/cluster-api-autoscaler-node-group-min-size"

#: Knative's: how many pods stay, by both its spellings, and who scales.
_MIN_SCALE = ("autoscaling.knative.dev/min-scale", "autoscaling.knative.dev/minScale")
_KNATIVE_CLASS = "autoscaling.knative.dev/class"


def others(objects: Iterable[Obj], targets: Sequence[Target], by_target: Mapping[str, Obj]) -> list[str]:
    """A sentence for each thing that may turn a target off and is not read further."""
    everything = list(objects)
    return [*_summed_up(_all(everything, targets, by_target)), *_of_machines(everything)]


def who_may_turn_off(objects: Iterable[Obj], target: Target, obj: Obj) -> str | None:
    """What may turn one workload ("it") off although nobody here knows when it does; None: nothing that is here."""
    said = _all(list(objects), [target], {target.name: obj})
    found = next((one for one in said if one.turns_off), None)
    if found is None:
        return None
    return f"{found.before}it{found.after}" if found.before else found.after.removeprefix(": ")


def _all(objects: Sequence[Obj], targets: Sequence[Target], by_target: Mapping[str, Obj]) -> list[_Said]:
    found = [one for target in targets for one in _of_target(target, by_target[target.name], objects)]
    return found + [one for obj in objects for one in _of_scaler(obj, targets)]


class _Said(Struct, frozen=True):
    """A sentence about a target: what comes before its name, and what after it; ``turns_off``: also what goes on."""

    before: str
    target: Target
    after: str
    turns_off: bool = True


def _summed_up(found: Iterable[_Said]) -> Iterator[str]:
    """One sentence for all the targets of which the same is true."""
    targets: dict[tuple[str, str], list[str]] = {}
    for one in found:
        targets.setdefault((one.before, one.after), []).append(str(one.target))
    for (before, after), names in targets.items():
        more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
        yield f"{before}{', '.join(names[:_SHOWN])}{more}{after}"


def _of_machines(objects: Sequence[Obj]) -> Iterator[str]:
    """What takes empty GPU machines away, or keeps some: OpenShift's MachineAutoscalers, Cluster API's annotations."""
    machines = {
        (str(o.get("kind")), namespace_of(o), name_of(o)): o for o in objects if is_capacity(str(o.get("kind")))
    }
    for obj in objects:
        if obj.get("kind") == "MachineAutoscaler":
            ref = dig(obj, "spec", "scaleTargetRef", default={})
            key = (str(ref.get("kind")), namespace_of(obj), str(ref.get("name")))
            if key not in machines or mention(machines[key]):
                yield _kept(ref_of(obj), f"{key[0]}/{key[2]}", dig(obj, "spec", "minReplicas", default=0))
    for obj in machines.values():
        least = annotations_of(obj).get(_MIN_SIZE)
        if least is not None and mention(obj):
            yield _kept(f"the cluster autoscaler, by the annotation {_MIN_SIZE},", ref_of(obj), least)


def _kept(who: str, machines: str, least: object) -> str:
    if str(least) == "0":
        return f"{who} lets {machines} go to 0 machines once no pod needs them: it turns no pod off, and is not drilled"
    return f"{who} keeps {least} or more of {machines}: these bill with no pod on them"


def _of_target(target: Target, obj: Obj, objects: Iterable[Obj]) -> Iterator[_Said]:
    """What its own annotations, those of its namespace, and its own fields say."""
    namespaces = [o for o in objects if o.get("kind") == "Namespace" and name_of(o) == target.namespace]
    known = ("downscaler/",) if any(map(downtimes.is_downscaler, objects)) else ()
    for where in (obj, *namespaces):
        for key, value in annotations_of(where).items():
            if _ANNOTATION.fullmatch(key) and not (key.startswith(known) and not key.endswith(downtimes.PERIODS)):
                yield _Said(f"{ref_of(where)}: its annotation {key} ({value}) scales ", target, ", not understood")
    for path, given, what in _ends(obj.get("spec"), ("spec",)):
        if target.kind != "Job" or path != ("spec", "activeDeadlineSeconds"):  # a layer, and drilled
            yield _Said("", target, f": {format_path(path)} ({given}): {what}, not drilled", path[-1] not in _CLEARED)
    if _is_model(obj) and "minReplicas" not in (obj.get("spec") or {}):
        yield _Said("", target, ": no spec.minReplicas: KubeAI scales it to zero when idle, not drilled")
    if _knative_idles(obj):
        yield _Said("", target, ": Knative scales it to zero when idle (no min-scale), not drilled")
    limit = labels_of(obj).get(MOST)
    if limit and target.kind != "Job":  # a layer, and drilled
        yield _Said("", target, f": label {MOST} ({limit}): Kueue suspends it after that time, not drilled")


def _is_model(obj: Obj) -> bool:
    """Whether it is KubeAI's, whose minimum is 0 where none is said (its api/k8s/v1, Model)."""
    return obj.get("kind") == "Model" and str(obj.get("apiVersion", "")).startswith("kubeai.org/")


def _knative_idles(obj: Obj) -> bool:
    """Whether Knative takes a Service to zero, as it does unless told otherwise (its docs, "Configuring scale bounds":
    min-scale is 0 by default; autoscalers of class hpa never go below one)."""
    if not str(obj.get("apiVersion", "")).startswith("serving.knative.dev/"):
        return False
    said = {**annotations_of(obj), **(dig(obj, "spec", "template", "metadata", "annotations", default={}) or {})}
    least = [said[key] for key in _MIN_SCALE if key in said]
    return str(said.get(_KNATIVE_CLASS, "")).partition(".")[0] != "hpa" and all(str(one) == "0" for one in least)


def _ends(node: object, path: Path) -> Iterator[tuple[Path, object, str]]:
    """Every field below a node by which its object ends itself; custom resources also by a minimum of zero."""
    if isinstance(node, list):
        for i, item in enumerate(node):
            yield from _ends(item, (*path, i))
    elif isinstance(node, dict):
        for key, value in node.items():
            if key in _ENDS and value not in (None, False, 0):
                yield (*path, key), value, _ENDS[key]
            elif key == "minReplicas" and value == 0 and value is not False:
                yield (*path, key), value, "its operator may scale it to zero when idle"
            else:
                yield from _ends(value, (*path, key))


def _of_scaler(obj: Obj, targets: Sequence[Target]) -> Iterator[_Said]:
    drilled = r.is_of(obj, r.SCALEDOBJECTS, r.HTTPSCALEDOBJECTS) or downtimes.is_sleep_info(obj)
    version = str(obj.get("apiVersion", ""))
    if (
        drilled
        or downtimes.is_sleep_info(obj)
        or obj.get("kind") in _NO_SCALERS
        or "." not in version
        or _BUILT_IN.fullmatch(version)
    ):
        return
    own = namespace_of(obj) or "default"
    limit = dig(obj, "spec", "maximumExecutionTimeSeconds") if obj.get("kind") == "Workload" else None
    named = set(_named(obj.get("spec"), own))
    for target in targets:
        at = (target.namespace, target.object)
        refers = (target.kind, *at) in named or (None, *at) in named
        if refers:
            yield _Said(f"{ref_of(obj)} scales ", target, ", not understood")
        if limit and any(o.get("kind") == target.kind and o.get("name") == target.object for o in owners(obj)):
            has = f"{ref_of(obj)} has spec.maximumExecutionTimeSeconds ({limit}): Kueue suspends "
            yield _Said(has, target, ", not drilled")


def _named(node: object, namespace: str, key: str = "") -> Iterator[tuple[str | None, str, str]]:
    """Every reference below a node: the kind (None where a reference to what is scaled says none), namespace, name."""
    if isinstance(node, list):
        for item in node:
            yield from _named(item, namespace, key)
    elif isinstance(node, dict):
        name, kind = node.get("name"), node.get("kind")
        if isinstance(name, str) and (isinstance(kind, str) or (kind is None and key in _REFERENCES)):
            yield kind, str(node.get("namespace") or namespace), name
        for inner, value in node.items():
            if isinstance(value, dict | list) and inner not in _LEAVE_ALONE and not str(inner).startswith("exclude"):
                yield from _named(value, namespace, str(inner))
