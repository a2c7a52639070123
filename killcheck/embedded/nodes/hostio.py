"""One thread that waits for everything the containers' processes say: output, deaths, questions, name look-ups."""

from __future__ import annotations

import contextlib
import os
import selectors
import socket
import threading
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from killcheck.clock import Loop

__all__ = ["HostIo", "Outgoing", "Stopped"]

Handler = Callable[[], None]
#: Wall seconds between two looks at whether the thread should end, while it waits for the loop.
PATIENCE_S = 0.02


class _Change(NamedTuple):
    file: Any
    handler: Handler | None
    event: int
    closes: bool


class Stopped(Exception):
    """The thread is to end; whoever ends it may hold the loop's lock for as long as that takes."""


class HostIo:
    """Calls a handler, on its own thread and without the loop's lock, whenever a file is readable."""

    def __init__(self, loop: Loop) -> None:
        self.loop = loop
        self._selector = selectors.DefaultSelector()
        self._lock = threading.Lock()
        self._changes: list[_Change] = []
        self._watched: dict[int, Any] = {}
        self._reader, self._writer = socket.socketpair()
        self._reader.setblocking(False)
        self._selector.register(self._reader, selectors.EVENT_READ, None)
        self._stopping = self._stopped = False
        self._working = False
        self._thread = threading.Thread(target=self._run, name="killcheck-hostio", daemon=True)
        self._thread.start()

    def add(self, file: Any, handler: Handler) -> None:
        """Call ``handler`` while ``file`` is readable; from any thread."""
        self._change(file, handler)

    def add_writer(self, file: Any, handler: Handler) -> None:
        """Call ``handler`` while ``file`` takes bytes; from any thread. The file must not be watched otherwise."""
        self._change(file, handler, selectors.EVENT_WRITE)

    def release(self, file: Any) -> None:
        """Forget a file and leave it open; from any thread."""
        self._change(file, None, closes=False)

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
        said = any(key.fileobj is not self._reader for key, _ in self._selector.select(0))
        return said or self._working or bool(self._changes)  # in this order: what was read is being dealt with

    def stop(self) -> None:
        """End the thread and close what it watches; idempotent."""
        if self._stopping:
            return
        self._stopping = True
        self._nudge()
        self._thread.join()
        with self._lock:
            self._stopped = True
            for file in (*self._watched.values(), *(change.file for change in self._changes), self._reader):
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
        for change in changes:
            file = change.file
            if change.handler is None:
                if self._watched.pop(id(file), None) is not None:
                    self._selector.unregister(file)
                if change.closes:
                    file.close()
            elif id(file) not in self._watched:
                self._watched[id(file)] = file
                self._selector.register(file, change.event, change.handler)

    def _change(
        self,
        file: Any,
        handler: Handler | None,
        event: int = selectors.EVENT_READ,
        *,
        closes: bool = True,
    ) -> None:
        with self._lock:
            if not self._stopped:
                self._changes.append(_Change(file, handler, event, closes))
                self._nudge()
            elif closes:
                file.close()

    def _nudge(self) -> None:
        with contextlib.suppress(OSError):
            self._writer.send(b".")


class Outgoing:
    """Bytes on their way into a pipe, a terminal or a socket, as fast as that takes them. ``file`` is a descriptor of
    its own (nobody else watches it), non-blocking; closed at the end.
    """

    def __init__(self, io: HostIo, file: Any, end: Callable[[], None] = lambda: None) -> None:
        self._io = io
        self._file = file
        self._end = end
        self._left = bytearray()
        self._ending = self._gone = self._watched = False
        self._lock = threading.Lock()

    def put(self, data: bytes) -> None:
        """Send something; from any thread."""
        with self._lock:
            if not self._ending and not self._gone:
                self._left += data
                self._flush()

    def end(self) -> None:
        """Close it when everything has gone out; idempotent, from any thread."""
        with self._lock:
            self._ending = True
            self._flush()

    def close(self) -> None:
        """Close it now; idempotent."""
        with self._lock:
            self._drop()

    def _flush(self) -> None:
        while self._left and not self._gone:
            try:
                sent = os.write(self._file.fileno(), self._left[:65536])
            except BlockingIOError:
                if not self._watched:
                    self._watched = True
                    self._io.add_writer(self._file, self._writable)
                return
            except OSError:  # whoever read it has gone
                self._drop()
                return
            del self._left[:sent]
        if self._ending:
            self._drop()
        elif self._watched and not self._gone:
            self._watched = False
            self._io.release(self._file)

    def _writable(self) -> None:
        with self._lock:
            self._flush()

    def _drop(self) -> None:
        if not self._gone:
            self._gone = True
            self._left.clear()
            self._end()
            self._io.remove(self._file)
