"""Serving a WSGI application on loopback, each request on a thread of its own."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from socketserver import ThreadingMixIn
from typing import Any
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer

__all__ = ["serve"]


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
    def log_message(self, format: str, *args: Any) -> None:
        """Say nothing."""

    def address_string(self) -> str:
        """Without a look-up."""
        return str(self.client_address[0])


@contextmanager
def serve(
    app: Callable[[dict[str, Any], Callable[..., Any]], Iterable[bytes]], *, host: str = "127.0.0.1", port: int = 0,
) -> Iterator[str]:
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
