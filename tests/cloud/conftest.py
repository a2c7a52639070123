"""AWS on loopback for these tests; a connection anywhere else fails the test."""

import socket

import pytest

from killcheck.standins.aws import StandIn

LOOPBACK = ("127.0.0.1", "::1", "localhost")


@pytest.fixture(autouse=True)
def nothing_leaves(monkeypatch, tmp_path):
    """No credentials of anybody's, and no way out."""
    real = socket.socket.connect

    def connect(self, address):
        assert not isinstance(address, tuple) or address[0] in LOOPBACK, f"a connection to {address}"
        return real(self, address)

    monkeypatch.setattr(socket.socket, "connect", connect)
    for name in (
        "AWS_PROFILE",
        "AWS_ACCESS_KEY_ID",
        "AWS_SECRET_ACCESS_KEY",
        "AWS_SESSION_TOKEN",
        "AWS_REGION",
        "AWS_DEFAULT_REGION",
        "AWS_ENDPOINT_URL",
    ):
        monkeypatch.delenv(name, raising=False)
    home = tmp_path / "home"
    home.mkdir()
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")


@pytest.fixture
def stand_in():
    running = StandIn()
    yield running
    running.close()
