"""What happens in a container besides its own process: commands (exec, probes), attached clients, connections to it.

A command joins the container's namespaces: its root, its network, its processes. Without namespaces it starts in the
same folder, with the same environment and the same PATH.
"""

from __future__ import annotations

import errno
import hashlib
import os
import socket
import threading
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from killcheck.embedded.nodes import commands, sandbox
from killcheck.embedded.nodes.execution import NotRun, StartError
from killcheck.embedded.nodes.hostio import Outgoing
from killcheck.embedded.nodes.quiescence import Rest
from killcheck.embedded.nodes.spawnerclient import SetUpError
from killcheck.embedded.nodes.streams import OUTPUT_LIMIT, Streams
from killcheck.kube.objects import Obj
from killcheck.text.values import replace

if TYPE_CHECKING:
    from killcheck.embedded.nodes.host_container import HostContainer

__all__ = ["Attached", "Connection", "ExecCommand"]

#: Where the runtime's own words begin in a container's StartError.
_START = "unable to start container process"
_FAILED = "error executing command in container"
CHUNK = 65536


class ExecCommand:
    """A command in a container; an ``api.kubelet_endpoint.Execution``, and a ``spawnerclient.Started``."""

    def __init__(self, container: HostContainer, argv: list[str], *, stdin: bool = False, tty: bool = False) -> None:
        self.container = container
        self.argv = argv
        self.pid = 0
        self._stdin = stdin
        self._tty = tty
        self._name = ""
        self._hold: Any = None
        self._streams: Streams | None = None
        self._on_end: Callable[[int | str], None] = lambda _: None
        self._rest = Rest(container.loop)
        self._over = False

    # -- the Execution protocol ----------------------------------------------------------------------------
    def start(self, said: Callable[[int, bytes], bool | None], ended: Callable[[int | str], None]) -> None:
        """Begin it."""
        self._on_end = ended
        try:
            self._begin(said)
        except StartError as error:
            why = str(error)[max(str(error).find(_START), 0) :]
            identity = hashlib.sha256(f"{self.container.key}{self._name}{self.argv}".encode()).hexdigest()
            self._finish(
                f'{_FAILED}: failed to exec in container: failed to start exec "{identity}": OCI runtime exec failed: '
                f"exec failed: {why}"
            )
        except (NotRun, SetUpError) as error:
            self._finish(f"{_FAILED}: the command was not run: {error}")

    def feed(self, data: bytes) -> None:
        """Something for its standard input."""
        if self._streams is not None:
            self._streams.feed(data)

    def end_input(self) -> None:
        """Nothing more comes."""
        if self._streams is not None:
            self._streams.end_input()

    def resize(self, width: int, height: int) -> None:
        """Its terminal's size."""
        if self._streams is not None:
            self._streams.resize(width, height)

    def resume(self) -> None:
        """Whoever listens has heard everything."""
        if self._streams is not None:
            self._streams.resume()

    def leave(self) -> None:
        """Whoever asked for it has gone, and it goes too."""
        self._on_end = lambda _: None
        spawner = self.container.runtime.spawner
        if spawner is not None and self.pid and not self._over:
            spawner.send({"do": "signal", "id": self._name, "signal": 9, "group": True})
        self._forget()

    # -- the Started protocol ------------------------------------------------------------------------------
    def ended(self, code: int, number: int, peak: int) -> None:
        """The spawner has seen it end (any thread)."""
        self._over = True
        self.container.tell(self._finish, code)

    def signalled(self) -> None:
        """It is only ever told to go, when nobody waits for it any more."""

    def lost(self) -> None:
        """The helper has gone."""
        self.container.tell(self._finish, f"{_FAILED}: the helper process that ran it has gone")

    # -- inside --------------------------------------------------------------------------------------------
    def _begin(self, said: Callable[[int, bytes], bool | None]) -> None:
        """Raises StartError, SetUpError, NotRun."""
        container = self.container
        spawner, plan = container.runtime.spawner, container.plan
        if spawner is None or plan is None or not container.pid:
            raise NotRun("the container has ended")
        commands.check(replace(container.launch, argv=self.argv))
        argv = self.argv if container.isolated else sandbox.moved_command(container.launch, self.argv, plan)
        self._name = container.runtime.next_name()
        self._streams = Streams(spawner.io, self._bounded(said), stdin=self._stdin, tty=self._tty, apart=True)
        env = plan.env | {"TERM": "xterm"} if self._tty else plan.env
        job: Obj = {
            "do": "spawn",
            "id": self._name,
            "argv": argv,
            "env": env,
            "cwd": plan.cwd,
            "tty": self._tty,
            "stdio": self._streams.stdio,
            "isolated": container.isolated,
            "inside": container.pid,
            "network": container.network.keeper,
        }
        spawner.known[self._name] = self
        container.commands.add(self)
        try:
            self.pid, _ = spawner.spawn(job, self._streams.files)
        except BaseException:
            self._forget()
            raise
        self._rest = Rest(container.loop)
        self._hold = container.loop.hold(self.ahead)
        self._streams.begin()

    def _bounded(self, said: Callable[[int, bytes], bool | None]) -> Callable[[int, bytes], bool | None]:
        """The same, until it has been told too much."""
        written = 0

        def hear(number: int, data: bytes) -> bool | None:
            """As the one that is told; what has written too much is stopped, and says nothing more."""
            nonlocal written
            if written > OUTPUT_LIMIT:
                return None
            written += len(data)
            if written > OUTPUT_LIMIT:
                self.container.tell(self._stop, f"{_FAILED}: it wrote more than {OUTPUT_LIMIT >> 20} MiB")
                return None
            return said(number, data)

        return hear

    def _stop(self, why: str) -> None:
        on_end = self._on_end
        self.leave()
        on_end(why)

    def ahead(self) -> float:
        """By how many seconds time may move as far as it is concerned; 0 while it works."""
        spawner = self.container.runtime.spawner
        busy = self._over or self.container.client.busy or (spawner is not None and spawner.io.busy)
        return self._rest.ahead_s(self.pid, busy=busy, known=0)

    def _finish(self, outcome: int | str) -> None:
        if self._streams is not None:
            self._streams.drain()
        self._forget()
        on_end, self._on_end = self._on_end, lambda _: None
        on_end(outcome)

    def _forget(self) -> None:
        self.container.commands.discard(self)
        hold, self._hold = self._hold, None
        if hold is not None:
            hold.release()
        spawner = self.container.runtime.spawner
        if spawner is not None:
            spawner.known.pop(self._name, None)
        if self._streams is not None:
            self._streams.close()


class Attached:
    """A client at a container's own process; an ``api.kubelet_endpoint.Execution``."""

    def __init__(self, container: HostContainer, *, stdin: bool) -> None:
        self.container = container
        self._stdin = stdin and container.launch.stdin
        self.said: Callable[[int, bytes], bool | None] = lambda *_: None
        self._on_end: Callable[[int | str], None] = lambda _: None

    def start(self, said: Callable[[int, bytes], bool | None], ended: Callable[[int | str], None]) -> None:
        """Hear what it says from now on."""
        self.said, self._on_end = said, ended
        if self.container.gone:
            ended(0)
        else:
            self.container.attached.append(self)

    def feed(self, data: bytes) -> None:
        """Something for its standard input."""
        if self._stdin and self.container.streams is not None:
            self.container.streams.feed(data)

    def end_input(self) -> None:
        """Nothing more comes from here, and where the container is told once, from nobody."""
        if self._stdin and self.container.launch.stdin_once and self.container.streams is not None:
            self.container.streams.end_input()

    def resize(self, width: int, height: int) -> None:
        """Its terminal's size."""
        if self.container.streams is not None:
            self.container.streams.resize(width, height)

    def resume(self) -> None:
        """A container's own process waits for no client."""

    def leave(self) -> None:
        """The client has gone; the process goes on."""
        if self in self.container.attached:
            self.container.attached.remove(self)
            self.end_input()

    def over(self) -> None:
        """The container has ended: whoever looked on is told that looking on went well."""
        self._on_end(0)


class Connection:
    """A connection to a port of a pod, ``api.kubelet_endpoint.Carried``. ``sandbox``: what its pod is called in errors.

    The first container whose port takes it has it: the containers of a pod do not share their network here.
    """

    def __init__(self, containers: Sequence[HostContainer], port: int, sandbox: str) -> None:
        self._containers = containers
        self._port = port
        self._sandbox = sandbox
        self._sock: socket.socket | None = None
        self._io: Any = None
        self._out: Outgoing | None = None
        self._said: Callable[[bytes], bool | None] = lambda _: None
        self._paused = False
        self._lock = threading.Lock()
        self._on_end: Callable[[str], None] = lambda _: None

    def start(self, said: Callable[[bytes], bool | None], ended: Callable[[str], None]) -> None:
        """Connect."""
        self._said, self._on_end = said, ended
        why = "connect: connection refused"
        for container in self._containers:
            try:
                self._begin(container, container.connect("127.0.0.1", self._port))
                return
            except OSError as error:
                if error.errno != errno.ECONNREFUSED:
                    why = f"connect: {(error.strerror or str(error)).lower()}"
        where = f'namespace "{self._sandbox}", IPv4: dial tcp4 127.0.0.1:{self._port}'
        ended(
            f"error forwarding port {self._port} to pod {self._sandbox}, uid : failed to execute portforward in "
            f'network namespace "/var/run/netns/cni-{self._sandbox[:8]}": failed to connect to localhost:{self._port} '
            f"inside {where}: {why} IPv6 dial tcp6: address localhost: no suitable address "
        )

    def feed(self, data: bytes) -> None:
        """Something for the port."""
        if self._out is not None:
            self._out.put(data)

    def end_input(self) -> None:
        """Nothing more comes for the port."""
        if self._out is not None:
            self._out.end()

    def resume(self) -> None:
        """Whoever listens has heard everything."""
        with self._lock:
            if self._paused and self._sock is not None:
                self._paused = False
                self._io.add(self._sock, self._readable)

    def leave(self) -> None:
        """The client has gone."""
        self._on_end = lambda _: None
        self._close()

    def _begin(self, container: HostContainer, sock: socket.socket) -> None:
        spawner = container.runtime.spawner
        if spawner is None:
            sock.close()
            return
        sock.setblocking(False)
        self._sock, self._io = sock, spawner.io
        ours = os.fdopen(os.dup(sock.fileno()), "wb", buffering=0)
        self._out = Outgoing(spawner.io, ours, self._shut)
        self._tell = container.tell
        spawner.io.add(sock, self._readable)

    def _shut(self) -> None:
        if self._sock is not None:
            try:
                self._sock.shutdown(socket.SHUT_WR)
            except OSError:
                return

    def _readable(self) -> None:
        sock = self._sock
        if sock is None or self._paused:
            return
        try:
            data = sock.recv(CHUNK)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if data:
            with self._lock:  # who resumes must find it paused
                if self._said(data) is False:
                    self._paused = True
                    self._io.release(sock)
            return
        on_end, self._on_end = self._on_end, lambda _: None
        self._close()
        self._tell(on_end, "")

    def _close(self) -> None:
        sock, self._sock = self._sock, None
        if sock is not None:
            self._io.remove(sock)
        if self._out is not None:
            self._out.close()
