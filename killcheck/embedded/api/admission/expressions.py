"""CEL expressions of admission policies and match conditions, through ``celpy`` where it is installed."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache
from typing import Any

from killcheck.embedded.api import celobjects, celsyntax
from killcheck.embedded.api.admission import authorizing
from killcheck.embedded.api.admission.authorizing import Asked
from killcheck.embedded.api.admission.request import AdmissionRequest
from killcheck.embedded.api.celfunctions import FUNCTIONS
from killcheck.embedded.api.kinds import subresource_of
from killcheck.embedded.api.store import Store
from killcheck.embedded.api.tokens import user_info
from killcheck.kube.objects import Obj

__all__ = ["ExpressionError", "Seen", "evaluate", "variables_of"]

NAMESPACES = ("", "namespaces")


class ExpressionError(Exception):
    """The expression does not compile or does not evaluate, or CEL is not installed; the message says which."""


def variables_of(request: AdmissionRequest, store: Store, params: Obj | None = None) -> Obj:
    """The variables that expressions of a policy see."""
    resource = request.kind.resource
    sub = subresource_of(request.kind, request.subresource) if request.subresource else None
    spoken = sub or resource
    described: Obj = {
        "kind": {"group": spoken.group, "version": spoken.version, "kind": spoken.kind},
        "resource": {"group": resource.group, "version": resource.version, "resource": resource.plural},
        "operation": request.operation,
        "userInfo": user_info(request.user),
        "dryRun": request.dry_run,
    }
    may_lack = {"subResource": request.subresource, "name": request.name, "namespace": request.namespace}
    described |= {
        key: value for key, value in may_lack.items() if value
    }  # as JSON of an AdmissionRequest leaves them out
    namespace = store.get(NAMESPACES, ("", request.namespace)) if request.namespace else None
    return {
        "object": request.obj,
        "oldObject": request.old,
        "request": described,
        "params": params,
        "namespaceObject": namespace,
        **authorizing.asked_by(request),
    }


class Seen(dict[str, Any]):
    """What expressions see. ``failed``: the policy's own variables that have no value, and why."""

    def __init__(self, known: Obj) -> None:
        super().__init__(known)
        self.failed: dict[str, ExpressionError] = {}


def evaluate(expression: str, variables: Obj) -> Any:
    """The value of an expression; a CEL boolean as Python's own. Raises ExpressionError."""
    program = _compiled(expression)
    from celpy.adapter import json_to_cel
    from celpy.evaluation import CELEvalError

    try:
        known = {name: one if isinstance(one, Asked) else json_to_cel(one) for name, one in variables.items()}
        value = program.evaluate(known)
        for failed in _failures(value):
            raise failed
    except CELEvalError as error:
        for name, why in getattr(variables, "failed", {}).items():
            if re.search(rf"\bvariables\.{re.escape(name)}\b", expression):
                raise why from error
        raise ExpressionError(f"expression '{expression}' resulted in error: {celsyntax.in_words(error)}") from error
    return bool(value) if type(value).__name__ == "BoolType" else value


@lru_cache(maxsize=256)
def _compiled(expression: str) -> Any:
    try:
        from celpy import Environment
        from celpy.celparser import CELParseError
    except ImportError as missing:
        raise ExpressionError(
            "the embedded cluster cannot evaluate CEL: install killcheck[dra] (cel-python)"
        ) from missing
    environment: Any = Environment()
    try:
        tree = environment.compile(celsyntax.readable(celobjects.readable(authorizing.readable(expression))))
        return environment.program(celsyntax.parted(tree), functions={**FUNCTIONS, **authorizing.FUNCTIONS})
    except CELParseError as error:
        raise ExpressionError(f"compilation failed: {celsyntax.in_words(error)}") from error


def _failures(value: Any) -> Iterator[Exception]:
    """What could not be evaluated within a map or a list, where ``celpy`` leaves it as a value."""
    from celpy.evaluation import CELEvalError

    if isinstance(value, CELEvalError):
        yield value
    for one in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        yield from _failures(one)
