"""Types that hold expressions, which are compiled when they are written: admission policies, device classes.

Source: pkg/apis/admissionregistration/validation and pkg/apis/resource/validation of Kubernetes v1.36, and the answers
of kube-apiserver v1.36.2.
"""

from __future__ import annotations

from killcheck.embedded.api import celcompile
from killcheck.embedded.api.kinds import Kind
from killcheck.embedded.api.validation import admissionrules, anything, names
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
#: What an audit annotation may be.
_AUDITED = ("string", "null")
_DEVICE_TYPE = "must evaluate to {} or the unknown type, not {}"


def create(kind: Kind, new: Obj) -> Causes:
    """A new object."""
    return anything.create(kind, new) + _body(kind, new)


def update(kind: Kind, new: Obj, old: Obj) -> Causes:
    """A changed object."""
    return anything.update(kind, new, old) + _body(kind, new)


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
        declared = celcompile.policy(params)
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


def _body(kind: Kind, new: Obj) -> Causes:
    spec = new.get("spec") or {}
    if kind.resource.kind == "DeviceClass":
        return selectors(spec.get("selectors") or [], "spec.selectors") + _extended(spec.get("extendedResourceName"))
    if kind.resource.kind == "ValidatingAdmissionPolicyBinding":
        return _binding(spec)
    return _policy(spec, str(new["metadata"].get("name") or ""))


def _policy(spec: Obj, name: str) -> Causes:
    causes: Causes = []
    if spec.get("failurePolicy") not in (None, "Fail", "Ignore"):
        causes.append(not_supported("spec.failurePolicy", spec["failurePolicy"], ("Fail", "Ignore")))
    params, variables = spec.get("paramKind") is not None, spec.get("variables") or []
    constraints = spec.get("matchConstraints")
    if constraints is None:
        causes.append(required("spec.matchConstraints"))
    for i, rule in enumerate((constraints or {}).get("resourceRules") or []):
        causes += admissionrules.rule(rule, at("spec.matchConstraints.resourceRules", i))
    if constraints is not None and not constraints.get("resourceRules"):
        causes.append(required("spec.matchConstraints.resourceRules"))
    causes += match_conditions(spec.get("matchConditions") or [], "spec.matchConditions", params=params)
    known: list[str] = []
    for i, one in enumerate(variables):
        wrong = _compiled(one, f"{at('spec.variables', i)}.expression", celcompile.policy(params, known), wanted="")
        known += [str(one.get("name") or "")] * (not wrong)
        causes += wrong
    names_seen = known if variables else None
    validations, notes = spec.get("validations") or [], spec.get("auditAnnotations") or []
    if not validations and not notes:
        return [*causes, required("spec.validations", _NOTHING), required("spec.auditAnnotations", _NOTHING)]
    for i, one in enumerate(validations):
        causes += _validation(one, at("spec.validations", i), params, names_seen)
    for i, one in enumerate(notes):
        named = f"{name}/{one.get('key', '')}"
        where = f"{at('spec.auditAnnotations', i)}.key"
        causes += [invalid(where, named, words) for words in names.qualified_name(named)]
        here = f"{at('spec.auditAnnotations', i)}.valueExpression"
        text = str(one.get("valueExpression") or "")
        why = celcompile.problem(text.strip(), celcompile.policy(params, names_seen), _AUDITED)
        wrong = [invalid(here, text, why)] if why else []
        causes += wrong if text.strip() else [required(here, "valueExpression is not specified")]
    return causes


def _validation(one: Obj, here: str, params: bool, variables: list[str] | None) -> Causes:
    causes = _compiled(one, f"{here}.expression", celcompile.policy(params, variables))
    text, message = str(one.get("messageExpression") or ""), str(one.get("message") or "")
    if text.strip():
        seen = celcompile.policy(params, variables, authorizer=False)
        why = celcompile.problem(text.strip(), seen, "string")
        causes += [invalid(f"{here}.messageExpression", text, why)] if why else []
    elif text:
        causes.append(invalid(f"{here}.messageExpression", text, "must be non-empty if specified"))
    if message and not message.strip():
        causes.append(invalid(f"{here}.message", message, "must be non-empty if specified"))
    elif "\n" in message.strip():
        causes.append(invalid(f"{here}.message", message, "must not contain line breaks"))
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
