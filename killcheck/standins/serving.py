"""Serving a WSGI application on loopback, each request on a thread of its own."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from socketserver import ThreadingMixIn
from typing import Any
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer

from killcheck.standins.application import UNANSWERED, App

__all__ = ["answer", "serve"]


class _Server(ThreadingMixIn, WSGIServer):
    daemon_threads = True
    block_on_close = False
    request_queue_size = 64

    def server_bind(self) -> None:
        """Without the look-up of our own name, which can take seconds."""
        self.socket.bind(self.server_address)
        self.server_address = self.socket.getsockname()
        self.server_name, self.server_port = str(self.server_address[0]), int(self.server_address[1])
        self.setup_environ()


class _Handler(WSGIRequestHandler):
    #: So that who asks ``Expect: 100-continue`` is answered, and does not wait in vain (botocore: a second a PUT).
    protocol_version = "HTTP/1.1"

    def log_message(self, format: str, *args: Any) -> None:
        """Say nothing."""

    def address_string(self) -> str:
        """Without a look-up."""
        return str(self.client_address[0])


class _Desk:
    """What a handler asks its server, where there is a connection and no server."""

    def __init__(self, app: App) -> None:
        self.app = app
        self.base_environ = {
            "SERVER_NAME": "metadata",
            "GATEWAY_INTERFACE": "CGI/1.1",
            "SERVER_PORT": "80",
            "REMOTE_HOST": "",
            "CONTENT_LENGTH": "",
            "SCRIPT_NAME": "",
        }

    def get_app(self) -> App:
        """As wsgiref asks it."""
        return self.app


def answer(sock: socket.socket, app: App, unanswered: Callable[[], None]) -> None:
    """Serve one request on a connection that was accepted. Raises OSError where its client has gone.

    ``unanswered`` is called where ``app`` does not answer at all, and returns when the client has given up.
    """

    def told(environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        return app({**environ, UNANSWERED: unanswered}, start_response)

    _Handler(sock, ("", 0), _Desk(told))  # type: ignore[arg-type]


@contextmanager
def serve(app: App, *, host: str = "127.0.0.1", port: int = 0) -> Iterator[str]:
    """Serve until the end of the block; yields the URL. Raises OSError where it cannot listen there."""
    server = _Server((host, port), _Handler)
    server.set_app(app)
    thread = threading.Thread(target=server.serve_forever, args=(0.05,), name="killcheck-wsgi", daemon=True)
    thread.start()
    try:
        yield f"http://{host}:{server.server_port}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
