"""How killcheck's own processes end: as soon as everybody has had their say.

Python waits for threads, runs what was registered with :mod:`atexit`, flushes the standard streams, and then takes all
modules apart, object by object. That last part is a tenth of a drill's processor time, and nobody sees anything of it.
Only for processes that are killcheck's own (the command): as a library or a plugin it leaves the host's end alone.
"""

from __future__ import annotations

import atexit
import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager

__all__ = ["ended_at_once"]


@contextmanager
def ended_at_once() -> Iterator[None]:
    """Around all that a process does: where that ends with an exit code, the process ends once it is over.

    Where something else is registered already, which would then not be run, Python ends the process.
    """
    codes: list[int] = []

    def leave() -> None:
        if codes and _flushed():
            os._exit(codes[0] & 0xFF)

    registered = getattr(atexit, "_ncallbacks", lambda: 1)()
    if not registered:
        atexit.register(leave)  # the first to be registered is the last to be run
    try:
        yield
    except SystemExit as ended:
        # All is said and put back: who is impatient now ends it, and gets no traceback.
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        if ended.code is None or isinstance(ended.code, int):
            codes.append(ended.code or 0)
        raise


def _flushed() -> bool:
    try:
        sys.stdout.flush()
        sys.stderr.flush()
    except (OSError, ValueError):
        return False  # Python tells of it in its own way, with an exit code of its own
    return True
