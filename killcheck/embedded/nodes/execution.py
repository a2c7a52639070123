"""What a kubelet asks of whatever really runs a container: a process on this host, a container engine, nothing."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from typing import TYPE_CHECKING, Literal, Protocol, runtime_checkable

from msgspec import Struct, field

from killcheck.embedded.containerlog import ContainerLog
from killcheck.embedded.nodes.volumes import Mount
from killcheck.entries import Assumption
from killcheck.images.contents import Contents
from killcheck.kube.objects import Obj

if TYPE_CHECKING:
    import socket
    from pathlib import Path

    from killcheck.embedded.api.kubelet_endpoint import Execution

__all__ = [
    "ASSUMED",
    "Enterable",
    "Exit",
    "Launch",
    "NetworkPolicy",
    "NotRun",
    "Running",
    "Runtime",
    "StartError",
]

#: Label of a Node that no manifest describes (:mod:`killcheck.embedded.models.assumednodes`).
ASSUMED = "killcheck.dev/assumed"

Reach = Literal["allow", "refuse", "drop"]


class NetworkPolicy(Struct):
    """What a pod's packets meet on their way to the API server, to DNS, and to its node's instance metadata; changes
    count for new connections."""

    api: Reach = "allow"
    dns: Reach = "allow"
    metadata: Reach = "allow"


class Launch(Struct, frozen=True):
    """One container, ready to start. ``argv`` is the whole command line, ``contents`` what its image has in it.

    ``hosts`` maps host aliases to addresses, ``services`` names such as ``vllm.inference`` to cluster IPs.
    """

    pod: Obj
    container: str
    argv: list[str]
    env: dict[str, str]
    mounts: list[Mount]
    contents: Contents
    image: str
    working_dir: str = ""
    hostname: str = ""
    hosts: dict[str, str] = field(default_factory=dict)
    services: dict[str, str] = field(default_factory=dict)
    cluster_dns: bool = True
    #: Name servers of its own that could know the cluster's names: nobody here can tell.
    name_servers: tuple[str, ...] = ()
    run_as: int | None = None
    network: NetworkPolicy = field(default_factory=NetworkPolicy)
    termination_path: str = "/dev/termination-log"
    #: Whether its process has a standard input, that of one client only, and a terminal.
    stdin: bool = False
    stdin_once: bool = False
    tty: bool = False
    pod_ip: str = ""
    #: How far its clock is behind the cluster's, in seconds.
    behind_s: float = 0.0
    #: What brings a program that this host has not; None: the image, in an engine.
    brings: str | None = None

    def texts(self) -> Iterator[str]:
        """What its programs are told, and the files that are mounted for them."""
        yield from (*self.argv, *self.env.values())
        for mount in self.mounts:
            yield from (file.content.decode("utf-8", "replace") for file in mount.volume.files.values())


class Exit(Struct, frozen=True):
    """How a container ended: ``code`` as Kubernetes counts (128 + signal), ``signal`` 0 where none."""

    code: int
    signal: int = 0
    reason: str = ""
    message: str = ""


class StartError(Exception):
    """The container's process could not be started; the message is the runtime's. Exit code 128."""


class NotRun(Exception):
    """The container is not run here, so its outcome is unknown; the message says why."""


class Running(Protocol):
    """A started container."""

    def terminate(self) -> None:
        """SIGTERM to its first process."""

    def kill(self) -> None:
        """SIGKILL to all of it. The exit is reported as any other."""

    def log(self) -> ContainerLog:
        """What it has written so far, both streams, the end of it where it was too much."""


@runtime_checkable
class Enterable(Protocol):
    """A started container in which other things than its own process can happen."""

    isolated: bool

    def command(self, argv: list[str], *, stdin: bool = False, tty: bool = False) -> Execution:
        """A command in it, not begun yet."""

    def attach(self, *, stdin: bool) -> Execution:
        """A client at its own process."""

    def connect(self, address: str, port: int) -> socket.socket:
        """A connection made from inside its network. Raises OSError; NotRun where it has none of its own."""

    def resized(self, spec: Obj) -> None:
        """Its container's spec gives it other resources now."""


class Runtime(Protocol):
    """Runs containers. The loop's lock is held in every call; exits are reported on the loop.

    Who implements it says so, and has its defaults. ``assumptions``: what outcomes rest on, a sentence each;
    ``images``: those that were really there, and run.
    """

    assumptions: Sequence[Assumption] = ()
    images: Collection[str] = frozenset()

    @property
    def level(self) -> str | None:
        """How well what has run here was kept in (:class:`.isolation.Level`); None: nothing has."""
        return None

    @property
    def folder(self) -> Path | None:
        """Where on this host the containers' scratch space is; None: they have none. Raises NotRun."""
        return None

    def start(
        self,
        launch: Launch,
        on_exit: Callable[[Exit], None],
        on_unknown: Callable[[str], None],
    ) -> Running:
        """Start a container. Raises StartError or NotRun.

        ``on_unknown`` is called, instead of ``on_exit``, where it turns out later that it cannot be run here.
        """

    def release(self, pod_uid: str) -> None:
        """The pod has gone: its scratch space may go too."""

    def pod_gone(self) -> None:
        """Some pod's object has gone: what polls for that may look now."""

    def hurry(self) -> None:
        """The drill was interrupted: nobody waits any more for what runs here in the wall's time."""
        return

    def assume(self, said: Assumption) -> None:
        """Note something that outcomes rest on, where anything is run."""
        return

    def close(self) -> None:
        """Kill everything and leave nothing behind; idempotent."""
