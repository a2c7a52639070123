"""An API server's door that stands open: for tests of what lies behind it."""

from __future__ import annotations

from killcheck.embedded.api.http import User

__all__ = ["ADMIN", "OpenDoor"]

ADMIN = User("kubernetes-admin", ("system:masters", "system:authenticated"))


class OpenDoor:
    """Authentication, authorization and admission that let everything through."""

    def authenticate(self, request):
        return ADMIN

    def admit(self, request, between=None):
        if between is not None and request.obj is not None:
            between(request.obj)
        return request.obj if request.obj is not None else request.old, []
