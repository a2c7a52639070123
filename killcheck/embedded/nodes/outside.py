"""What containers reach besides the cluster: stand-ins of a cloud's endpoints, on this host's loopback alone.

A connection counts as work under way from its first byte to its end, so that virtual time stands still meanwhile.
"""

from __future__ import annotations

import contextlib
import select
import socket
import threading
from dataclasses import dataclass, field

__all__ = ["Abroad", "Outside", "Place"]

CHUNK = 65536


@dataclass(frozen=True, slots=True)
class Place:
    """``address:port`` as a container sees it leads to ``target``, a port of 127.0.0.1 on this host."""

    address: str
    port: int
    target: int


@dataclass
class Outside:
    """Every such place, and the variables by which clients find them (a manifest's own go before)."""

    places: list[Place] = field(default_factory=list)
    environment: dict[str, str] = field(default_factory=dict)

    def addresses(self) -> list[str]:
        """Addresses that a container's own network must have for them."""
        return sorted({place.address for place in self.places} - {"127.0.0.1"})

    def relocated(self, ports: dict[int, int]) -> dict[str, str]:
        """The variables where a container has no network of its own: ports of 127.0.0.1 are others there."""
        found = dict(self.environment)
        for name, value in found.items():
            for before, after in ports.items():
                found[name] = value = value.replace(f"127.0.0.1:{before}", f"127.0.0.1:{after}")
        return found


class Abroad:
    """One container's connections to outside; ``busy`` as long as any of them is under way."""

    def __init__(self) -> None:
        self._open = 0
        self._lock = threading.Lock()

    @property
    def busy(self) -> bool:
        """Whether something was asked that has not been answered to the end."""
        return self._open > 0

    def accept(self, listener: socket.socket, target: int) -> None:
        """Take the next connection of a listener and carry its bytes, on a thread of its own."""
        with contextlib.suppress(OSError):
            sock, _ = listener.accept()
            self._count(1)
            threading.Thread(target=self._carry, args=(sock, target), name="killcheck-outside", daemon=True).start()

    def _count(self, by: int) -> None:
        with self._lock:
            self._open += by

    def _carry(self, near: socket.socket, target: int) -> None:
        try:
            with near, socket.create_connection(("127.0.0.1", target)) as far:
                near.setblocking(True)
                _pump(near, far)
        except OSError:
            return
        finally:
            self._count(-1)


def _pump(near: socket.socket, far: socket.socket) -> None:
    """Both ways, until either end has closed."""
    other = {near: far, far: near}
    while True:
        ready, _, _ = select.select([near, far], [], [])
        for sock in ready:
            data = sock.recv(CHUNK)
            if not data:
                return
            other[sock].sendall(data)
