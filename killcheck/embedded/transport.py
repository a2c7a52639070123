"""The way to the embedded API server without a network: a :class:`~killcheck.kube.client.Transport`.

Bodies pass as they are: what comes back is shared with the server and read-only.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from killcheck.clock import Loop
from killcheck.embedded.api.http import Request, Response, User
from killcheck.embedded.api.server import ApiServer
from killcheck.kube.client import Answer, Closer, Transport
from killcheck.kube.errors import KubeError, api_error
from killcheck.kube.objects import Obj

__all__ = ["InProcessTransport"]


class InProcessTransport(Transport):
    """Requests of one user. From another thread than the loop's, calls wait for the loop's lock."""

    def __init__(self, server: ApiServer, loop: Loop, user: User) -> None:
        self.server = server
        self.loop = loop
        self.user = user

    def request(
        self,
        method: str,
        path: str,
        query: Mapping[str, str],
        body: Any,
        headers: Mapping[str, str],
    ) -> Answer:
        """One request, one answer, whatever its status."""
        response = self._handle(method, path, query, body, headers)
        return Answer(response.status, response.body, response.headers)

    def watch(
        self,
        path: str,
        query: Mapping[str, str],
        on_event: Callable[[Obj], None],
        on_end: Callable[[KubeError | None], None],
    ) -> Closer:
        """Open a watch. A refusal (403, 404, 410) arrives through ``on_end``, on the loop."""
        response = self._handle("GET", path, query, None, {})
        stream = response.stream
        if stream is None:
            body = response.body if isinstance(response.body, dict) else {}
            refused = self.loop.call_soon(on_end, api_error(response.status, body, f"watch {path}"))
            return refused.cancel
        with self.loop.entered():
            stream.subscribe(on_event, lambda: on_end(None))
        return stream.close

    def _handle(
        self,
        method: str,
        path: str,
        query: Mapping[str, str],
        body: Any,
        headers: Mapping[str, str],
    ) -> Response:
        lower = {name.lower(): value for name, value in headers.items()}  # as the wire has them
        request = Request(method, path, {k: [v] for k, v in query.items()}, lower, body, self.user)
        with self.loop.entered():
            return self.server.handle(request)
