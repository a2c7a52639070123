"""The containers of one pod have one network: they meet on localhost, and a port is taken for all of them."""

import textwrap

import pytest
from host_world import Host, namespaces_work
from node_world import pod

from killcheck.kube import resources as r

pytestmark = pytest.mark.skipif(not namespaces_work(), reason="no user namespaces here")
PYTHON = "python:3.12-slim"
#: Answers one request a line until it is killed; SIGTERM ends it.
SERVER = """
    import http.server
    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            body = f"hello {self.path}".encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)
        def log_message(self, *args):
            print("asked", self.path, flush=True)
    print("listens", flush=True)
    http.server.HTTPServer(("127.0.0.1", 80), Handler).serve_forever()
"""
ASKS = """
    import urllib.request
    print(urllib.request.urlopen("http://localhost/off", timeout=60).read().decode())
"""
STARTED = {
    "exec": {"command": ["python3", "-c", "import socket; socket.create_connection(('127.0.0.1', 80), 1)"]},
    "periodSeconds": 1,
    "failureThreshold": 30,
}


@pytest.fixture
def host():
    with Host("namespaces") as world:
        yield world
    assert world.host.processes == world.host.networks == {}


def container(name, script, **more):
    return {"name": name, "image": PYTHON, "command": ["python3", "-c", textwrap.dedent(script)], **more}


def several(*containers, init=(), **spec):
    made = pod("p", policy="Never", **spec)
    made["spec"] |= {"containers": list(containers), "initContainers": list(init)}
    return made


def test_an_executor_reaches_its_sidecar_on_localhost_and_nobody_elses(host):
    sidecar = container("side", SERVER, restartPolicy="Always", startupProbe=STARTED)
    host.add(several(container("main", ASKS), init=[sidecar], grace=1))
    over = host.run_until_over("p")
    assert over["status"]["phase"] == "Succeeded", host.log("p", container="main")
    assert host.log("p", container="main") == "hello /off\n"
    assert host.log("p", container="side") == "listens\nasked /off\n"
    host.add(pod("other", policy="Never", image=PYTHON, command=["python3", "-c", textwrap.dedent(ASKS)]))
    assert host.run_until_over("other")["status"]["phase"] == "Failed"
    assert "Connection refused" in host.log("other")


def test_a_port_is_taken_for_all_containers_of_a_pod_and_each_has_its_own_user(host):
    holds = container("a", "import socket, time; s = socket.create_server(('', 80)); time.sleep(30)")
    wants = container(
        "b",
        """
        import os, socket, time
        time.sleep(10)
        print(os.getuid(), flush=True)
        socket.create_server(('', 80))
    """,
        securityContext={"runAsUser": 1234},
    )
    host.add(several(holds, wants))
    over = host.run_until_over("p")
    assert [c["state"]["terminated"]["exitCode"] for c in over["status"]["containerStatuses"]] == [0, 1]
    said = host.log("p", container="b")
    assert said.startswith("1234\n")
    assert "Address already in use" in said


def test_every_container_of_a_pod_asks_the_api_server_and_names_resolve(host):
    host.allow()
    asks = [
        "sh",
        "-c",
        "kubectl get configmap target -o name && kubectl patch configmap target --type merge -p "
        '\'{"data": {"replicas": "0"}}\'',
    ]
    steps = [{"name": name, "image": "bitnamilegacy/kubectl:1.33", "command": asks} for name in ("first", "a", "b")]
    host.add(several(*steps[1:], init=steps[:1]))
    over = host.run_until_over("p")
    assert over["status"]["phase"] == "Succeeded", [host.log("p", container=step["name"]) for step in steps]
    assert host.kube.get(r.CONFIGMAPS, "target", "team")["data"]["replicas"] == "0"
    assert host.log("p", container="first").startswith("configmap/target\n")


def test_what_is_asked_of_a_container_that_shares_its_network_joins_both(host):
    host.add(several(container("a", SERVER), container("b", "import time; time.sleep(600)")))
    host.run(5)
    beside = next(process for process in host.host.processes.values() if process.launch.container == "b")
    heard, ended = bytearray(), []
    with host.loop.entered():
        beside.command(["python3", "-c", textwrap.dedent(ASKS)]).start(lambda _, data: heard.extend(data), ended.append)
    assert host.loop.run_until(lambda: bool(ended), 60)
    assert (bytes(heard), ended) == (b"hello /off\n", [0])
    with beside.connect("127.0.0.1", 80) as sock:
        sock.sendall(b"GET /x HTTP/1.0\r\n\r\n")
        assert sock.recv(100).startswith(b"HTTP/1.0 200")
