"""One HTTP request of a probe's over an open connection, TLS (that nobody checks) where the URL says so.

Source: pkg/probe/http/request.go and http.go of Kubernetes v1.36.
"""

from __future__ import annotations

import socket
import ssl
from collections.abc import Callable
from typing import TYPE_CHECKING
from urllib.parse import quote, urljoin, urlsplit

import h11

from killcheck.embedded.nodes.probe_exchange import CHUNK, OUTPUT_LIMIT, Question

if TYPE_CHECKING:
    from killcheck.embedded.nodes.host_container import HostContainer

__all__ = ["Exchange", "NoRequestError", "redirected", "url_of"]

AGENT = "kube-probe/1.36"


#: What Go writes itself whatever a probe's headers say (net/http, reqWriteExcludeHeader).
_OWN = frozenset({"content-length", "transfer-encoding", "trailer"})
#: What may be in a path or a query besides letters, digits and -._~; the rest is escaped.
_PLAIN = "/%:@!$&'()*+,;=?"


class NoRequestError(Exception):
    """A request cannot be written like that."""


def url_of(scheme: str, host: str, path: str) -> str:
    """Where a probe asks: whatever host its path may name, it is the pod's that is asked."""
    try:
        parts = urlsplit(path)
        path, query = parts.path, parts.query
    except ValueError:  # "//[": all of it is the path
        query = ""
    path = path if path.startswith("/") else f"/{path}"
    return f"{scheme}://{host}{quote(path, safe=_PLAIN)}" + (f"?{quote(query, safe=_PLAIN)}" if query else "")


def redirected(url: str, location: str) -> str | None:
    """Where a redirect leads; None: nowhere, or to another host, where no probe follows."""
    try:
        target = urljoin(url, location)
        same = urlsplit(target).hostname == urlsplit(url).hostname and (urlsplit(target).port or True)
    except ValueError:
        return None
    return quote(target, safe=_PLAIN + "#[]") if location and same else None


class Exchange(Question):
    """One HTTP request over an open connection, TLS (that nobody checks) where the URL says so.

    ``answered`` is told, on the loop, (status, Location, body, what went wrong or ""). Raises NoRequestError.
    """

    def __init__(
        self,
        running: HostContainer,
        sock: socket.socket,
        url: str,
        headers: dict[str, str],
        answered: Callable[[int, str, bytes, str], None],
    ) -> None:
        super().__init__(running, sock)
        self._answered = answered
        self._http = h11.Connection(h11.CLIENT)
        self._status, self._location, self._body = 0, "", bytearray()
        self._tls: ssl.SSLObject | None = None
        self._in, self._out = ssl.MemoryBIO(), ssl.MemoryBIO()
        parts = urlsplit(url)
        if parts.scheme == "https":
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE
            self._tls = context.wrap_bio(self._in, self._out)
        target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
        asked = {name: value.strip() for name, value in headers.items() if name not in _OWN}
        given = {"host": parts.netloc, "user-agent": AGENT, "accept": "*/*", "connection": "close"} | asked
        try:
            self._left = (
                self._http.send(
                    h11.Request(
                        method="GET",
                        target=target,
                        headers=[(name.encode(), value.encode()) for name, value in given.items() if value],
                    )
                )
                or b""
            ) + (self._http.send(h11.EndOfMessage()) or b"")
        except (h11.LocalProtocolError, UnicodeEncodeError) as error:
            raise NoRequestError(str(error)) from error

    def greet(self) -> None:
        """The request, or what goes before it."""
        self._move(b"")

    def heard(self, data: bytes) -> None:
        """A part of the answer, or the end."""
        try:
            over = self._take(self._move(data) if data else b"", end=not data)
        except ssl.SSLError:
            self._tell("http: server gave HTTP response to HTTPS client")
        except h11.RemoteProtocolError as error:
            self._tell(f"net/http: HTTP/1.x transport connection broken: {error}" if data else "EOF")
        else:
            if over:
                self._tell("")

    def broke(self, why: str) -> None:
        """The connection failed."""
        self._tell(f"read: {why}")

    def _move(self, data: bytes) -> bytes:
        """Take what came, say what is left to say; answers what came in the clear."""
        if self._tls is None:
            self.say(self._left)
            self._left = b""
            return data
        self._in.write(data)
        plain = b""
        try:
            self._tls.do_handshake()
            if self._left:
                self._tls.write(self._left)
                self._left = b""
            while True:
                plain += self._tls.read(CHUNK)
        except (ssl.SSLWantReadError, ssl.SSLZeroReturnError):
            pass
        finally:
            self.say(self._out.read())
        return plain

    def _take(self, data: bytes, *, end: bool) -> bool:
        """Whether the answer is whole. Raises h11.RemoteProtocolError."""
        if data or end:
            self._http.receive_data(data)
        while True:
            event = self._http.next_event()
            if isinstance(event, h11.Response):
                self._status = event.status_code
                self._location = next((v.decode("latin-1") for k, v in event.headers if k == b"location"), "")
            elif isinstance(event, h11.Data):
                self._body += event.data
            elif event is h11.NEED_DATA:
                return len(self._body) > OUTPUT_LIMIT
            elif isinstance(event, h11.EndOfMessage | h11.ConnectionClosed):
                return True

    def _tell(self, error: str) -> None:
        self.close()
        self.running.tell(self._answered, self._status, self._location, bytes(self._body), error)
