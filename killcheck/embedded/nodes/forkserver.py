"""The process that spawners are forked from: one for each level of this process, started when the first is wanted.

A Python that has imported what ``spawner.py`` takes is forked in a millisecond or two; started anew for each cluster it
would take longer than the cluster itself. Who is forked from this process shares its fork server.
"""

from __future__ import annotations

import atexit
import json
import os
import socket
import subprocess
import sys
import threading
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

__all__ = ["ForkServer", "fork_server", "fork_spawner"]

#: Wall seconds that its end may take.
END_LIMIT_S = 10.0
#: One message an order, whoever sends it; where the system has no such sockets, a stream on which nobody else writes.
_KIND = socket.SOCK_SEQPACKET if sys.platform.startswith("linux") else socket.SOCK_STREAM
_BEGIN = "import sys; sys.path.append(sys.argv[1]); import spawner; spawner.serve(int(sys.argv[2]))"


class ForkServer:
    """A process that forks spawners. ``before``: what it is started by. Raises OSError."""

    def __init__(self, before: Sequence[str] = ()) -> None:
        self._orders, theirs = socket.socketpair(socket.AF_UNIX, _KIND)
        here = str(Path(__file__).parent)
        argv = [*before, sys.executable, "-I", "-S", "-c", _BEGIN, here, str(theirs.fileno())]
        with theirs:
            self._process = subprocess.Popen(
                argv,
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                # What bubblewrap says where it is refused is said by us, once.
                stderr=subprocess.DEVNULL if before else None,
                start_new_session=True,
                env={},
                cwd="/",
            )
        self._owner = os.getpid()
        atexit.register(self.close)

    def fork(self, folder: str, kind: str, control: int, report: int, *, tried: bool) -> None:
        """Fork a spawner that works in ``folder``; ``kind``: sandbox or open. ``tried``: that containers can be made
        here has been seen. Raises OSError where the server has gone.
        """
        order = json.dumps({"folder": folder, "kind": kind, "tried": tried}).encode()
        with open(os.devnull, "wb") as null:  # noqa: PTH123
            socket.send_fds(self._orders, [order], [control, report, _errors(null.fileno())])

    def close(self) -> None:
        """End it; the spawners that it forked go on. Idempotent."""
        self._orders.close()
        if self._owner == os.getpid():
            try:
                self._process.wait(END_LIMIT_S)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()


def _errors(otherwise: int) -> int:
    """Where this process writes its errors now."""
    with suppress(OSError):
        os.fstat(2)
        return 2
    return otherwise


_servers: dict[tuple[str, ...], ForkServer] = {}
_lock = threading.Lock()


def fork_server(before: tuple[str, ...] = ()) -> ForkServer:
    """The one that is started by ``before``. Raises OSError."""
    with _lock:
        if before not in _servers:
            _servers[before] = ForkServer(before)
        return _servers[before]


def fork_spawner(before: tuple[str, ...], folder: str, kind: str, files: tuple[int, int], *, tried: bool) -> None:
    """:meth:`ForkServer.fork` by the one that there is, or by a new one where that has been killed. Raises OSError."""
    server = fork_server(before)
    try:
        server.fork(folder, kind, *files, tried=tried)
    except ConnectionError:
        server.close()
        with _lock:
            if _servers.get(before) is server:
                atexit.unregister(server.close)
                del _servers[before]
        fork_server(before).fork(folder, kind, *files, tried=tried)
