"""What a person can tell a running embedded cluster besides Kubernetes' API: let time pass, stop.

Served beside the API on the same TLS port, under ``/killcheck/``, to cluster admins only.
"""

from __future__ import annotations

from collections.abc import Callable

from killcheck.clock import VirtualLoop
from killcheck.embedded.api.http import Request, Response
from killcheck.embedded.api.server import ApiServer
from killcheck.embedded.api.status import StatusError, forbidden
from killcheck.kube.objects import format_time

__all__ = ["Control"]


class Control:
    """A handler in front of the API server's: ``POST /killcheck/advance?seconds=N``, ``GET /killcheck/time``,
    ``POST /killcheck/stop``."""

    def __init__(self, server: ApiServer, loop: VirtualLoop, stop: Callable[[], None]) -> None:
        self.server = server
        self.loop = loop
        self.stop = stop

    def handle(self, request: Request) -> Response:
        """One request; what is not under ``/killcheck/`` goes to the API server."""
        if not request.path.startswith("/killcheck/"):
            return self.server.handle(request)
        try:
            user = self.server.authenticator.authenticate(request)
            if "system:masters" not in user.groups:
                raise forbidden("", "", "", f'User "{user.name}" cannot control the embedded cluster')
            return self._control(request)
        except StatusError as error:
            return Response(error.code, error.status)

    def _control(self, request: Request) -> Response:
        if request.path == "/killcheck/stop" and request.method == "POST":
            self.stop()
        elif request.path == "/killcheck/advance" and request.method == "POST":
            self.loop.advance(float(request.param("seconds", "0")))
        elif request.path != "/killcheck/time":
            return Response(404, {"message": "there are /killcheck/time, /killcheck/advance and /killcheck/stop"})
        return Response(200, {"time": format_time(self.loop.now())})
