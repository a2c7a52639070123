"""What containers' shims ask for: the time, to be woken, whether a packet would arrive.

One line a question: ``KEY now``, ``KEY sleep 5m``, ``KEY alarm 30`` (to be woken in the middle of something else),
``KEY reach HOST PORT``, ``KEY calm`` (of kubectl: ``calm kubectl WORDS``),
``KEY transient CODE``, ``KEY last``, ``KEY polls``, ``KEY lacking NAME =WORD...`` (each word percent-encoded),
``KEY stands NAME`` (a stand-in runs).
One line an answer.
"""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Callable
from typing import Protocol
from urllib.parse import unquote

from killcheck.clock import Loop, Timer
from killcheck.embedded.nodes.hostio import HostIo

__all__ = ["Agent", "Asker", "duration"]

_UNITS = {"s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
#: A question is shorter than this, in bytes.
LONGEST = 64 * 1024
#: A sleep that never ends, in seconds.
FOR_EVER = 1e9
#: HTTP statuses after which curl tries again (its manual page, --retry).
TRANSIENT = frozenset({408, 429, 500, 502, 503, 504})


class Asker(Protocol):
    """The container that a question came from."""

    asleep: int
    polling: bool
    behind_s: float

    def reach(self, host: str, port: str) -> str:
        """allow, refuse, drop, nodns, or unanswered (look-ups get no answer)."""

    def calm(self) -> bool:
        """Whether the API server answers it at once, and nothing stands between."""

    def last_status(self) -> int:
        """The HTTP status that the API server answered it last."""

    def calls_kubectl(self, words: list[str]) -> None:
        """It calls kubectl with these arguments (what is no plain word is ``_``)."""

    def lacks(self, argv: list[str]) -> str | None:
        """It called a command that this host does not have; "CODE WORDS" of whoever answers for it, None: nobody."""

    def stands(self, name: str) -> None:
        """It called a command for which killcheck's own stand-in runs."""


class Agent:
    """Answers on listening sockets; ``asker`` finds the container behind a key."""

    def __init__(self, loop: Loop, io: HostIo, asker: Callable[[str], Asker | None]) -> None:
        self.loop = loop
        self.io = io
        self.asker = asker

    def serve(self, listener: socket.socket) -> None:
        """Accept questions on a listening socket until the socket is removed from the thread."""
        listener.setblocking(False)
        self.io.add(listener, lambda: self._accept(listener))

    def _accept(self, listener: socket.socket) -> None:
        with contextlib.suppress(OSError):
            sock, _ = listener.accept()
            sock.setblocking(False)
            _Question(self, sock)


class _Question:
    """One connection: one question, one answer."""

    def __init__(self, agent: Agent, sock: socket.socket) -> None:
        self.agent = agent
        self.sock = sock
        self._line = b""
        self._timer: Timer | None = None
        self._counts = 0
        self._asker: Asker | None = None
        agent.io.add(sock, self._readable)

    def _readable(self) -> None:
        try:
            data = self.sock.recv(4096)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if not data:
            self._gone()
            return
        self._line += data
        if len(self._line) > LONGEST:  # nobody of ours asks that long
            self._gone()
            return
        if b"\n" in self._line and self._asker is None:
            self._answer(self._line.partition(b"\n")[0].decode("utf-8", "replace").split())

    def _answer(self, words: list[str]) -> None:
        asker = self.agent.asker(words[0]) if words else None
        if asker is None or len(words) < 2:
            self.agent.io.remove(self.sock)
            return
        self._asker = asker
        with self.agent.io.entered():
            self._handle(asker, words[1], words[2:])

    def _handle(self, asker: Asker, verb: str, rest: list[str]) -> None:
        if verb == "now":
            self._say(f"{self.agent.loop.now().timestamp() - asker.behind_s:.9f}")
        elif verb in ("sleep", "alarm"):
            self._sleep(asker, rest, counts=verb == "sleep")
        elif verb == "reach" and len(rest) == 2:
            self._say(asker.reach(*rest))
        elif verb == "calm":
            if rest[:1] == ["kubectl"]:
                asker.calls_kubectl(rest[1:])
            self._say("yes" if asker.calm() else "no")
        elif verb == "transient" and rest:
            self._say("yes" if transient(rest[0], asker.last_status()) else "no")
        elif verb == "last":
            self._say(str(asker.last_status()))
        elif verb == "polls":
            asker.polling = True
            self._say("ok")
        elif verb == "lacking" and rest:
            answer = asker.lacks([rest[0], *(unquote(word.removeprefix("=")) for word in rest[1:])])
            if answer is not None:
                self._say(answer)
        elif verb == "stands" and rest:
            asker.stands(rest[0])
            self._say("ok")
        else:
            self._say("error")

    def _sleep(self, asker: Asker, words: list[str], *, counts: bool) -> None:
        try:
            seconds = duration(words)
        except ValueError as error:
            self._say(f"error {error}")
            return
        self._counts = int(counts)
        asker.asleep += self._counts
        self._timer = self.agent.loop.call_later(seconds, self._wake)

    def _wake(self) -> None:
        self._timer = None
        if self._asker is not None:
            self._asker.asleep -= self._counts
        self._say("ok")

    def _say(self, text: str) -> None:
        with contextlib.suppress(OSError):
            self.sock.send(text.encode() + b"\n")
        self.agent.io.remove(self.sock)

    def _gone(self) -> None:
        with self.agent.io.entered():
            if self._timer is not None:
                self._timer.cancel()
                self._timer = None
                if self._asker is not None:
                    self._asker.asleep -= self._counts
        self.agent.io.remove(self.sock)


def transient(code: str, status: int) -> bool:
    """Whether curl, asked to retry, might try again after an exit code and an HTTP status."""
    return status in TRANSIENT if code in ("0", "22") else True


def duration(words: list[str]) -> float:
    """The sum of sleep(1)'s operands in seconds. Raises ValueError in sleep's words."""
    if not words:
        raise ValueError("missing operand")
    total = 0.0
    for word in words:
        if word in ("infinity", "inf"):
            return FOR_EVER
        number, unit = (word[:-1], word[-1]) if word[-1:] in _UNITS else (word, "s")
        try:
            value = float(number)
        except ValueError:
            raise ValueError(f"invalid time interval \u2018{word}\u2019") from None
        if value < 0:
            raise ValueError(f"invalid time interval \u2018{word}\u2019")
        total += value * _UNITS[unit]
    return total
