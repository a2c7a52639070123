"""An answer without end, or one that comes byte by byte, ends a request with a reason, not the memory or the night."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from datetime import UTC, datetime

import pytest
from https_server import HttpsServer, Reply

from killcheck.clock import VirtualLoop
from killcheck.kube import resources as r
from killcheck.kube import wire
from killcheck.kube.client import Kube
from killcheck.kube.errors import Unreachable
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


def test_what_is_packed_small_is_bounded_by_what_it_is_unpacked(monkeypatch: pytest.MonkeyPatch) -> None:
    import io

    from urllib3 import HTTPResponse

    monkeypatch.setattr(wire, "LONGEST", 2**20)
    packed = gzip.compress(json.dumps("x" * 2**24).encode())
    assert len(packed) < wire.LONGEST
    raw = HTTPResponse(io.BytesIO(packed), headers={"content-encoding": "gzip"}, preload_content=False)
    with pytest.raises(Unreachable, match="longer than 1 MiB"):
        wire._Response(raw, 60.0, "a server", "GET /x").whole()
