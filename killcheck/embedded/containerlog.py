"""What a container has written, and when each of its lines came.

A line's time is that at which its end was read, as containerd's is (internal/cri/io/logger.go); lines that came
together share it. What this module may not hold: how much of a log a request asks for.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import deque
from collections.abc import Iterator
from datetime import datetime
from typing import NamedTuple

from msgspec import Struct

from killcheck.text.values import replace

__all__ = ["ContainerLog", "Line", "LogKeeper"]

#: Moments at which something came that are kept apart; before the first of them the log is forgotten.
MARKS_LIMIT = 1 << 16


class Line(NamedTuple):
    """``end``: bytes of the log up to the line's end; ``when`` is None where nobody knows."""

    end: int
    when: datetime | None
    text: str


class ContainerLog(Struct, frozen=True):
    """The end of a log that is still there. ``begin``: bytes that came before it and are gone.

    ``marks``: (bytes that had come, when), ascending, the last of them at the log's end; empty where the times are
    not known.
    """

    data: bytes = b""
    begin: int = 0
    marks: tuple[tuple[int, datetime], ...] = ()

    @property
    def text(self) -> str:
        """All of it."""
        return self.data.decode("utf-8", "replace")

    @property
    def end(self) -> int:
        """Bytes that have come, with those that are gone."""
        return self.begin + len(self.data)

    def whole_lines(self) -> ContainerLog:
        """Without a last line that has not ended yet: the runtime writes a line when it is whole."""
        cut = self.data.rfind(b"\n") + 1
        return self if cut == len(self.data) else replace(self, data=self.data[:cut])

    def tail(self, count: int) -> int:
        """Where, in bytes as ``end``, the last ``count`` lines begin."""
        if not count:
            return self.end
        at = len(self.data) - self.data.endswith(b"\n")
        for _ in range(count):
            at = self.data.rfind(b"\n", 0, at)
            if at < 0:
                return self.begin
        return self.begin + at + 1

    def lines(self, after: int = 0) -> Iterator[Line]:
        """The lines that end after ``after`` (bytes as ``end``), the first from there on, with their line ends."""
        at = max(after - self.begin, 0)
        mark = -1
        while at < len(self.data):
            cut = self.data.find(b"\n", at) + 1 or len(self.data)
            end = self.begin + cut
            if mark < 0:
                mark = bisect_left(self.marks, end, key=lambda one: one[0])
            while mark < len(self.marks) and self.marks[mark][0] < end:
                mark += 1
            when = self.marks[mark][1] if mark < len(self.marks) else None
            yield Line(end, when, self.data[at:cut].decode("utf-8", "replace"))
            at = cut


class LogKeeper:
    """Keeps the last ``limit`` bytes of what a container writes. Not safe from several threads at once."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._data = bytearray()
        self._begin = 0
        self._marks: deque[tuple[int, datetime]] = deque()

    def add(self, data: bytes, when: datetime) -> None:
        """Something came."""
        self._data += data
        end = self._begin + len(self._data)
        if self._marks and self._marks[-1][1] == when:
            self._marks.pop()
        self._marks.append((end, when))
        first = max(end - self._limit, self._begin)
        while len(self._marks) > MARKS_LIMIT:
            first = max(first, self._marks.popleft()[0])
        if first > self._begin:
            del self._data[: first - self._begin]
            self._begin = first
            while self._marks[0][0] <= first < end:
                self._marks.popleft()

    def log(self) -> ContainerLog:
        """What there is of it now."""
        return ContainerLog(bytes(self._data), self._begin, tuple(self._marks))
