"""ValidatingAdmissionPolicies and their bindings.

Source: apiserver's admission/plugin/policy/validating. Expressions need ``celpy``; where it is not installed a policy
in force refuses (or, with ``failurePolicy: Ignore``, lets pass) as one whose expression cannot be evaluated.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from killcheck.embedded.api import status
from killcheck.embedded.api.admission.expressions import ExpressionError, evaluate
from killcheck.embedded.api.admission.matching import exempt
from killcheck.embedded.api.admission.policies import applies, bound, parameters, variables
from killcheck.embedded.api.admission.request import AdmissionRequest
from killcheck.embedded.api.store import Store
from killcheck.kube.objects import Obj, dig, name_of

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
        for policy, binding in bound(self.store, POLICIES, BINDINGS, request):
            for denial in self._denials(policy, binding, request):
                actions = dig(binding, "spec", "validationActions", default=["Deny"])
                where = f"ValidatingAdmissionPolicy '{name_of(policy)}' with binding '{name_of(binding)}'"
                if "Deny" in actions:
                    raise _refusal(request, f"{where} denied request: {denial.message}", denial.reason)
                if "Warn" in actions:
                    warnings.append(f"Validation failed for {where}: {denial.message}")
        return warnings

    def _denials(self, policy: Obj, binding: Obj, request: AdmissionRequest) -> Iterator[Denial]:
        fails = dig(policy, "spec", "failurePolicy", default="Fail") == "Fail"
        try:
            for params in parameters(self.store, policy, binding, request):
                if applies(policy, request, self.store, params):
                    yield from self._evaluated(policy, variables(policy, request, self.store, params), fails)
        except ExpressionError as error:
            if fails:
                yield Denial(str(error))

    @staticmethod
    def _evaluated(policy: Obj, seen: Obj, fails: bool) -> Iterator[Denial]:
        for validation in dig(policy, "spec", "validations", default=()):
            try:
                if evaluate(validation.get("expression", ""), seen) is not True:
                    yield Denial(_message(validation, seen), validation.get("reason") or "Invalid")
            except ExpressionError as error:
                if fails:
                    yield Denial(str(error))


def _message(validation: Obj, seen: Obj) -> str:
    computed = ""
    if validation.get("messageExpression"):
        try:
            computed = str(evaluate(validation["messageExpression"], seen)).strip()
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
