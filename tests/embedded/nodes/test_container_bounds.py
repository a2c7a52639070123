"""Whoever looks after a container of an engine ends with it, also where the engine has nothing more to say."""

import socket
import threading
from types import SimpleNamespace

import pytest

from killcheck.embedded.nodes.container_bounds import Watch


@pytest.fixture
def silent():
    """An engine that attaches to a container which has ended: it says nothing, and hangs up on nobody."""
    ours, theirs = socket.socketpair()
    stream = ours.makefile("rb", buffering=0)
    stream._response, reading = stream, threading.Event()

    def attach(identity, params):
        reading.set()
        return stream

    api = SimpleNamespace(attach_socket=attach, containers=lambda **_: [], close=lambda: None)
    yield SimpleNamespace(another=lambda **_: api), reading
    ours.close()
    theirs.close()


def test_what_listens_to_a_container_that_had_ended_ends_with_it(silent):
    engine, reading = silent
    watch = Watch(engine, "a" * 64, lambda why: None)
    (listener,) = (one for one in threading.enumerate() if one.name == f"output of {'a' * 12}")
    assert reading.wait(10)
    watch.close()
    listener.join(10)
    assert not listener.is_alive()
