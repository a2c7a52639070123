"""Connections whose answers come to their end, headers and all: a peer that sends a byte a minute is never silent.

A socket's time-out is of one read. Here each read also looks at how long the whole answer has been under way.
"""

from __future__ import annotations

import io
import socket
from http.client import HTTPResponse
from typing import TYPE_CHECKING, Any

from killcheck.clock import wall_seconds

if TYPE_CHECKING:
    import urllib3

__all__ = ["bound"]


def bound(pools: urllib3.PoolManager, limit_s: float) -> None:
    """Give up an answer that has been under way for ``limit_s``, and for as long as one read may take.

    Such an answer raises urllib3's errors of a read that timed out.
    """
    from urllib3 import connectionpool as c

    class Answer(HTTPResponse):
        def __init__(self, sock: socket.socket, *args: Any, **more: Any) -> None:
            super().__init__(sock, *args, **more)
            until = wall_seconds() + limit_s + (sock.gettimeout() or 0.0)
            self.fp = io.BufferedReader(_Until(self.fp.detach(), until))

    classes: dict[str, type[c.HTTPConnectionPool]] = {}
    for scheme, pool in (("http", c.HTTPConnectionPool), ("https", c.HTTPSConnectionPool)):
        connection = type("Connection", (pool.ConnectionCls,), {"response_class": Answer})
        classes[scheme] = type("Pool", (pool,), {"ConnectionCls": connection})
    pools.pool_classes_by_scheme = classes


class _Until(io.RawIOBase):
    """What a socket sends, until a moment of :func:`~killcheck.clock.wall_seconds`."""

    def __init__(self, raw: io.RawIOBase, until: float) -> None:
        self._raw = raw
        self._until = until

    def readable(self) -> bool:
        return True

    def fileno(self) -> int:
        return self._raw.fileno()

    def readinto(self, buffer: Any) -> int | None:
        if wall_seconds() > self._until:
            raise TimeoutError("the answer does not come to its end")
        return self._raw.readinto(buffer)

    def close(self) -> None:
        self._raw.close()
        super().close()
