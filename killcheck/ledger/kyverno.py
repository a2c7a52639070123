"""Kyverno's rules about what a verdict rests on: those that can be decided here are, the others may say no.

A rule is asked about requests: the Jobs and pods that a switch makes, its writes to a target and to the target's scale,
and the pods that make a target up. One that matches none of them is harmless. So is a pattern that what is made has, as
Kyverno reads patterns. More than a plain pattern (deny conditions, CEL, foreach, pod security) is not evaluated.

Source: kyverno/kyverno release-1.13: api/kyverno/v1 (``match``, ``exclude``, ``validate``), pkg/engine/validate and
pkg/engine/pattern (operators, wildcards); a kind alone does not match its subresources (docs, "Match kinds").
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from fnmatch import fnmatchcase
from typing import Any

from msgspec import Struct

from killcheck.kube.objects import Obj, dig, items, labels_of, mappings, name_of, namespace_of, ref_of
from killcheck.kube.selectors import from_match_labels
from killcheck.kube.workloads import templates
from killcheck.ledger.stakes import Stakes, group_of, home_of
from killcheck.text import lazy_re

__all__ = ["acts_elsewhere", "concern", "is_policy"]

_KINDS = frozenset({"ClusterPolicy", "Policy"})
_OPERATORS = lazy_re.compile(r"(>=|<=|>|<|!)?(.*)", re.DOTALL)
_NUMBER = lazy_re.compile(r"-?\d+(\.\d+)?")


class _Asked(Struct, frozen=True):
    """A request: its operation, the object (None: it is not known), its kind with a subresource, and it in words."""

    operation: str
    kind: str
    namespace: str
    labels: Mapping[str, str]
    name: str
    what: str
    obj: Obj | None = None


def is_policy(obj: Obj) -> bool:
    """Whether an object is a policy of Kyverno's first form: rules that match and validate, mutate or generate."""
    return group_of(obj) == "kyverno.io" and obj.get("kind") in _KINDS


def acts_elsewhere(obj: Obj) -> bool:
    """Whether a rule of it makes or changes other objects than those that it is asked about.

    Not where all that it makes are NetworkPolicies about who may come in: those turn nothing on, and cut no switch off.
    """
    rules = mappings(dig(obj, "spec", "rules"))
    return any(dig(rule, "mutate", "targets") or (rule.get("generate") and not _only_ingress(rule)) for rule in rules)


def _only_ingress(rule: Obj) -> bool:
    made = rule["generate"]
    return bool(dig(made, "kind") == "NetworkPolicy" and dig(made, "data", "spec", "policyTypes") == ["Ingress"])


def concern(obj: Obj, stakes: Stakes) -> str | None:
    """What a policy may do to what a verdict rests on, in a phrase; None: nothing."""
    for rule in mappings(dig(obj, "spec", "rules")):
        changes = bool(rule.get("mutate")) and not dig(rule, "mutate", "targets")
        for asked in _requests(stakes, changes=changes):
            if namespace_of(obj) not in ("", asked.namespace) or not _matched(rule, asked, stakes):
                continue
            named = f"rule {rule.get('name')} is asked about {asked.what}"
            if changes:
                return f"{named}, and may change it"
            if _enforced(obj, rule, asked.namespace) and not _satisfied(rule, asked):
                return f"{named}, and may refuse it"
    return None


def _requests(stakes: Stakes, *, changes: bool) -> Iterator[_Asked]:
    for obj in stakes.switching():
        home = home_of(obj)
        for template in templates(obj):
            pod: Obj = {"apiVersion": "v1", "kind": "Pod", "metadata": dict(template.metadata), "spec": template.spec}
            labels = dict(template.metadata.get("labels") or {})
            yield _Asked("CREATE", "Pod", home, labels, name_of(obj), f"the pods of {ref_of(obj)}", pod)
        if obj.get("kind") == "CronJob":
            made = dig(obj, "spec", "jobTemplate", default={})
            job: Obj = {
                "apiVersion": "batch/v1",
                "kind": "Job",
                "metadata": made.get("metadata") or {},
                "spec": made.get("spec"),
            }
            yield _Asked("CREATE", "Job", home, labels_of(job), name_of(obj), f"the Jobs of {ref_of(obj)}", job)
    for held in stakes.targets:
        own, pods = (held.labels or [{}])[0], (held.labels or [{}])[-1]
        scale: Obj = {"apiVersion": "autoscaling/v1", "kind": "Scale", "metadata": {}, "spec": {"replicas": 0}}
        yield _Asked("UPDATE", f"{held.kind}/scale", held.namespace, {}, held.name, f"the scale of {held}", scale)
        # What may change a target may at its next write, whoever makes that.
        if changes or not stakes.only_scales(held):
            yield _Asked("UPDATE", held.kind, held.namespace, own, held.name, str(held))
            yield _Asked("DELETE", held.kind, held.namespace, own, held.name, str(held))
        yield _Asked("CREATE" if changes else "DELETE", "Pod", held.namespace, pods, held.name, f"the pods of {held}")


# -- match and exclude -----------------------------------------------------------------------------------------
def _matched(rule: Obj, asked: _Asked, stakes: Stakes) -> bool:
    """Whether a rule may match a request; what cannot be read of it may."""
    left_out = any(_picked(rule.get("exclude"), asked, stakes, sure=True))
    return any(_picked(rule.get("match"), asked, stakes, sure=False)) and not left_out


def _picked(match: Any, asked: _Asked, stakes: Stakes, *, sure: bool) -> Iterator[bool]:
    """Whether each alternative of a ``match`` or ``exclude`` picks a request."""
    match = match if isinstance(match, dict) else {}
    if match.get("any"):
        yield from (_filter(one, asked, stakes, sure=sure) for one in mappings(match["any"]))
    elif match.get("all"):
        yield all(_filter(one, asked, stakes, sure=sure) for one in mappings(match["all"]))
    elif match:
        yield _filter(match, asked, stakes, sure=sure)


def _filter(one: Obj, asked: _Asked, stakes: Stakes, *, sure: bool) -> bool:
    """Whether one filter picks a request. ``sure``: only one that can be read whole does."""
    resources = one.get("resources") or {}
    if sure and (set(one) - {"resources"} or set(resources) - {"kinds", "namespaces", "names", "name", "selector"}):
        return False
    kinds, namespaces = items(resources.get("kinds")), items(resources.get("namespaces"))
    names = [*items(resources.get("names")), *filter(None, [resources.get("name")])]
    operations = items(resources.get("operations"))
    space = labels_of(stakes.namespace(asked.namespace)) | {"kubernetes.io/metadata.name": asked.namespace}
    return (
        (not kinds or any(_of_kind(str(kind), asked.kind) for kind in kinds))
        and (not namespaces or any(fnmatchcase(asked.namespace, str(one)) for one in namespaces))
        and (not names or any(fnmatchcase(asked.name, str(one)) for one in names) or not (sure or asked.obj is None))
        and (not operations or asked.operation in map(str, operations))
        and _selected(resources.get("selector"), asked.labels)
        and _selected(resources.get("namespaceSelector"), space)
    )


def _of_kind(pattern: str, kind: str) -> bool:
    """``Pod``, ``v1/Pod``, ``batch/v1/Job``, ``apps/*/Deployment/scale``, ``Deployment.scale``, ``*``."""
    main, _, sub = kind.partition("/")
    parts = re.split(r"[/.]", pattern) if "." in pattern and "/" not in pattern else pattern.split("/")
    wanted = "/".join(parts[-2:]) if sub else parts[-1]
    return fnmatchcase(kind if sub else main, wanted) or (bool(sub) and pattern in ("*/*", f"*/{sub}", "Scale"))


def _selected(selector: Any, labels: Mapping[str, str]) -> bool:
    return not isinstance(selector, dict) or not selector or from_match_labels(selector).matches(labels)


# -- what a rule says ------------------------------------------------------------------------------------------
def _enforced(policy: Obj, rule: Obj, namespace: str) -> bool:
    """Whether a rule's failure is a refusal in a namespace; it is only written down by default."""
    own = dig(rule, "validate", "failureAction")
    said = own or dig(policy, "spec", "validationFailureAction", default="Audit")
    if not (rule.get("validate") or rule.get("verifyImages")):
        return False
    for one in (
        *mappings(dig(policy, "spec", "validationFailureActionOverrides")),
        *mappings(dig(rule, "validate", "failureActionOverrides")),
    ):
        if any(fnmatchcase(namespace, str(name)) for name in items(one.get("namespaces")) or ["*"]):
            said = one.get("action")
    return str(said).lower() == "enforce"


def _satisfied(rule: Obj, asked: _Asked) -> bool:
    """Whether a request has what a rule's pattern asks for: one that is known, of a pattern that can be read."""
    if rule.get("verifyImages"):
        return _of_other_images(rule, asked)
    validate = rule.get("validate") or {}
    pattern, others = validate.get("pattern"), validate.get("anyPattern")
    if not (pattern or others):
        return False
    if asked.operation == "DELETE":
        return True  # patterns are not asked of what goes (pkg/engine/handlers/validation)
    if asked.obj is None or rule.get("preconditions"):
        return False
    try:
        return any(_has(asked.obj, one) for one in ([pattern] if pattern else items(others)))
    except _UnreadError:
        return False


def _of_other_images(rule: Obj, asked: _Asked) -> bool:
    """Whether a rule about signatures is about none of the images of a request."""
    wanted = [str(one) for each in mappings(rule["verifyImages"]) for one in items(each.get("imageReferences"))]
    if asked.obj is None or asked.kind != "Pod" or not wanted:
        return asked.kind != "Pod" or asked.operation == "DELETE"
    spec = asked.obj.get("spec") or {}
    images = [str(one.get("image")) for kind in ("initContainers", "containers") for one in mappings(spec.get(kind))]
    return not any(fnmatchcase(image, pattern) for image in images for pattern in wanted)


class _UnreadError(Exception):
    """A pattern that is more than what is read here."""


def _has(value: Any, pattern: Any) -> bool:
    """Whether a value has what a pattern asks for. Raises _UnreadError."""
    if isinstance(pattern, dict):
        return isinstance(value, dict) and _has_all(value, pattern)
    if isinstance(pattern, list):
        if len(pattern) != 1:
            raise _UnreadError
        return isinstance(value, list) and all(_has(one, pattern[0]) for one in value)
    return _is(value, pattern)


def _has_all(value: Obj, pattern: Obj) -> bool:
    for key, wanted in pattern.items():
        anchor, name = re.fullmatch(r"([^\w]?)\((.*)\)", key), key
        if anchor:
            name = anchor[2]
            if anchor[1] not in ("", "="):
                raise _UnreadError
            if name not in value:
                continue  # both anchors ask nothing of what is not there
            if not anchor[1] and not _has(value[name], wanted):
                return True  # the condition does not hold: the rest of this mapping is not asked
            if not anchor[1]:
                continue
        if "*" in name or not _has(value.get(name), wanted):
            return False
    return True


def _is(value: Any, pattern: Any) -> bool:
    """One leaf. Numbers, booleans and plain text, wildcards, ``|`` and ``&``, ``!``, and comparisons of numbers."""
    if pattern is None or isinstance(pattern, bool | int | float):
        return bool(value == pattern)
    if isinstance(value, dict | list) or "{{" in str(pattern):
        raise _UnreadError
    return any(all(_is_one(value, one.strip()) for one in either.split("&")) for either in str(pattern).split("|"))


def _is_one(value: Any, pattern: str) -> bool:
    found = _OPERATORS.fullmatch(pattern)
    operator, wanted = (found[1], found[2].strip()) if found else (None, pattern)
    text = "" if value is None else str(value).lower() if isinstance(value, bool) else str(value)
    if operator in ("", None, "!"):
        if re.fullmatch(r"-?\d\S*-\S*\d\S*", wanted):
            raise _UnreadError  # a range
        same = value is not None and fnmatchcase(text, wanted.replace("[", "[[]"))
        return same != (operator == "!")
    if not (_NUMBER.fullmatch(text) and _NUMBER.fullmatch(wanted)):
        raise _UnreadError  # a quantity or a duration
    left, right = float(text), float(wanted)
    return {">": left > right, "<": left < right, ">=": left >= right, "<=": left <= right}[str(operator)]
