"""HorizontalPodAutoscalers of autoscaling/v1 and v2: one object, of which v1 shows the CPU's utilization alone.

What else there is stands in v1's annotations, and comes back from them. Source: pkg/apis/autoscaling/v1/conversion.go
of Kubernetes v1.36.
"""

from __future__ import annotations

import json
from typing import Any

from killcheck.embedded.api import defaults
from killcheck.kube.objects import Obj, copy, dig

__all__ = ["to_v1", "to_v2"]

_METRICS, _CURRENT = f"{defaults.ROUND_TRIP}metrics", f"{defaults.ROUND_TRIP}current-metrics"
_BEHAVIOR, _CONDITIONS = f"{defaults.ROUND_TRIP}behavior", f"{defaults.ROUND_TRIP}conditions"
_KEPT = (_METRICS, _CURRENT, _BEHAVIOR, _CONDITIONS)
#: Go's names of what is in an autoscaler's behavior, in their order (pkg/apis/autoscaling/types.go).
_RULES = {
    "StabilizationWindowSeconds": "stabilizationWindowSeconds",
    "SelectPolicy": "selectPolicy",
    "Policies": "policies",
    "Tolerance": "tolerance",
}
_POLICY = {"Type": "type", "Value": "value", "PeriodSeconds": "periodSeconds"}
_SOURCES = ("object", "pods", "resource", "containerResource", "external")


def to_v1(obj: Obj) -> Obj:
    """As v1 shows it (a copy; apiVersion is the caller's)."""
    new = copy(obj)
    spec, status = new.get("spec", {}), new.get("status", {})
    notes = {k: v for k, v in (dig(new, "metadata", "annotations", default={}) or {}).items() if k not in _KEPT}
    metrics, behavior = spec.pop("metrics", None) or [], spec.pop("behavior", None)
    others = [metric for metric in metrics if _utilization(metric, "target") is None]
    for metric in metrics:
        if (utilization := _utilization(metric, "target")) is not None:
            spec["targetCPUUtilizationPercentage"] = utilization
    current = [one for one in status.pop("currentMetrics", None) or [] if one.get("type")]
    for metric in current:
        if (utilization := _utilization(metric, "current")) is not None:
            status["currentCPUUtilizationPercentage"] = utilization
    conditions = status.pop("conditions", None) or []
    notes |= {_METRICS: _dumped([_old(metric, "target") for metric in others])} if others else {}
    notes |= {_CURRENT: _dumped([_old(metric, "current") for metric in current])} if current else {}
    notes |= {_BEHAVIOR: _dumped(_in_go(behavior))} if behavior is not None else {}
    notes |= {_CONDITIONS: _dumped(conditions)} if conditions else {}
    return _noted(new, notes)


def to_v2(obj: Obj) -> Obj:
    """As v2 has it, defaults included (a copy; apiVersion is the caller's)."""
    new = copy(obj)
    spec, status = new.get("spec", {}), new.get("status", {})
    notes = dig(new, "metadata", "annotations", default={}) or {}
    target, current = (
        spec.pop("targetCPUUtilizationPercentage", None),
        status.pop("currentCPUUtilizationPercentage", None),
    )
    metrics = [_new(metric, "target") for metric in _loaded(notes, _METRICS, list)]
    if target is not None:
        amounts = {"type": "Utilization", "averageUtilization": target}
        metrics.append({"type": "Resource", "resource": {"name": "cpu", "target": amounts}})
    if metrics:
        spec["metrics"] = metrics
    behavior = _loaded(notes, _BEHAVIOR, dict)
    if behavior:
        spec["behavior"] = _from_go(behavior)
    seen = [_new(metric, "current") for metric in _loaded(notes, _CURRENT, list)]
    if not seen and current is not None:
        seen = [{"type": "Resource", "resource": {"name": "cpu", "current": {"averageUtilization": current}}}]
    if seen:
        status["currentMetrics"] = seen
    conditions = _loaded(notes, _CONDITIONS, list)
    if conditions:
        status["conditions"] = conditions
    new = _noted(new, {k: v for k, v in notes.items() if k not in _KEPT}) | {"apiVersion": "autoscaling/v2"}
    defaults.autoscaler(new)
    return new


# -- metrics ---------------------------------------------------------------------------------------------------
def _utilization(metric: Obj, amounts: str) -> Any:
    return dig(metric, "resource", amounts, "averageUtilization") if dig(metric, "resource", "name") == "cpu" else None


def _old(metric: Obj, amounts: str) -> Obj:
    """A metric as v1's annotation has it: ``amounts`` spelled out beside the name."""
    found: Obj = {"type": metric.get("type", "")}
    for source in _SOURCES:
        one = metric.get(source)
        if one is None:
            continue
        named, given = one.get("metric") or {}, one.get(amounts) or {}
        said: Obj = {}
        if source == "object":
            said["target"] = one.get("describedObject")
        said |= {key: one[key] for key in ("name", "container") if key in one}
        said |= {"metricName": named["name"]} if "name" in named else {}
        for key, value in given.items():
            if key != "type":
                said[_prefixed(key, amounts, source)] = value
        if "selector" in named:
            said["metricSelector" if source == "external" else "selector"] = named["selector"]
        found[source] = said
    return found


def _new(metric: Obj, amounts: str) -> Obj:
    found: Obj = {"type": metric.get("type", "")}
    for source in _SOURCES:
        one = metric.get(source)
        if not isinstance(one, dict):
            continue
        said: Obj = {"describedObject": one["target"]} if "target" in one and source == "object" else {}
        said |= {key: one[key] for key in ("name", "container") if key in one}
        named = {"name": one["metricName"]} if "metricName" in one else {}
        selector = one.get("metricSelector") or one.get("selector")
        named |= {"selector": selector} if selector else {}
        given = {
            key: one[old]
            for key in ("value", "averageValue", "averageUtilization")
            if (old := _prefixed(key, amounts, source)) in one
        }
        if amounts == "target":
            kinds = {"averageUtilization": "Utilization", "averageValue": "AverageValue", "value": "Value"}
            given = {"type": next((kinds[key] for key in kinds if key in given), "Value")} | given
        found[source] = said | ({"metric": named} if named else {}) | {amounts: given}
    return found


def _prefixed(key: str, amounts: str, source: str) -> str:
    """``averageValue`` -> ``targetAverageValue``; but of an object, whose average has no word before it."""
    if source == "object" and key == "averageValue":
        return key
    return f"{amounts}{key[0].upper()}{key[1:]}"


# -- behavior --------------------------------------------------------------------------------------------------
def _in_go(behavior: Obj) -> Obj:
    """As the internal type is written: Go's names, nothing left out."""
    return {go: _rules(behavior.get(own)) for go, own in (("ScaleUp", "scaleUp"), ("ScaleDown", "scaleDown"))}


def _rules(rules: Obj | None) -> Obj | None:
    if rules is None:
        return None
    found: Obj = {go: rules.get(own) for go, own in _RULES.items()}
    policies = rules.get("policies")
    found["Policies"] = policies and [{go: one.get(own) for go, own in _POLICY.items()} for one in policies]
    return found


def _from_go(behavior: Obj) -> Obj:
    found: Obj = {}
    for go, own in (("ScaleUp", "scaleUp"), ("ScaleDown", "scaleDown")):
        rules = behavior.get(go)
        if not isinstance(rules, dict):
            continue
        said = {name: rules[key] for key, name in _RULES.items() if rules.get(key) is not None}
        if isinstance(said.get("policies"), list):
            said["policies"] = [{name: one.get(key) for key, name in _POLICY.items()} for one in said["policies"]]
        found[own] = said
    return found


# -- annotations -----------------------------------------------------------------------------------------------
def _noted(obj: Obj, notes: dict[str, str]) -> Obj:
    meta = {k: v for k, v in obj.get("metadata", {}).items() if k != "annotations"}
    return obj | {"metadata": meta | ({"annotations": notes} if notes else {})}


def _dumped(value: Any) -> str:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False)


def _loaded(notes: dict[str, str], key: str, wanted: type) -> Any:
    """What an annotation holds; nothing where it cannot be read, which a real server passes over, too."""
    try:
        found = json.loads(notes.get(key) or "null")
    except ValueError:
        return wanted()
    return found if isinstance(found, wanted) else wanted()
