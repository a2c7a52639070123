"""The server's side of a WebSocket (RFC 6455) after the upgrade: messages on channels, as kubectl exec speaks them.

The frames are ``wsproto``'s. Each message begins with its channel's number.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterator
from typing import Any

from wsproto.connection import Connection as Frames
from wsproto.connection import ConnectionType
from wsproto.events import BytesMessage, CloseConnection, Ping, TextMessage

__all__ = ["CLOSE_CHANNEL", "WebSocket", "accept_key"]

#: The v5 channel protocol: the client ends a channel by its number behind this.
CLOSE_CHANNEL = 255
_GUID = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"


def accept_key(key: str) -> str:
    """``Sec-WebSocket-Accept`` for a client's ``Sec-WebSocket-Key``."""
    return base64.b64encode(hashlib.sha1((key + _GUID).encode(), usedforsecurity=False).digest()).decode()


class WebSocket:
    """Turns channel messages into bytes and back; does no IO."""

    def __init__(self) -> None:
        self._frames = Frames(ConnectionType.SERVER)
        self.closed = False

    def message(self, channel: int, data: bytes) -> bytes:
        """A message on a channel, as bytes for the peer."""
        return self._frames.send(BytesMessage(bytes([channel]) + data))

    def close(self) -> bytes:
        """The farewell."""
        self.closed = True
        return self._frames.send(CloseConnection(code=1000))

    def received(self, data: bytes) -> Iterator[tuple[int, bytes] | bytes]:
        """What the peer said: messages as (channel, bytes); what is to be sent in answer as bytes. Sets ``closed``."""
        self._frames.receive_data(data or None)
        for event in self._frames.events():
            if isinstance(event, Ping):
                yield self._frames.send(event.response())
            elif isinstance(event, CloseConnection):
                if not self.closed:
                    yield self._frames.send(event.response())
                self.closed = True
            elif isinstance(event, BytesMessage | TextMessage):
                message = _bytes(event.data)
                if message:
                    yield message[0], message[1:]


def _bytes(data: Any) -> bytes:
    return data.encode() if isinstance(data, str) else bytes(data)
