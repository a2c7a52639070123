"""Requests over TLS: what is retried, what surfaces, and that every failure is one sentence without secrets."""

from __future__ import annotations

import logging
import re
import socket
import traceback
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from https_server import SECRET, Break, HttpsServer, Reply, Seen, Stream, kubeconfig

from killcheck.clock import VirtualLoop, WallLoop
from killcheck.embedded.pki import Pki
from killcheck.kube import resources as r
from killcheck.kube.client import Kube
from killcheck.kube.config import connect
from killcheck.kube.errors import Forbidden, KubeError, ServerFault, TooManyRequests, Unreachable
from killcheck.kube.wire import Limits, WireTransport

NOON = datetime(2026, 11, 21, 12, tzinfo=UTC)
POD = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "namespace": "a"}}


def throttled(seconds: int) -> Reply:
    status = {"kind": "Status", "reason": "TooManyRequests", "message": "slow down"}
    return Reply(429, status, {"Retry-After": str(seconds)})


def scripted(*answers: Any) -> Callable[[Seen], Any]:
    left = list(answers)
    return lambda seen: left.pop(0)


def with_limits(kube: Kube, limits: Limits) -> Kube:
    assert isinstance(kube.transport, WireTransport)
    kube.transport.limits = limits
    return kube


@pytest.fixture
def loop() -> VirtualLoop:
    return VirtualLoop(NOON)


# -- what is tried again -----------------------------------------------------------------------------------------
def test_a_get_whose_connection_breaks_is_tried_again_a_few_times(
    server: HttpsServer,
    kube_for: Callable[..., Kube],
    loop: VirtualLoop,
) -> None:
    kube = kube_for(loop=loop)
    server.answer = scripted(Break(), Break(), Reply(200, POD))
    assert kube.get(r.PODS, "p", "a") == POD
    assert loop.now() > NOON
    server.answer = scripted(Break(), Break(), Break(), Reply(200, POD))
    with pytest.raises(Unreachable, match=r"broke the connection off \(GET /api/v1/namespaces/a/pods/p\)") as caught:
        kube.get(r.PODS, "p", "a")
    assert "not known" not in str(caught.value)


def test_a_question_of_rights_changes_nothing_and_is_asked_again(
    server: HttpsServer, kube_for: Callable[..., Kube], loop: VirtualLoop
) -> None:
    server.answer = scripted(Break(), Break(), Reply(201, {"status": {"allowed": True}}))
    assert kube_for(loop=loop).may("get", "pods", namespace="a")


def test_a_write_is_never_sent_twice(server: HttpsServer, kube_for: Callable[..., Kube], loop: VirtualLoop) -> None:
    kube = kube_for(loop=loop)
    server.answer = scripted(Break(), Reply(201, POD))
    with pytest.raises(Unreachable, match="whether the change was made is not known"):
        kube.create(r.PODS, POD)
    assert [seen.method for seen in server.seen] == ["POST"]


def test_throttling_is_waited_out(server: HttpsServer, kube_for: Callable[..., Kube], loop: VirtualLoop) -> None:
    kube = kube_for(loop=loop)
    server.answer = scripted(throttled(7), throttled(5), Reply(200, POD))
    kube.patch(r.PODS, "p", {}, "a")
    assert (loop.now() - NOON).total_seconds() == 12


def test_throttling_is_not_waited_out_for_ever(
    server: HttpsServer,
    kube_for: Callable[..., Kube],
    loop: VirtualLoop,
) -> None:
    server.answer = lambda seen: throttled(20)
    with pytest.raises(TooManyRequests):
        kube_for(loop=loop).get(r.PODS, "p", "a")
    assert (loop.now() - NOON).total_seconds() == 20


def test_an_eviction_that_a_budget_refuses_is_an_answer(
    server: HttpsServer,
    kube_for: Callable[..., Kube],
    loop: VirtualLoop,
) -> None:
    server.answer = lambda seen: throttled(10)
    with pytest.raises(TooManyRequests):
        kube_for(loop=loop).evict("p", "a")
    assert len(server.seen) == 1
    assert loop.now() == NOON


def test_nothing_else_is_tried_again(server: HttpsServer, kube_for: Callable[..., Kube], loop: VirtualLoop) -> None:
    server.answer = lambda seen: Reply(503, {"kind": "Status", "message": "no endpoints"}, {"Retry-After": "1"})
    with pytest.raises(ServerFault, match="no endpoints"):
        kube_for(loop=loop).get(r.PODS, "p", "a")
    assert len(server.seen) == 1


# -- what is sent and read ---------------------------------------------------------------------------------------
def test_bodies_patches_and_logs(server: HttpsServer, kube_for: Callable[..., Kube]) -> None:
    kube = kube_for()
    server.answer = scripted(Reply(200, POD), Reply(200, b"line one\nline {two}\n", kind="text/plain"))
    kube.patch(r.PODS, "p", {"spec": {"grace": 1}}, "a", kind="strategic", dry_run=True)
    patch = server.seen[0]
    assert (patch.method, patch.body, patch.query["dryRun"]) == ("PATCH", {"spec": {"grace": 1}}, "All")
    assert patch.headers["Content-Type"] == "application/strategic-merge-patch+json"
    assert kube.logs("p", "a") == "line one\nline {two}\n"


@pytest.mark.parametrize(
    "text",
    [
        'failed to try resolving symlinks in path "/var/log/pods/a_p_1/c/0.log": lstat /var/log/pods/a_p_1/c: no such file '
        "or directory",
        "unable to retrieve container logs for containerd://4abf",
        'failed to open log file "/var/log/pods/a_p_1/c/0.log": open /var/log/pods/a_p_1/c/0.log: permission denied\n',
    ],
)
def test_what_a_kubelet_says_in_place_of_a_log_is_no_log(
    server: HttpsServer,
    kube_for: Callable[..., Kube],
    text: str,
) -> None:
    server.answer = scripted(
        Reply(200, text.encode(), kind="text/plain"), Reply(200, f"failed\n{text}".encode(), kind="text/plain")
    )
    with pytest.raises(ServerFault, match=re.escape(text.strip())):
        kube_for().logs("p", "a")
    assert kube_for().logs("p", "a").startswith("failed\n")  # a program that quotes it


def test_a_server_behind_a_path_and_names_that_need_quoting(server: HttpsServer, kube_for: Callable[..., Kube]) -> None:
    kube = kube_for(server=f"{server.url}/k8s/clusters/c-1/")
    kube.get(r.CLUSTERROLES, "system:node proxier")
    assert server.seen[0].path == (
        "/k8s/clusters/c-1/apis/rbac.authorization.k8s.io/v1/clusterroles/system:node%20proxier"
    )


@pytest.mark.parametrize(
    ("reply", "said"),
    [
        (Reply(200, b"<html>Log in</html>", kind="text/html"), "answered like a web page"),
        (Reply(302, b"", {"Location": "https://sso.example/"}), "answered like a web page"),
        (Reply(200, b'{"items": [', kind="application/json"), "half an answer, or no JSON"),
    ],
)
def test_what_no_api_server_says_is_no_answer(
    server: HttpsServer,
    kube_for: Callable[..., Kube],
    reply: Reply,
    said: str,
) -> None:
    server.answer = lambda seen: reply
    with pytest.raises(Unreachable, match=said):
        kube_for().list(r.PODS)


# -- no answer at all --------------------------------------------------------------------------------------------
def test_refused(tmp_path: Path, pki: Pki) -> None:
    with socket.socket() as taken:  # bound, so that nobody else listens there, and not listening
        taken.bind(("127.0.0.1", 0))
        port = taken.getsockname()[1]
        path = kubeconfig(tmp_path / "config", f"https://127.0.0.1:{port}", pki, {"token": SECRET})
        with pytest.raises(Unreachable, match=rf"https://127.0.0.1:{port} \(context here\) refused the connection"):
            connect("here", kubeconfig=path, loop=WallLoop()).get(r.NODES, "n")


def test_unresolvable(kube_for: Callable[..., Kube], monkeypatch: pytest.MonkeyPatch) -> None:
    def unknown(*args: object, **kwargs: object) -> None:
        raise socket.gaierror(-2, "Name or service not known")

    monkeypatch.setattr(socket, "getaddrinfo", unknown)
    with pytest.raises(Unreachable, match=r"cannot resolve the host name nowhere\.invalid"):
        kube_for(server="https://nowhere.invalid").get(r.NODES, "n")


def test_another_authority(server: HttpsServer, tmp_path: Path) -> None:
    path = kubeconfig(tmp_path / "config", server.url, Pki(), {"token": SECRET})
    with pytest.raises(Unreachable, match=r"certificate of the API server .* was not accepted \(.*\): is this"):
        connect("here", kubeconfig=path, loop=WallLoop()).get(r.NODES, "n")
    assert server.seen == []


def test_another_name_on_the_certificate(server: HttpsServer, kube_for: Callable[..., Kube]) -> None:
    with pytest.raises(Unreachable, match="certificate of the API server"):
        kube_for(**{"tls-server-name": "elsewhere.example"}).get(r.NODES, "n")
    kube_for(**{"tls-server-name": "kubernetes.default"}).get(r.NODES, "n")
    assert len(server.seen) == 1


def test_no_tls_on_that_port(pki: Pki, tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        import threading

        def speak() -> None:
            connection, _ = listener.accept()
            with connection:
                connection.recv(1000)
                connection.sendall(b"HTTP/1.0 400 Bad Request\r\n\r\n")

        thread = threading.Thread(target=speak)
        thread.start()
        url = f"https://127.0.0.1:{listener.getsockname()[1]}"
        path = kubeconfig(tmp_path / "config", url, pki, {"token": SECRET})
        with pytest.raises(Unreachable, match="does it speak https on this port"):
            connect("here", kubeconfig=path, loop=WallLoop()).get(r.NODES, "n")
        thread.join()


def test_a_server_that_never_answers(server: HttpsServer, kube_for: Callable[..., Kube]) -> None:
    released = server.stream()

    def hang(seen: Seen) -> Stream:
        released._steps.get()  # until the test ends
        return released

    server.answer = hang
    kube = with_limits(kube_for(), Limits(read=0.05))
    with pytest.raises(Unreachable, match="did not answer in time"):
        kube.get(r.NODES, "n")
    with pytest.raises(Unreachable, match=r"did not answer in time .*not known"):
        kube.create(r.PODS, POD)
    released.raw("go")
    released.raw("go")
    released.end()


# -- secrets -----------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    "answer",
    [
        Break(),
        Reply(403, {"kind": "Status", "message": f"you sent Bearer {SECRET}"}),
        Reply(500, f"panic: Authorization: Bearer {SECRET}".encode(), kind="text/plain"),
        Reply(200, b"{", {"X-Echo": SECRET}),
        Reply(200, b"<html>", kind="text/html"),
    ],
)
def test_a_token_is_never_told(
    server: HttpsServer,
    kube_for: Callable[..., Kube],
    caplog: pytest.LogCaptureFixture,
    answer: Any,
) -> None:
    caplog.set_level(logging.DEBUG)
    server.answer = lambda seen: answer
    kube = kube_for()
    with pytest.raises(KubeError) as caught:
        kube.create(r.PODS, POD)
    told = "".join(traceback.format_exception(caught.value)) + repr(caught.value) + caplog.text + repr(kube.transport)
    assert SECRET not in told
    assert server.seen[0].token == SECRET


def test_a_login_shows_nothing() -> None:
    from killcheck.kube.credentials import Login

    assert SECRET not in repr(Login(f"Bearer {SECRET}", b"", SECRET.encode()))


def test_what_the_server_forbids_is_told_in_its_words(server: HttpsServer, kube_for: Callable[..., Kube]) -> None:
    server.answer = lambda seen: Reply(403, {"kind": "Status", "message": 'pods is forbidden: User "x" cannot list'})
    with pytest.raises(Forbidden, match='pods is forbidden: User "x" cannot list'):
        kube_for().list(r.PODS)
