"""What admission policies of both sorts have in common: which requests they are about, their parameters and variables.

Source: apiserver's admission/plugin/policy/generic.
"""

from __future__ import annotations

from collections.abc import Iterator

from killcheck.embedded.api.admission.expressions import ExpressionError, Seen, evaluate, variables_of
from killcheck.embedded.api.admission.matching import in_namespaces, matches_rules, selects_object
from killcheck.embedded.api.admission.request import AdmissionRequest
from killcheck.embedded.api.store import Store, Table
from killcheck.kube.objects import Obj, dig, labels_of, name_of
from killcheck.kube.selectors import from_match_labels

__all__ = ["applies", "bound", "parameters", "variables"]


def bound(store: Store, policies: Table, bindings: Table, request: AdmissionRequest) -> Iterator[tuple[Obj, Obj]]:
    """(policy, binding) of everything that a request concerns, in the order of the bindings' names."""
    for _, binding in store.items(bindings):
        policy = store.get(policies, ("", dig(binding, "spec", "policyName", default="")))
        if (
            policy is not None
            and _matches(dig(policy, "spec", "matchConstraints", default={}), request, store)
            and (_matches(dig(binding, "spec", "matchResources", default={}), request, store))
        ):
            yield policy, binding


def _matches(wanted: Obj, request: AdmissionRequest, store: Store) -> bool:
    rules = wanted.get("resourceRules")
    if matches_rules(wanted.get("excludeResourceRules") or (), request):
        return False
    if rules and not matches_rules(rules, request):
        return False
    if not selects_object(wanted.get("objectSelector"), request):
        return False
    return in_namespaces(wanted.get("namespaceSelector"), request, store)


def applies(policy: Obj, request: AdmissionRequest, store: Store, params: Obj | None) -> bool:
    """Whether a policy's conditions hold. Raises ExpressionError."""
    conditions = dig(policy, "spec", "matchConditions", default=())
    seen = variables_of(request, store, params) if conditions else {}
    return all(evaluate(condition.get("expression", ""), seen) is not False for condition in conditions)


def variables(policy: Obj, request: AdmissionRequest, store: Store, params: Obj | None) -> Obj:
    """What a policy's expressions see, its own variables included; one that fails does so for who asks for it."""
    spec: Obj = policy.get("spec") or {}
    composed: Obj = {}
    seen = Seen(variables_of(request, store, params) | {"variables": composed})
    for variable in spec.get("variables") or ():
        try:
            composed[variable["name"]] = evaluate(variable["expression"], seen)
        except ExpressionError as error:
            seen.failed[variable["name"]] = error
    return seen


def parameters(store: Store, policy: Obj, binding: Obj, request: AdmissionRequest) -> list[Obj | None]:
    """The parameter objects of a binding; one None where the policy takes none. Raises ExpressionError."""
    kind, ref = dig(policy, "spec", "paramKind"), dig(binding, "spec", "paramRef")
    if not kind or not ref:
        return [None]
    group = kind.get("apiVersion", "").rpartition("/")[0]
    namespace = ref.get("namespace") or request.namespace
    found: list[Obj | None] = []
    for table in store.tables():
        if table[0] == group:
            found += [
                obj
                for _, obj in store.items(table)
                if obj.get("kind") == kind.get("kind")
                and (dig(obj, "metadata", "namespace", default="") in ("", namespace))
                and _chosen(obj, ref)
            ]
    if not found and ref.get("parameterNotFoundAction", "Deny") == "Deny":
        raise ExpressionError(
            "failed to configure binding: no params found for policy binding with `Deny` parameterNotFoundAction"
        )
    return found


def _chosen(obj: Obj, ref: Obj) -> bool:
    if ref.get("name"):
        return bool(name_of(obj) == ref["name"])
    return from_match_labels(ref.get("selector")).matches(labels_of(obj))
