"""One write as admission sees it."""

from __future__ import annotations

from typing import Literal, Protocol

from msgspec import Struct

from killcheck.embedded.api import status
from killcheck.embedded.api.http import User
from killcheck.embedded.api.kinds import Kind
from killcheck.embedded.api.rbac import Authorizer
from killcheck.kube.objects import Obj, dig

__all__ = ["AdmissionRequest", "Mutator", "Operation", "Validator"]

Operation = Literal["CREATE", "UPDATE", "DELETE", "CONNECT"]


class AdmissionRequest(Struct, frozen=True):
    """``obj`` is what is to be written (None for DELETE): mutating plugins edit it in place. ``old`` is what is stored.

    For a subresource, ``obj`` and ``old`` are what the subresource speaks (a Scale, an Eviction, a TokenRequest).
    ``authorizer``: whom policies may ask who else may do what.
    ``whole``: what was sent names the uid and the version that it replaces, as what was read does.
    """

    operation: Operation
    kind: Kind
    subresource: str
    namespace: str
    name: str
    obj: Obj | None
    old: Obj | None
    user: User
    dry_run: bool = False
    whole: bool = True
    authorizer: Authorizer | None = None

    @property
    def resource(self) -> tuple[str, str]:
        """(group, plural)."""
        return (self.kind.resource.group, self.kind.resource.plural)

    @property
    def shown_name(self) -> str:
        """The name in messages; an object that has none yet goes by its ``generateName``."""
        named = self.name or dig(self.obj, "metadata", "name") or dig(self.obj, "metadata", "generateName")
        return str(named or "Unknown")

    def forbidden(self, why: str) -> status.StatusError:
        """403, as admission.NewForbidden words it."""
        return status.forbidden(self.kind.resource.plural, self.kind.resource.group, self.shown_name, why)


class Mutator(Protocol):
    """A plugin of the first half of the chain."""

    def mutate(self, request: AdmissionRequest) -> None:
        """Edit ``request.obj`` in place. Raises StatusError to refuse."""


class Validator(Protocol):
    """A plugin of the second half, after everything that changes the object."""

    def validate(self, request: AdmissionRequest) -> list[str]:
        """Judge ``request.obj``; answers what the client is to be warned of. Raises StatusError to refuse."""
