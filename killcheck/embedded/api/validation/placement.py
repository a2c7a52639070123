"""Where pods may go: affinity, tolerations, taints, spread.

Source: pkg/apis/core/validation/validation.go, Kubernetes v1.36.
"""

from __future__ import annotations

from killcheck.embedded.api.validation import meta, names
from killcheck.embedded.api.validation.fields import (
    Causes,
    at,
    duplicate,
    forbidden,
    invalid,
    not_supported,
    required,
)
from killcheck.kube.objects import Obj

__all__ = ["affinity", "spread", "taints", "tolerations"]

_EFFECTS = ("NoSchedule", "PreferNoSchedule", "NoExecute")
_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"


def affinity(given: Obj, path: str) -> Causes:
    """A pod's affinity to nodes and pods."""
    causes: Causes = []
    node = given.get("nodeAffinity") or {}
    if node.get(_REQUIRED) is not None:
        causes += _node_selector(node[_REQUIRED], f"{path}.nodeAffinity.{_REQUIRED}")
    for i, term in enumerate(node.get(_PREFERRED) or []):
        here = f"{path}.nodeAffinity.{_PREFERRED}[{i}]"
        causes += _weight(term, here) + _node_term(term.get("preference") or {}, f"{here}.preference")
    for field in ("podAffinity", "podAntiAffinity"):
        pods = given.get(field) or {}
        for i, term in enumerate(pods.get(_REQUIRED) or []):
            causes += _pod_term(term, f"{path}.{field}.{_REQUIRED}[{i}]")
        for i, term in enumerate(pods.get(_PREFERRED) or []):
            here = f"{path}.{field}.{_PREFERRED}[{i}]"
            causes += _weight(term, here) + _pod_term(term.get("podAffinityTerm") or {}, f"{here}.podAffinityTerm")
    return causes


def _weight(term: Obj, path: str) -> Causes:
    weight = term.get("weight", 0)
    return [] if 1 <= weight <= 100 else [invalid(f"{path}.weight", weight, "must be in the range 1-100")]


def _node_selector(selector: Obj, path: str) -> Causes:
    terms = selector.get("nodeSelectorTerms") or []
    if not terms:
        return [required(f"{path}.nodeSelectorTerms", "must have at least one node selector term")]
    return [cause for i, term in enumerate(terms) for cause in _node_term(term, f"{path}.nodeSelectorTerms[{i}]")]


def _node_term(term: Obj, path: str) -> Causes:
    causes: Causes = []
    for i, one in enumerate(term.get("matchExpressions") or []):
        causes += _node_requirement(one, f"{path}.matchExpressions[{i}]")
    for i, one in enumerate(term.get("matchFields") or []):
        here = f"{path}.matchFields[{i}]"
        if one.get("operator") not in ("In", "NotIn"):
            causes.append(invalid(f"{here}.operator", one.get("operator", ""), "not a valid selector operator"))
        elif len(one.get("values") or []) != 1:
            words = "must be only one value when `operator` is 'In' or 'NotIn' for node field selector"
            causes.append(required(f"{here}.values", words))
        if one.get("key") != "metadata.name":
            causes.append(invalid(f"{here}.key", one.get("key", ""), "not a valid field selector key"))
    return causes


def _node_requirement(one: Obj, path: str) -> Causes:
    operator, values = one.get("operator", ""), one.get("values") or []
    causes: Causes = []
    if operator in ("In", "NotIn"):
        if not values:
            causes.append(required(f"{path}.values", "must be specified when `operator` is 'In' or 'NotIn'"))
    elif operator in ("Exists", "DoesNotExist"):
        if values:
            words = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'"
            causes.append(forbidden(f"{path}.values", words))
    elif operator in ("Gt", "Lt"):
        if len(values) != 1:
            causes.append(required(f"{path}.values", "must be specified single value when `operator` is 'Lt' or 'Gt'"))
    else:
        causes.append(invalid(f"{path}.operator", operator, "not a valid selector operator"))
    causes += names.label_name(f"{path}.key", one.get("key", ""))
    for i, value in enumerate(values):
        causes += [invalid(f"{path}.values[{i}]", value, words) for words in names.label_value(value)]
    return causes


def _pod_term(term: Obj, path: str) -> Causes:
    causes = meta.selector(term.get("labelSelector"), f"{path}.labelSelector")
    causes += meta.selector(term.get("namespaceSelector"), f"{path}.namespaceSelector")
    for namespace in term.get("namespaces") or []:
        causes += [invalid(f"{path}.namespace", namespace, words) for words in names.dns_label(namespace)]
    if not term.get("topologyKey"):
        causes.append(required(f"{path}.topologyKey", "can not be empty"))
    return causes + names.label_name(f"{path}.topologyKey", term.get("topologyKey", ""))


def tolerations(given: list[Obj], path: str) -> Causes:
    """A pod's tolerations."""
    causes: Causes = []
    for i, one in enumerate(given):
        here = at(path, i)
        operator, effect, value = one.get("operator", ""), one.get("effect", ""), one.get("value", "")
        if one.get("key"):
            causes += names.label_name(f"{here}.key", one["key"])
        elif operator != "Exists":
            words = 'operator must be Exists when `key` is empty, which means "match all values and all keys"'
            causes.append(invalid(f"{here}.operator", operator, words))
        if one.get("tolerationSeconds") is not None and effect != "NoExecute":
            words = "effect must be 'NoExecute' when `tolerationSeconds` is set"
            causes.append(invalid(f"{here}.effect", effect, words))
        if operator in ("Equal", ""):
            wrong = names.label_value(value)
            if wrong:
                causes.append(invalid(f"{here}.operator", value, ";".join(wrong)))
        elif operator == "Exists":
            if value:
                words = "value must be empty when `operator` is 'Exists'"
                causes.append(invalid(f"{here}.operator", value, words))
        else:
            compared = ("Lt", "Gt") if operator in ("Lt", "Gt") else ()  # known, behind a gate that is closed
            causes.append(not_supported(f"{here}.operator", operator, ("Equal", "Exists", *compared)))
        if effect and effect not in _EFFECTS:
            causes.append(not_supported(f"{here}.effect", effect, _EFFECTS))
    return causes


def taints(given: list[Obj], path: str) -> Causes:
    """A node's taints."""
    causes: Causes = []
    seen: set[tuple[str, str]] = set()
    for i, taint in enumerate(given):
        here, effect = at(path, i), taint.get("effect", "")
        causes += names.label_name(f"{here}.key", taint.get("key", ""))
        wrong = names.label_value(taint.get("value", ""))
        if wrong:
            causes.append(invalid(f"{here}.value", taint.get("value", ""), ";".join(wrong)))
        if not effect:
            causes.append(required(f"{here}.effect"))
        elif effect not in _EFFECTS:
            causes.append(not_supported(f"{here}.effect", effect, _EFFECTS))
        if (taint.get("key", ""), effect) in seen:
            shown = {"Key": taint.get("key", ""), "Value": taint.get("value", ""), "Effect": effect}
            cause = duplicate(here, shown | {"TimeAdded": taint.get("timeAdded")})
            causes.append(cause | {"message": f"{cause['message']}: taints must be unique by key and effect pair"})
        seen.add((taint.get("key", ""), effect))
    return causes


def spread(given: list[Obj], path: str) -> Causes:
    """A pod's topology spread constraints."""
    causes: Causes = []
    actions = ("DoNotSchedule", "ScheduleAnyway")
    for i, one in enumerate(given):
        here = at(path, i)
        if one.get("maxSkew", 0) <= 0:
            causes.append(invalid(f"{here}.maxSkew", one.get("maxSkew", 0), "must be greater than zero"))
        if not one.get("topologyKey"):
            causes.append(required(f"{here}.topologyKey", "can not be empty"))
        if one.get("whenUnsatisfiable") not in actions:
            causes.append(not_supported(f"{here}.whenUnsatisfiable", one.get("whenUnsatisfiable", ""), actions))
        pair = (one.get("topologyKey"), one.get("whenUnsatisfiable"))
        if pair in [(other.get("topologyKey"), other.get("whenUnsatisfiable")) for other in given[i + 1 :]]:
            causes.append(duplicate(f"{here}.{{topologyKey, whenUnsatisfiable}}", f"{{{pair[0]}, {pair[1]}}}"))
        causes += meta.selector(one.get("labelSelector"), f"{here}.labelSelector")
    return causes
