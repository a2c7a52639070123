"""Mutating and validating admission webhooks.

Sources: apiserver's admission/plugin/webhook (v1.36); recordings 15 and 15b.
"""

from __future__ import annotations

import base64
import binascii
import json
import random
from collections.abc import Iterator
from typing import Any
from uuid import UUID

from killcheck.embedded.api import status
from killcheck.embedded.api.admission.expressions import ExpressionError, evaluate, variables_of
from killcheck.embedded.api.admission.matching import exempt, in_namespaces, matches_rules, selects_object
from killcheck.embedded.api.admission.request import AdmissionRequest
from killcheck.embedded.api.admission.webhook_calls import CallFailed, WebhookCaller
from killcheck.embedded.api.kinds import subresource_of
from killcheck.embedded.api.store import Store
from killcheck.embedded.api.tokens import user_info
from killcheck.kube.objects import Obj

__all__ = [
    "Webhooks",
]

GROUP = "admissionregistration.k8s.io"
VALIDATING = (GROUP, "validatingwebhookconfigurations")
MUTATING = (GROUP, "mutatingwebhookconfigurations")
DEFAULT_TIMEOUT_S = 10
REVIEW_API = "admission.k8s.io/"


class _Unanswered(Exception):
    """A webhook that could not be asked, or whose answer cannot be used: its failurePolicy decides."""


class Webhooks:
    """Runs the webhooks that the store's configurations name, in the order of those names."""

    def __init__(self, store: Store, caller: WebhookCaller, rng: random.Random) -> None:
        self.store = store
        self.caller = caller
        self.rng = rng

    def mutate(self, request: AdmissionRequest, warnings: list[str], *, again: bool = False) -> bool:
        """Let mutating webhooks edit ``request.obj`` in place; answers whether one did.

        ``again``: only those with ``reinvocationPolicy: IfNeeded``. Raises StatusError.
        """
        changed = False
        for hook in self._relevant(MUTATING, request):
            if again and hook.get("reinvocationPolicy") != "IfNeeded":
                continue
            response = self._ask(hook, request, warnings, mutating=True)
            if response is not None and response.get("patch"):
                changed |= self._patched(hook, request, response)
        return changed

    def validate(self, request: AdmissionRequest) -> list[str]:
        """Ask every validating webhook; the first refusal is the answer. Raises StatusError."""
        warnings: list[str] = []
        for hook in self._relevant(VALIDATING, request):
            self._ask(hook, request, warnings, mutating=False)
        return warnings

    # -- which ---------------------------------------------------------------------------------------------
    def _relevant(self, table: tuple[str, str], request: AdmissionRequest) -> Iterator[Obj]:
        if exempt(request):
            return
        for _, configuration in self.store.items(table):
            for hook in configuration.get("webhooks") or ():
                if self._matches(hook, request):
                    yield hook

    def _matches(self, hook: Obj, request: AdmissionRequest) -> bool:
        if not matches_rules(hook.get("rules") or (), request):
            return False
        if not selects_object(hook.get("objectSelector"), request):
            return False
        if not in_namespaces(hook.get("namespaceSelector"), request, self.store):
            return False
        return self._conditions_hold(hook, request)

    def _conditions_hold(self, hook: Obj, request: AdmissionRequest) -> bool:
        conditions = hook.get("matchConditions")
        if not conditions:
            return True
        variables = variables_of(request, self.store)
        errors = []
        for condition in conditions:
            try:
                if evaluate(condition.get("expression", ""), variables) is False:
                    return False
            except ExpressionError as error:
                errors.append(str(error))
        if not errors:
            return True
        if _ignores(hook):
            return False
        raise request.forbidden(f'failed to evaluate match conditions of webhook "{hook.get("name")}": {errors[0]}')

    # -- asking --------------------------------------------------------------------------------------------
    def _ask(
        self,
        hook: Obj,
        request: AdmissionRequest,
        warnings: list[str],
        *,
        mutating: bool,
    ) -> Obj | None:
        """The ``response`` of a webhook that allows; None where it gave none and may be ignored."""
        name = hook.get("name", "")
        if request.dry_run and hook.get("sideEffects") not in ("None", "NoneOnDryRun"):
            raise status.bad_request(f'admission webhook "{name}" does not support dry run')
        try:
            response = self._call(hook, request, mutating=mutating)
        except _Unanswered as failed:
            if _ignores(hook):
                return None
            raise status.internal(f'failed calling webhook "{name}": {failed}') from failed
        warnings += response.get("warnings") or []
        if response.get("allowed"):
            return response
        raise _rejection(name, response.get("status") or {})

    def _call(self, hook: Obj, request: AdmissionRequest, *, mutating: bool) -> Obj:
        versions = hook.get("admissionReviewVersions") or ("v1",)
        version = next((v for v in versions if v in ("v1", "v1beta1")), "")
        if not version:
            raise _Unanswered(
                "could not create admission objects: webhook does not accept known AdmissionReview versions "
                "(v1, v1beta1)"
            )
        review = self._review(request, version)
        timeout_s = int(hook.get("timeoutSeconds") or DEFAULT_TIMEOUT_S)
        try:
            answer = self.caller.call(hook.get("clientConfig") or {}, timeout_s, review)
        except CallFailed as failed:
            raise _Unanswered(f"failed to call webhook: {failed}") from failed
        return _verified(answer, review, mutating=mutating)

    def _review(self, request: AdmissionRequest, version: str) -> Obj:
        resource = request.kind.resource
        spoken = (subresource_of(request.kind, request.subresource) if request.subresource else None) or resource
        kind = {"group": spoken.group, "version": spoken.version, "kind": spoken.kind}
        where = {"group": resource.group, "version": resource.version, "resource": resource.plural}
        options = {"CREATE": "CreateOptions", "UPDATE": "UpdateOptions", "DELETE": "DeleteOptions"}
        body: Obj = {
            "uid": str(UUID(int=self.rng.getrandbits(128), version=4)),
            "kind": kind,
            "resource": where,
            "requestKind": kind,
            "requestResource": where,
            "name": request.name,
            "namespace": request.namespace,
            "operation": request.operation,
            "userInfo": user_info(request.user),
            "object": request.obj,
            "oldObject": request.old,
            "dryRun": request.dry_run,
            "options": {"kind": options.get(request.operation, "CreateOptions"), "apiVersion": "meta.k8s.io/v1"},
        }
        if request.subresource:
            body |= {"subResource": request.subresource, "requestSubResource": request.subresource}
        body = {key: value for key, value in body.items() if value != "" or key == "uid"}
        return {"kind": "AdmissionReview", "apiVersion": REVIEW_API + version, "request": body}

    @staticmethod
    def _patched(hook: Obj, request: AdmissionRequest, response: Obj) -> bool:
        """Apply a JSON patch in place; answers whether it changed anything."""
        name = hook.get("name", "")
        if request.obj is None:
            raise status.internal(
                f'admission webhook "{name}" attempted to modify the object, which is not supported for this operation'
            )
        if response.get("patchType") != "JSONPatch":
            raise status.internal(
                f'failed calling webhook "{name}": unsupported patch type "{response.get("patchType")}"'
            )
        patched = _applied(name, request.obj, response["patch"])
        changed = bool(patched != request.obj)
        request.obj.clear()
        request.obj.update(patched)
        return changed


def _ignores(hook: Obj) -> bool:
    return hook.get("failurePolicy") == "Ignore"


def _rejection(name: str, said: Obj) -> status.StatusError:
    code = int(said.get("code") or 0)
    denied = f'admission webhook "{name}" denied the request'
    why = said.get("message") or said.get("reason")
    return status.StatusError(
        code if code >= 400 else 400,
        said.get("reason") or "",
        f"{denied}: {why}" if why else f"{denied} without explanation",
        details=said.get("details"),
    )


def _verified(answer: Obj, review: Obj, *, mutating: bool) -> Obj:
    """The ``response`` of an AdmissionReview that answers ``review``. Raises _Unanswered."""
    response = answer.get("response")
    uid = review["request"]["uid"]
    if not isinstance(response, dict):
        problem = "webhook response was absent"
    elif answer.get("apiVersion") != review["apiVersion"] or answer.get("kind") != "AdmissionReview":
        group, _, version = str(answer.get("apiVersion", "")).partition("/")
        problem = (
            f"expected webhook response of {review['apiVersion']}, Kind=AdmissionReview, got {group}/{version}, "
            f"Kind={answer.get('kind', '')}"
        )
    elif response.get("uid") != uid:
        problem = f'expected response.uid="{uid}", got "{response.get("uid", "")}"'
    elif not mutating and (response.get("patch") or response.get("patchType")):
        field = "patch" if response.get("patch") else "patchType"
        problem = f"validating webhook may not return response.{field}"
    elif mutating and bool(response.get("patch")) != bool(response.get("patchType")):
        there, missing = ("patch", "patchType") if response.get("patch") else ("patchType", "patch")
        problem = f"webhook returned response.{there} but not response.{missing}"
    else:
        return dict(response)
    raise _Unanswered(f"received invalid webhook response: {problem}")


def _applied(name: str, obj: Obj, encoded: str) -> dict[str, Any]:
    from jsonpatch import JsonPatch, JsonPatchException
    from jsonpointer import JsonPointerException

    try:
        operations = json.loads(base64.b64decode(encoded))
    except (binascii.Error, ValueError) as error:
        raise status.internal(
            f'failed calling webhook "{name}": received undecodable patch in webhook response: {error}'
        ) from error
    try:
        return dict(JsonPatch(operations).apply(obj))
    except (JsonPatchException, JsonPointerException) as error:
        raise status.internal(str(error)) from error
