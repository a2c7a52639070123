"""HorizontalPodAutoscalers and PodDisruptionBudgets.

Source: pkg/apis/autoscaling/validation and pkg/apis/policy/validation of Kubernetes v1.36; recordings 23, 29.
"""

from __future__ import annotations

from killcheck.embedded.api import hpaversions
from killcheck.embedded.api.kinds import Kind
from killcheck.embedded.api.validation import meta, names
from killcheck.embedded.api.validation.fields import (
    Causes,
    at,
    forbidden,
    invalid,
    not_supported,
    required,
)
from killcheck.embedded.api.validation.intorpercent import at_most_all, int_or_percent
from killcheck.kube.objects import Obj
from killcheck.kube.quantities import parse

__all__ = ["create", "update"]

#: In the order in which they are looked at; with the type that wants each.
_SOURCES = {
    "object": "Object",
    "external": "External",
    "pods": "Pods",
    "resource": "Resource",
    "containerResource": "ContainerResource",
}
_TYPES = ("ContainerResource", "External", "Object", "Pods", "Resource")
_TARGETS = ("Utilization", "Value", "AverageValue")


def create(kind: Kind, new: Obj) -> Causes:
    """A new autoscaler or budget."""
    if kind.resource.kind == "PodDisruptionBudget":
        return meta.create(new["metadata"], meta.path_segment, core=meta.core(kind)) + _budget(new.get("spec") or {})
    return meta.create(new["metadata"], names.dns_subdomain) + _autoscaler(kind, _in_v2(kind, new)["spec"])


def update(kind: Kind, new: Obj, old: Obj) -> Causes:
    """A changed autoscaler or budget."""
    budget = kind.resource.kind == "PodDisruptionBudget"
    causes = meta.update(new["metadata"], old["metadata"], core=meta.core(kind))
    if budget:
        return causes + _budget(new.get("spec") or {})
    return causes + _autoscaler(kind, _in_v2(kind, new)["spec"])


def _in_v2(kind: Kind, obj: Obj) -> Obj:
    return hpaversions.to_v2(obj) if kind.resource.version == "v1" else obj


def _budget(spec: Obj) -> Causes:
    causes: Causes = []
    least, most = spec.get("minAvailable"), spec.get("maxUnavailable")
    if least is not None and most is not None:
        shown = {
            "MinAvailable": least,
            "Selector": spec.get("selector"),
            "MaxUnavailable": most,
            "UnhealthyPodEvictionPolicy": spec.get("unhealthyPodEvictionPolicy"),
        }
        causes.append(invalid("spec", shown, "minAvailable and maxUnavailable cannot be both set"))
    for field, value in (("minAvailable", least), ("maxUnavailable", most)):
        if value is not None:
            causes += int_or_percent(value, f"spec.{field}") + at_most_all(value, f"spec.{field}")
    causes += meta.selector(spec.get("selector"), "spec.selector")
    policy, known = spec.get("unhealthyPodEvictionPolicy"), ("AlwaysAllow", "IfHealthyBudget")
    if policy is not None and policy not in known:
        causes.append(not_supported("spec.unhealthyPodEvictionPolicy", policy, known))
    return causes


def _autoscaler(kind: Kind, spec: Obj) -> Causes:
    causes: Causes = []
    least, most = spec.get("minReplicas"), spec.get("maxReplicas", 0)
    lowest = 0 if kind.release.on("HPAScaleToZero") else 1
    if least is not None and least < lowest:
        causes.append(invalid("spec.minReplicas", least, f"must be greater than or equal to {lowest}"))
    if most == 0:
        causes.append(required("spec.maxReplicas", "must be set and greater than 0"))
    elif most < 0:
        causes.append(invalid("spec.maxReplicas", most, "must be greater than or equal to 1"))
    if least is not None and most < least:
        causes.append(invalid("spec.maxReplicas", most, "must be greater than or equal to `minReplicas`"))
    causes += _reference(spec.get("scaleTargetRef") or {}, "spec.scaleTargetRef")
    causes += _metrics(spec.get("metrics") or [], least)
    for field in ("scaleUp", "scaleDown"):
        rules = (spec.get("behavior") or {}).get(field)
        if rules is not None:
            causes += _rules(rules, f"spec.behavior.{field}")
    return causes


def _reference(target: Obj, path: str, *, core: bool = False) -> Causes:
    """What is scaled, or described by a metric; ``core``: also what is of no group."""
    causes: Causes = []
    for field in ("kind", "name"):
        value, here = target.get(field, ""), f"{path}.{field}"
        causes += [invalid(here, value, words) for words in meta.path_segment(value)] if value else [required(here)]
    return causes + _target_version(target, f"{path}.apiVersion", core=core)


def _target_version(target: Obj, path: str, *, core: bool) -> Causes:
    """``ValidateAPIVersion``: whatever can be scaled, ReplicationControllers apart, is of a named group."""
    version = target.get("apiVersion", "")
    if version.count("/") > 1:
        return [invalid(path, version, f"unexpected GroupVersion string: {version}")]
    if core or "/" in version or target.get("kind") == "ReplicationController":
        return []
    return [invalid(path, version, "apiVersion must specify API group")]


def _metrics(metrics: list[Obj], least: int | None) -> Causes:
    causes: Causes = []
    for i, metric in enumerate(metrics):
        causes += _metric(metric, at("spec.metrics", i))
    outside = any(metric.get("type") in ("Object", "External") for metric in metrics)
    if least == 0 and not outside:
        causes.append(
            forbidden(
                "spec.metrics",
                "must specify at least one Object or External metric to support scaling to zero replicas",
            )
        )
    return causes


def _metric(metric: Obj, path: str) -> Causes:
    causes: Causes = []
    kind = metric.get("type", "")
    if not kind:
        causes.append(required(f"{path}.type", "must specify a metric source type"))
    if kind not in _TYPES:
        causes += [not_supported(f"{path}.type", kind, _TYPES)] * 2  # found by two rules, as there
    given = [field for field in _SOURCES if metric.get(field) is not None]
    if given:
        causes += _source(given[0], metric[given[0]], f"{path}.{given[0]}")
    expected = next((field for field, name in _SOURCES.items() if name == kind), "")
    if expected and expected not in given:
        causes.append(required(f"{path}.{expected}", "must populate information for the given metric source"))
    if len(given) != 1:
        causes += [
            forbidden(f"{path}.{field}", "must populate the given metric source only")
            for field in given
            if field != expected
        ]
    return causes


def _source(field: str, source: Obj, path: str) -> Causes:
    causes: Causes = []
    target = source.get("target") or {}
    if field in ("resource", "containerResource"):
        if not source.get("name"):
            causes.append(required(f"{path}.name", "must specify a resource name"))
        if field == "containerResource" and not source.get("container"):
            causes.append(required(f"{path}.container", "must specify a container name"))
        causes += _target(target, f"{path}.target")
        utilization, value = target.get("averageUtilization"), target.get("averageValue")
        if utilization is None and value is None:
            causes.append(
                required(
                    f"{path}.target.averageUtilization", "must set either a target raw value or a target utilization"
                )
            )
        if utilization is not None and value is not None:
            causes.append(
                forbidden(f"{path}.target.averageValue", "may not set both a target raw value and a target utilization")
            )
        return causes
    if field == "object":
        causes += _reference(source.get("describedObject") or {}, f"{path}.describedObject", core=True)
    metric = (source.get("metric") or {}).get("name", "")
    if not metric:
        causes.append(required(f"{path}.metric.name", "must specify a metric name"))
    causes += [invalid(f"{path}.metric.name", metric, words) for words in meta.path_segment(metric)]
    causes += _target(target, f"{path}.target")
    return causes + _raw_target(field, target, f"{path}.target")


#: What is said of a metric's target that has none of these fields, by its source.
_RAW = {
    "pods": (("averageValue",), "must specify a positive target averageValue"),
    "object": (("value", "averageValue"), "must set either a target value or averageValue"),
    "external": (("value", "averageValue"), "must set either a target value for metric or a per-pod target"),
}


def _raw_target(source: str, target: Obj, path: str) -> Causes:
    fields, words = _RAW[source]
    given = [field for field in fields if target.get(field) is not None]
    if not given:
        return [required(f"{path}.averageValue", words)]
    if source == "external" and len(given) > 1:
        return [forbidden(f"{path}.value", "may not set both a target value for metric and a per-pod target")]
    return []


def _target(target: Obj, path: str) -> Causes:
    causes: Causes = []
    kind = target.get("type", "")
    if not kind:
        causes.append(required(f"{path}.type", "must specify a metric target type"))
    if kind not in _TARGETS:
        causes.append(invalid(f"{path}.type", kind, "must be either Utilization, Value, or AverageValue"))
    for field in ("value", "averageValue"):
        if target.get(field) is not None and parse(target[field]) <= 0:
            causes.append(invalid(f"{path}.{field}", target[field], "must be positive"))
    utilization = target.get("averageUtilization")
    if utilization is not None and utilization < 1:
        causes.append(invalid(f"{path}.averageUtilization", utilization, "must be greater than 0"))
    return causes


def _rules(rules: Obj, path: str) -> Causes:
    causes: Causes = []
    window = rules.get("stabilizationWindowSeconds")
    if window is not None and window < 0:
        causes.append(invalid(f"{path}.stabilizationWindowSeconds", window, "must be greater than or equal to zero"))
    if window is not None and window > 3600:
        causes.append(invalid(f"{path}.stabilizationWindowSeconds", window, "must be less than or equal to 3600"))
    known = ("Disabled", "Max", "Min")
    if rules.get("selectPolicy") not in (None, *known):
        causes.append(not_supported(f"{path}.selectPolicy", rules["selectPolicy"], known))
    tolerance = rules.get("tolerance")
    if tolerance is not None and parse(tolerance) < 0:
        causes.append(invalid(f"{path}.tolerance", tolerance, "must be greater than or equal to 0"))
    policies = rules.get("policies") or []
    if not policies:
        causes.append(required(f"{path}.policies", "must specify at least one Policy"))
    for i, policy in enumerate(policies):
        here, period = f"{path}.policies[{i}]", policy.get("periodSeconds", 0)
        if policy.get("type") not in ("Percent", "Pods"):
            causes.append(not_supported(f"{here}.type", policy.get("type", ""), ("Percent", "Pods")))
        if policy.get("value", 0) <= 0:
            causes.append(invalid(f"{here}.value", policy.get("value", 0), "must be greater than zero"))
        if period <= 0:
            causes.append(invalid(f"{here}.periodSeconds", period, "must be greater than zero"))
        if period > 1800:
            causes.append(invalid(f"{here}.periodSeconds", period, "must be less than or equal to 1800"))
    return causes
