"""Types that hold expressions, which are compiled when they are written: admission policies, device classes.

Source: pkg/apis/admissionregistration/validation and pkg/apis/resource/validation of Kubernetes v1.36, and the answers
of kube-apiserver v1.36.2.
"""

from __future__ import annotations

from killcheck.embedded.api import celcompile
from killcheck.embedded.api.kinds import Kind
from killcheck.embedded.api.validation import anything, names
from killcheck.embedded.api.validation.fields import Causes, at, duplicate, invalid, not_supported, required
from killcheck.kube.objects import Obj

__all__ = ["create", "match_conditions", "selectors", "update"]

_REASONS = ("Forbidden", "Invalid", "RequestEntityTooLarge")
_ACTIONS = ("Audit", "Deny", "Warn")
_NOTHING = "validations or auditAnnotations must contain at least one item"
_TWICE = (
    "must not contain both Deny and Warn (repeating the same validation failure information in the API response and "
    "headers serves no purpose)"
)
_DEVICE_TYPE = "must evaluate to {} or the unknown type, not {}"


def create(kind: Kind, new: Obj) -> Causes:
    """A new object."""
    return anything.create(kind, new) + _body(kind, new.get("spec") or {})


def update(kind: Kind, new: Obj, old: Obj) -> Causes:
    """A changed object."""
    return anything.update(kind, new, old) + _body(kind, new.get("spec") or {})


def selectors(given: list[Obj], path: str) -> Causes:
    """What chooses devices."""
    causes: Causes = []
    for i, one in enumerate(given):
        text = str((one.get("cel") or {}).get("expression") or "")
        why = celcompile.problem(text, celcompile.DEVICE, otherwise=_DEVICE_TYPE)
        if one.get("cel") is None:
            causes.append(required(f"{at(path, i)}.cel"))
        elif why:
            causes.append(invalid(f"{at(path, i)}.cel.expression", text, why))
    return causes


def match_conditions(given: list[Obj], path: str, *, params: bool = False) -> Causes:
    """What webhooks and policies are asked for at all."""
    causes: Causes = []
    seen: set[str] = set()
    for i, one in enumerate(given):
        here, name = at(path, i), one.get("name") or ""
        said = bool(str(one.get("expression") or "").strip())
        declared = celcompile.policy(False, params)
        causes += _compiled(one, f"{here}.expression", declared) if said else [required(f"{here}.expression")]
        causes += names.label_name(f"{here}.name", name) if name else [required(f"{here}.name")]
        causes += [duplicate(f"{here}.name", name)] * (name in seen)
        seen |= {name} - {""}
    return causes


def _extended(name: str | None) -> Causes:
    """Of a domain that is not Kubernetes' own (``IsExtendedResourceName``)."""
    if name is None:
        return []
    own = "/" not in name or "kubernetes.io/" in name or name.startswith("requests.")
    wrong = own or bool(names.qualified_name(f"requests.{name}"))
    return [invalid("spec.extendedResourceName", name, "must be a valid extended resource name")] if wrong else []


def _body(kind: Kind, spec: Obj) -> Causes:
    if kind.resource.kind == "DeviceClass":
        return selectors(spec.get("selectors") or [], "spec.selectors") + _extended(spec.get("extendedResourceName"))
    if kind.resource.kind == "ValidatingAdmissionPolicyBinding":
        return _binding(spec)
    return _policy(spec)


def _policy(spec: Obj) -> Causes:
    causes: Causes = []
    if spec.get("failurePolicy") not in (None, "Fail", "Ignore"):
        causes.append(not_supported("spec.failurePolicy", spec["failurePolicy"], ("Fail", "Ignore")))
    params, variables = spec.get("paramKind") is not None, spec.get("variables") or []
    seen = celcompile.policy(bool(variables), params)
    causes += match_conditions(spec.get("matchConditions") or [], "spec.matchConditions", params=params)
    for i, one in enumerate(variables):
        causes += _compiled(one, f"{at('spec.variables', i)}.expression", seen, wanted="")
    validations = spec.get("validations") or []
    if not validations and not spec.get("auditAnnotations"):
        return [*causes, required("spec.validations", _NOTHING), required("spec.auditAnnotations", _NOTHING)]
    for i, one in enumerate(validations):
        here = at("spec.validations", i)
        causes += _compiled(one, f"{here}.expression", seen)
        if one.get("reason") not in (None, *_REASONS):
            causes.append(not_supported(f"{here}.reason", one["reason"], _REASONS))
    return causes


def _compiled(one: Obj, path: str, declared: celcompile.Declared, wanted: str = "bool") -> Causes:
    text = str(one.get("expression") or "")
    if not text.strip():
        return [required(path, "expression is not specified")]
    why = celcompile.problem(text.strip(), declared, wanted)
    return [invalid(path, text, why)] if why else []


def _binding(spec: Obj) -> Causes:
    name, actions = str(spec.get("policyName") or ""), spec.get("validationActions") or []
    causes: Causes = [required("spec.policyName")] if not name else names.dns_subdomain_cause("spec.policyName", name)
    if not actions:
        causes.append(required("spec.validationActions", "at least one validation action is required"))
    for i, action in enumerate(actions):
        here = at("spec.validationActions", i)
        if action not in _ACTIONS:
            causes.append(not_supported(here, action, _ACTIONS))
        elif action in actions[:i]:
            causes.append(duplicate(here, action))
    if {"Deny", "Warn"} <= set(actions):
        causes.append(invalid("spec.validationActions", actions, _TWICE))
    return causes
