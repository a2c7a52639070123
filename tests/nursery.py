"""One process of a whole run of the tests that has imported all of killcheck: whoever serves a test is forked from it.

Importing everything takes seconds of processor time. Each worker, and each test that kills, once started a process of
its own for it. Now the first that asks starts this one, which ends with the process that started the tests. There are
two: ``pytest`` has imported pytest with its plugins too, ``killcheck`` has not. :class:`Served` is who asks.
"""

from __future__ import annotations

import fcntl
import json
import os
import select
import socket
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

__all__ = ["RUN", "Served"]

#: Names the folder of a whole run, and the process that ends last of it: FOLDER:PID.
RUN = "TESTS_NURSERY"


class Served:
    """A process that answers on ``stdout`` to what it reads from ``stdin``, and ends at the end of that.

    ``server``: what it runs, as ``module.function`` of this folder; ``words``: that function's own. It has the
    environment of who asks, changed by ``environment``.
    """

    def __init__(self, server, *words, of="killcheck", environment=None):
        theirs, ours = os.pipe()
        mine, others = os.pipe()
        errors = os.dup(2)
        order = {"server": server, "words": words, "cwd": str(Path.cwd()), "env": {**os.environ, **(environment or {})}}
        with socket.socket(socket.AF_UNIX) as asked:
            asked.connect(_place(of))
            socket.send_fds(asked, [b"."], [theirs, others, errors])
            asked.sendall(json.dumps(order).encode())
        for descriptor in (theirs, others, errors):
            os.close(descriptor)
        self.stdin, self.stdout = os.fdopen(ours, "w"), os.fdopen(mine)

    def close(self):
        """Returns when it has ended."""
        self.stdin.close()
        self.stdout.read()
        self.stdout.close()


def _place(of):
    """The socket at which it listens, which has begun."""
    folder, _, last = os.environ[RUN].rpartition(":")
    place = Path(folder, f"nursery-of-{of}")  # beside what killcheck keeps there
    with place.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # the workers ask at the same time
        if not place.exists():
            subprocess.run([sys.executable, __file__, of, str(place), last], check=True, stdin=subprocess.DEVNULL)
    return str(place)


# -- the process -------------------------------------------------------------------------------------------
def _begin(of, place, last):
    """Returns in a process that nobody waits for, when it can be asked; who started it ends then."""
    begun, tells = os.pipe()
    if os.fork():
        os.close(tells)
        os._exit(0 if os.read(begun, 1) else 1)
    os.close(begun)
    os.setsid()
    import forked

    forked.everything()
    if of == "pytest":
        forked.tests_too()
    door = socket.socket(socket.AF_UNIX)
    door.bind(place)
    door.listen()
    os.write(tells, b".")
    os.close(tells)
    return door, os.pidfd_open(int(last))


def _attend(door, last):
    """Forks who serves, order by order, until the last process of the run has ended."""
    while True:
        ready, _, _ = select.select([door, last], [], [])
        if last in ready:
            os._exit(0)
        asked, _ = door.accept()
        with asked:
            _, files, _, _ = socket.recv_fds(asked, 1, 3)
            order = json.loads(_all(asked))
        if os.fork() == 0:
            door.close()
            os.close(last)
            _serve(order, files)
        for file in files:
            os.close(file)
        with suppress(ChildProcessError):
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass


def _all(asked):
    """What whoever asks sends until it closes."""
    return b"".join(iter(lambda: asked.recv(1 << 16), b""))


def _serve(order, files):
    """The child: never returns."""
    import importlib

    import lacking

    for number, file in enumerate(files):
        os.dup2(file, number)
        os.close(file)
    sys.stdin, sys.stdout = os.fdopen(0, closefd=False), os.fdopen(1, "w", closefd=False)
    sys.stderr = os.fdopen(2, "w", errors="backslashreplace", buffering=1, closefd=False)
    with suppress(FileNotFoundError):
        os.chdir(order["cwd"])
    os.environ.clear()
    os.environ.update(order["env"])
    lacking.watch()  # into the file of who asks
    module, _, function = order["server"].rpartition(".")
    getattr(importlib.import_module(module), function)(*order["words"])
    sys.stdout.flush()
    os._exit(0)


if __name__ == "__main__":
    _attend(*_begin(*sys.argv[1:]))
