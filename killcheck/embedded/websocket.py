"""The server's side of a WebSocket (RFC 6455) after the upgrade: channels, as kubectl and others speak them on it.

The frames are ``wsproto``'s. Each message begins with its channel's number; or they are the bytes of a SPDY connection
(``SPDY/3.1+portforward.k8s.io``: k8s.io/apiserver/pkg/util/proxy/streamtunnel.go).
"""

from __future__ import annotations

import base64
import binascii
import hashlib
from collections.abc import Iterator
from typing import Any

from wsproto.connection import Connection as Frames
from wsproto.connection import ConnectionState, ConnectionType
from wsproto.events import BytesMessage, CloseConnection, Ping, TextMessage

from killcheck.embedded.api.http import Finished, Heard, Opened
from killcheck.embedded.spdy import Spdy

__all__ = ["CLOSE_CHANNEL", "Tunnel", "WebSocket", "accept_key", "wire_of"]

#: The v5 channel protocol: the client ends a channel by its number behind this.
CLOSE_CHANNEL = 255
_GUID = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"

Event = Opened | Heard | Finished | bytes


def accept_key(key: str) -> str:
    """``Sec-WebSocket-Accept`` for a client's ``Sec-WebSocket-Key``."""
    return base64.b64encode(hashlib.sha1((key + _GUID).encode(), usedforsecurity=False).digest()).decode()


def wire_of(upgrade: str, protocol: str) -> WebSocket | Spdy | Tunnel:
    """What turns bytes into events, by what was agreed upon in the upgrade."""
    if upgrade != "websocket":
        return Spdy()
    if protocol.startswith("SPDY/3.1+"):
        return Tunnel()
    return WebSocket(ends=protocol.startswith("v5."), encoded="base64" in protocol)


class _Messages:
    """Whole messages in and out."""

    def __init__(self) -> None:
        self._frames = Frames(ConnectionType.SERVER)
        self._parts: list[bytes] = []
        self.closed = False

    def _send(self, data: bytes | str) -> bytes:
        if self._frames.state is not ConnectionState.OPEN:
            return b""
        return self._frames.send(TextMessage(data) if isinstance(data, str) else BytesMessage(data))

    def close(self) -> bytes:
        """The farewell; the peer's own comes in answer."""
        if self._frames.state is not ConnectionState.OPEN:
            return b""
        return self._frames.send(CloseConnection(code=1000))

    def _messages(self, data: bytes) -> Iterator[tuple[bytes, bool]]:
        """(message, False), and (bytes that answer something, True)."""
        self._frames.receive_data(data or None)
        for event in self._frames.events():
            if isinstance(event, Ping):
                if self._frames.state is ConnectionState.OPEN:
                    yield self._frames.send(event.response()), True
            elif isinstance(event, CloseConnection):
                if self._frames.state is ConnectionState.REMOTE_CLOSING:
                    yield self._frames.send(event.response()), True
                self.closed = True
            elif isinstance(event, BytesMessage | TextMessage):
                self._parts.append(_bytes(event.data))
                if event.message_finished:
                    message, self._parts = b"".join(self._parts), []
                    yield message, False


class WebSocket(_Messages):
    """Turns channel messages into bytes and back; does no IO.

    ``ends``: the client can close single channels (v5); ``encoded``: messages are text, and their data base64.
    """

    def __init__(self, *, ends: bool = True, encoded: bool = False) -> None:
        super().__init__()
        self._ends = ends
        self._encoded = encoded

    def message(self, channel: int, data: bytes | None) -> bytes:
        """A message on a channel, as bytes for the peer; the end of a channel (None) cannot be said."""
        if data is None:
            return b""
        if self._encoded:
            return self._send(f"{channel}{base64.b64encode(data).decode()}")
        return self._send(bytes([channel]) + data)

    def received(self, data: bytes) -> Iterator[Event]:
        """What the peer said: events, and bytes that are to be sent in answer. Sets ``closed``."""
        for message, answer in self._messages(data):
            if answer:
                yield message
            elif not message:
                continue
            elif self._ends and message[0] == CLOSE_CHANNEL:
                if len(message) == 2:
                    yield Finished(message[1])
                else:
                    self.closed = True
            elif not self._encoded:
                yield Heard(message[0], message[1:])
            else:
                try:
                    yield Heard(message[0] - ord("0"), base64.b64decode(message[1:], validate=True))
                except binascii.Error:
                    continue


class Tunnel(_Messages):
    """A SPDY connection inside a WebSocket's messages."""

    def __init__(self) -> None:
        super().__init__()
        self._inner = Spdy()

    def message(self, channel: int, data: bytes | None) -> bytes:
        """Data on a stream of the connection inside; None: its end."""
        inner = self._inner.message(channel, data)
        return self._send(inner) if inner else b""

    def close(self) -> bytes:
        """Both farewells."""
        return self._send(self._inner.close()) + super().close()

    def received(self, data: bytes) -> Iterator[Event]:
        """As Spdy.received. Raises SpdyError."""
        for message, answer in self._messages(data):
            if answer:
                yield message
                continue
            for event in self._inner.received(message):
                yield self._send(event) if isinstance(event, bytes) else event
            if self._inner.closed:
                self.closed = True


def _bytes(data: Any) -> bytes:
    return data.encode() if isinstance(data, str) else bytes(data)
