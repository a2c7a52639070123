"""In a container: how a shim asks the cluster for the time, or to be woken. Becomes part of every Python shim.

Only what Python has in C is imported: a shim is started with every command, and ``socket``, ``signal`` and ``re`` take
three times as long to come as all the rest of it.
"""

from __future__ import annotations

import _signal  # type: ignore[import-not-found]
import _socket
import os
import sys

#: Filled in when a shim is put into a container.
AGENT_HOST, AGENT_PORT, AGENT_KEY = "@AGENT_HOST@", "@AGENT_PORT@", "@AGENT_KEY@"


def send(request: str) -> _socket.socket:
    """Ask something; the answer is read with :func:`answer`."""
    sock = _socket.socket(_socket.AF_INET, _socket.SOCK_STREAM)
    sock.connect((AGENT_HOST, int(AGENT_PORT)))
    sock.sendall(f"{AGENT_KEY} {request}\n".encode())
    return sock


def answer(sock: _socket.socket) -> str:
    """The line that comes back; empty where the cluster has closed."""
    line = b""
    while not line.endswith(b"\n"):
        data = sock.recv(4096)
        if not data:
            break
        line += data
    return line.decode().strip()


def ask(request: str) -> str:
    """Ask something and wait for the answer."""
    sock = send(request)
    try:
        return answer(sock)
    finally:
        sock.close()


def run(argv: list[str], deadline_s: float | None) -> int | None:
    """Run a program; None where virtual time passed the deadline first (it has been killed then)."""
    pid = os.fork()
    if pid == 0:
        os.execv(argv[0], argv)  # noqa: S606
    if deadline_s is None:
        return _code(os.waitpid(pid, 0)[1])
    waker = send(f"alarm {deadline_s}")
    read, write = os.pipe()
    os.set_blocking(write, False)
    _signal.set_wakeup_fd(write, warn_on_full_buffer=False)
    _signal.signal(_signal.SIGCHLD, lambda *_: None)
    import select

    while True:
        ended, code = os.waitpid(pid, os.WNOHANG)
        if ended:
            waker.close()
            return _code(code)
        ready, _, _ = select.select([read, waker.fileno()], [], [])
        if waker.fileno() in ready:
            for each in _tree(pid):
                try:
                    os.kill(each, _signal.SIGKILL)
                except ProcessLookupError:  # it has just ended
                    continue
            os.waitpid(pid, 0)
            return None
        os.read(read, 64)


def _tree(pid: int) -> list[int]:
    """A process and what it started, the last first (the process alone where the kernel does not tell)."""
    found = [pid]
    for known in found:
        try:
            for task in os.listdir(f"/proc/{known}/task"):  # noqa: PTH208
                with open(f"/proc/{known}/task/{task}/children") as file:  # noqa: PTH123
                    found += [int(child) for child in file.read().split()]
        except OSError:
            continue
    return found[::-1]


def _code(code: int) -> int:
    ended = os.waitstatus_to_exitcode(code)
    return ended if ended >= 0 else 128 - ended


def complain(text: str) -> None:
    """Say something on standard error."""
    sys.stderr.write(text + "\n")
    sys.stderr.flush()
