"""ValidatingAdmissionPolicies and their bindings.

Source: apiserver's admission/plugin/policy/validating. Expressions need ``celpy``; where it is not installed a policy
in force refuses (or, with ``failurePolicy: Ignore``, lets pass) as one whose expression cannot be evaluated.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from killcheck.embedded.api import status
from killcheck.embedded.api.admission.expressions import ExpressionError, evaluate, variables_of
from killcheck.embedded.api.admission.matching import exempt, in_namespaces, matches_rules, selects_object
from killcheck.embedded.api.admission.request import AdmissionRequest
from killcheck.embedded.api.store import Store
from killcheck.kube.objects import Obj, dig, labels_of, name_of
from killcheck.kube.selectors import from_match_labels

__all__ = ["ValidatingAdmissionPolicy"]

GROUP = "admissionregistration.k8s.io"
POLICIES = (GROUP, "validatingadmissionpolicies")
BINDINGS = (GROUP, "validatingadmissionpolicybindings")
CODES = {"Forbidden": 403, "Unauthorized": 401, "RequestEntityTooLarge": 413, "Invalid": 422}


class Denial(NamedTuple):
    """One validation that failed, and the reason that its policy gives."""

    message: str
    reason: str = "Invalid"


class ValidatingAdmissionPolicy:
    """ValidatingAdmissionPolicy admission."""

    def __init__(self, store: Store) -> None:
        self.store = store

    def validate(self, request: AdmissionRequest) -> list[str]:
        """Refuse what a bound policy denies; warn where its binding only warns."""
        warnings: list[str] = []
        if exempt(request):
            return warnings
        for _, binding in self.store.items(BINDINGS):
            policy = self.store.get(POLICIES, ("", dig(binding, "spec", "policyName", default="")))
            if policy is None or not self._concerned(policy, binding, request):
                continue
            for denial in self._denials(policy, binding, request):
                actions = dig(binding, "spec", "validationActions", default=["Deny"])
                where = f"ValidatingAdmissionPolicy '{name_of(policy)}' with binding '{name_of(binding)}'"
                if "Deny" in actions:
                    raise _refusal(request, f"{where} denied request: {denial.message}", denial.reason)
                if "Warn" in actions:
                    warnings.append(f"Validation failed for {where}: {denial.message}")
        return warnings

    def _concerned(self, policy: Obj, binding: Obj, request: AdmissionRequest) -> bool:
        constraints = dig(policy, "spec", "matchConstraints", default={})
        resources = dig(binding, "spec", "matchResources", default={})
        return self._matches(constraints, request) and self._matches(resources, request)

    def _matches(self, wanted: Obj, request: AdmissionRequest) -> bool:
        rules = wanted.get("resourceRules")
        if matches_rules(wanted.get("excludeResourceRules") or (), request):
            return False
        if rules and not matches_rules(rules, request):
            return False
        if not selects_object(wanted.get("objectSelector"), request):
            return False
        return in_namespaces(wanted.get("namespaceSelector"), request, self.store)

    def _denials(self, policy: Obj, binding: Obj, request: AdmissionRequest) -> Iterator[Denial]:
        fails = dig(policy, "spec", "failurePolicy", default="Fail") == "Fail"
        try:
            for params in self._params(policy, binding, request):
                yield from self._evaluated(policy, variables_of(request, self.store, params), fails)
        except ExpressionError as error:
            if fails:
                yield Denial(str(error))

    def _evaluated(self, policy: Obj, variables: Obj, fails: bool) -> Iterator[Denial]:
        """What the validations of a policy say. Raises ExpressionError from match conditions and variables."""
        spec: Obj = policy.get("spec") or {}
        for condition in spec.get("matchConditions") or ():
            if evaluate(condition.get("expression", ""), variables) is False:
                return
        composed: Obj = {}
        for variable in spec.get("variables") or ():
            composed[variable["name"]] = evaluate(variable["expression"], variables | {"variables": composed})
        variables = variables | {"variables": composed}
        for validation in spec.get("validations") or ():
            try:
                if evaluate(validation.get("expression", ""), variables) is not True:
                    yield Denial(_message(validation, variables), validation.get("reason") or "Invalid")
            except ExpressionError as error:
                if fails:
                    yield Denial(str(error))

    def _params(self, policy: Obj, binding: Obj, request: AdmissionRequest) -> list[Obj | None]:
        """The parameter objects of a binding; one None where the policy takes none. Raises ExpressionError."""
        kind, ref = dig(policy, "spec", "paramKind"), dig(binding, "spec", "paramRef")
        if not kind or not ref:
            return [None]
        group = kind.get("apiVersion", "").rpartition("/")[0]
        namespace = ref.get("namespace") or request.namespace
        found: list[Obj | None] = []
        for table in self.store.tables():
            if table[0] == group:
                found += [obj for _, obj in self.store.items(table) if obj.get("kind") == kind.get("kind") and (
                    dig(obj, "metadata", "namespace", default="") in ("", namespace)) and _chosen(obj, ref)]
        if not found and ref.get("parameterNotFoundAction", "Deny") == "Deny":
            raise ExpressionError(
                "failed to configure binding: no params found for policy binding with `Deny` parameterNotFoundAction")
        return found


def _chosen(obj: Obj, ref: Obj) -> bool:
    if ref.get("name"):
        return bool(name_of(obj) == ref["name"])
    return from_match_labels(ref.get("selector")).matches(labels_of(obj))


def _message(validation: Obj, variables: Obj) -> str:
    computed = ""
    if validation.get("messageExpression"):
        try:
            computed = str(evaluate(validation["messageExpression"], variables)).strip()
        except ExpressionError:
            computed = ""  # as there: the plain message takes its place
    if computed and "\n" not in computed:
        return computed
    plain = str(validation.get("message") or "").strip()
    return plain or f"failed expression: {str(validation.get('expression', '')).strip()}"


def _refusal(request: AdmissionRequest, message: str, reason: str) -> status.StatusError:
    worded = request.forbidden(message)
    details = worded.status["details"] | {"causes": [{"message": message}]}
    return status.StatusError(CODES.get(reason, 422), reason, str(worded), details=details)
