"""kubectl and the ``kubernetes`` package at an executor's container over TLS: its log as it goes on, commands in it."""

import contextlib
import http.client
import random
import re
import shutil

import pytest
from terminal import Terminal

EXEC_MODE = "host"
kubectl_only = pytest.mark.skipif(shutil.which("kubectl") is None, reason="no kubectl on this machine")

JOB = """
apiVersion: batch/v1
kind: Job
metadata: {name: NAME, namespace: default}
spec:
  template:
    spec:
      restartPolicy: Never
      containers:
      - name: c
        image: bash:5.2
        command: [bash, -c, 'COMMAND']
        env: [{name: GREETING, value: hello}]
        workingDir: /tmp
"""


def started(kubectl, name, command):
    """The pod of a job that runs."""
    kubectl("apply -f -", JOB.replace("NAME", name).replace("COMMAND", command))
    kubectl(f"wait --for=jsonpath={{.status.active}}=1 job/{name} --timeout=60s")  # before that there may be no pod
    pod = kubectl(f"get pods -l job-name={name} -o jsonpath={{.items[0].metadata.name}}")
    kubectl(f"wait --for=condition=Ready pod/{pod} --timeout=60s")
    return pod


@pytest.fixture(scope="module")
def talker(kubectl):
    """The cluster's time goes on while kubectl is started: it is there for all of them, however long that takes."""
    return started(kubectl, "talk", "sleep 1000000; exit")


@kubectl_only
def test_commands_run_where_the_executor_runs(kubectl, talker):
    assert kubectl(f"exec {talker} -- bash -c 'echo $GREETING; exit 3'", rc=3) == (
        "hello\ncommand terminated with exit code 3\n"
    )
    assert kubectl(f"exec {talker} -- cat /var/run/secrets/kubernetes.io/serviceaccount/namespace") == "default"
    assert 'exec: "nope": executable file not found in $PATH' in kubectl(f"exec {talker} -- nope", rc=1)
    assert kubectl(f"exec {talker} -- bash -c 'echo out; echo err >&2'") == "out\nerr\n"
    # The same root, processes and directory as its own: not a container beside it.
    kubectl(f"exec -i {talker} -- sh -c 'cat > x'", "written\n")
    assert kubectl(f"exec {talker} -- cat x") == "written\n"
    assert kubectl(f"exec {talker} -- bash -c 'pwd; tr -d \"\\\\0\" < /proc/1/comm'") == "/tmp\nbash\n"
    assert 'pods "nope" not found' in kubectl("exec nope -- true", rc=1)


@kubectl_only
@pytest.mark.parametrize("websockets", ["true", "false"])
def test_files_are_copied_into_a_container_and_out_again(kubectl, talker, tmp_path, websockets):
    """kubectl before v1.31, and kubectl that may not, speaks SPDY."""
    there, back = tmp_path / "there", tmp_path / "back"
    there.write_bytes(random.Random(1).randbytes(700_000))
    env = {"KUBECTL_REMOTE_COMMAND_WEBSOCKETS": websockets}
    kubectl(f"cp {there} {talker}:/tmp/copied", env=env)
    kubectl(f"cp {talker}:/tmp/copied {back}", env=env)
    assert back.read_bytes() == there.read_bytes()
    assert kubectl(f"exec {talker} -- bash -c 'exit 9'", rc=9, env=env) == "command terminated with exit code 9\n"


@kubectl_only
def test_a_shell_is_talked_to_through_a_terminal(kubeconfig, kubectl, talker):
    with Terminal(kubeconfig, f"exec -it {talker} -- bash") as terminal:
        terminal.expect("# ")
        terminal.say("stty size; test -t 0 && echo a terminal; exit 4\r")
        terminal.expect("30 100", "a terminal", "exit code 4")
    assert terminal.code == 4


@kubectl_only
def test_a_log_is_followed_to_its_end(kubectl):
    pod = started(
        kubectl, "tell", "until [ -e go ]; do sleep 1; done; for i in 1 2 3 4 5 6; do echo line $i; sleep 20; done"
    )
    kubectl(f"exec {pod} -- touch go")
    said = kubectl(f"logs -f {pod}")
    assert said.splitlines() == [f"line {n}" for n in range(1, 7)]
    assert kubectl(f"logs {pod} --tail=1") == "line 6\n"
    kubectl(f"wait --for=jsonpath={{.status.phase}}=Succeeded pod/{pod} --timeout=60s")
    assert "Completed" in kubectl(f"get pod {pod}")


PAIR = """
apiVersion: v1
kind: Pod
metadata: {name: pair, namespace: default}
spec:
  restartPolicy: OnFailure
  containers:
  - {name: a, image: "bash:5.2", command: [bash, -c, 'echo a1; sleep 60; echo a2']}
  - name: b
    image: bash:5.2
    command: [bash, -c, 'test -e /tmp/x/been && echo again && exit; touch /tmp/x/been; echo b1; exit 1']
    volumeMounts: [{name: x, mountPath: /tmp/x}]
  volumes: [{name: x, emptyDir: {}}]
"""


@kubectl_only
def test_a_part_of_a_log_is_read_by_time_lines_and_bytes(kubectl):
    kubectl("apply -f -", PAIR)
    kubectl("wait --for=jsonpath={.status.phase}=Succeeded pod/pair --timeout=60s")
    timed = kubectl("logs pair -c a --timestamps")
    found = re.fullmatch(r"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)\.\d{9}Z a1\n(\S{19})\.\d{9}Z a2\n", timed)
    assert found, timed
    assert found[1] < found[2]
    assert kubectl(f"logs pair -c a --since-time={found[2]}Z") == "a2\n"
    assert kubectl(f"logs pair -c a --since-time={found[1]}Z") == "a1\na2\n"
    assert kubectl("logs pair -c a --since=10h --tail=1") == "a2\n"
    assert kubectl("logs pair -c a --timestamps --limit-bytes=7") == timed[:7]
    # kubectl asks for one container after the other in the order of a Go map: none.
    assert sorted(kubectl("logs pair --all-containers --prefix").splitlines()) == [
        "[pod/pair/a] a1",
        "[pod/pair/a] a2",
        "[pod/pair/b] again",
    ]
    assert kubectl("logs pair -c b -p") == "b1\n"
    assert 'previous terminated container "a" in pod "pair" not found' in kubectl("logs pair -c a -p", rc=1)


@kubectl_only
def test_a_debugging_container_is_added_to_the_pod(kubeconfig, kubectl):
    kubectl("run server --image=nginx:1")
    kubectl("wait --for=condition=Ready pod/server --timeout=60s")
    kubectl("debug server --image=busybox:1 --container=debug -- true")
    assert kubectl("get pod server -o jsonpath={.spec.ephemeralContainers[*].name}") == "debug"
    kubectl(
        "wait --for=jsonpath={.status.ephemeralContainerStatuses[0].state.terminated.exitCode}=0 pod/server "
        "--timeout=60s"
    )
    with Terminal(kubeconfig, "debug server -it --image=busybox:1 --container=look -- sh") as terminal:
        terminal.expect("If you don't see a command prompt, try pressing enter.")  # it came before anybody listened
        terminal.say("echo $((6 * 7)); exit\r")
        terminal.expect("42")
    assert terminal.code == 0
    assert "pod server is hollow" in kubectl("exec server -- true", rc=1)


SERVER = """
apiVersion: v1
kind: Pod
metadata: {name: web, namespace: default}
spec:
  restartPolicy: Never
  containers:
  - {name: c, image: "python:3.12-slim", command: [python3, -m, http.server, "8080"], workingDir: /tmp}
"""


@pytest.fixture(scope="module")
def web(kubectl):
    kubectl("apply -f -", SERVER)
    kubectl("wait --for=condition=Ready pod/web --timeout=60s")
    for _ in range(50):
        asked = 'import socket; socket.create_connection(("127.0.0.1", 8080))'
        if "refused" not in kubectl(f"exec web -- python3 -c '{asked}'", rc=None):
            return "web"
    return pytest.fail("it never listens")


@kubectl_only
@pytest.mark.parametrize("websockets", ["true", "false"])
def test_a_port_of_a_container_is_forwarded(kubeconfig, web, websockets):
    env = {"KUBECTL_PORT_FORWARD_WEBSOCKETS": websockets}
    with Terminal(kubeconfig, f"port-forward pod/{web} :8080 :81", env) as forwarding:
        found = re.search(r"127.0.0.1:(\d+) -> 8080[\s\S]*127.0.0.1:(\d+) -> 81\D", forwarding.expect(" -> 81\r\n"))
        for path, status in (("/", 200), ("/nope", 404)):
            connection = http.client.HTTPConnection("127.0.0.1", int(found[1]))
            connection.request("GET", path)
            answer = connection.getresponse()
            assert (answer.status, len(answer.read())) == (status, int(answer.headers["Content-Length"]))
            connection.close()
        refused = http.client.HTTPConnection("127.0.0.1", int(found[2]))
        refused.request("GET", "/")
        with pytest.raises((http.client.HTTPException, OSError)):
            refused.getresponse()
        refused.close()
        forwarding.expect("error forwarding port 81", "dial tcp4 127.0.0.1:81: connect: connection refused")


@kubectl_only
def test_the_kubernetes_package_forwards_a_port(kubeconfig, cluster, web):
    from kubernetes import client, config
    from kubernetes.stream import portforward

    api = config.new_client_from_config(str(kubeconfig))
    forwarded = portforward(client.CoreV1Api(api).connect_get_namespaced_pod_portforward, web, "default", ports="8080")
    with contextlib.closing(forwarded.socket(8080)) as sock:
        sock.setblocking(True)
        sock.sendall(b"GET / HTTP/1.0\r\n\r\n")
        assert b"200 OK" in b"".join(iter(lambda: sock.recv(65536), b""))
    assert forwarded.error(8080) is None
    forwarded.websocket.shutdown()  # the client itself leaves it open where the server has said its farewell
    api.close()


@kubectl_only
def test_a_pod_is_run_and_talked_to(kubeconfig, kubectl):
    said = kubectl("run -i --rm --restart=Never shell --image=bash:5.2 -- bash", "echo in the pod; exit 7\n", rc=7)
    assert "in the pod\n" in said
    assert 'pod "shell" deleted' in said
    with Terminal(kubeconfig, "run -it --rm --restart=Never shell --image=bash:5.2 -- bash") as terminal:
        terminal.expect("# ")
        terminal.say("echo $((6 * 7)); exit\r")
        terminal.expect("42", 'pod "shell" deleted')
    assert terminal.code == 0


@kubectl_only
def test_a_hollow_pod_says_that_it_is_hollow(kubectl):
    kubectl("run idle --image=nginx:1")
    kubectl("wait --for=condition=Ready pod/idle --timeout=60s")
    for command in ("exec idle -- true", "attach idle", "port-forward pod/idle :80"):
        assert "pod idle is hollow" in kubectl(command, rc=1)


def test_the_kubernetes_package_runs_a_command(kubeconfig, cluster):
    from kubernetes import client, config
    from kubernetes.stream import stream

    api = config.new_client_from_config(str(kubeconfig))
    core, batch = client.CoreV1Api(api), client.BatchV1Api(api)
    batch.create_namespaced_job(
        "default",
        {
            "metadata": {"name": "quiet"},
            "spec": {
                "template": {
                    "spec": {
                        "restartPolicy": "Never",
                        "containers": [{"name": "c", "image": "bash:5.2", "command": ["bash", "-c", "sleep 1000000"]}],
                    }
                }
            },
        },
    )
    name = _running(core, "job-name=quiet")
    session = stream(
        core.connect_get_namespaced_pod_exec,
        name,
        "default",
        command=["bash", "-c", "echo from python"],
        stdout=True,
        _preload_content=False,
    )
    session.run_forever(timeout=120)
    assert session.read_stdout() == "from python\n"
    assert session.returncode == 0
    session.sock.shutdown()  # the client itself leaves it open where the server has said its farewell
    batch.delete_namespaced_job("quiet", "default", propagation_policy="Background")
    api.close()


def _running(core, selector):
    from kubernetes import watch

    watcher = watch.Watch()
    for event in watcher.stream(core.list_namespaced_pod, "default", label_selector=selector, timeout_seconds=600):
        if event["object"].status.phase == "Running":
            watcher.stop()
            return event["object"].metadata.name
    return pytest.fail("no pod runs")
