"""One question of a probe's over an open connection, whatever is spoken on it."""

from __future__ import annotations

import contextlib
import socket
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from killcheck.embedded.nodes.host_container import HostContainer

__all__ = ["CHUNK", "OUTPUT_LIMIT", "Question"]

CHUNK = 65536
#: Bytes of an answer that a probe reads.
OUTPUT_LIMIT = 10 << 10


class Question(ABC):
    """Begun and closed on the loop; what comes back is heard on the thread that waits for the host."""

    def __init__(self, running: HostContainer, sock: socket.socket) -> None:
        self.running = running
        self.sock = sock
        self.over = False

    def begin(self) -> None:
        """Ask."""
        spawner = self.running.runtime.spawner
        if spawner is None:
            self.sock.close()
            return
        with contextlib.suppress(OSError):  # what comes next says how it went
            self.greet()
        self.sock.setblocking(False)
        spawner.io.add(self.sock, self._readable)

    def close(self) -> None:
        """Ask no more; idempotent."""
        if self.over:
            return
        self.over = True
        spawner = self.running.runtime.spawner
        if spawner is not None:
            spawner.io.remove(self.sock)
        else:
            self.sock.close()

    @abstractmethod
    def greet(self) -> None:
        """Say what is said before anything is heard. Raises OSError."""

    @abstractmethod
    def heard(self, data: bytes) -> None:
        """Something came; empty: the other end has closed. Raises OSError."""

    @abstractmethod
    def broke(self, why: str) -> None:
        """The connection failed, in the words of the operating system."""

    def say(self, data: bytes) -> None:
        """Send something, while it is asked. Raises OSError."""
        if data and not self.over:
            self.sock.sendall(data)

    def _readable(self) -> None:
        if self.over:
            return
        try:
            self.heard(self.sock.recv(CHUNK))
        except BlockingIOError:
            return
        except OSError as error:
            self.broke((error.strerror or str(error)).lower())
