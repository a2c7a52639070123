"""One gRPC health check (``grpc.health.v1.Health/Check``) over an open connection, through ``h2`` where it is there.

Source: pkg/probe/grpc/grpc.go of Kubernetes v1.36; grpc-go's internal/transport/http_util.go (what HTTP statuses mean).
"""

from __future__ import annotations

import socket
from collections.abc import Callable
from http import HTTPStatus
from importlib.util import find_spec
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import unquote

from killcheck.embedded.nodes.probe_exchange import Question

if TYPE_CHECKING:
    from killcheck.embedded.nodes.host_container import HostContainer

__all__ = ["Check", "Health", "available"]

AGENT = "kube-probe/1.36 grpc-go"
SERVING = 1
_STATUSES = ("UNKNOWN", "SERVING", "NOT_SERVING", "SERVICE_UNKNOWN")
_CODES = (
    "OK",
    "Canceled",
    "Unknown",
    "InvalidArgument",
    "DeadlineExceeded",
    "NotFound",
    "AlreadyExists",
    "PermissionDenied",
    "ResourceExhausted",
    "FailedPrecondition",
    "Aborted",
    "OutOfRange",
    "Unimplemented",
    "Internal",
    "Unavailable",
    "DataLoss",
    "Unauthenticated",
)
_UNKNOWN, _DEADLINE, _UNIMPLEMENTED, _INTERNAL, _UNAVAILABLE = 2, 4, 12, 13, 14
_OF_HTTP = {400: _INTERNAL, 401: 16, 403: 7, 404: _UNIMPLEMENTED} | dict.fromkeys((429, 502, 503, 504), _UNAVAILABLE)


def available() -> bool:
    """Whether HTTP/2 is spoken here (``killcheck[grpc]``)."""
    return find_spec("h2") is not None


class Health(NamedTuple):
    """What came of it: the code of the call (0: there was an answer), its words, the service's status."""

    code: int
    words: str = ""
    status: int = 0

    def verdict(self, timeout: str) -> str | None:
        """What the kubelet says of it, ``timeout`` as Go prints one; None: the service is healthy."""
        if self.code == _UNIMPLEMENTED:
            return (
                f"error: this server does not implement the grpc health protocol (grpc.health.v1.Health): {self.words}"
            )
        if self.code == _DEADLINE:
            return f"timeout: health rpc did not complete within {timeout}"
        if self.code:
            name = _CODES[self.code] if self.code < len(_CODES) else f"Code({self.code})"
            return f"error: health rpc probe failed: rpc error: code = {name} desc = {self.words}"
        if self.status == SERVING:
            return None
        shown = _STATUSES[self.status] if self.status < len(_STATUSES) else str(self.status)
        return f'service unhealthy (responded with "{shown}")'


class Check(Question):
    """One call. ``connected`` is told, on the loop, that the other end speaks HTTP/2; ``answered`` what came of it, or
    None where the connection ended before it was one."""

    def __init__(
        self,
        running: HostContainer,
        sock: socket.socket,
        authority: str,
        service: str,
        *,
        connected: Callable[[], None],
        answered: Callable[[Health | None], None],
    ) -> None:
        from h2.config import H2Configuration
        from h2.connection import H2Connection

        super().__init__(running, sock)
        self._authority, self._service = authority, service
        self._connected, self._answered = connected, answered
        self._http = H2Connection(H2Configuration(client_side=True, header_encoding="utf-8"))
        self._headers: dict[str, str] = {}
        self._body = bytearray()
        self._asked = False

    def greet(self) -> None:
        """Say hello, and wait for the other end to do so."""
        self._http.initiate_connection()
        self.say(self._http.data_to_send())

    def heard(self, data: bytes) -> None:
        """Frames, or the end."""
        from h2.exceptions import ProtocolError

        if not data:
            self.broke("error reading from server: EOF")
            return
        try:
            self._take(data)
        except (ProtocolError, ValueError) as error:  # also headers that are no text, and no numbers
            self.broke(str(error))

    def broke(self, why: str) -> None:
        """The connection is over; before a greeting there was none."""
        self._tell(Health(_UNAVAILABLE, why) if self._asked else None)

    def _take(self, data: bytes) -> None:
        """Raises h2's ProtocolError, OSError."""
        from h2 import events

        for event in self._http.receive_data(data):
            if isinstance(event, events.RemoteSettingsChanged) and not self._asked:
                self._ask()
            elif isinstance(event, events.ResponseReceived | events.TrailersReceived):
                self._headers |= {str(key): str(value) for key, value in event.headers or ()}
            elif isinstance(event, events.DataReceived):
                self._body += event.data or b""
                self._http.acknowledge_received_data(event.flow_controlled_length or 0, event.stream_id or 0)
            elif isinstance(event, events.StreamEnded):
                self._tell(self._outcome())
            elif isinstance(event, events.StreamReset):
                words = f"stream terminated by RST_STREAM with error code: {getattr(event.error_code, 'name', '')}"
                self._tell(Health(_INTERNAL, words))
            elif isinstance(event, events.ConnectionTerminated):
                self.broke("connection closed by server")
        self.say(self._http.data_to_send())

    def _ask(self) -> None:
        self._asked = True
        self.running.tell(self._connected)
        stream = self._http.get_next_available_stream_id()
        self._http.send_headers(
            stream,
            [
                (":method", "POST"),
                (":scheme", "http"),
                (":path", "/grpc.health.v1.Health/Check"),
                (":authority", self._authority),
                ("content-type", "application/grpc"),
                ("user-agent", AGENT),
                ("te", "trailers"),
            ],
        )
        name = self._service.encode()
        message = b"\x0a" + _varint(len(name)) + name if name else b""
        self._http.send_data(stream, b"\x00" + len(message).to_bytes(4, "big") + message, end_stream=True)

    def _outcome(self) -> Health:
        said = self._headers.get("grpc-status", "")
        code, words = said if said.isascii() else "", unquote(self._headers.get("grpc-message", ""))
        http = int(self._headers.get(":status", "0"))
        if not code.isdigit() and http != 200:
            said = f"unexpected HTTP status code received from server: {http} ({_phrase(http)})"
            return Health(_OF_HTTP.get(http, _UNKNOWN), said)
        if not code.isdigit():
            return Health(_INTERNAL, "server closed the stream without sending trailers")
        return Health(int(code), words, _status(bytes(self._body[5:])))

    def _tell(self, outcome: Health | None) -> None:
        if not self.over:
            self.close()
            self.running.tell(self._answered, outcome)


def _phrase(status: int) -> str:
    try:
        return HTTPStatus(status).phrase
    except ValueError:
        return ""


def _varint(number: int) -> bytes:
    found = bytearray()
    while number > 0x7F:
        found.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*found, number])


def _status(message: bytes) -> int:
    """Field 1 of a HealthCheckResponse; 0 where it is left out."""
    return message[1] if len(message) > 1 and message[0] == 0x08 else 0
