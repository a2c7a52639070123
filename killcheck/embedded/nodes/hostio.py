"""One thread that waits for everything the containers' processes say: output, deaths, questions, name look-ups."""

from __future__ import annotations

import contextlib
import selectors
import socket
import threading
from collections.abc import Callable
from typing import Any

__all__ = ["HostIo"]

Handler = Callable[[], None]


class HostIo:
    """Calls a handler, on its own thread and without the loop's lock, whenever a file is readable."""

    def __init__(self) -> None:
        self._selector = selectors.DefaultSelector()
        self._lock = threading.Lock()
        self._changes: list[tuple[Any, Handler | None]] = []
        self._watched: dict[int, Any] = {}
        self._reader, self._writer = socket.socketpair()
        self._reader.setblocking(False)
        self._selector.register(self._reader, selectors.EVENT_READ, None)
        self._stopping = False
        self._thread = threading.Thread(target=self._run, name="killcheck-hostio", daemon=True)
        self._thread.start()

    def add(self, file: Any, handler: Handler) -> None:
        """Call ``handler`` while ``file`` is readable; from any thread."""
        self._change(file, handler)

    def remove(self, file: Any) -> None:
        """Forget a file and close it; from any thread."""
        self._change(file, None)

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
        while not self._stopping:
            self._apply()
            for key, _ in self._selector.select():
                if key.fileobj is self._reader:
                    with contextlib.suppress(BlockingIOError):
                        self._reader.recv(4096)
                elif key.data is not None:
                    key.data()

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
