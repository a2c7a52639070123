"""gRPC probes of containers that really run: a health check of the protocol itself, and the kubelet's words for it."""

import textwrap

import pytest
from host_world import Host, namespaces_work
from node_world import pod

from killcheck.embedded.nodes import grpc_probe
from killcheck.kube.objects import condition

pytestmark = pytest.mark.skipif(not namespaces_work(), reason="no user namespaces here")
#: Speaks HTTP/2 by itself, and answers by the service that is asked for.
SERVE = """
    import socket, time
    from h2.config import H2Configuration
    from h2.connection import H2Connection
    from h2.events import DataReceived, RequestReceived
    def serve(sock):
        http = H2Connection(H2Configuration(client_side=False, header_encoding="utf-8"))
        http.initiate_connection()
        sock.sendall(http.data_to_send())
        while data := sock.recv(65536):
            for event in http.receive_data(data):
                if isinstance(event, RequestReceived):
                    asked = dict(event.headers)
                    print(asked[":method"], asked[":path"], asked["content-type"], asked["te"], flush=True)
                if isinstance(event, DataReceived):
                    answer(http, event.stream_id, event.data[7:].decode())
            sock.sendall(http.data_to_send())
    def answer(http, stream, service):
        if service == "slow":
            time.sleep(30)
        trailers = {"none": [("grpc-status", "12"), ("grpc-message", "Method not found!")],
                    "odd": [("grpc-status", "\u00b2")],
                    "other": [("grpc-status", "5"), ("grpc-message", "no%20such service")]}.get(service)
        head = [(":status", {"web": "404", "nan": "abc"}.get(service, "200")), ("content-type", "application/grpc")]
        if trailers or service in ("web", "nan"):
            http.send_headers(stream, head + (trailers or []), end_stream=True)
            return
        http.send_headers(stream, head)
        http.send_data(stream, {"": bytes([0, 0, 0, 0, 2, 8, 1]), "sick": bytes([0, 0, 0, 0, 2, 8, 2])}[service])
        http.send_headers(stream, [("grpc-status", "0")], end_stream=True)
    listener = socket.create_server(("", 50051))
    while True:
        try:
            serve(listener.accept()[0])
        except OSError:
            pass
"""
IMPLEMENTS_NOT = "error: this server does not implement the grpc health protocol (grpc.health.v1.Health): "


@pytest.fixture
def host():
    pytest.importorskip("h2")
    with Host("namespaces") as world:
        yield world


def server(name, service="", script=SERVE, **probe):
    asked = {"grpc": {"port": 50051, **({"service": service} if service else {})}, "periodSeconds": 5, **probe}
    return pod(
        name,
        policy="Never",
        grace=1,
        main={
            "image": "ghcr.io/team/server:1",
            "command": ["python3", "-c", textwrap.dedent(script)],
            "readinessProbe": asked,
        },
    )


def unhealthy(world, name):
    return {message for _, reason, message, _ in world.events(name) if reason == "Unhealthy"}


def is_ready(world, name):
    return (condition(world.pod(name), "Ready") or {}).get("status") == "True"


def test_a_server_that_serves_is_ready(host):
    host.add(server("w"))
    assert host.loop.run_until(lambda: is_ready(host, "w"), 30)
    assert "POST /grpc.health.v1.Health/Check application/grpc trailers\n" in host.log("w")


@pytest.mark.parametrize(
    ("service", "words"),
    [
        ("sick", 'service unhealthy (responded with "NOT_SERVING")'),
        ("none", IMPLEMENTS_NOT + "Method not found!"),
        ("other", "error: health rpc probe failed: rpc error: code = NotFound desc = no such service"),
        ("web", IMPLEMENTS_NOT + "unexpected HTTP status code received from server: 404 (Not Found)"),
        (
            "odd",
            "error: health rpc probe failed: rpc error: code = Internal desc = server closed the stream without "
            "sending trailers",
        ),
        (
            "nan",
            "error: health rpc probe failed: rpc error: code = Unavailable desc = invalid literal for int() with base "
            "10: 'abc'",
        ),
        ("slow", "timeout: health rpc did not complete within 1s"),
    ],
)
@pytest.mark.one_in(3)
def test_the_kubelet_says_why_not(host, service, words):
    host.add(server("w", service, initialDelaySeconds=1))
    host.run(12)
    assert f"Readiness probe failed: {words}" in unhealthy(host, "w")
    assert not is_ready(host, "w")


@pytest.mark.parametrize(
    "script",
    [
        "import time; time.sleep(600)",
        "import http.server as s; s.HTTPServer(('', 50051), s.BaseHTTPRequestHandler).serve_forever()",
    ],
)
def test_what_does_not_speak_http_2_is_not_connected_to(host, script):
    host.add(server("w", script=script, timeoutSeconds=2, initialDelaySeconds=1))
    host.run(12)
    ip = host.pod("w")["status"]["podIP"]
    assert unhealthy(host, "w") == {
        f'Readiness probe failed: timeout: failed to connect service "{ip}:50051" within 2s: context deadline exceeded'
    }


def test_where_nobody_speaks_http_2_here_that_is_said(host, monkeypatch):
    monkeypatch.setattr(grpc_probe, "available", lambda: False)
    host.add(server("w", "sick"))
    host.run(5)
    assert is_ready(host, "w")
    assert (
        "Pod/team/w: its gRPC probe was not asked and counts as passed: install killcheck[grpc]"
        in host.host.assumptions
    )
