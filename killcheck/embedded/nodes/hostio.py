"""One thread that waits for everything the containers' processes say: output, deaths, questions, name look-ups."""

from __future__ import annotations

import contextlib
import selectors
import socket
import threading
from collections.abc import Callable, Iterator
from typing import Any

from killcheck.clock import Loop

__all__ = ["HostIo", "Stopped"]

Handler = Callable[[], None]
#: Wall seconds between two looks at whether the thread should end, while it waits for the loop.
PATIENCE_S = 0.02


class Stopped(Exception):
    """The thread is to end; whoever ends it may hold the loop's lock for as long as that takes."""


class HostIo:
    """Calls a handler, on its own thread and without the loop's lock, whenever a file is readable."""

    def __init__(self, loop: Loop) -> None:
        self.loop = loop
        self._selector = selectors.DefaultSelector()
        self._lock = threading.Lock()
        self._changes: list[tuple[Any, Handler | None]] = []
        self._watched: dict[int, Any] = {}
        self._reader, self._writer = socket.socketpair()
        self._reader.setblocking(False)
        self._selector.register(self._reader, selectors.EVENT_READ, None)
        self._stopping = False
        self._working = False
        self._thread = threading.Thread(target=self._run, name="killcheck-hostio", daemon=True)
        self._thread.start()

    def add(self, file: Any, handler: Handler) -> None:
        """Call ``handler`` while ``file`` is readable; from any thread."""
        self._change(file, handler)

    def remove(self, file: Any) -> None:
        """Forget a file and close it; from any thread."""
        self._change(file, None)

    @contextlib.contextmanager
    def entered(self) -> Iterator[None]:
        """Hold the loop's lock, from a handler. Raises Stopped rather than wait for somebody who waits for us."""
        while not self.loop.lock.acquire(timeout=PATIENCE_S):
            if self._stopping:
                raise Stopped
        try:
            yield
        finally:
            self.loop.lock.release()

    @property
    def busy(self) -> bool:
        """Whether something has been said that has not been dealt with yet."""
        if self._working:
            return True
        return any(key.fileobj is not self._reader for key, _ in self._selector.select(0))

    def stop(self) -> None:
        """End the thread and close what it watches; idempotent."""
        if self._stopping:
            return
        self._stopping = True
        self._nudge()
        self._thread.join()
        for file in (*self._watched.values(), *(file for file, _ in self._changes), self._reader):
            file.close()
        self._selector.close()
        self._writer.close()

    # -- the thread ----------------------------------------------------------------------------------------
    def _run(self) -> None:
        with contextlib.suppress(Stopped):
            self._serve()

    def _serve(self) -> None:
        while not self._stopping:
            self._apply()
            self._working = False
            for key, _ in self._ready():
                if key.fileobj is self._reader:
                    with contextlib.suppress(BlockingIOError):
                        self._reader.recv(4096)
                elif key.data is not None:
                    key.data()

    def _ready(self) -> list[tuple[selectors.SelectorKey, int]]:
        """What can be read; from before it is read on, the thread counts as working."""
        self._selector.select()
        self._working = True
        return self._selector.select(0)

    def _apply(self) -> None:
        with self._lock:
            changes, self._changes = self._changes, []
        for file, handler in changes:
            if handler is None:
                if self._watched.pop(id(file), None) is not None:
                    self._selector.unregister(file)
                file.close()
            elif id(file) not in self._watched:
                self._watched[id(file)] = file
                self._selector.register(file, selectors.EVENT_READ, handler)

    def _change(self, file: Any, handler: Handler | None) -> None:
        with self._lock:
            self._changes.append((file, handler))
        self._nudge()

    def _nudge(self) -> None:
        with contextlib.suppress(OSError):
            self._writer.send(b".")
