"""A container of this host, as commands, clients and probes beside its own process know it."""

from __future__ import annotations

import errno
import os
import secrets
import socket
from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol

from killcheck.embedded.nodes.execution import Launch, NotRun
from killcheck.embedded.nodes.host_side import HostSide
from killcheck.embedded.nodes.network import Network
from killcheck.embedded.nodes.sandbox import Plan
from killcheck.embedded.nodes.streams import Streams
from killcheck.kube.objects import ref_of

if TYPE_CHECKING:
    from killcheck.embedded.api.kubelet_endpoint import Execution

__all__ = ["HostContainer", "Listener"]


class Listener(Protocol):
    """A client at the container's own process."""

    @property
    def said(self) -> Callable[[int, bytes], bool | None]:
        """Told what comes on STDOUT and STDERR, from any thread."""

    def over(self) -> None:
        """The container has ended."""


class HostContainer:
    """Its place on this host: process, streams, network."""

    def __init__(self, runtime: HostSide, launch: Launch, network: Network) -> None:
        self.runtime = runtime
        self.loop = runtime.loop
        self.launch = launch
        self.name = runtime.next_name()
        self.key = secrets.token_hex(8)
        self.network = network
        self.client = network.client
        self.pid = 0
        self.isolated = False
        self.streams: Streams | None = None
        #: What this host was told to make of it; None: nothing yet.
        self.plan: Plan | None = None
        #: Commands that run in it besides its own, and clients that listen to it.
        self.commands: set[Execution] = set()
        self.attached: list[Listener] = []
        self._over = False

    def connect(self, address: str, port: int) -> socket.socket:
        """A connection made from inside its network. Raises OSError; NotRun where it has no network of its own."""
        spawner = self.runtime.spawner
        if not self.isolated:
            raise NotRun("this host gives containers no network of their own: their ports cannot be told from its own")
        if spawner is None or self._over:
            raise OSError(errno.ECONNREFUSED, os.strerror(errno.ECONNREFUSED))
        return spawner.connect(self.network.keeper or self.pid, address, port)

    @property
    def who(self) -> str:
        """The pod, in words."""
        return ref_of({"kind": "Pod"} | self.launch.pod)

    @property
    def gone(self) -> bool:
        """Whether nothing more is heard of it."""
        return self.key not in self.runtime.processes

    def tell(self, fn: Callable[..., None], *args: object) -> None:
        """Have something called on the loop, from the thread that watches the host."""
        spawner = self.runtime.spawner
        if spawner is not None:
            with spawner.io.entered():
                self.loop.post(fn, *args)
