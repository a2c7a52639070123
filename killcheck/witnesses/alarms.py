"""Proof P5: would the alarm be raised where the GPUs stay on? Alert rules evaluated on what a drill produced.

The rules are the cluster's own PrometheusRules; the series are what kube-state-metrics and dcgm-exporter would have
said of the pods, nodes and Jobs that the drill saw. Where the GPUs went off, they are taken to have stayed on: an alarm
is for that night. GPUs count as busy until the trigger and as idle from then on. That Alertmanager would deliver it to
anybody is not seen here, and so not claimed.

Sources: kube-state-metrics docs (metrics of pods, nodes, deployments, jobs); dcgm-exporter's default counters, labels.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from datetime import datetime
from fnmatch import fnmatchcase

from killcheck.kube import gpus
from killcheck.kube.objects import Obj, dig, name_of, namespace_of
from killcheck.spec.cloud_access import Alarm
from killcheck.witnesses.promql import Labels, Unsupported, Vector, duration_s, parse

__all__ = ["Evaluated", "History", "Rule", "evaluate", "rules_of", "samples"]

#: How often Prometheus looks, in seconds (its operator's default; both for scrapes and for rules).
STEP_S = 30.0
#: How long before the trigger the GPUs count as having been there, in seconds: longer than any range in use.
BEFORE_S = 24 * 3600.0

_ABOUT = re.compile(r"DCGM_|nvidia|gpu|neuron", re.IGNORECASE)
_GPU_METRICS = ("DCGM_FI_DEV_GPU_UTIL", "DCGM_FI_PROF_GR_ENGINE_ACTIVE", "DCGM_FI_PROF_SM_ACTIVE")
#: A metric, its labels, its value.
Sample = tuple[str, dict[str, str], float]
#: What a series is worth while the GPUs are busy: percent; of the others a share.
_BUSY = {"DCGM_FI_DEV_GPU_UTIL": 100.0}


@dataclass(frozen=True, slots=True)
class Rule:
    """One alert: ``object`` is the PrometheusRule it is in; ``for_s`` how long it must hold before it fires."""

    alert: str
    expr: str
    for_s: float
    object: str
    problem: str = ""


@dataclass(frozen=True, slots=True)
class Evaluated:
    """What became of a rule: seconds after the trigger at which it fires (None: it does not), or why nobody knows."""

    rule: Rule
    fires_s: float | None = None
    unproven: str = ""


def rules_of(objects: Iterable[Obj], wanted: Alarm) -> list[Rule]:
    """The alerts that are about GPUs, or those that the spec names."""
    found = []
    for obj in objects:
        where = f"{namespace_of(obj)}/{name_of(obj)}"
        for group in dig(obj, "spec", "groups", default=[]):
            for rule in group.get("rules") or ():
                name, expr = str(rule.get("alert") or ""), str(rule.get("expr", ""))
                if not name:
                    continue
                if any(fnmatchcase(name, p) for p in wanted.alerts) if wanted.alerts else _ABOUT.search(expr):
                    found.append(_rule(name, expr, str(rule.get("for") or "0s"), where))
    return found


def _rule(name: str, expr: str, wait: str, where: str) -> Rule:
    try:
        return Rule(name, expr, duration_s(wait) if wait != "0" else 0.0, where)
    except Unsupported as error:
        return Rule(name, expr, 0.0, where, str(error))


def evaluate(rules: Iterable[Rule], history: History, within_s: float) -> list[Evaluated]:
    """Each rule from the trigger on, step by step as Prometheus does, until it fires or ``within_s`` is over."""
    return [_evaluate(rule, history, within_s) for rule in rules]


def _evaluate(rule: Rule, history: History, within_s: float) -> Evaluated:
    if rule.problem:
        return Evaluated(rule, unproven=rule.problem)
    try:
        expr = parse(rule.expr)
        since: dict[Labels, float] = {}
        for step in range(int(within_s // STEP_S) + 1):
            at = step * STEP_S
            pending = expr.evaluate(history, at)
            since = {labels: since.get(labels, at) for labels in pending}
            if any(at - begun >= rule.for_s for begun in since.values()):
                return Evaluated(rule, at)
    except Unsupported as error:
        return Evaluated(rule, unproven=f"not evaluated here: {error}")
    return Evaluated(rule)


# -- what the drill produced -------------------------------------------------------------------------------
@dataclass(slots=True)
class _Series:
    """A value that holds from its moment until the next; None: the series is not there."""

    moments: list[tuple[float, float | None]] = field(default_factory=list)

    def set(self, at: float, value: float | None) -> None:
        """From ``at`` on."""
        if not self.moments or self.moments[-1][1] != value:
            self.moments.append((at, value))

    def at(self, when: float) -> float | None:
        """The value then."""
        found = None
        for moment, value in self.moments:
            if moment > when:
                break
            found = value
        return found


@dataclass
class History:
    """Every series of a drill. ``start`` is the trigger."""

    start: datetime
    #: The GPUs stayed on, whatever was seen: pods and nodes that were there at the trigger never go.
    stay_on: bool = False
    _series: dict[str, dict[Labels, _Series]] = field(default_factory=dict)
    _there: set[tuple[str, Labels]] = field(default_factory=set)

    # -- promql.Source -------------------------------------------------------------------------------------
    def known(self, name: str) -> bool:
        """What :meth:`record` makes."""
        return name in _KNOWN

    def epoch(self, at: float) -> float:
        """Unix time."""
        return self.start.timestamp() + at

    def instant(self, name: str, at: float) -> Vector:
        """Values then."""
        found = ((labels, series.at(at)) for labels, series in self._series.get(name, {}).items())
        return {labels: value for labels, value in found if value is not None}

    def window(self, name: str, at: float, length: float) -> dict[Labels, list[float]]:
        """One sample a scrape, of those in (at - length, at] (Prometheus 3: left-open)."""
        first = math.floor((at - length) / STEP_S) + 1
        moments = [n * STEP_S for n in range(first, math.floor(at / STEP_S) + 1)]
        found = {}
        for labels, series in self._series.get(name, {}).items():
            values = [value for value in (series.at(moment) for moment in moments) if value is not None]
            if values:
                found[labels] = values
        return found

    # -- recording -----------------------------------------------------------------------------------------
    def record(self, now: datetime, samples: Iterable[Sample]) -> None:
        """Everything as it is now; called at every change, first when the trigger is pulled."""
        at = max(0.0, (now - self.start).total_seconds())
        seen: set[tuple[str, Labels]] = set()
        for name, labels, value in samples:
            if self.stay_on and at and name in _ABOUT_GPUS:
                continue
            key = (name, frozenset(labels.items()))
            seen.add(key)
            series = self._series.setdefault(name, {}).setdefault(key[1], _Series())
            if not series.moments and at == 0.0:
                series.set(-BEFORE_S, _BUSY.get(name, 1.0) if name in _GPU_METRICS else value)
            series.set(at, value)
        for name, gone in self._there - seen:
            if not (self.stay_on and name in _ABOUT_GPUS):
                self._series[name][gone].set(at, None)
        self._there |= seen


def samples(
    pods: Iterable[Obj],
    nodes: Iterable[Obj],
    jobs: Iterable[Obj],
    targets: Iterable[Obj],
) -> Iterator[Sample]:
    """What the exporters would say of these objects."""
    yield from _of_pods(pods, gpus.devices)
    yield from _of_nodes(nodes, gpus.node_devices)
    yield from _of_jobs(jobs)
    yield from _of_targets(targets)


def _of_pods(pods: Iterable[Obj], devices: Callable[[Obj], int]) -> Iterator[Sample]:
    for pod in pods:
        count, node = devices(pod), str(dig(pod, "spec", "nodeName", default=""))
        names = {"namespace": namespace_of(pod), "pod": name_of(pod)}
        if not count or not node:
            continue
        for phase in ("Pending", "Running", "Succeeded", "Failed", "Unknown"):
            yield "kube_pod_status_phase", names | {"phase": phase}, float(dig(pod, "status", "phase") == phase)
        container = str(dig(pod, "spec", "containers", 0, "name", default=""))
        asked = names | {"container": container, "node": node, "resource": "nvidia_com_gpu", "unit": "integer"}
        yield "kube_pod_container_resource_requests", asked, float(count)
        yield "kube_pod_container_resource_limits", asked, float(count)
        for gpu in range(count):
            labels = {
                "gpu": str(gpu),
                "device": f"nvidia{gpu}",
                "UUID": f"GPU-{node}-{gpu}",
                "Hostname": node,
                "node": node,
                "container": container,
                **names,
                "exported_namespace": names["namespace"],
                "exported_pod": names["pod"],
                "exported_container": container,
            }
            for metric in _GPU_METRICS:
                yield metric, labels, 0.0


def _of_nodes(nodes: Iterable[Obj], devices: Callable[[Obj], int]) -> Iterator[Sample]:
    for node in nodes:
        name = {"node": name_of(node)}
        yield "kube_node_info", name, 1.0
        for metric in ("kube_node_status_capacity", "kube_node_status_allocatable"):
            yield metric, name | {"resource": "nvidia_com_gpu", "unit": "integer"}, float(devices(node))


def _of_jobs(jobs: Iterable[Obj]) -> Iterator[Sample]:
    for job in jobs:
        labels = {"namespace": namespace_of(job), "job_name": name_of(job)}
        for metric, key in (
            ("kube_job_status_active", "active"),
            ("kube_job_status_succeeded", "succeeded"),
            ("kube_job_status_failed", "failed"),
        ):
            yield metric, labels, float(dig(job, "status", key, default=0) or 0)


def _of_targets(targets: Iterable[Obj]) -> Iterator[Sample]:
    for obj in targets:
        kind = str(obj.get("kind", "")).lower()
        if kind in ("deployment", "statefulset"):
            labels = {"namespace": namespace_of(obj), kind: name_of(obj)}
            spec = "kube_deployment_spec_replicas" if kind == "deployment" else "kube_statefulset_replicas"
            yield spec, labels, float(dig(obj, "spec", "replicas", default=0) or 0)
            yield f"kube_{kind}_status_replicas", labels, float(dig(obj, "status", "replicas", default=0) or 0)


#: Metrics of what costs money: in the night that an alarm is for, they stay.
_ABOUT_GPUS = frozenset(
    {
        *_GPU_METRICS,
        "kube_pod_status_phase",
        "kube_pod_container_resource_requests",
        "kube_pod_container_resource_limits",
        "kube_node_info",
        "kube_node_status_capacity",
        "kube_node_status_allocatable",
        "kube_deployment_spec_replicas",
        "kube_deployment_status_replicas",
        "kube_statefulset_replicas",
        "kube_statefulset_status_replicas",
    }
)
_KNOWN = _ABOUT_GPUS | {"kube_job_status_active", "kube_job_status_succeeded", "kube_job_status_failed"}
