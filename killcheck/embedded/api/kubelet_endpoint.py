"""What the API server asks of the kubelet of a node: logs, commands in containers, connections to pods."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from killcheck.embedded.containerlog import ContainerLog
from killcheck.kube.objects import Obj

__all__ = ["Carried", "Execution", "KubeletEndpoint"]


class Execution(Protocol):
    """A process in a container, and its three streams."""

    def start(self, said: Callable[[int, bytes], bool | None], ended: Callable[[int | str], None]) -> None:
        """Begin. Never raises: what goes wrong is how it ends.

        ``said`` is told what comes on STDOUT and STDERR, from any thread, and answers False where the rest should wait
        until :meth:`resume`; ``ended``, on the loop and after all of
        that, its exit code, or why it never began (``error executing command in container: ...``).
        """

    def feed(self, data: bytes) -> None:
        """Something for its standard input."""

    def end_input(self) -> None:
        """Nothing more comes for its standard input."""

    def resize(self, width: int, height: int) -> None:
        """Its terminal has another size, in characters."""

    def resume(self) -> None:
        """Whoever listens has heard everything; from any thread."""

    def leave(self) -> None:
        """Whoever talked to it has gone; idempotent."""


class Carried(Protocol):
    """A connection to a port of a pod."""

    def start(self, said: Callable[[bytes], bool | None], ended: Callable[[str], None]) -> None:
        """Connect. ``said`` is told what comes, from any thread, and answers False where the rest should wait until
        :meth:`resume`; ``ended``, after all of that, why it failed, or "".
        """

    def resume(self) -> None:
        """Whoever listens has heard everything; from any thread."""

    def feed(self, data: bytes) -> None:
        """Something for the port."""

    def end_input(self) -> None:
        """Nothing more comes for the port."""

    def leave(self) -> None:
        """Whoever talked to it has gone; idempotent."""


class KubeletEndpoint(Protocol):
    """What the API server asks of a node's kubelet."""

    def log(self, pod: Obj, container: str, *, previous: bool) -> ContainerLog:
        """A container's log. Raises StatusError."""

    def hollow(self, pod: Obj, container: str) -> bool:
        """Whether nothing runs in a container: what it says and does is modelled."""

    def execute(self, pod: Obj, container: str, command: list[str], *, stdin: bool, tty: bool) -> Execution:
        """A command beside a container's own, not begun yet. Raises StatusError."""

    def attach(self, pod: Obj, container: str, *, stdin: bool) -> Execution:
        """A container's own process, to be talked to. Raises StatusError."""

    def forward(self, pod: Obj) -> Callable[[int], Carried]:
        """What makes connections to the pod's ports. Raises StatusError."""
