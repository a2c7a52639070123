"""The API over TLS: certificates, HTTP as clients speak it, watches, and clients that are counted."""

import fcntl
import json
import select
import shutil
import socket
import ssl
import subprocess
import sys
import termios
import threading

import pytest
import urllib3
from node_world import PKI, World, no_thread_is_left, pod

from killcheck.clock import wall_seconds
from killcheck.embedded import wire
from killcheck.embedded.api.http import Response
from killcheck.kube import resources as r


class Wired(World):
    """A world that others reach over TLS, with a thread that keeps its loop running meanwhile."""

    def __post_init__(self):
        super().__post_init__()
        self.url = self.wire.start()
        self._done = False
        self._thread = threading.Thread(target=self._turn)
        self._thread.start()

    def _turn(self):
        hold = self.loop.hold()  # virtual time stands still
        self.loop.run_until(lambda: self._done)
        hold.release()

    def __exit__(self, *rest):
        self._done = True
        with self.loop.entered():
            self.loop.call_soon(lambda: None)
        self._thread.join()
        super().__exit__(*rest)


@pytest.fixture
def world(tmp_path):
    with Wired() as wired:
        wired.ca = tmp_path / "ca.pem"
        wired.ca.write_text(PKI.ca_pem)
        wired.config = tmp_path / "config"
        wired.wire.write_kubeconfig(wired.config)
        yield wired
    no_thread_is_left()


@pytest.fixture
def admin(world, tmp_path):
    identity = PKI.admin
    file = tmp_path / "admin.pem"
    file.write_text(identity.certificate_pem + identity.key_pem)
    with urllib3.PoolManager(ca_certs=str(world.ca), cert_file=str(file), maxsize=1) as pool:
        yield pool


def test_a_client_certificate_is_an_identity(world, admin):
    review = {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}
    answer = admin.request("POST", f"{world.url}/apis/authentication.k8s.io/v1/selfsubjectreviews", json=review).json()
    assert answer["status"]["userInfo"]["username"] == "kubernetes-admin"
    assert "system:masters" in answer["status"]["userInfo"]["groups"]


def test_without_credentials_one_is_anonymous_and_plain_http_is_answered_as_by_go(world):
    with socket.create_connection(("127.0.0.1", int(world.url.rpartition(":")[2]))) as plain:
        plain.sendall(b"GET / HTTP/1.1\r\n\r\n")
        assert b" 400 Bad Request\r\n\r\nClient sent an HTTP request to an HTTPS server." in plain.recv(500)
    with urllib3.PoolManager(ca_certs=str(world.ca)) as pool:
        answer = pool.request("GET", f"{world.url}/api/v1/namespaces/team/pods")
    assert answer.status == 403
    assert 'User "system:anonymous" cannot list resource "pods"' in answer.json()["message"]


def test_nobody_can_claim_a_certificate_in_a_header(world):
    context = ssl.create_default_context(cafile=str(world.ca))
    with (
        socket.create_connection(("127.0.0.1", world.wire.port)) as raw,
        context.wrap_socket(raw, server_hostname="localhost") as sock,
    ):
        claim = json.dumps({"cn": "kubernetes-admin", "o": ["system:masters"]})
        sock.sendall(b"GET //[x HTTP/1.1\r\nHost: x\r\n\r\n")  # a path: no connection ends of it
        assert sock.recv(4096).startswith(b"HTTP/1.1 403 ")
        sock.sendall(f"GET /api/v1/secrets HTTP/1.1\r\nHost: x\r\n:peer-certificate: {claim}\r\n\r\n".encode())
        assert sock.recv(4096).startswith(b"HTTP/1.1 400 ")


@pytest.mark.parametrize("name", ["kubernetes.default.svc", "kubernetes", "localhost", "10.96.0.1", "127.0.0.1"])
def test_the_certificate_is_good_for_every_name_of_the_api(world, name):
    context = ssl.create_default_context(cafile=str(world.ca))
    with (
        socket.create_connection(("127.0.0.1", world.wire.port)) as raw,
        context.wrap_socket(raw, server_hostname=name) as sock,
    ):
        assert sock.version()


def test_a_foreign_client_certificate_is_refused(world, tmp_path):
    from killcheck.embedded.pki import Pki

    stranger = Pki().admin
    file = tmp_path / "stranger.pem"
    file.write_text(stranger.certificate_pem + stranger.key_pem)
    with (
        urllib3.PoolManager(ca_certs=str(world.ca), cert_file=str(file), retries=False) as pool,
        pytest.raises(urllib3.exceptions.HTTPError),
    ):
        pool.request("GET", f"{world.url}/version")


def test_one_connection_serves_many_requests(world, admin):
    for _ in range(5):
        assert admin.request("GET", f"{world.url}/version").status == 200
    assert admin.connection_from_url(world.url).num_connections == 1


def test_chunked_bodies_and_large_ones(world, admin):
    target = f"{world.url}/api/v1/namespaces/team/configmaps"
    text = json.dumps({"metadata": {"name": "chunky"}, "data": {"a": "b" * 1000}}).encode()
    answer = admin.request(
        "POST", target, body=iter([text[:100], text[100:]]), headers={"Content-Type": "application/json"}, chunked=True
    )
    assert answer.status == 201
    answer = admin.request("POST", target, body=b"x" * (4 << 20), headers={"Content-Type": "application/json"})
    assert (answer.status, answer.json()["reason"]) == (413, "RequestEntityTooLarge")


def _rests_unheard(world, sock):
    """Whether the server takes a client for one that waits while its kernel still has something to say."""
    threading.Event().wait(0.002)
    rests = not world.wire.world.busy
    return rests and any(fcntl.ioctl(sock, termios.TIOCOUTQ, b"\0" * 4))


@pytest.mark.skipif(sys.platform != "linux", reason="SIOCOUTQ is Linux's")
def test_nobody_is_at_rest_whose_words_are_still_on_their_way(world):
    """A client with Nagle's algorithm: its body waits in its kernel until the server's has acknowledged the head."""
    context = ssl.create_default_context(cafile=str(world.ca))
    head = b"POST /version HTTP/1.1\r\nHost: x\r\nContent-Length: 4\r\n\r\n"
    with (
        socket.create_connection(("127.0.0.1", world.wire.port)) as raw,
        context.wrap_socket(raw, server_hostname="localhost") as sock,
    ):
        for _ in range(20):
            sock.sendall(head)
            sock.sendall(b"body")
            while not select.select([sock], [], [], 0)[0]:
                # An acknowledgement takes a moment of its own; what is held back takes 40 ms.
                assert not all(_rests_unheard(world, sock) for _ in range(5)), "its body is still on its way"
            assert sock.recv(65536).startswith(b"HTTP/1.1 403 ")


def test_curl_and_browsers_get_indented_json(world, admin):
    plain = admin.request("GET", f"{world.url}/version", headers={"User-Agent": "kubectl/v1.36"}).data
    pretty = admin.request("GET", f"{world.url}/version", headers={"User-Agent": "curl/8.5.0"}).data
    assert b"\n  " not in plain
    assert pretty.startswith(b'{\n  "')
    assert json.loads(plain) == json.loads(pretty)


def test_a_watch_streams_and_is_counted_apart(world, admin):
    answer = admin.request("GET", f"{world.url}/api/v1/namespaces/team/pods?watch=true", preload_content=False)
    with world.loop.entered():
        world.add(pod("server"))
    frames = answer.stream()
    line = next(frames).splitlines()[0]
    assert json.loads(line)["type"] == "ADDED"
    assert world.wire.world.watches == 1
    _until(lambda: not world.wire.world.busy)
    answer.close()
    _until(lambda: world.wire.world.watches == 0)
    _until(lambda: world.wire.world.in_flight == 0)


def test_an_interceptor_answers_resets_and_hangs(world, admin):
    world.wire.interceptor = lambda request: Response(503, {"kind": "Status", "code": 503})
    assert admin.request("GET", f"{world.url}/version", retries=False).status == 503
    world.wire.interceptor = lambda request: wire.RESET
    with pytest.raises(urllib3.exceptions.ProtocolError, match="Connection aborted"):
        admin.request("GET", f"{world.url}/version", retries=False)
    assert world.wire.world.waits_s(world.loop) is not None  # client-go tries again after a second of the wall's
    world.wire.interceptor = lambda request: wire.HANG
    with pytest.raises(urllib3.exceptions.ReadTimeoutError):
        admin.request("GET", f"{world.url}/version", retries=False, timeout=urllib3.Timeout(connect=120, read=0.1))
    world.wire.interceptor = None
    assert admin.request("GET", f"{world.url}/version").status == 200


def test_the_kubeconfig_is_its_owners_alone(world):
    assert world.config.stat().st_mode & 0o777 == 0o600


def test_the_kubernetes_package_works(world):
    from kubernetes import client, config

    with client.ApiClient(
        config.load_kube_config(str(world.config)) or config.new_client_from_config(str(world.config)).configuration
    ) as api:
        core = client.CoreV1Api(api)
        core.create_namespaced_config_map("team", client.V1ConfigMap(metadata=client.V1ObjectMeta(name="made")))
        assert "made" in [item.metadata.name for item in core.list_namespaced_config_map("team").items]


@pytest.mark.skipif(not shutil.which("kubectl"), reason="no kubectl here")
def test_kubectl_works(world):
    done = subprocess.run(
        ["kubectl", f"--kubeconfig={world.config}", "create", "configmap", "made", "-n", "team", "-o", "name"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.stdout, done.stderr) == ("configmap/made\n", "")
    assert world.kube.get(r.CONFIGMAPS, "made", "team")


def _until(true):
    deadline = wall_seconds() + 120
    while not true():
        assert wall_seconds() < deadline
        select.select([], [], [], 0.001)
