"""Work in a fork of this process: it has everything that stands here, and nothing of what it does stays here."""

from __future__ import annotations

import gc
import os
import pickle
import signal
import sys
import threading
from collections.abc import Callable
from typing import TypeVar

__all__ = ["die_with", "forking", "in_fork"]

_T = TypeVar("_T")
#: prctl(2).
PR_SET_PDEATHSIG = 1


def forking() -> bool:
    """Whether this process may be forked in the middle of its work.

    Threads do not survive a fork, and what they hold is never let go: there must be none (a plugin's host has some).
    """
    return threading.active_count() == 1 and sys.platform == "linux"


def die_with(parent: int, how: signal.Signals) -> None:
    """In a child: get this signal when the parent dies, also where it was killed; Linux alone can do this."""
    if sys.platform != "linux":
        return
    import ctypes

    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, int(how), 0, 0, 0)
    if os.getppid() != parent:  # it was faster
        os.kill(os.getpid(), how)


def in_fork(work: Callable[[], _T]) -> _T | None:
    """What ``work`` answers in a fork of this process, pickled; None where it ended without an answer."""
    read, write = os.pipe()
    parent = os.getpid()
    gc.freeze()  # else the child's first collection writes to every page
    child = os.fork()
    if not child:
        os.close(read)
        _work(work, write, parent)
    os.close(write)
    gc.unfreeze()
    try:
        with os.fdopen(read, "rb") as answer:
            found = answer.read()
    except BaseException:
        os.kill(child, signal.SIGTERM)
        raise
    finally:
        os.waitpid(child, 0)
    return pickle.loads(found) if found else None  # noqa: S301 - our own child's


def _work(work: Callable[[], object], write: int, parent: int) -> None:
    """In the child: the whole of it; it never returns, and nothing that was set up to run at exit runs."""
    try:
        signal.signal(signal.SIGTERM, _unwind)
        die_with(parent, signal.SIGTERM)
        answer = pickle.dumps(work())
        with os.fdopen(write, "wb") as pipe:
            pipe.write(answer)
    finally:
        os._exit(0)


def _unwind(_number: int, _frame: object) -> None:
    raise SystemExit(1)
