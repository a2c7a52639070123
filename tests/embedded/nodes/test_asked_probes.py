"""Probes and hooks of containers that really run: the process itself is asked, and the kubelet says what it heard."""

import textwrap

import pytest
from host_world import MODES, Host
from node_world import pod

from killcheck.kube import resources as r
from killcheck.kube.objects import condition

SERVE = """
    import http.server, sys, time
    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            sys.stderr.write(self.headers["User-Agent"] + "\\n")
            if self.path == "/slow":
                time.sleep(3)
            places = {"/moved": "/", "/away": "http://elsewhere.example/", "/nowhere": "//[", "/around": "/around"}
            self.send_response(302 if self.path in places else {"/sick": 503}.get(self.path, 200))
            if self.path in places:
                self.send_header("Location", places[self.path])
            self.send_header("Content-Length", "2")
            self.end_headers()
            self.wfile.write(b"ok")
        def log_message(self, *_): pass
    http.server.HTTPServer(("0.0.0.0", 8080), Handler).serve_forever()
"""


@pytest.fixture
def isolated():
    """With namespaces, where this host allows them: only then has a container ports of its own."""
    if MODES[0].marks[0].args[0]:
        pytest.skip("no user namespaces here")
    with Host("namespaces") as world:
        yield world


def server(name, **probes):
    return pod(
        name,
        policy="Never",
        main={
            "image": "python:3.12-slim",
            "command": ["python3", "-c", textwrap.dedent(SERVE)],
            "ports": [{"name": "web", "containerPort": 8080}],
            **probes,
        },
    )


def said(world, name, reason):
    return {message: count for _, found, message, count in world.events(name) if found == reason}


def is_ready(world, name):
    return condition(world.pod(name), "Ready")["status"] == "True"


def test_a_container_is_ready_as_long_as_its_program_says_so(host):
    probe = {"exec": {"command": ["sh", "-c", "cat /tmp/shared/ready"]}, "periodSeconds": 5}
    host.add(
        pod(
            "w",
            policy="Never",
            volumes=[{"name": "v", "emptyDir": {}}],
            main={
                "readinessProbe": probe,
                "volumeMounts": [{"name": "v", "mountPath": "/tmp/shared"}],
                "command": [
                    "sh",
                    "-c",
                    "sleep 20; echo yes > /tmp/shared/ready; sleep 20; rm /tmp/shared/ready; sleep 3600",
                ],
            },
        )
    )
    host.run(15)
    assert not is_ready(host, "w")
    (message,) = said(host, "w", "Unhealthy")
    assert message.startswith("Readiness probe failed: cat: ")
    assert message.endswith("No such file or directory\n")
    host.run(14)
    assert is_ready(host, "w")
    host.run(40)
    assert not is_ready(host, "w")


def test_a_liveness_probe_that_fails_has_the_container_started_again(host):
    host.add(
        pod(
            "w",
            policy="OnFailure",
            grace=1,
            main={
                "livenessProbe": {"exec": {"command": ["sh", "-c", "echo no; exit 1"]}, "periodSeconds": 2},
                "command": ["sleep", "3600"],
            },
        )
    )
    host.run(20)
    assert host.pod("w")["status"]["containerStatuses"][0]["restartCount"] >= 1
    assert "Liveness probe failed: no\n" in said(host, "w", "Unhealthy")
    assert "Container main failed liveness probe, will be restarted" in said(host, "w", "Killing")


def test_the_others_wait_for_the_startup_probe(host):
    host.add(
        pod(
            "w",
            policy="Never",
            main={
                "startupProbe": {
                    "exec": {"command": ["test", "-e", "/tmp/w/up"]},
                    "periodSeconds": 2,
                    "failureThreshold": 30,
                },
                "livenessProbe": {
                    "exec": {"command": ["test", "-e", "/tmp/w/up"]},
                    "periodSeconds": 1,
                    "failureThreshold": 1,
                },
                "volumeMounts": [{"name": "v", "mountPath": "/tmp/w"}],
                "command": ["sh", "-c", "sleep 15; touch /tmp/w/up; sleep 3600"],
            },
            volumes=[{"name": "v", "emptyDir": {}}],
        )
    )
    host.run(10)
    assert host.pod("w")["status"]["containerStatuses"][0]["started"] is False
    host.run(15)
    status = host.pod("w")["status"]["containerStatuses"][0]
    assert (status["started"], status["ready"], status["restartCount"]) == (True, True, 0)


def test_a_command_that_takes_too_long_or_is_not_there(host):
    host.add(
        pod(
            "slow",
            policy="Never",
            command=["sleep", "600"],
            readinessProbe={"exec": {"command": ["sh", "-c", "sleep 5"]}, "timeoutSeconds": 2, "periodSeconds": 10},
        )
    )
    host.add(
        pod(
            "none",
            policy="Never",
            command=["sleep", "600"],
            image="bash:5.2",
            readinessProbe={"exec": {"command": ["grpc_health_probe"]}},
        )
    )
    host.run(15)
    assert 'Readiness probe failed: command timed out: "sh -c sleep 5" timed out after 2s' in said(
        host, "slow", "Unhealthy"
    )
    (message,) = said(host, "none", "Unhealthy")
    assert message.startswith(
        "Readiness probe errored and resulted in unknown state: rpc error: code = Unknown desc = failed to exec in "
        "container: failed to start exec "
    )
    assert 'exec: "grpc_health_probe": executable file not found in $PATH' in message


@pytest.mark.parametrize(
    ("probe", "ready", "words"),
    [
        ({"httpGet": {"path": "/", "port": "web"}}, True, None),
        ({"httpGet": {"path": "/moved", "port": 8080}}, True, None),
        ({"tcpSocket": {"port": "web"}}, True, None),
        (
            {"httpGet": {"path": "/away", "port": 8080}},
            True,
            "probe warning: Probe terminated redirects, Response body: ok",
        ),
        ({"httpGet": {"path": "/sick", "port": 8080}}, False, "probe failed: HTTP probe failed with statuscode: 503"),
        (
            {"httpGet": {"path": "/", "port": 81}},
            False,
            'probe failed: Get "http://{ip}:81/": dial tcp {ip}:81: connect: connection refused',
        ),
        ({"tcpSocket": {"port": 81}}, False, "probe failed: dial tcp {ip}:81: connect: connection refused"),
        (
            {"httpGet": {"path": "/", "port": 8080, "scheme": "HTTPS"}},
            False,
            'probe failed: Get "https://{ip}:8080/": http: server gave HTTP response to HTTPS client',
        ),
        (
            {"httpGet": {"path": "/slow", "port": 8080}},
            False,
            'probe failed: Get "http://{ip}:8080/slow": context deadline exceeded (Client.Timeout exceeded while awaiting '
            "headers)",
        ),
        # Whatever host a path names, and however it is written, it is the pod that is asked.
        ({"httpGet": {"path": "//elsewhere.example/", "port": 8080}}, True, None),
        (
            {
                "httpGet": {
                    "path": "a b?c=d e\u00e9",
                    "port": 8080,
                    "httpHeaders": [{"name": "X-Who", "value": " \u00e9 "}, {"name": "Content-Length", "value": "5"}],
                }
            },
            True,
            None,
        ),
        (
            {"httpGet": {"path": "/nowhere", "port": 8080}},
            True,
            "probe warning: Probe terminated redirects, Response body: ok",
        ),
        (
            {"httpGet": {"path": "/around", "port": 8080}},
            False,
            'probe failed: Get "/around": stopped after 10 redirects',
        ),
        (
            {"httpGet": {"path": "/", "port": "other"}},
            False,
            "probe errored and resulted in unknown state: couldn't find port: other",
        ),
    ],
)
@pytest.mark.one_in(2)
def test_a_port_is_asked(isolated, probe, ready, words):
    isolated.add(server("w", readinessProbe=probe | {"periodSeconds": 5, "initialDelaySeconds": 5}))
    isolated.run(18)
    assert is_ready(isolated, "w") == ready
    told = said(isolated, "w", "Unhealthy") | said(isolated, "w", "ProbeWarning")
    if words is None:
        assert told == {}
    else:
        assert words.format(ip=isolated.pod("w")["status"]["podIP"]) in next(iter(told))
    if "httpGet" in probe and ready:
        assert "kube-probe/1.36\n" in isolated.log("w")


def test_who_listens_on_loopback_alone_is_not_reached(isolated):
    """The kubelet asks the pod's address."""
    isolated.add(
        pod(
            "w",
            policy="Never",
            main={
                "image": "python:3.12-slim",
                "command": ["python3", "-m", "http.server", "-b", "127.0.0.1", "8080"],
                "readinessProbe": {"tcpSocket": {"port": 8080}, "initialDelaySeconds": 5, "periodSeconds": 5},
            },
        )
    )
    isolated.run(15)
    assert not is_ready(isolated, "w")
    assert isolated.kube.get(r.PODS, "w", "team")["status"]["phase"] == "Running"


# -- lifecycle -----------------------------------------------------------------------------------------------
def test_before_it_is_stopped_a_container_runs_its_command(host):
    """kuberuntime_container.go, executePreStopHook: SIGTERM comes after it."""
    host.add(
        pod(
            "w",
            policy="Never",
            grace=30,
            volumes=[{"name": "v", "emptyDir": {}}],
            main={
                "command": ["sh", "-c", "trap 'cat /tmp/w/left; exit 0' TERM; while :; do sleep 1; done"],
                "lifecycle": {"preStop": {"exec": {"command": ["sh", "-c", "sleep 5; echo last words > /tmp/w/left"]}}},
                "volumeMounts": [{"name": "v", "mountPath": "/tmp/w"}],
            },
        )
    )
    host.run(5)
    running = next(iter(host.host.processes.values()))
    begun = host.loop.monotonic()
    host.kube.delete(r.PODS, "w", "team")
    assert host.loop.run_until(lambda: host.gone("w"), 40)
    assert 5 <= host.loop.monotonic() - begun < 12
    assert running.log().text == "last words\n"


def test_a_command_that_fails_before_the_end_is_told_and_holds_nothing_up(host):
    host.add(
        pod(
            "w",
            policy="Never",
            grace=2,
            main={"command": ["sleep", "600"], "lifecycle": {"preStop": {"exec": {"command": ["false"]}}}},
        )
    )
    host.run(5)
    host.kube.delete(r.PODS, "w", "team")
    host.run(6)
    assert host.gone("w")
    assert said(host, "w", "FailedPreStopHook") == {"PreStopHook failed": 1}


def test_a_command_that_fails_after_the_start_has_the_container_killed(host):
    host.add(
        pod(
            "w",
            policy="OnFailure",
            grace=1,
            main={"command": ["sleep", "600"], "lifecycle": {"postStart": {"exec": {"command": ["false"]}}}},
        )
    )
    host.run(8)
    assert host.pod("w")["status"]["containerStatuses"][0]["restartCount"] >= 1
    assert "PostStartHook failed" in said(host, "w", "FailedPostStartHook")
    assert "FailedPostStartHook" in said(host, "w", "Killing")
