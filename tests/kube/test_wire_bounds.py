"""An answer without end, or one that comes byte by byte, ends a request with a reason, not the memory or the night."""

from __future__ import annotations

import contextlib
import gzip
import json
import pickle
import socket
import threading
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest
from https_server import HttpsServer, Reply

from killcheck.clock import VirtualLoop, WallLoop
from killcheck.kube import client, listing, watch_stream, wire
from killcheck.kube import resources as r
from killcheck.kube.client import Kube
from killcheck.kube.endpoint import Endpoint
from killcheck.kube.errors import Forbidden, ServerFault, Unreachable, api_error
from killcheck.kube.watch_stream import WatchStream
from killcheck.kube.wire import Limits, WireTransport

LOOP = VirtualLoop(datetime(2026, 11, 21, 12, tzinfo=UTC))
POD = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "namespace": "a"}}


def test_an_answer_that_is_too_long_is_not_read_on(
    server: HttpsServer, kube_for: Callable[..., Kube], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(wire, "LONGEST", 2**20)
    kube = kube_for(loop=LOOP)
    server.answer = lambda seen: Reply(200, POD | {"data": "x" * 2**21})
    with pytest.raises(Unreachable, match=r"GET /api/v1/namespaces/a/pods/p: the answer is longer than 1 MiB"):
        kube.get(r.PODS, "p", "a")
    server.answer = lambda seen: Reply(200, POD)
    assert kube.get(r.PODS, "p", "a") == POD


def test_an_answer_that_never_comes_to_its_end_is_given_up(server: HttpsServer, kube_for: Callable[..., Kube]) -> None:
    kube = kube_for(loop=LOOP)
    assert isinstance(kube.transport, WireTransport)
    kube.transport.limits = Limits(whole=0.0)
    server.answer = lambda seen: Reply(200, POD | {"data": "x" * 2**18})
    with pytest.raises(Unreachable, match="the answer had not come to its end after 0 s"):
        kube.get(r.PODS, "p", "a")


@pytest.mark.parametrize(("token", "length", "pages"), [(lambda n: "again", 0, 2), (str, 0, 7), (str, 900, 4)])
def test_a_list_that_has_always_one_more_page_has_an_end(monkeypatch, token, length, pages) -> None:
    monkeypatch.setattr(client, "PAGES", 7)
    monkeypatch.setattr(client, "LISTED", 3000)
    asked: list[str] = []

    class Server:
        def request(self, method: str, path: str, query: Any, body: Any, headers: Any) -> client.Answer:
            asked.append(path)
            page = {"items": [POD], "metadata": {"continue": token(len(asked))}}
            return client.Answer(200, page, length=length)

    for listed in (lambda: Kube(Server()).list(r.PODS), lambda: list(listing._listed(Kube(Server()), r.PODS))):
        asked.clear()
        with pytest.raises(ServerFault, match="a list without an end"):
            listed()
        assert len(asked) in (pages, 7)


class Torrent:
    """A response without an end: the same piece for as long as somebody reads."""

    def __init__(self, piece: bytes) -> None:
        self.piece, self.reads, self.ended = piece, 0, False

    def read1(self, size: int) -> bytes:
        self.reads += 1
        return b"" if self.ended else self.piece

    def close(self) -> None:
        self.ended = True

    shutdown = close


def watched(piece: bytes, until: Callable[[list[Any], list[Any]], bool]) -> tuple[Torrent, list[Any], list[Any]]:
    """A torrent, what came of it, and its end, once ``until`` of these says so."""
    torrent, events, ends = Torrent(piece), [], []
    loop = WallLoop()
    stream = WatchStream(lambda: torrent, lambda error: Unreachable("watch"), loop, events.append, ends.append)  # type: ignore[arg-type, return-value]
    stream.start()
    others: list[int] = []
    loop.call_later(0.05, others.append, 1)  # whoever else waits is not kept waiting
    assert loop.run_until(lambda: until(events, ends) and bool(others), 60)
    waiting = len(stream._frames)
    stream.close()
    assert waiting <= watch_stream.WAITING
    return torrent, events, ends


def test_events_without_an_end_neither_fill_the_memory_nor_keep_everything_else_waiting() -> None:
    frame = json.dumps({"type": "ADDED", "object": POD}).encode() + b"\n"
    torrent, events, ends = watched(frame * 400, lambda events, ends: len(events) > 3 * watch_stream.WAITING)
    assert (events[0]["type"], ends) == ("ADDED", [])
    assert torrent.reads * 400 <= len(events) + 2 * watch_stream.WAITING + 800


def test_one_event_without_an_end_ends_the_watch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watch_stream, "FRAME_LIMIT", 2**20)
    torrent, events, ends = watched(b"x" * 2**16, lambda events, ends: bool(ends))
    assert (events, torrent.reads) == ([], 17)
    assert "one event is larger than 1 MiB" in str(ends[0])


def test_an_answer_that_is_nested_without_an_end_is_no_answer(
    server: HttpsServer, kube_for: Callable[..., Kube]
) -> None:
    server.answer = lambda seen: Reply(200, b'{"a":' * 200_000)
    with pytest.raises(Unreachable, match="half an answer, or no JSON"):
        kube_for(loop=LOOP).get(r.PODS, "p", "a")


def test_what_is_packed_small_is_bounded_by_what_it_is_unpacked(monkeypatch: pytest.MonkeyPatch) -> None:
    import io

    from urllib3 import HTTPResponse

    monkeypatch.setattr(wire, "LONGEST", 2**20)
    packed = gzip.compress(json.dumps("x" * 2**24).encode())
    assert len(packed) < wire.LONGEST
    raw = HTTPResponse(io.BytesIO(packed), headers={"content-encoding": "gzip"}, preload_content=False)
    with pytest.raises(Unreachable, match="longer than 1 MiB"):
        wire._Response(raw, 60.0, "a server", "GET /x").whole()


class Dripping:
    """A server that sends a byte at a time, and never the last one. ``first``: what it sends at once."""

    def __init__(self, first: bytes) -> None:
        self.listening = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self.listening.getsockname()[1]}"
        self.first = first
        self.over = threading.Event()
        self.thread = threading.Thread(target=self.serve)
        self.thread.start()

    def serve(self) -> None:
        connection, _ = self.listening.accept()
        with connection, contextlib.suppress(OSError):
            connection.recv(65536)
            connection.sendall(self.first)
            while not self.over.wait(0.01):
                connection.sendall(b" ")

    def close(self) -> None:
        self.over.set()
        self.thread.join()
        self.listening.close()


@pytest.mark.parametrize(
    "first", [b"HTTP/1.1 200 OK\r\nX-Slow: ", b"HTTP/1.1 200 OK\r\nContent-Length: 99999\r\n\r\n{"]
)
def test_an_answer_that_comes_byte_by_byte_is_given_up_wherever_it_is(first: bytes) -> None:
    server = Dripping(first)
    limits = Limits(read=0.1, whole=0.0)
    kube = Kube(WireTransport(Endpoint(server.url, what="the API server"), None, WallLoop(), limits=limits))
    try:
        with pytest.raises(Unreachable, match=r"did not answer in time|had not come to its end"):
            kube.get(r.PODS, "p", "a")
    finally:
        kube.transport.close()  # type: ignore[attr-defined]
        server.close()


ODD: list[Any] = [
    None,
    "x",
    3,
    [],
    [POD],
    {"metadata": ["x"]},
    {"items": {"a": 1}},
    {"items": [1]},
    {"items": [None]},
    {"items": [{}]},
    {"items": [{"metadata": None}]},
    {"items": [{"metadata": {"name": [1]}}]},
    {"items": [{"metadata": {"name": "a", "labels": "x"}}]},
    {"items": [{"metadata": {"name": "a", "annotations": ["x"]}}]},
    {"groups": ["apps"]},
    {"resources": "none"},
]


@pytest.mark.parametrize("body", ODD, ids=json.dumps)
def test_json_that_is_no_object_of_kubernetes_is_no_answer(
    server: HttpsServer, kube_for: Callable[..., Kube], body: Any
) -> None:
    kube = kube_for(loop=LOOP)
    server.answer = lambda seen: Reply(200, json.dumps(body).encode())
    with pytest.raises(Unreachable, match="sent JSON that is no object of Kubernetes'"):
        kube.list(r.PODS)
    server.answer = lambda seen: Reply(403, json.dumps(body).encode())
    with pytest.raises(Forbidden) as refused:
        kube.list(r.PODS)
    assert (refused.value.causes, refused.value.retry_after_s) == ([], None)


@pytest.mark.parametrize(
    ("said", "waits"), [(7, 7.0), (0, 0.0), *((odd, None) for odd in (-5, 1e400, "x", [1], 10**400, 999_999_999))]
)
def test_how_long_to_wait_is_taken_where_it_is_a_time_that_somebody_waits(said: Any, waits: float | None) -> None:
    refused = api_error(429, {"details": {"retryAfterSeconds": said, "causes": [1, {"reason": "x"}]}})
    assert (refused.retry_after_s, refused.causes) == (waits, [{"reason": "x"}])
    assert api_error(429, {"details": [said]}).retry_after_s is None
    assert pickle.loads(pickle.dumps(refused)).retry_after_s == waits  # as a worker process hands it over


@pytest.mark.parametrize(
    "frame",
    [
        3,
        {"type": 3, "object": POD},
        {"type": "ADDED"},
        {"type": "ADDED", "object": None},
        {"type": "MODIFIED", "object": {"metadata": "x"}},
        {"type": "DELETED", "object": []},
        {"type": "ERROR", "object": "x"},
    ],
    ids=json.dumps,
)
def test_a_frame_that_is_no_event_ends_the_watch(frame: Any) -> None:
    _, events, ends = watched(json.dumps(frame).encode() + b"\n", lambda events, ends: bool(ends))
    assert events == []
    assert "half an event arrived" in str(ends[0])


def test_an_error_that_has_no_code_ends_the_watch_as_one_of_the_servers() -> None:
    ends: list[Any] = []

    class Server:
        def watch(self, path: str, query: Any, on_event: Callable[[Any], None], on_end: Callable[[Any], None]) -> None:
            on_event({"type": "ERROR", "object": {"code": [410], "message": "odd"}})
            on_end(None)

    Kube(Server()).watch(r.PODS, lambda event: None, ends.append)  # type: ignore[arg-type]
    assert isinstance(ends[0], ServerFault)
