"""What an API server asks kubelets for over TLS: logs. One server for all the kubelets of a process.

Source: pkg/kubelet/server/server.go (``getContainerLogs``) and auth.go (whoever asks needs ``nodes/proxy``) of
Kubernetes v1.36.
"""

from __future__ import annotations

import contextlib
import socket
import ssl
import threading
from collections.abc import Callable, Iterable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs, unquote, urlsplit

from msgspec import Struct

from killcheck.clock import Loop
from killcheck.embedded.api.http import User
from killcheck.embedded.api.podlogs import LOOK_S, Options, Part
from killcheck.embedded.api.status import StatusError
from killcheck.embedded.pki import Pki
from killcheck.kube.errors import KubeError
from killcheck.kube.objects import parse_time
from killcheck.text import lazy_re

if TYPE_CHECKING:
    from killcheck.embedded.nodes.kubelet import Kubelet
    from killcheck.embedded.nodes.podlife import PodLife

__all__ = ["KubeletApi", "Trust"]

_LOG = lazy_re.compile(r"/containerLogs/([^/]+)/([^/]+)/([^/]+)/?")
#: Seconds that a peer may take for its next word.
PATIENCE_S = 30
#: How long it may take to notice that it is to stop, in seconds.
STOPS_S = 0.1


class Trust(Struct, frozen=True):
    """Whom kubelets answer: who shows a client certificate of ``authority`` (PEM, the cluster's CA), and ``may``.

    kubeadm's API servers show one (``--kubelet-client-certificate``). ``may(who, node)``: whether the cluster lets this
    client get the node's proxy. Raises KubeError.
    """

    authority: str
    may: Callable[[User, str], bool]


class KubeletApi:
    """Serves the logs of ``kubelets``' containers at ``address``; ``trust`` None: to all that reach it."""

    def __init__(
        self, kubelets: Callable[[], Iterable[Kubelet]], loop: Loop, address: str, trust: Trust | None = None
    ) -> None:
        self.kubelets = kubelets
        self.loop = loop
        self.address = address
        self._trust = trust
        self._closing = threading.Event()
        self._server = _Server(address, self)
        self._server.socket = _context(trust).wrap_socket(
            self._server.socket, server_side=True, do_handshake_on_connect=False
        )

    def start(self) -> int:
        """Begin, and answer the port."""
        serve = self._server.serve_forever
        threading.Thread(target=serve, args=(STOPS_S,), name="killcheck-kubelets", daemon=True).start()
        return int(self._server.server_address[1])

    def stop(self) -> None:
        """Answer nobody any more."""
        self._closing.set()
        self._server.shutdown()
        self._server.server_close()

    # -- a log ---------------------------------------------------------------------------------------------
    def log(self, path: str, asker: User) -> Iterator[str]:
        """The pieces of the log that a request asks for, as they come. Raises StatusError before the first."""
        url = urlsplit(path)
        asked = _LOG.fullmatch(unquote(url.path))
        query = {key: values[-1] for key, values in parse_qs(url.query).items()}
        if asked is None:
            raise StatusError(404, "NotFound", "hollow kubelets serve logs, and nothing else", details={})
        namespace, pod, container = asked.groups()
        with self.loop.entered():
            self._authorize(asker, namespace, pod)
        part: Part | None = None
        while True:
            with self.loop.entered():
                kubelet, life = self._find(namespace, pod)
                written = kubelet.log(life.pod, container, previous=query.get("previous") == "true")
                part = part or Part(_options(query), written)
                text, over = part.rest(written), part.full or not _runs(life, container)
            yield text
            if over or query.get("follow") != "true" or self._closing.wait(LOOK_S):
                return

    def _authorize(self, asker: User, namespace: str, pod: str) -> None:
        """Raises StatusError 403, in a kubelet's words, where the cluster does not let them; 500 where it is silent."""
        if self._trust is None:
            return
        kubelet, _ = self._find(namespace, pod)
        try:
            allowed = self._trust.may(asker, kubelet.name)
        except KubeError as error:
            raise StatusError(500, "InternalError", f"Authorization error: {error}", details={}) from error
        if not allowed:
            said = f"Forbidden (user={asker.name}, verb=get, resource=nodes, subresource(s)=[proxy])"
            raise StatusError(403, "Forbidden", said, details={})

    def _find(self, namespace: str, pod: str) -> tuple[Kubelet, PodLife]:
        for kubelet in self.kubelets():
            for life in kubelet.pods.values():
                if life.key == (namespace, pod):
                    return kubelet, life
        raise StatusError(404, "NotFound", f'pod "{pod}" in namespace "{namespace}" not found', details={})


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, address: str, api: KubeletApi) -> None:
        self.api = api
        self.address_family = socket.AF_INET6 if ":" in address else socket.AF_INET
        super().__init__((address, 0), _Handler)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A peer that went away, or never spoke TLS, is nobody's concern."""


class _Handler(BaseHTTPRequestHandler):
    server: _Server
    protocol_version = "HTTP/1.1"
    timeout = PATIENCE_S

    def do_GET(self) -> None:
        """A log, or why there is none."""
        pieces = self.server.api.log(self.path, _asker(self.connection))
        try:
            first = next(pieces)
        except StatusError as error:
            self._say(error.code, str(error))
            return
        with contextlib.suppress(OSError):  # the reader has gone
            self.send_response(200)
            self.send_header("Content-Type", "text/plain")
            self.send_header("Transfer-Encoding", "chunked")
            self.end_headers()
            self._chunk(first)
            with contextlib.suppress(StatusError):  # the pod has gone: so has its log
                for text in pieces:
                    self._chunk(text)
            self.wfile.write(b"0\r\n\r\n")

    def log_message(self, *_: Any) -> None:
        """Nothing is said on standard error."""

    def _chunk(self, text: str) -> None:
        data = text.encode()
        if data:
            self.wfile.write(b"%x\r\n%s\r\n" % (len(data), data))

    def _say(self, code: int, text: str) -> None:
        data = text.encode()
        self.send_response(code)
        self.send_header("Content-Type", "text/plain")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)


def _runs(life: PodLife, container: str) -> bool:
    return any(one.name == container and one.alive for one in life.everything)


def _options(query: dict[str, str]) -> Options:
    """As the API server hands them on, which has judged them. Raises StatusError 400."""
    try:
        since = parse_time(query["sinceTime"]) if query.get("sinceTime") else None
        tail, limit = (int(query[name]) if query.get(name) else None for name in ("tailLines", "limitBytes"))
    except ValueError as error:
        raise StatusError(400, "BadRequest", str(error), details={}) from error
    return Options(tail, limit, since, query.get("timestamps") == "true")


def _context(trust: Trust | None) -> ssl.SSLContext:
    context = Pki().server_context()
    context.verify_mode = ssl.CERT_NONE
    if trust is not None:
        if trust.authority:
            context.load_verify_locations(cadata=trust.authority)
        context.verify_mode = ssl.CERT_REQUIRED
    return context


def _asker(connection: ssl.SSLSocket) -> User:
    """Whom a client certificate names: its common name, and its organizations as groups. Nobody where none is asked."""
    shown: Any = connection.getpeercert() or {}
    named = [pair for parts in shown.get("subject", ()) for pair in parts]
    names = [value for key, value in named if key == "commonName"]
    groups = [value for key, value in named if key == "organizationName"]
    return User(names[-1] if names else "", (*groups, "system:authenticated"))
