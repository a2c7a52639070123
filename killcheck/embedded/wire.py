"""The embedded API server's TLS shell on loopback: HTTP/1.1 in, :class:`Request` to the server, JSON out.

One thread a connection. A request enters the loop for as long as the server handles it, never longer; frames of a
stream are queued by the loop and written by the connection's thread, so no reader can stall the cluster. Every
listening socket belongs to a :class:`Client`, which counts what it has under way: so a process that only waits can be
told from one that waits for an answer.
"""

from __future__ import annotations

import base64
import contextlib
import os
import selectors
import socket
import ssl
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol

from killcheck.clock import Loop
from killcheck.embedded.api import status
from killcheck.embedded.api.http import Request, Response
from killcheck.embedded.connection import HANG, RESET, Client, Connection
from killcheck.embedded.pki import Pki

__all__ = ["HANG", "RESET", "Client", "Handler", "Interceptor", "Server", "WireError"]

Interceptor = Callable[[Request], Response | None]


class WireError(Exception):
    """The server could not listen; one sentence for a person."""


class Handler(Protocol):
    """Whoever answers requests; the loop's lock is held."""

    def handle(self, request: Request) -> Response:
        """One request, one answer; never raises StatusError."""


class Server:
    """The API over TLS. ``interceptor`` sees every request first, lock held, and may answer in the server's place."""

    def __init__(self, server: Handler, loop: Loop, pki: Pki, *, port: int = 0) -> None:
        self.server = server
        self.loop = loop
        self.pki = pki
        self.port = port
        self.interceptor: Interceptor | None = None
        #: Which certificate whoever connects from now on is shown: ``own``, ``ended`` or ``early``.
        self.certificate = "own"
        #: Asked at each connection: whether what it says in its handshake is lost on the way.
        self.handshakes: Callable[[], bool] | None = None
        #: How many seconds a program waits for the answer to a look-up of a name.
        self.names: Callable[[str], float] | None = None
        self.world = Client("world")
        #: How many requests were answered, whoever made them.
        self.asked = 0
        self._context: ssl.SSLContext | None = None
        self._selector: selectors.BaseSelector | None = None
        self._thread: threading.Thread | None = None
        self._wake: tuple[socket.socket, socket.socket] | None = None
        self._listeners: dict[socket.socket, Client] = {}
        self._dropped: list[socket.socket] = []
        self._connections: set[Connection] = set()
        #: Connections whose handshakes come to nothing: they stay open, and nothing is said.
        self._mute: list[tuple[Client, socket.socket]] = []
        self._lock = threading.Lock()
        self._stopping = False

    # -- life ----------------------------------------------------------------------------------------------
    def start(self) -> str:
        """Listen on 127.0.0.1 (``port``, or a free one) and answer its URL; idempotent. Raises WireError."""
        if self.world not in self._listeners.values():
            try:
                listener = socket.create_server(("127.0.0.1", self.port), backlog=128)
            except OSError as error:
                raise WireError(f"cannot listen on 127.0.0.1:{self.port}: {error.strerror}") from error
            self.port = int(listener.getsockname()[1])
            self.adopt(listener, self.world)
        return self.url

    @property
    def url(self) -> str:
        """``https://127.0.0.1:PORT`` once started."""
        return f"https://127.0.0.1:{self.port}"

    def stop(self) -> None:
        """Close every listener and connection and join the threads; idempotent. Not with the loop's lock held."""
        self._stopping = True
        thread, self._thread = self._thread, None
        if thread:
            self._nudge()
            thread.join()
        with self._lock:
            listeners, self._listeners = [*self._listeners, *self._dropped], {}
            self._dropped = []
            connections = list(self._connections)
            mute, self._mute = self._mute, []
        for listener in (*listeners, *(sock for _, sock in mute)):
            listener.close()
        for connection in connections:
            connection.abort()
        for connection in connections:
            connection.join()
        if self._selector:
            self._selector.close()
            self._selector = None
        for end in self._wake or ():
            end.close()
        self._wake = None
        self._stopping = False

    def adopt(self, listener: socket.socket, client: Client) -> None:
        """Accept on a listening socket (of this or another network namespace); what comes in counts for ``client``."""
        self._ensure_thread()
        listener.setblocking(False)
        with self._lock:
            self._listeners[listener] = client
        self._nudge()

    def drop(self, client: Client) -> None:
        """Close a client's listeners and connections; idempotent."""
        with self._lock:
            listeners = [sock for sock, owner in self._listeners.items() if owner is client]
            for listener in listeners:
                del self._listeners[listener]
            self._dropped += listeners
            connections = [c for c in self._connections if c.client is client]
            mute = [sock for owner, sock in self._mute if owner is client]
            self._mute = [(owner, sock) for owner, sock in self._mute if owner is not client]
        for sock in mute:
            sock.close()
        for connection in connections:
            connection.abort()
        self._nudge()

    # -- kubeconfig ----------------------------------------------------------------------------------------
    def kubeconfig(self) -> str:
        """A kubeconfig with the administrator's client certificate; the server must have been started."""
        admin = self.pki.admin
        return KUBECONFIG.format(
            url=self.url,
            ca=_base64(self.pki.ca_pem),
            certificate=_base64(admin.certificate_pem),
            key=_base64(admin.key_pem),
        )

    def write_kubeconfig(self, path: Path) -> None:
        """Write :meth:`kubeconfig` to ``path``, readable by its owner only."""
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with os.fdopen(descriptor, "w") as file:
            os.fchmod(file.fileno(), 0o600)
            file.write(self.kubeconfig())

    # -- for connections -----------------------------------------------------------------------------------
    def answer(self, request: Request) -> Response:
        """Let the interceptor or the server answer, inside the loop."""
        with self.loop.entered():
            self.asked += 1
            if self.interceptor is not None:
                response = self.interceptor(request)
                if response is not None:
                    return response
            try:
                return self.server.handle(request)
            except Exception as error:  # noqa: BLE001 - the client is answered, and whoever runs the loop sees the defect
                self.loop.post(_raise, error)
                return Response(500, status.internal(type(error).__name__).status)

    def forget(self, connection: Connection) -> None:
        """A connection has ended."""
        with self._lock:
            self._connections.discard(connection)

    # -- accepting -----------------------------------------------------------------------------------------
    def _ensure_thread(self) -> None:
        with self._lock:
            if self._thread is not None:
                return
            if self._context is None:
                self._context = self.pki.server_context()
            self._selector = selectors.DefaultSelector()
            self._wake = socket.socketpair()
            self._wake[0].setblocking(False)
            self._selector.register(self._wake[0], selectors.EVENT_READ)
            self._thread = threading.Thread(target=self._accept_all, name="killcheck-wire", daemon=True)
            self._thread.start()

    def _nudge(self) -> None:
        if self._wake:
            with contextlib.suppress(OSError):
                self._wake[1].send(b".")

    def _accept_all(self) -> None:
        selector, wake = self._selector, self._wake
        if selector is None or wake is None:
            return
        while not self._stopping:
            for key, _ in selector.select():
                if key.fileobj is wake[0]:
                    with contextlib.suppress(BlockingIOError):
                        wake[0].recv(4096)
                    self._register(selector)
                else:
                    self._accept(key.fileobj)

    def _register(self, selector: selectors.BaseSelector) -> None:
        with self._lock:
            dropped, self._dropped = self._dropped, []
            for sock in self._listeners:
                if sock.fileno() not in selector.get_map():
                    selector.register(sock, selectors.EVENT_READ)
        for sock in dropped:
            if sock.fileno() in selector.get_map():
                selector.unregister(sock)
            sock.close()

    def _accept(self, listener: Any) -> None:
        client = self._listeners.get(listener)
        if client is None or self._context is None:
            return
        client.add(in_flight=1)  # before it leaves the kernel's queue: there is no moment at which nobody counts
        try:
            sock, _ = listener.accept()
        except OSError:  # closed, or the peer has gone already
            client.add(in_flight=-1)
            return
        sock.setblocking(True)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if self.handshakes is not None and self.handshakes():
            with self._lock:
                self._mute.append((client, sock))
            client.add(in_flight=-1)  # whoever made it waits for nobody
            return
        context = self._context if self.certificate == "own" else self.pki.other_context(self.certificate)
        connection = Connection(self, client, sock, context)
        with self._lock:
            self._connections.add(connection)
        connection.start()


def _raise(error: Exception) -> None:
    raise error


def _base64(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


KUBECONFIG = """\
apiVersion: v1
kind: Config
clusters:
- name: killcheck-embedded
  cluster:
    server: {url}
    certificate-authority-data: {ca}
users:
- name: kubernetes-admin
  user:
    client-certificate-data: {certificate}
    client-key-data: {key}
contexts:
- name: killcheck-embedded
  context:
    cluster: killcheck-embedded
    user: kubernetes-admin
current-context: killcheck-embedded
"""
