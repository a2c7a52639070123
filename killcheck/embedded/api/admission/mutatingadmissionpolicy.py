"""MutatingAdmissionPolicies and their bindings: ``ApplyConfiguration`` and ``JSONPatch`` mutations written in CEL.

Source: apiserver's admission/plugin/policy/mutating and the answers of a real v1.36.2. Policies act in the order of
their bindings' names; there it is left to chance.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from killcheck.clock import Loop
from killcheck.embedded.api import celobjects, status, type_dispatch
from killcheck.embedded.api.admission.expressions import ExpressionError, evaluate
from killcheck.embedded.api.admission.matching import exempt
from killcheck.embedded.api.admission.policies import applies, bound, parameters, variables
from killcheck.embedded.api.admission.request import AdmissionRequest
from killcheck.embedded.api.mergekeys import ApplyLists
from killcheck.embedded.api.patch import PatchFailed, apply_merge, json_patch
from killcheck.embedded.api.store import Store
from killcheck.kube.objects import Obj, copy, dig, name_of

__all__ = ["BINDINGS", "MutatingAdmissionPolicy"]

GROUP = "admissionregistration.k8s.io"
POLICIES = (GROUP, "mutatingadmissionpolicies")
BINDINGS = (GROUP, "mutatingadmissionpolicybindings")


class _Failure(NamedTuple):
    message: str
    reason: str


class MutatingAdmissionPolicy:
    """MutatingAdmissionPolicy admission."""

    def __init__(self, store: Store, loop: Loop) -> None:
        self.store = store
        self.loop = loop

    def mutate(self, request: AdmissionRequest, *, again: bool = False) -> bool:
        """Edit ``request.obj`` in place; answers whether anything changed.

        ``again``: once more, for policies that want to see what others changed after them. Raises StatusError 403 with
        every failure of a policy that does not ignore its own.
        """
        if exempt(request):
            return False
        before = copy(request.obj or {})
        failures: list[_Failure] = []
        # Which policies there are for it is decided before any of them has changed it.
        for policy, binding in list(bound(self.store, POLICIES, BINDINGS, request)):
            spec: Obj = policy["spec"]
            if again and spec.get("reinvocationPolicy") != "IfNeeded":
                continue
            found = self._invoke(policy, binding, request)
            if spec.get("failurePolicy") != "Ignore":
                where = f"policy '{name_of(policy)}' with binding '{name_of(binding)}' denied request"
                failures += [one._replace(message=f"{where}: {one.message}") for one in found]
        if failures:
            raise _refusal(request, failures)
        return bool(before != (request.obj or {}))

    def _invoke(self, policy: Obj, binding: Obj, request: AdmissionRequest) -> list[_Failure]:
        """Every mutation of a policy, for each of its parameters; what failed does not keep the others."""
        try:
            params = parameters(self.store, policy, binding, request)
        except ExpressionError as error:
            return [_Failure(str(error), "Forbidden")]
        return [failure for each in params for failure in self._mutations(policy, request, each)]

    def _mutations(self, policy: Obj, request: AdmissionRequest, params: Obj | None) -> Iterator[_Failure]:
        try:
            if request.obj is None or not applies(policy, request, self.store, params):
                return
        except ExpressionError as error:
            yield _Failure(str(error), "Invalid")
            return
        for mutation in policy["spec"].get("mutations") or ():
            try:
                changed = _mutated(mutation, request, variables(policy, request, self.store, params))
            except ExpressionError as error:
                yield _Failure(str(error), "Invalid")
                continue
            if not request.subresource:
                type_dispatch.apply_defaults(request.kind, changed, self.loop.now())
            request.obj.clear()
            request.obj.update(changed)


def _mutated(mutation: Obj, request: AdmissionRequest, seen: Obj) -> Obj:
    """The object after one mutation, typed. Raises ExpressionError; StatusError 500."""
    applies = mutation.get("patchType") == "ApplyConfiguration"
    field = "applyConfiguration" if applies else "jsonPatch"
    value = evaluate(dig(mutation, field, "expression", default=""), seen)
    new = _applied(request, value) if applies else _patched(request, value)
    if request.subresource:
        return new
    try:
        new, _unknown = type_dispatch.decode(request.kind, new)
    except status.StatusError as error:
        raise status.internal(str(error)) from error
    return new


def _applied(request: AdmissionRequest, value: Any) -> Obj:
    wrong = list(celobjects.type_errors(value))
    if wrong or not isinstance(value, dict):
        raise ExpressionError("type mismatch: " + "\n".join(wrong or ["the expression gives no Object"]))
    config, lists = celobjects.plain(value), ApplyLists(request.kind)
    whole = list(_atomic(config, lists, (), ""))
    if whole:
        raise ExpressionError(
            "error applying patch: invalid ApplyConfiguration: may not mutate atomic arrays, maps or structs: "
            + ", ".join(whole)
        )
    merged: Obj = apply_merge(copy(request.obj or {}), config, lists)
    return merged


def _atomic(value: Any, lists: ApplyLists, path: tuple[str, ...], shown: str) -> Iterator[str]:
    if isinstance(value, dict):
        if path and lists.is_atomic(path):
            yield shown
        for key, one in value.items():
            yield from _atomic(one, lists, (*path, key), f"{shown}.{key}")
    elif isinstance(value, list):
        if path and lists.keys(path) is None:
            yield shown
        for i, one in enumerate(value):
            yield from (
                _atomic(one, lists, path, f"{shown}[{i}]")
                if isinstance(one, list)
                else (
                    found
                    for key, below in (one.items() if isinstance(one, dict) else ())
                    for found in _atomic(below, lists, (*path, key), f"{shown}[{i}].{key}")
                )
            )


def _patched(request: AdmissionRequest, value: Any) -> Obj:
    if not isinstance(value, list) or not all(isinstance(one, dict) for one in value):
        raise ExpressionError("type mismatch: JSONPatchType.expression should evaluate to array of JSONPatch")
    given = [one["value"] for one in value if "value" in one]  # celpy's maps have a get() of their own
    wrong = [said for one in given for said in celobjects.type_errors(one, celobjects.type_of(one))]
    if wrong:
        raise ExpressionError("type mismatch: " + "\n".join(wrong))
    operations = [{key: each for key, each in celobjects.plain(one).items() if key != "from" or each} for one in value]
    try:
        patched: Obj = json_patch(copy(request.obj or {}), operations)
    except PatchFailed as error:
        if error.test:
            return copy(request.obj or {})
        raise ExpressionError(f"JSON Patch: {_unfit(request.obj or {}, operations) or error}") from error
    return patched


def _unfit(obj: Obj, operations: list[Obj]) -> str | None:
    """Why operations do not fit, in the words of the API server's library (evanphx/json-patch v4); "": not known."""
    for operation in operations:
        try:
            obj = json_patch(obj, [operation])
        except PatchFailed:
            what, path = operation.get("op", ""), str(operation.get("path", ""))
            above, _, last = path.rpartition("/")
            parent = _found(obj, above)
            if parent is None and what in ("add", "remove", "replace"):
                shown = path if what == "replace" else f'"{path}"'
                return f"{what} operation does not apply: doc is missing path: {shown}: missing value"
            if what == "remove" and isinstance(parent, dict):
                return f"error in remove for path: '{path}': Unable to remove nonexistent key: {last}: missing value"
            return None
    return None


def _found(obj: Obj, pointer: str) -> Any:
    import jsonpointer

    try:
        return jsonpointer.resolve_pointer(obj, pointer, None)
    except jsonpointer.JsonPointerException:
        return None


def _refusal(request: AdmissionRequest, failures: list[_Failure]) -> status.StatusError:
    worded = request.forbidden("")
    details = worded.status["details"] | {"causes": [{"message": failure.message} for failure in failures]}
    return status.StatusError(403, failures[0].reason, failures[0].message, details=details)
