"""Watches over TLS: events in order on the loop, every way to end, and an informer that carries on."""

from __future__ import annotations

import select
import threading
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest
from https_server import Break, HttpsServer, Reply, Seen, Stream

from killcheck.clock import VirtualLoop, WallLoop
from killcheck.kube import resources as r
from killcheck.kube.client import Answer, Closer, Kube, Transport, WatchEvent
from killcheck.kube.errors import Expired, Forbidden, KubeError, Unreachable
from killcheck.kube.informer import Informer
from killcheck.kube.objects import Obj, name_of
from killcheck.kube.wire import Limits, WireTransport

PATIENCE_S = 120.0
LOOK_S = 0.01


class Watched:
    """What a watch said."""

    def __init__(self) -> None:
        self.events: list[tuple[str, str]] = []
        self.ends: list[KubeError | None] = []
        self.threads: set[int] = set()

    def event(self, event: WatchEvent) -> None:
        self.events.append((event.type, name_of(event.object)))
        self.threads.add(threading.get_ident())

    def end(self, error: KubeError | None) -> None:
        self.ends.append(error)


@pytest.fixture
def loop() -> WallLoop:
    return WallLoop()


@pytest.fixture
def watched() -> Watched:
    return Watched()


def run(loop: WallLoop, done: Callable[[], Any]) -> None:
    """Run the loop until ``done()``, which may be about what the server saw: nothing wakes the loop for that."""
    assert any(loop.run_until(lambda: bool(done()), LOOK_S) for _ in range(int(PATIENCE_S / LOOK_S)))


def pod(name: str, version: int) -> Obj:
    return {"metadata": {"name": name, "namespace": "a", "resourceVersion": str(version), "uid": name}}


def listing(version: int, *pods: Obj) -> Reply:
    return Reply(200, {"kind": "PodList", "metadata": {"resourceVersion": str(version)}, "items": list(pods)})


def test_events_arrive_in_order_on_the_loop(
    server: HttpsServer,
    kube_for: Callable[..., Kube],
    loop: WallLoop,
    watched: Watched,
) -> None:
    stream = server.stream()
    server.answer = lambda seen: stream
    close = kube_for(loop=loop).watch(r.PODS, watched.event, watched.end, namespace="a", since="7")
    for number in range(50):
        stream.event("ADDED", f"p{number}", number)
    run(loop, lambda: len(watched.events) == 50)
    assert watched.events == [("ADDED", f"p{number}") for number in range(50)]
    assert watched.threads == {threading.get_ident()}
    query = server.seen[0].query
    assert (query["resourceVersion"], query["allowWatchBookmarks"], query["timeoutSeconds"]) == ("7", "true", "90")
    stream.end()
    run(loop, lambda: watched.ends)
    assert watched.ends == [None]
    close()


def test_an_event_that_comes_in_pieces(
    server: HttpsServer,
    kube_for: Callable[..., Kube],
    loop: WallLoop,
    watched: Watched,
) -> None:
    stream = server.stream()
    server.answer = lambda seen: stream
    close = kube_for(loop=loop).watch(r.PODS, watched.event, watched.end)
    for piece in (
        '{"type":"ADDED","obj',
        'ect":{"metadata":{"name":"x"}}}\n{"type":',
        '"DELETED","object":{"metadata":{}}}\n',
    ):
        stream.raw(piece)
    run(loop, lambda: len(watched.events) == 2)
    assert watched.events == [("ADDED", "x"), ("DELETED", "")]
    close()


def test_nothing_is_called_after_close_and_the_thread_ends(
    server: HttpsServer,
    kube_for: Callable[..., Kube],
    loop: WallLoop,
    watched: Watched,
) -> None:
    stream = server.stream()
    server.answer = lambda seen: stream
    close = kube_for(loop=loop).watch(r.PODS, watched.event, watched.end)
    stream.event("ADDED", "one", 1)
    run(loop, lambda: watched.events)
    with loop.lock:  # as in a callback: the thread can hand nothing over meanwhile, and must end all the same
        stream.event("ADDED", "two", 2)
        close()
        close()
        run_out = loop.monotonic() + PATIENCE_S
        while any(thread.name.startswith("killcheck-watch") for thread in threading.enumerate()):
            assert loop.monotonic() < run_out
            select.select([], [], [], LOOK_S)
    loop.sleep(0.01)
    assert (watched.events, watched.ends) == ([("ADDED", "one")], [])


@pytest.mark.parametrize(
    ("spoil", "said"),
    [
        (lambda stream: stream.break_off(), "broke the connection off"),
        (lambda stream: (stream.raw('{"type":"ADDED","obj'), stream.end()), "half an event arrived"),
        (lambda stream: stream.raw("upstream timed out\n"), "half an event arrived"),
        (lambda stream: stream.raw("[1]\n"), "half an event arrived"),
    ],
)
def test_a_stream_that_breaks_is_not_one_that_ends(
    server: HttpsServer,
    kube_for: Callable[..., Kube],
    loop: WallLoop,
    watched: Watched,
    spoil: Callable[[Stream], Any],
    said: str,
) -> None:
    stream = server.stream()
    server.answer = lambda seen: stream
    close = kube_for(loop=loop).watch(r.PODS, watched.event, watched.end)
    stream.event("ADDED", "one", 1)
    run(loop, lambda: watched.events)
    spoil(stream)
    run(loop, lambda: watched.ends)
    assert watched.events == [("ADDED", "one")]
    assert isinstance(watched.ends[0], Unreachable)
    assert said in str(watched.ends[0])
    close()


def test_silence_is_a_dead_connection(
    server: HttpsServer,
    kube_for: Callable[..., Kube],
    loop: WallLoop,
    watched: Watched,
) -> None:
    stream = server.stream()
    server.answer = lambda seen: stream
    kube = kube_for(loop=loop)
    assert isinstance(kube.transport, WireTransport)
    kube.transport.limits = Limits(watch=0, grace=0.05)
    close = kube.watch(r.PODS, watched.event, watched.end)
    run(loop, lambda: watched.ends)
    assert "fell silent (watch /api/v1/pods)" in str(watched.ends[0])
    close()


@pytest.mark.parametrize(
    ("answer", "kind"),
    [
        (Reply(403, {"kind": "Status", "code": 403, "message": "cannot watch"}), Forbidden),
        (Reply(410, {"kind": "Status", "code": 410, "message": "too old"}), Expired),
        (Break(), Unreachable),
    ],
)
def test_a_watch_that_is_refused_ends_with_the_reason(
    server: HttpsServer,
    kube_for: Callable[..., Kube],
    loop: WallLoop,
    watched: Watched,
    answer: Any,
    kind: type[KubeError],
) -> None:
    server.answer = lambda seen: answer
    close = kube_for(loop=loop).watch(r.PODS, watched.event, watched.end)
    run(loop, lambda: watched.ends)
    assert isinstance(watched.ends[0], kind)
    close()


def test_an_informer_resumes_where_the_stream_ended(
    server: HttpsServer,
    kube_for: Callable[..., Kube],
    loop: WallLoop,
) -> None:
    streams = [server.stream(), server.stream()]
    asked: list[str] = []

    def answer(seen: Seen) -> Any:
        if "watch" not in seen.query:
            return listing(5, pod("old", 3))
        asked.append(seen.query["resourceVersion"])
        return streams[len(asked) - 1]

    server.answer = answer
    changes: list[tuple[str, str]] = []
    informer = Informer(
        kube_for(loop=loop), loop, r.PODS, on_change=lambda c, old, new: changes.append((c, name_of(new or old or {})))
    )
    informer.start()
    streams[0].event("ADDED", "new", 6)
    streams[0].raw('{"type":"BOOKMARK","object":{"metadata":{"resourceVersion":"9"}}}\n')
    streams[0].end()
    streams[1].event("DELETED", "old", 11)
    run(loop, lambda: len(changes) == 3)
    informer.stop()
    assert changes == [("added", "old"), ("added", "new"), ("deleted", "old")]
    assert asked == ["5", "9"]


@pytest.mark.parametrize("broken", [True, False])
def test_an_informer_lists_again_after_410_or_a_broken_stream(
    server: HttpsServer,
    kube_for: Callable[..., Kube],
    loop: WallLoop,
    broken: bool,
) -> None:
    streams = [server.stream(), server.stream()]
    lists = [listing(5, pod("x", 3)), listing(20, pod("y", 18))]
    watches: list[str] = []

    def answer(seen: Seen) -> Any:
        if "watch" not in seen.query:
            return lists.pop(0)
        watches.append(seen.query["resourceVersion"])
        return streams[len(watches) - 1]

    server.answer = answer
    reports: list[KubeError | None] = []
    informer = Informer(kube_for(loop=loop), loop, r.PODS, on_broken=reports.append)
    informer.start()
    if broken:
        streams[0].break_off()
    else:
        status = '{"kind":"Status","code":410,"reason":"Expired","message":"too old resource version: 5 (19)"}'
        streams[0].raw(f'{{"type":"ERROR","object":{status}}}\n')
        streams[0].end()
    run(loop, lambda: len(watches) == 2)
    assert [name for _, name in informer.objects] == ["y"]
    assert watches == ["5", "20"]
    assert informer.broken is None
    assert [type(report) for report in reports] == ([Unreachable, type(None)] if broken else [])
    informer.stop()


class QuietWatches:
    """A transport whose watches end after ``seconds`` without a word; ``opened`` says when each began."""

    def __init__(self, loop: VirtualLoop, seconds: float) -> None:
        self.loop = loop
        self.seconds = seconds
        self.opened: list[float] = []

    def request(self, method: str, path: str, query: Any, body: Any, headers: Any) -> Answer:
        return Answer(200, {"metadata": {"resourceVersion": "1"}, "items": []})

    def watch(self, path: str, query: Any, on_event: Any, on_end: Callable[[None], None]) -> Closer:
        self.opened.append(self.loop.monotonic())
        return self.loop.call_later(self.seconds, on_end, None).cancel


def test_quiet_watches_follow_each_other_without_a_gap() -> None:
    loop = VirtualLoop(datetime(2026, 11, 21, tzinfo=UTC))
    quiet, hasty = QuietWatches(loop, 90), QuietWatches(loop, 0)
    informers = [Informer(Kube(transport), loop, r.PODS).start() for transport in (quiet, hasty)]
    loop.sleep(400)
    assert quiet.opened == [0, 90, 180, 270, 360]
    assert len(hasty.opened) < 100, "a server that hangs up at once is not asked in a hurry"
    for informer in informers:
        informer.stop()


@pytest.mark.parametrize(
    ("served", "absent"), [(["nodepools", "nodeclaims"], False), (["nodepools"], True), (None, True)]
)
def test_what_is_not_served_is_absent_also_where_it_may_not_be_listed(served, absent):
    """Rights come first on an API server: an account without any to a resource that is not there is told 403."""

    class Refusing(Transport):
        def request(self, method, path, query, body, headers):
            if path.endswith("/nodeclaims"):
                return Answer(403, {"reason": "Forbidden", "message": "cannot list resource nodeclaims"})
            if served is None:
                return Answer(
                    404, {"reason": "NotFound", "message": "the server could not find the requested resource"}
                )
            return Answer(200, {"resources": [{"name": one, "kind": one, "namespaced": False} for one in served]})

    informer = Informer(Kube(Refusing()), VirtualLoop(datetime(2026, 1, 15, tzinfo=UTC)), r.NODECLAIMS, optional=True)
    if absent:
        assert informer.start().absent
    else:
        with pytest.raises(Forbidden):
            informer.start()
