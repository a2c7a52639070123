"""A connection of the API server that another thread breaks."""

from __future__ import annotations

import socket
import ssl
from typing import Any

import pytest

from killcheck.embedded.connection import Connection


def test_breaking_it_leaves_its_session_to_the_thread_that_serves_it() -> None:
    nobody: Any = None
    ours, theirs = socket.socketpair()
    with (
        theirs,
        ssl.create_default_context().wrap_socket(
            ours, server_hostname="localhost", do_handshake_on_connect=False
        ) as shaking,
    ):
        connection = Connection(nobody, nobody, ours, nobody)
        connection._sock = shaking
        connection.abort()
        assert theirs.recv(1) == b""
        with pytest.raises(ValueError, match="handshake not done yet"):  # and no AttributeError: it is there still
            shaking.getpeercert()
