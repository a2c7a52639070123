"""What containers reach besides the cluster: stand-ins of a cloud's endpoints, on this host's loopback alone, and the
metadata of the instance that their node is, at its own address.

A connection counts as work under way from its first byte to its end, so that virtual time stands still meanwhile; one
that nobody answers only for so long that a client with a short time limit has given up.
"""

from __future__ import annotations

import contextlib
import select
import socket
import threading
from collections.abc import Callable

from msgspec import Struct, field

from killcheck.embedded.nodes.execution import Launch, NetworkPolicy
from killcheck.kube.objects import Obj
from killcheck.standins.application import App
from killcheck.text.values import replace

__all__ = ["METADATA_IP", "App", "ExternalConnections", "ExternalEndpoints", "Place"]

CHUNK = 65536
#: Where every EC2 instance finds its own metadata.
METADATA_IP = "169.254.169.254"
#: Wall seconds for which a client of metadata waits that nobody answers (the AWS SDKs: 1 s), while time stands still.
UNANSWERED_S = 2.0


class Place(Struct, frozen=True):
    """``address:port`` as a container sees it leads to ``target``: a port of 127.0.0.1 on this host, or an answerer."""

    address: str
    port: int
    target: int | App


class ExternalEndpoints(Struct):
    """Every such place, and the variables by which clients find them (a manifest's own go before)."""

    places: list[Place] = field(default_factory=list)
    environment: dict[str, str] = field(default_factory=dict)
    #: What answers as the metadata of a pod's node; None: it is no instance of EC2.
    metadata: Callable[[Obj], App | None] = lambda pod: None

    def seen_by(self, launch: Launch) -> ExternalEndpoints:
        """The same as one container finds it, its instance's metadata included."""
        own = self.metadata(launch.pod)
        return replace(self, places=[*self.places, *([Place(METADATA_IP, 80, own)] if own else [])])

    def addresses(self) -> list[str]:
        """Addresses that a container's own network must have for them."""
        return sorted({place.address for place in self.places} - {"127.0.0.1"})

    def relocated(self, ports: dict[int, int]) -> dict[str, str]:
        """The variables where a container has no network of its own: ports of 127.0.0.1 are others there."""
        found = dict(self.environment)
        for name, value in found.items():
            for before, after in ports.items():
                found[name] = value = value.replace(f"127.0.0.1:{before}", f"127.0.0.1:{after}")
        if any(place.address == METADATA_IP for place in self.places):
            found["AWS_EC2_METADATA_SERVICE_ENDPOINT"] = f"http://127.0.0.1:{ports[80]}"
        return found


class ExternalConnections:
    """One container's connections to outside; ``busy`` as long as any of them is under way."""

    def __init__(self, endpoints: ExternalEndpoints, network: NetworkPolicy) -> None:
        self.endpoints = endpoints
        self.network = network
        self._open = 0
        self._lock = threading.Lock()

    @property
    def busy(self) -> bool:
        """Whether something was asked that has not been answered to the end."""
        return self._open > 0

    def reachable(self) -> list[str]:
        """The addresses outside that answer, as the network lets this container see them."""
        return [one for one in self.endpoints.addresses() if one != METADATA_IP or self.network.metadata == "allow"]

    def accept(self, listener: socket.socket, target: int | App) -> None:
        """Take the next connection of a listener and carry its bytes, or answer it, on a thread of its own."""
        with contextlib.suppress(OSError):
            sock, _ = listener.accept()
            self._count(1)
            serve = self._carry if isinstance(target, int) else self._answer
            threading.Thread(target=serve, args=(sock, target), name="killcheck-external", daemon=True).start()

    def _answer(self, sock: socket.socket, app: App) -> None:
        """One request; where nobody answers the connection stays open until its client has had enough."""
        from killcheck.standins.serving import answer  # a server: only where a container asks

        silent = threading.Event()

        def unanswered() -> None:
            silent.set()
            select.select([sock], [], [], UNANSWERED_S)
            self._count(-1)
            with contextlib.suppress(OSError):
                while sock.recv(CHUNK):
                    pass

        try:
            with sock:
                sock.setblocking(True)
                if self.network.metadata != "allow":
                    unanswered()
                else:
                    answer(sock, app, unanswered)
        except OSError:
            return
        finally:
            if not silent.is_set():
                self._count(-1)

    def _count(self, by: int) -> None:
        with self._lock:
            self._open += by

    def _carry(self, client: socket.socket, target: int) -> None:
        try:
            with client, socket.create_connection(("127.0.0.1", target)) as server:
                client.setblocking(True)
                _pump(client, server)
        except OSError:
            return
        finally:
            self._count(-1)


def _pump(client: socket.socket, server: socket.socket) -> None:
    """Both ways, until either end has closed."""
    other = {client: server, server: client}
    while True:
        ready, _, _ = select.select([client, server], [], [])
        for sock in ready:
            data = sock.recv(CHUNK)
            if not data:
                return
            other[sock].sendall(data)
