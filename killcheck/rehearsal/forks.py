"""Work in a fork of this process: it has everything that stands here, and nothing of what it does stays here."""

from __future__ import annotations

import gc
import os
import pickle
import signal
import sys
import threading
from collections import deque
from collections.abc import Callable

__all__ = ["Forks", "die_with", "forking"]

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


class Forks:
    """Works in forks of this process, ``most`` of them at once: each waits for its programs most of its time.

    As a context: what is under way when it is left by an exception is told to end, and waited for.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._under_way: deque[tuple[str, _Fork]] = deque()
        self._answers: dict[str, object] = {}

    def __enter__(self) -> Forks:
        return self

    def __exit__(self, kind: object, *rest: object) -> None:
        while self._under_way:
            fork = self._under_way.popleft()[1]
            if kind is not None:
                fork.end()
            fork.answer()

    def begin(self, name: str, work: Callable[[], object]) -> None:
        """Have it done, once fewer than ``most`` are under way."""
        if len(self._under_way) >= self._most:
            self._collect()
        self._under_way.append((name, _Fork(work)))

    def answers(self) -> dict[str, object]:
        """What each has answered, unpickled, once all have ended; without those that ended without an answer."""
        while self._under_way:
            self._collect()
        return self._answers

    def _collect(self) -> None:
        """Wait for the one that began first."""
        name, fork = self._under_way[0]
        sent = fork.answer()
        self._under_way.popleft()
        if sent:
            self._answers[name] = pickle.loads(sent)  # noqa: S301 - our own child's


class _Fork:
    """One fork, from when it has begun."""

    def __init__(self, work: Callable[[], object]) -> None:
        self._read, write = os.pipe()
        parent = os.getpid()
        gc.freeze()  # else the child's first collection writes to every page
        self._child = os.fork()
        if not self._child:
            os.close(self._read)
            _work(work, write, parent)
        os.close(write)
        gc.unfreeze()
        self._over = False

    def end(self) -> None:
        """Tell it to end."""
        if not self._over:
            os.kill(self._child, signal.SIGTERM)

    def answer(self) -> bytes:
        """What it sent before it ended; once, and empty after that."""
        if self._over:
            return b""
        try:
            with os.fdopen(self._read, "rb") as answer:
                return answer.read()
        except BaseException:
            self.end()
            raise
        finally:
            self._over = True
            os.waitpid(self._child, 0)


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
