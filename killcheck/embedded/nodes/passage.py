"""The way from a container that runs here to an API server that is elsewhere.

Bytes pass as they are: TLS is between the program and the server, and its certificate is good for the address that the
program asked for (the ClusterIP of ``default/kubernetes``), as in any pod.
"""

from __future__ import annotations

import contextlib
import socket
import threading

from killcheck.embedded.connection import Client

__all__ = ["Passage"]

#: Seconds for which a connection to the server is tried.
CONNECT_S = 10.0
_PIECE = 65536


class Passage:
    """Connects what containers' listening sockets accept to the server at ``address``; threads end with their peers."""

    #: Nothing answers in the server's place.
    interceptor: None = None
    #: Nor is anything held up on the way.
    handshakes: None = None
    names: None = None

    def __init__(self, address: tuple[str, int]) -> None:
        self.address = address
        self._lock = threading.Lock()
        self._sockets: dict[Client, set[socket.socket]] = {}

    def adopt(self, listener: socket.socket, client: Client) -> None:
        """Accept on a listening socket (of this or another network namespace) until its client is dropped."""
        listener.setblocking(True)
        self._keep(client, listener)
        threading.Thread(target=self._accept, args=(listener, client), name="killcheck-passage", daemon=True).start()

    def drop(self, client: Client) -> None:
        """Close a client's listeners and connections; idempotent."""
        with self._lock:
            sockets = self._sockets.pop(client, set())
        for sock in sockets:
            _close(sock)

    def close(self) -> None:
        """Close all of them; idempotent."""
        for client in list(self._sockets):
            self.drop(client)

    # -- inside --------------------------------------------------------------------------------------------
    def _keep(self, client: Client, sock: socket.socket) -> None:
        with self._lock:
            self._sockets.setdefault(client, set()).add(sock)

    def _accept(self, listener: socket.socket, client: Client) -> None:
        while True:
            try:
                near, _ = listener.accept()
            except OSError:  # dropped
                return
            threading.Thread(target=self._lead, args=(near, client), name="killcheck-passage", daemon=True).start()

    def _lead(self, near: socket.socket, client: Client) -> None:
        self._keep(client, near)
        try:
            far = socket.create_connection(self.address, CONNECT_S)
        except OSError:  # as a route that leads nowhere: the program sees its connection closed
            self._forget(client, near)
            return
        far.settimeout(None)
        far.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._keep(client, far)
        back = threading.Thread(target=_pour, args=(far, near), name="killcheck-passage", daemon=True)
        back.start()
        _pour(near, far)
        back.join()
        self._forget(client, near, far)

    def _forget(self, client: Client, *sockets: socket.socket) -> None:
        with self._lock:
            self._sockets.get(client, set()).difference_update(sockets)
        for sock in sockets:
            _close(sock)


def _pour(source: socket.socket, target: socket.socket) -> None:
    """Pass on what comes until its end, and that end."""
    with contextlib.suppress(OSError):
        while piece := source.recv(_PIECE):
            target.sendall(piece)
    with contextlib.suppress(OSError):
        target.shutdown(socket.SHUT_WR)


def _close(sock: socket.socket) -> None:
    with contextlib.suppress(OSError):
        sock.shutdown(socket.SHUT_RDWR)  # wakes whoever waits at it
    sock.close()
