"""Nobody would hear of it."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping

from killcheck.probes.base import Finding, Probe
from killcheck.probes.world import World, namespace_or_default

from killcheck.alerting import loading
from killcheck.alerting.rules import rules_of
from killcheck.discover.deadlines import go_duration_s
from killcheck.kube.objects import Obj, dig, items, labels_of, name_of, namespace_of
from killcheck.promql import exporters
from killcheck.promql.language import Unsupported, parse
from killcheck.spec.cloud_access import Alarm
from killcheck.text import lazy_re

__all__ = ["NoAlarm"]


class NoAlarm(Probe):
    """Where everything fails, an alert on idle GPUs or on a failed Job is what ends the bill in the morning."""

    id = "no-alarm"
    claim = "An alert fires when GPUs idle or a layer's Job fails."
    remedy = "Alert on kube_job_status_failed of the layer's Job, and on DCGM_FI_DEV_GPU_UTIL of an idle night."
    severity = "note"
    failures = (15, 48)
    sources = (
        "github.com/NVIDIA/dcgm-exporter: metrics",
        "kube-state-metrics: CronJob and Job metrics",
        "kueue pkg/metrics/metrics.go",
    )
    needs = ("PrometheusRule",)

    def ask(self, world: World) -> Iterable[Finding]:
        """PrometheusRules, where there are any: one about the layers or the GPUs, that can fire before the morning."""
        rules = [
            (obj, (i, j), rule)
            for obj in world.of("PrometheusRule")
            for i, group in enumerate(dig(obj, "spec", "groups", default=[]))
            for j, rule in enumerate(group.get("rules") or ())
            if rule.get("alert")
        ]
        about = [(obj, at, rule) for obj, at, rule in rules if _ABOUT.search(str(rule.get("expr", "")))]
        if rules and not about and world.schedules:
            message = "no alert among the rules here is about idle GPUs or about this Job"
            yield self.finding(world, world.schedules[0][1], (), message)
        for obj, (i, j), rule in rules:
            deaf = _deaf(str(rule.get("expr", ""))[:_LONGEST])
            if deaf:
                path = ("spec", "groups", i, "rules", j, "expr")
                remedy = "See ci/prometheus/gpu-cost.yaml for one that does."
                yield self.finding(world, obj, path, f"{rule['alert']} {deaf}", severity="warning", remedy=remedy)
        for obj, (i, j), rule in about:
            path = ("spec", "groups", i, "rules", j, "expr")
            why = _never(world, str(rule.get("expr", "")))
            if why:
                yield self.finding(
                    world,
                    obj,
                    path,
                    f"{rule['alert']} can never fire: {why}",
                    severity="warning",
                    remedy="Let it match what is here; then make it fire once, in a drill.",
                )
        yield from self._unheard(world)
        for obj, (i, j), rule in about:
            seconds = go_duration_s(str(rule.get("for", "0s")))
            if seconds is not None and seconds >= _TOO_LATE_S:
                message = f"{rule['alert']} waits {rule['for']} before it fires: the night is over"
                path = ("spec", "groups", i, "rules", j, "for")
                yield self.finding(world, obj, path, message, severity="warning", remedy="Let it fire within an hour.")

    def _unheard(self, world: World) -> Iterator[Finding]:
        """Alerts about GPUs that no Prometheus here loads, scrapes the series of, or sends."""
        objects = list(world.of("PrometheusRule"))
        rules = rules_of(objects, Alarm())
        if not rules:
            return
        spaces = {name_of(one): labels_of(one) for one in world.of("Namespace")}
        monitors, services = list(world.of("ServiceMonitor", "PodMonitor")), list(world.of("Service"))
        found = loading.seen(list(world.of("Prometheus", "ThanosRuler")), monitors, services, spaces)
        usual = found[0].scrapes if found else loading.scrapes(None, monitors, services, spaces)
        by = loading.Loading(found, spaces, loading.recorded(objects, found, spaces), usual)
        places = {f"{namespace_of(one)}/{name_of(one)}": one for one in objects}
        for rule in loading.as_loaded(rules, objects, by):
            if rule.silent:
                obj, path = places[rule.object], ("spec", "groups")
                message = f"nobody hears of {rule.alert}: {rule.silent}"
                remedy = "Let it be loaded, scraped for and sent to an Alertmanager; then drill it with proof P5."
                yield self.finding(world, obj, path, message, severity="warning", remedy=remedy)


def _deaf(expr: str) -> str | None:
    """Why an alert on what GPUs cost is silent in the very case that it is for; None where it is not.

    Sources: kueue pkg/metrics/metrics.go (waiting is observed at admission); prometheus.io/docs: count() of nothing.
    """
    if _WAITED.search(expr) and "kueue_pending_workloads" not in expr:
        return "does not hear of what waits still: Kueue writes that metric when a workload is admitted"
    if _SHARE.search(expr) and "<" in expr and not re.search(r"\b(?:or|absent)\b", expr):
        return "says nothing where no node is spot at all: count() of nothing is no series, and no 0 (or vector(0))"
    return None


def _never(world: World, expr: str) -> str | None:
    """Why an expression is never true of this kill path; None where it may be."""
    nobody = next(filter(None, map(exporters.missing, _metrics(expr))), None)
    if nobody is not None and "absent" not in expr and not re.search(r"\bor\b", expr):
        return nobody
    unlabelled = _unlabelled(world, expr)
    if unlabelled is not None:
        return unlabelled
    renamed = _renamed(world, expr)
    if renamed is not None:
        return renamed
    below = re.search(r"<\s*(0(?:\.0*)?|-\d\S*)\s*$", expr.strip())
    if below and re.search(r"DCGM_|util|gpu", expr, re.IGNORECASE):
        return f"no utilisation is below {below[1]}"
    # Of an alert about what others have in that namespace nothing is said here.
    spaces = {one.namespace for one in world.layer_executors} | {_space(one) for one in world.objects}
    unsaid = not world.live and any(not namespace_of(holder.obj) for holder in world.holders)  # a kustomization's, a -n
    names = {name_of(obj) for _, obj in world.schedules}
    for label, operator, value in _MATCHER.findall(expr):
        if label in ("namespace", "exported_namespace") and not (unsaid or _some(operator, value, spaces)):
            return f'{label}{operator}"{value}" is where nothing of this kill path is'
        if label in ("cronjob", "owner_name") and names and not _some(operator, value, names):
            return f'{label}{operator}"{value}" is none of its CronJobs ({", ".join(sorted(names))})'
        if label == "job_name" and names and not _some(operator, value, {f"{name}-29471580" for name in names}):
            return f'{label}{operator}"{value}" is no Job of its CronJobs ({", ".join(sorted(names))})'
    return None


def _space(obj: Obj) -> str:
    """The namespace that an object is in, or makes."""
    return name_of(obj) if obj.get("kind") == "Namespace" else namespace_of(obj) or "default"


def _metrics(expr: str) -> list[str]:
    """The metrics that an expression reads; none where it is not understood."""
    try:
        return sorted(parse(expr).metrics)
    except Unsupported:
        return []


def _unlabelled(world: World, expr: str) -> str | None:
    """Labels of objects that the kube-state-metrics here does not export; None where it does, or is not here."""
    read = re.findall(r"\bkube_(\w+?)_labels\b", expr)
    setups = [
        " ".join(map(str, [*(container.get("command") or ()), *(container.get("args") or ())]))
        for deployment in world.of("Deployment")
        for container in dig(deployment, "spec", "template", "spec", "containers", default=[])
        if "kube-state-metrics" in str(container.get("image", ""))
    ]
    for kind in read if setups else ():
        if not any(f"{kind}s=[" in said for said in setups):
            return f"kube-state-metrics makes no kube_{kind}_labels without --metric-labels-allowlist={kind}s=[...]"
    return None


def _renamed(world: World, expr: str) -> str | None:
    """A label of DCGM's series that the scrape here calls otherwise; None where it does not, or is not here.

    Source: prometheus.io/docs, scrape_config ``honor_labels`` (ServiceMonitor ``honorLabels``, by default false).
    """
    for monitor in world.of("ServiceMonitor", "PodMonitor"):
        ends = dig(monitor, "spec", "endpoints", default=[]) or dig(monitor, "spec", "podMetricsEndpoints", default=[])
        if "dcgm" not in f"{name_of(monitor)} {dig(monitor, 'spec', 'selector')}" or any(
            one.get("relabelings") or one.get("metricRelabelings") for one in ends
        ):
            continue
        honours = any(one.get("honorLabels") is True for one in ends)
        says = f"{monitor['kind']} {name_of(monitor)} " + ("has" if honours else "has no") + " honorLabels: true"
        for matchers in _OF_DCGM.findall(expr):
            for label, operator, value in _MATCHER.findall(matchers):
                plain = label.removeprefix("exported_")
                if plain not in _BOTH or honours == (label == plain):
                    continue
                instead = {""} if honours else _of_exporter(world, monitor)
                if _some(operator, value, {*_BOTH[plain](world)}) and not _some(operator, value, instead):
                    return f"the scrape calls {label} {plain if honours else f'exported_{label}'}: {says}"
    return None


def _of_exporter(world: World, monitor: Obj) -> set[str]:
    """What the label says where the workload's own was renamed: the exporter's own namespace, or its pod's name."""
    made_of = [one for one in world.of("DaemonSet", "Service") if "dcgm" in name_of(one)]
    spaces = [namespace_or_default(one) for one in (monitor, *made_of)]
    named = dig(monitor, "spec", "namespaceSelector", "matchNames", default=[])
    return {*spaces, *map(str, items(named)), *(f"{name_of(one)}-0" for one in (monitor, *made_of))}


#: Labels that dcgm-exporter and its scrape both have, and what they are of this kill path's GPUs.
_BOTH: Mapping[str, Callable[[World], Iterable[str]]] = {
    "namespace": lambda world: (holder.namespace for holder in world.holders),
    "pod": lambda world: (f"{name_of(holder.obj)}-0" for holder in world.holders),
}
_OF_DCGM = lazy_re.compile(r"DCGM_\w+\s*\{([^}]*)\}")


def _some(operator: str, value: str, among: set[str]) -> bool:
    """Whether a PromQL matcher is true of any of these values (its patterns are anchored)."""
    try:
        same = [one == value if "~" not in operator else bool(re.fullmatch(value, one)) for one in among]
    except re.error:
        return True
    return any(one is (operator in ("=", "=~")) for one in same)


#: A label matcher of PromQL.
_MATCHER = lazy_re.compile(r"""(\w+)\s*(=~|!~|!=|=)\s*["']([^"']*)["']""")
#: So much of an expression is looked at, in characters.
_LONGEST = 4000
#: Histograms of how long workloads have waited, as series that there are.
_WAITED = lazy_re.compile(r"kueue_\w*(?:admission|quota_reserved)_wait_time_seconds_(?:bucket|sum|count)")
#: A share of spot nodes, by counting.
_SHARE = lazy_re.compile(r"\bcount\s*(?:by\s*\([^)]*\)\s*)?\([^()]*spot[^()]*\)\s*/", re.IGNORECASE)
_ABOUT = lazy_re.compile(r"DCGM_|gpu|kube_(cron)?job_|nvidia|neuron", re.IGNORECASE)
#: Seconds: a night.
_TOO_LATE_S = 6 * 3600.0
