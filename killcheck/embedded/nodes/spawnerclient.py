"""This side of the helper process that starts containers (``spawner.py``), and everything that comes from it."""

from __future__ import annotations

import contextlib
import errno
import json
import os
import shutil
import signal
import socket
import struct
import subprocess
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Protocol

from killcheck.clock import Loop
from killcheck.embedded.nodes import commands
from killcheck.embedded.nodes.agent import Agent, Asker
from killcheck.embedded.nodes.forkserver import fork_spawner
from killcheck.embedded.nodes.hostio import HostIo
from killcheck.embedded.nodes.isolation import BWRAP, Level
from killcheck.embedded.nodes.own_folder import OwnFolder
from killcheck.kube.objects import Obj

__all__ = ["NoSandbox", "SetUpError", "SpawnerClient", "Started"]

#: Wall seconds that a start may take (the host may be busy, its disk cold), and the helper's own end.
START_LIMIT_S = 60.0
END_LIMIT_S = 10.0
#: Wall seconds that a connection inside a container's network may take: it never leaves this host.
CONNECT_LIMIT_S = 2.0
#: What the helper is started by: bubblewrap gives it a user namespace where only bubblewrap may make one.
_BEFORE: dict[Level, tuple[str, ...]] = {Level.NAMESPACES: (), Level.BUBBLEWRAP: BWRAP, Level.UNISOLATED: ()}
#: Levels at which a container has been made here, by this process: no further helper need try.
_seen_to_work: set[Level] = set()


class Started(Protocol):
    """A container that the helper started."""

    def ended(self, code: int, number: int, peak: int) -> None:
        """Its first process has ended; called on the thread that watches the helper.

        ``peak``: bytes of memory that it, or one that it waited for, ever held; 0 where this host does not say.
        """

    def signalled(self) -> None:
        """A signal that it was to get has reached it; called on the same thread."""

    def lost(self) -> None:
        """The helper has gone, and the container with it."""


class SetUpError(Exception):
    """The host does not allow what a container needs."""


def remove(folder: Path) -> None:
    """Remove a folder in which a program may have made folders in folders without end."""
    try:
        shutil.rmtree(folder, ignore_errors=True)
    except RecursionError:
        subprocess.run(["rm", "-rf", "--", str(folder)], check=False, stderr=subprocess.DEVNULL)


class NoSandbox(Exception):
    """This host does not let a stranger's programs be kept in; the message says why, for each way that was tried."""


class SpawnerClient:
    """The helper process that starts containers (``spawner.py``), and everything that comes from it.

    ``level``: how well they are kept in. ``files``: their files, as this process reaches them: on a disk that only the
    helper and its containers have, or in ``folder``. Raises NoSandbox.
    """

    def __init__(self, loop: Loop, asker: Callable[[str], Asker | None], level: Level) -> None:
        self.level = level
        self._own = OwnFolder()
        self.folder = self._own.path
        self.known: dict[str, Started] = {}
        self._control, theirs = socket.socketpair()
        self._report_of_start, reported = socket.socketpair()
        with theirs, reported:
            try:
                self._start(theirs.fileno(), reported.fileno())
            except NoSandbox:
                self._control.close()
                self._report_of_start.close()
                shutil.rmtree(self.folder, ignore_errors=True)
                self._own.release()
                raise
        #: The helper's own process, from when it has settled.
        self.pid = 0
        self._files: int | None = None
        self._buffer = b""
        self._listener: socket.socket | None = None
        self._lock = threading.Lock()
        self.io = HostIo(loop)
        self.agent = Agent(loop, self.io, asker)
        self.io.add(self._control, self._readable)

    @property
    def files(self) -> Path:
        """Where the pods' files are, as this process reaches them. Raises NoSandbox."""
        self.settle()
        return Path(f"/proc/self/fd/{self._files}") if self.level is not Level.UNISOLATED else self.folder

    def _start(self, control: int, report: int) -> None:
        """Raises NoSandbox."""
        if self.level is Level.BUBBLEWRAP and os.geteuid() == 0:
            raise NoSandbox("root's containers would be root's: it is for other users")
        kind = "open" if self.level is Level.UNISOLATED else "sandbox"
        try:
            tried = self.level in _seen_to_work
            fork_spawner(_BEFORE[self.level], str(self.folder), kind, (control, report), tried=tried)
        except OSError as error:
            raise NoSandbox(f"{error.filename or 'fork server'}: {(error.strerror or str(error)).lower()}") from error

    def settle(self) -> None:
        """Wait until the helper has its place; idempotent. Raises NoSandbox where this host has none for it."""
        if self._files is not None:
            return
        self._report_of_start.settimeout(START_LIMIT_S)
        try:
            data, descriptors, _, _ = socket.recv_fds(self._report_of_start, 65536, 1)
        except TimeoutError:
            data, descriptors = b"", []
        message = next(iter(_messages(data)), {})
        if not descriptors:
            raise NoSandbox(str(message.get("unavailable", "the helper that starts processes did not start")))
        self.pid = int(message["pid"])
        _seen_to_work.add(self.level)
        self._files = descriptors[0]
        os.set_inheritable(self._files, False)
        self._report_of_start.close()

    @property
    def agent_port(self) -> int:
        """Where containers without a network of their own ask."""
        if self._listener is None:
            self._listener = socket.create_server(("127.0.0.1", 0), backlog=128)
            self.agent.serve(self._listener)
        return int(self._listener.getsockname()[1])

    def send(self, job: Obj, descriptors: list[int] | None = None) -> None:
        """Hand a job over."""
        payload = json.dumps(job).encode()
        framed = struct.pack("!I", len(payload)) + payload
        with self._lock, contextlib.suppress(OSError):
            if descriptors:
                framed = framed[socket.send_fds(self._control, [framed], descriptors) :]
            self._control.sendall(framed)

    def spawn(self, job: Obj, files: list[int]) -> tuple[int, list[socket.socket]]:
        """Start a process: its pid and its listening sockets; ``files`` are closed here.

        Raises StartError, SetUpError.
        """
        try:
            pid, sockets, refused = self._ask(job, files)
        finally:
            for file in files:
                os.close(file)
        if refused is None and pid:
            return pid, sockets
        for opened in sockets:
            opened.close()
        raise _refusal(refused, job["argv"][0])

    def connect(self, inside: int, address: str, port: int) -> socket.socket:
        """A connection made from inside the network of the container whose first process is ``inside``.

        Raises OSError.
        """
        job = {"do": "connect", "inside": inside, "address": address, "port": port, "limit_s": CONNECT_LIMIT_S}
        try:
            _, sockets, refused = self._ask(job, [])
        except SetUpError as error:
            raise OSError(errno.ETIMEDOUT, str(error)) from error
        if sockets:
            sockets[0].setblocking(True)  # the helper's time limit went with it
            return sockets[0]
        number = int((refused or {}).get("errno") or errno.EIO)
        raise OSError(number, os.strerror(number))

    def _ask(self, job: Obj, files: list[int]) -> tuple[int, list[socket.socket], Obj | None]:
        ours, theirs = socket.socketpair()
        with ours:
            with theirs:
                self.send(job, [*files, theirs.fileno()])
            ours.settimeout(START_LIMIT_S)
            return self._report(ours)

    def _report(self, sock: socket.socket) -> tuple[int, list[socket.socket], Obj | None]:
        pid, buffer, descriptors = 0, b"", []
        try:
            while True:
                data, fresh, _, _ = socket.recv_fds(sock, 65536, 16)
                descriptors += fresh
                if not data:
                    break
                buffer += data
        except TimeoutError as error:
            raise SetUpError("it did not start in time") from error
        finally:
            sockets = [socket.socket(fileno=descriptor) for descriptor in descriptors]
            for opened in sockets:
                opened.set_inheritable(False)
        refused: Obj | None = None
        ready = False
        for message in _messages(buffer):
            pid = message.get("pid", pid)
            refused = message if "refused" in message else refused
            ready = ready or "ready" in message
        if pid and not ready and not descriptors and refused is None:
            refused = {"refused": "setup", "what": "it ended before its program began"}
        return pid, sockets, refused

    def close(self) -> None:
        """End the helper, and with it everything that it started."""
        self.io.stop()
        self._end_helper()
        if self._listener is not None:
            self._listener.close()
        self._report_of_start.close()
        if self._files is not None:
            os.close(self._files)
            self._files = None
        remove(self.folder)
        self._own.release()

    def _end_helper(self) -> None:
        """Wait until it has gone: its end of the socket is the last thing that it lets go."""
        with contextlib.suppress(OSError), self._control:
            self._control.settimeout(END_LIMIT_S)
            self._control.shutdown(socket.SHUT_WR)
            try:
                while self._control.recv(65536):
                    pass
            except TimeoutError:
                if self.pid:
                    os.kill(self.pid, signal.SIGKILL)

    def _readable(self) -> None:
        try:
            data = self._control.recv(65536)
        except OSError:
            data = b""
        if not data:
            self.io.remove(self._control)
            for started in list(self.known.values()):
                started.lost()
            return
        self._buffer += data
        while len(self._buffer) >= 4:
            size = struct.unpack("!I", self._buffer[:4])[0]
            if len(self._buffer) < 4 + size:
                break
            message = json.loads(self._buffer[4 : 4 + size])
            self._buffer = self._buffer[4 + size :]
            about = self.known.get(message.get("exited") or message["signalled"])
            if about is not None and "signalled" in message:
                about.signalled()
            elif about is not None:
                about.ended(message["code"], message["signal"], message["peak"])


def _messages(buffer: bytes) -> list[Obj]:
    found = []
    while len(buffer) >= 4:
        size = struct.unpack("!I", buffer[:4])[0]
        found.append(json.loads(buffer[4 : 4 + size]))
        buffer = buffer[4 + size :]
    return found


def _refusal(message: Obj | None, program: str) -> Exception:
    kind = "setup" if message is None else message["refused"]
    if kind == "not-found":
        return commands.not_found(program)
    if kind == "missing":
        return commands.not_there(program)
    if kind == "denied":
        return commands.not_executable(program)
    return SetUpError("the helper that starts processes is gone" if message is None else message["what"])
