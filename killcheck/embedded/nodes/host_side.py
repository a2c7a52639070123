"""What all containers of this host have in common: the way to the API server, the helper process, what was assumed.

What may *not* live here: containers. They know this; :class:`~host_runtime.HostRuntime`, which starts them, is above.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol

from killcheck.clock import Loop
from killcheck.embedded.api.kinds import Registry
from killcheck.embedded.limits import Limits
from killcheck.embedded.nodes.agent import Asker
from killcheck.embedded.nodes.execution import Launch
from killcheck.embedded.nodes.external_endpoints import ExternalEndpoints
from killcheck.embedded.nodes.hostprograms import HostPrograms
from killcheck.embedded.nodes.spawnerclient import SpawnerClient
from killcheck.entries import Assumption

if TYPE_CHECKING:
    import socket

    from killcheck.embedded.connection import Client

__all__ = ["Door", "HostSide", "Resident"]

#: What a program looks for is told up to here: it may look for as many names as it likes.
MOST_ASSUMED = 200


class Door(Protocol):
    """How containers reach the API server: the embedded one's own TLS shell, or a passage to one that is elsewhere."""

    @property
    def interceptor(self) -> object | None:
        """Who answers in the server's place."""

    @property
    def handshakes(self) -> Callable[[], bool] | None:
        """Asked at each connection: whether its handshake comes to nothing."""

    @property
    def names(self) -> Callable[[str], float] | None:
        """How many seconds the look-up of a name takes."""

    def adopt(self, listener: socket.socket, client: Client) -> None:
        """Let it accept on a listening socket; what comes in counts for ``client``."""

    def drop(self, client: Client) -> None:
        """Close a client's listeners and connections; idempotent."""


class Resident(Asker, Protocol):
    """A container's process, as the others on this host see it. ``held``: bytes of memory, as last seen."""

    pid: int
    held: int

    def tell(self, fn: Callable[..., None], *args: object) -> None:
        """Have something called on the loop, from the thread that watches the host."""

    def abandon(self, why: str) -> None:
        """Stop it: how it would have ended is not known."""

    def discard(self) -> None:
        """Kill it and say nothing more of it."""

    def give_turn(self) -> None:
        """Something changed for which it may poll."""


class HostSide:
    """Nothing is started, written or opened before the first container."""

    def __init__(self, loop: Loop, wire: Door) -> None:
        self.loop = loop
        self.wire = wire
        #: Whether the drill was interrupted, and everything is only put back.
        self.hurried = False
        self.host = HostPrograms()
        #: What runs now, by a key that only its own container knows.
        self.processes: dict[str, Resident] = {}
        self.assumptions: list[Assumption] = []
        #: Names beyond the cluster that containers looked up, in their order.
        self.looked_for: list[str] = []
        #: Services of the cluster that they looked up (``name.namespace``): behind these nothing answers here.
        self.services_asked: list[str] = []
        #: What containers reach besides the cluster; nothing, unless somebody adds it.
        self.external = ExternalEndpoints()
        #: Who answers for the clouds' command lines, with an exit code and words, or says why it cannot; None: nobody.
        self.clouds: Callable[[Launch, list[str]], tuple[int, str] | str] | None = None
        #: What containers meet here and would not meet elsewhere.
        self.limits = Limits(loop)
        #: The types that the API server serves.
        self.kinds = Registry()
        self.spawner: SpawnerClient | None = None
        self.made = 0

    def next_name(self) -> str:
        """A name for what the helper process starts next."""
        self.made += 1
        return f"c{self.made}"

    def assume(self, said: Assumption) -> None:
        """Note something that the outcome rests on."""
        if said in self.assumptions or len(self.assumptions) > MOST_ASSUMED:
            return
        more = Assumption("more is assumed than is told here: a program asked for very many things")
        self.assumptions.append(said if len(self.assumptions) < MOST_ASSUMED else more)
