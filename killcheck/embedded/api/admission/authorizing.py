"""CEL's ``authorizer``: who else may do what, asked by a policy of the API server's own authorizer.

Source: k8s.io/apiserver/pkg/cel/library/authz.go. Selectors narrow what is asked about and are no matter to RBAC.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from msgspec import Struct
from msgspec.structs import replace

from killcheck.embedded.api.http import User
from killcheck.embedded.api.rbac import Attributes, Authorizer, Decision
from killcheck.embedded.api.tokens import service_account_user
from killcheck.text import lazy_re

if TYPE_CHECKING:
    from killcheck.embedded.api.admission.request import AdmissionRequest

__all__ = ["FUNCTIONS", "Asked", "asked_by", "readable"]

#: What stands for ``authorizer.requestResource``, which ``celpy`` would look for in a map.
REQUESTED = "authorizer_request_resource"
_REQUESTED = lazy_re.compile(r"(?<![\w.])authorizer\.requestResource\b")


class Asked(Struct, frozen=True):
    """The authorizer with as much of a question as has been said: of whom, and what it is about."""

    authorizer: Authorizer
    user: User
    about: Attributes = Attributes("")

    def of(self, **about: str) -> Asked:
        """The same, about this too."""
        return replace(self, about=replace(self.about, **about))


def asked_by(request: AdmissionRequest) -> dict[str, Asked]:
    """The variables of a request's expressions: ``authorizer``, and what stands for ``authorizer.requestResource``."""
    if request.authorizer is None:
        return {}
    asked, resource = Asked(request.authorizer, request.user), request.kind.resource
    named = {"namespace": request.namespace, "name": request.name, "subresource": request.subresource}
    return {"authorizer": asked, REQUESTED: asked.of(group=resource.group, resource=resource.plural, **named)}


def readable(expression: str) -> str:
    """An expression in which ``authorizer.requestResource`` is a variable."""
    return _REQUESTED.sub(REQUESTED, expression)


def _says(field: str) -> Callable[[Asked, Any], Asked]:
    return lambda asked, value: asked.of(**{field: str(value)})


def _service_account(asked: Asked, namespace: Any, name: Any) -> Asked:
    user = service_account_user(str(namespace), str(name))
    groups = tuple(group for group in user.groups if group != "system:authenticated")  # serviceaccount.UserInfo
    return replace(asked, user=replace(user, groups=groups))


def _check(asked: Asked, verb: Any) -> Decision:
    return asked.authorizer.decide(asked.user, replace(asked.about, verb=str(verb)))


def _truth(value: bool) -> Any:
    from celpy import celtypes

    return celtypes.BoolType(value)


def _text(value: str) -> Any:
    from celpy import celtypes

    return celtypes.StringType(value)


FUNCTIONS: Mapping[str, Callable[..., Any]] = {
    **{field: _says(field) for field in ("path", "group", "resource", "subresource", "namespace", "name")},
    "serviceAccount": _service_account,
    "fieldSelector": lambda asked, _selector: asked,
    "labelSelector": lambda asked, _selector: asked,
    "check": _check,
    "allowed": lambda decision: _truth(decision.allowed),
    "reason": lambda decision: _text(decision.reason),
    "errored": lambda _decision: _truth(False),
    "error": lambda _decision: _text(""),
}
