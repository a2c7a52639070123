"""One open watch: a thread reads JSON lines off the wire and hands them to the loop, in order, until closed."""

from __future__ import annotations

import contextlib
import threading
from collections import deque
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from killcheck.clock import Loop
from killcheck.kube.errors import KubeError, Unreachable
from killcheck.kube.objects import Obj, is_answer, is_object
from killcheck.text.jsontext import loads

if TYPE_CHECKING:
    import urllib3

__all__ = ["WatchStream"]

#: Seconds that the thread waits for the loop's lock before it looks whether it has been closed meanwhile.
_PATIENCE_S = 0.02
#: Seconds that closing waits for the thread: only one that is still connecting takes longer, and it calls nobody.
_JOIN_S = 1.0
#: Bytes of one event: an API server keeps no object of more than 1.5 MiB (etcd), and shows it in a few times as many.
FRAME_LIMIT = 32 << 20
#: Events that may wait for the loop: the thread reads no further, and the server has to wait, as TCP has it.
WAITING = 2_000
#: Events handed on at one go: a server that is faster than we are must not keep the loop from everything else.
AT_ONCE = 500


class WatchStream:
    """``open_`` connects (raises KubeError), ``told`` puts an error of urllib3 into words.

    ``on_event`` and ``on_end`` run on the loop, ``on_end`` last and once; neither after :meth:`close`.
    """

    def __init__(
        self,
        open_: Callable[[], urllib3.HTTPResponse],
        told: Callable[[Exception], KubeError],
        loop: Loop,
        on_event: Callable[[Obj], None],
        on_end: Callable[[KubeError | None], None],
    ) -> None:
        self._open = open_
        self._told = told
        self._loop = loop
        self._on_event = on_event
        self._on_end = on_end
        self._frames: deque[Obj] = deque()
        self._end: list[KubeError | None] = []
        self._drained = threading.Event()
        self._posted = False
        self._closed = False
        self._response: urllib3.HTTPResponse | None = None
        self._lock = threading.Lock()
        begun_by = threading.current_thread().name  # one that is followed anew is told by who follows
        self._thread = threading.Thread(target=self._run, name=f"killcheck-watch of {begun_by}", daemon=True)

    def start(self) -> None:
        """Start reading."""
        self._thread.start()

    def close(self) -> None:
        """End the watch and its thread; idempotent."""
        with self._lock:
            self._closed = True
            if self._response is not None:
                _shut(self._response)
        if threading.current_thread() is not self._thread:
            self._thread.join(_JOIN_S)

    # -- on the thread -------------------------------------------------------------------------------------
    def _run(self) -> None:
        error: KubeError | None = Unreachable("the watch ended without a reason: a defect of killcheck")
        try:
            error = self._follow()
        finally:  # whatever happened, a stream that has ended must never look like a quiet one
            self._end.append(error)
            self._hand_over()

    def _follow(self) -> KubeError | None:
        from urllib3.exceptions import HTTPError

        try:
            response = self._open()
        except KubeError as error:
            return error
        try:
            with self._lock:
                self._response = response
                if self._closed:
                    return None
            for line in _lines(response):
                if not self._room():
                    return None
                self._frames.append(_frame(line))
                self._hand_over()
            return None
        except HTTPError as error:
            return _chained(self._told(error), error)
        except OSError as error:  # urllib3 lets some of them pass while a body is read
            return _chained(self._told(_as_protocol_error(error)), error)
        except _HalfFrameError as error:
            what = str(error) or "half an event arrived"
            return _chained(Unreachable(f"{self._told(_as_protocol_error(error))}; {what}"), error)
        finally:
            with self._lock:
                self._response = None
            response.close()

    def _room(self) -> bool:
        """Wait until there is room for one more event; whether the watch is still open then."""
        while len(self._frames) >= WAITING and not self._closed:
            self._drained.clear()
            self._drained.wait(_PATIENCE_S)
        return not self._closed

    def _hand_over(self) -> None:
        """Have the loop look at the queue. Never blocks for good: whoever closes us may hold the loop's lock."""
        while not self._closed:
            with self._lock:
                if self._posted:
                    return
            if self._loop.lock.acquire(timeout=_PATIENCE_S):
                try:
                    self._posted = True
                    self._loop.post(self._drain)
                finally:
                    self._loop.lock.release()
                return

    # -- on the loop ---------------------------------------------------------------------------------------
    def _drain(self) -> None:
        with self._lock:
            self._posted = False
        for _ in range(AT_ONCE):
            if not self._frames or self._closed:
                break
            self._on_event(self._frames.popleft())
        self._drained.set()
        if self._frames and not self._closed:
            with self._lock:
                self._posted = True
            self._loop.post(self._drain)
            return
        if self._end and not self._frames and not self._closed:
            self._closed = True
            self._on_end(self._end[0])


class _HalfFrameError(Exception):
    """A line that is no JSON object: the stream broke in the middle of an event; or the message says what else."""


def _lines(response: urllib3.HTTPResponse) -> Iterator[bytes]:
    """Lines as they arrive. Raises _HalfFrameError for what is left over at the end of the stream."""
    pending = bytearray()
    while data := response.read1(65536):
        *lines, rest = data.split(b"\n")
        for line in lines:
            pending += line
            if pending.strip():
                yield bytes(pending)
            pending.clear()
        pending += rest
        if len(pending) > FRAME_LIMIT:
            raise _HalfFrameError(f"one event is larger than {FRAME_LIMIT >> 20} MiB")
    if pending.strip():
        raise _HalfFrameError


def _frame(line: bytes) -> Obj:
    try:
        frame = loads(line)
    except (ValueError, RecursionError) as error:
        raise _HalfFrameError from error
    if not isinstance(frame, dict) or not isinstance(frame.get("type"), str):
        raise _HalfFrameError
    if not (is_answer if frame["type"] == "ERROR" else is_object)(frame.get("object")):
        raise _HalfFrameError
    return frame


def _shut(response: urllib3.HTTPResponse) -> None:
    """Wake the thread that reads; it closes the connection."""
    with contextlib.suppress(OSError, ValueError, RuntimeError):  # gone already
        response.shutdown()


def _as_protocol_error(error: Exception) -> Exception:
    from urllib3.exceptions import ProtocolError

    return ProtocolError("broken", error)


def _chained(error: KubeError, cause: Exception) -> KubeError:
    error.__cause__ = cause
    return error
