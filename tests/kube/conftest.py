"""What the wire tests share: one PKI, a server that does as it is told, a kubeconfig for it."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from https_server import SECRET, HttpsServer, kubeconfig

from killcheck.clock import Loop, WallLoop
from killcheck.embedded.pki import Pki
from killcheck.kube.client import Kube
from killcheck.kube.config import connect


@pytest.fixture(scope="session")
def pki() -> Pki:
    return Pki()


@pytest.fixture
def server(pki: Pki) -> Iterator[HttpsServer]:
    server = HttpsServer(pki)
    yield server
    server.stop()
    for thread in threading.enumerate():
        if thread.name.startswith("killcheck-watch"):
            thread.join(120.0)  # it has been told to end, and may not have had its turn to
            assert not thread.is_alive(), "a watch outlived its close"


@pytest.fixture
def kube_for(server: HttpsServer, tmp_path: Path) -> Callable[..., Kube]:
    """``kube_for(user, loop=..., **cluster fields)``: connected to the server as a kubeconfig's user."""

    def build(user: dict[str, Any] | None = None, *, loop: Loop | None = None, **cluster: Any) -> Kube:
        path = kubeconfig(tmp_path / "config", server.url, server.pki, user or {"token": SECRET}, **cluster)
        return connect("here", kubeconfig=path, loop=loop or WallLoop())

    return build
