"""A process's standard input, output and error, seen from outside: pipes, or a terminal."""

from __future__ import annotations

import contextlib
import fcntl
import os
import struct
import termios
import threading
from collections.abc import Callable
from functools import partial
from typing import Any

from killcheck.embedded.nodes.hostio import HostIo, Outgoing

__all__ = ["OUTPUT_LIMIT", "STDERR", "STDOUT", "Streams"]

#: Bytes that a program may write in all: what writes more is stopped, and its outcome is not known.
OUTPUT_LIMIT = 64 << 20

STDOUT, STDERR = 1, 2
CHUNK = 65536
#: Bytes that are read in one go: more than any pipe holds, and no more where somebody never stops writing.
DRAIN_LIMIT = 2 << 20


class Streams:
    """``files`` are for the process, and ``stdio`` says which of them are its 0, 1 and 2 (-1: none).

    ``apart``: standard error is not written into the same pipe as standard output, so that the two can be told apart
    and their order is lost. What comes is told ``said`` with its number, from any thread, one piece at a time; where
    that answers False, no more is read until :meth:`resume`.
    """

    def __init__(
        self,
        io: HostIo,
        said: Callable[[int, bytes], bool | None],
        *,
        stdin: bool = False,
        tty: bool = False,
        apart: bool = False,
    ) -> None:
        self._io = io
        self._said = said
        self._lock = threading.RLock()
        self._readers: dict[int, Any] = {}
        self._paused: set[int] = set()
        self._input: Outgoing | None = None
        self._terminal = -1
        self.tty = tty
        self.files: list[int] = []
        self.stdio = [-1, -1, -1]
        if tty:
            self._with_terminal()
        else:
            self._with_pipes(stdin, apart)

    def begin(self) -> None:
        """Read from now on."""
        for number, reader in list(self._readers.items()):
            self._io.add(reader, partial(self._readable, number))

    def resume(self) -> None:
        """Read on."""
        with self._lock:
            paused, self._paused = self._paused, set()
            for number in paused & set(self._readers):
                self._io.add(self._readers[number], partial(self._readable, number))

    def drain(self) -> None:
        """Read what there is."""
        with self._lock:
            for number in list(self._readers):
                self._read(number)

    def feed(self, data: bytes) -> None:
        """Something for standard input, where there is one."""
        if self._input is not None:
            self._input.put(data)

    def end_input(self) -> None:
        """Standard input ends here; a terminal's never does."""
        if self._input is not None and not self.tty:
            self._input.end()

    def resize(self, width: int, height: int) -> None:
        """The terminal's size, in characters."""
        if self._terminal >= 0:
            with contextlib.suppress(OSError):
                fcntl.ioctl(self._terminal, termios.TIOCSWINSZ, struct.pack("HHHH", height, width, 0, 0))

    def close(self) -> None:
        """Nothing is read or written any more; idempotent."""
        with self._lock:
            readers, self._readers = self._readers, {}
            for reader in readers.values():
                self._io.remove(reader)
            if self._input is not None:
                self._input.close()
            self._terminal = -1

    # -- inside --------------------------------------------------------------------------------------------
    def _with_terminal(self) -> None:
        ours, theirs = os.openpty()
        self.files, self.stdio = [theirs], [0, 0, 0]
        self._terminal = ours
        self._readers[STDOUT] = _reader(ours)
        self._input = Outgoing(self._io, _writer(os.dup(ours)))

    def _with_pipes(self, stdin: bool, apart: bool) -> None:
        for number in (STDOUT, STDERR):
            if number == STDERR and not apart:
                self.stdio[STDERR] = self.stdio[STDOUT]
                continue
            read, write = os.pipe()
            self._readers[number] = _reader(read)
            self.stdio[number] = len(self.files)
            self.files.append(write)
        if stdin:
            read, write = os.pipe()
            self._input = Outgoing(self._io, _writer(write))
            self.stdio[0] = len(self.files)
            self.files.append(read)

    def _readable(self, number: int) -> None:
        with self._lock:
            reader = self._readers.get(number)
            if number in self._paused:
                return
            if reader is not None and not self._read(number, once=True):
                del self._readers[number]
                if number == STDOUT:
                    self._terminal = -1
                self._io.remove(reader)

    def _read(self, number: int, *, once: bool = False) -> bool:
        """Read; False at the end. ``once``: others get their turn before there is more."""
        left = DRAIN_LIMIT
        while left > 0:
            try:
                data = self._readers[number].read(CHUNK)
            except OSError:  # EIO: nobody has the terminal open any more
                return False
            if data is None:
                return True
            if not data:
                return False
            if self._said(number, data) is False and once:
                self._paused.add(number)
                self._io.release(self._readers[number])
            if once:
                return True
            left -= len(data)
        return True


def _reader(descriptor: int) -> Any:
    os.set_blocking(descriptor, False)
    return os.fdopen(descriptor, "rb", buffering=0)


def _writer(descriptor: int) -> Any:
    os.set_blocking(descriptor, False)
    return os.fdopen(descriptor, "wb", buffering=0)
