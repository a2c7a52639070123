"""kubectl and the ``kubernetes`` package at an executor's container over TLS: its log as it goes on, commands in it."""

import re
import shutil

import pytest
from kubernetes import client, config, watch
from kubernetes.stream import stream

EXEC_MODE = "host"
kubectl_only = pytest.mark.skipif(shutil.which("kubectl") is None, reason="no kubectl on this machine")

JOB = """
apiVersion: batch/v1
kind: Job
metadata: {name: talk, namespace: default}
spec:
  template:
    spec:
      restartPolicy: Never
      containers:
      - name: c
        image: bash:5.2
        command: [bash, -c, 'for i in 1 2 3 4 5 6; do echo line $i; sleep 20; done']
        env: [{name: GREETING, value: hello}]
"""


@pytest.fixture(scope="module")
def talker(kubectl):
    kubectl("apply -f -", JOB)
    kubectl("wait --for=condition=Ready pod -l job-name=talk --timeout=60s")
    return kubectl("get pods -l job-name=talk -o jsonpath={.items[0].metadata.name}")


@kubectl_only
def test_commands_run_where_the_executor_runs(kubectl, talker):
    assert kubectl(f"exec {talker} -- bash -c 'echo $GREETING; exit 3'", rc=3) == (
        "hello\ncommand terminated with exit code 3\n")
    assert kubectl(f"exec {talker} -- cat /var/run/secrets/kubernetes.io/serviceaccount/namespace") == "default"
    assert 'exec: "nope": executable file not found in $PATH' in kubectl(f"exec {talker} -- nope", rc=1)
    assert "without standard input and without a terminal" in kubectl(f"exec -i {talker} -- true", rc=1)
    assert 'pods "nope" not found' in kubectl("exec nope -- true", rc=1)


@kubectl_only
def test_a_log_is_followed_to_its_end(kubectl, talker):
    said = kubectl(f"logs -f {talker}")
    assert said.splitlines() == [f"line {n}" for n in range(1, 7)]
    assert kubectl(f"logs {talker} --tail=1") == "line 6\n"
    assert "Completed" in kubectl(f"get pod {talker}")


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
        "[pod/pair/a] a1", "[pod/pair/a] a2", "[pod/pair/b] again"]
    assert kubectl("logs pair -c b -p") == "b1\n"
    assert 'previous terminated container "a" in pod "pair" not found' in kubectl("logs pair -c a -p", rc=1)


@kubectl_only
def test_a_debugging_container_is_added_to_the_pod(kubectl):
    kubectl("run server --image=nginx:1")
    kubectl("wait --for=condition=Ready pod/server --timeout=60s")
    kubectl("debug server --image=busybox:1 --container=debug -- true")
    assert kubectl("get pod server -o jsonpath={.spec.ephemeralContainers[*].name}") == "debug"
    assert "is hollow: no process of it runs" in kubectl("exec server -- true", rc=1)


def test_the_kubernetes_package_runs_a_command(kubeconfig, cluster):
    api = config.new_client_from_config(str(kubeconfig))
    core, batch = client.CoreV1Api(api), client.BatchV1Api(api)
    batch.create_namespaced_job("default", {"metadata": {"name": "quiet"}, "spec": {"template": {"spec": {
        "restartPolicy": "Never", "containers": [
            {"name": "c", "image": "bash:5.2", "command": ["bash", "-c", "sleep 3600"]}]}}}})
    name = _running(core, "job-name=quiet")
    session = stream(core.connect_get_namespaced_pod_exec, name, "default", command=["bash", "-c", "echo from python"],
                     stdout=True, _preload_content=False)
    session.run_forever(timeout=20)
    assert session.read_stdout() == "from python\n"
    assert session.returncode == 0
    session.sock.shutdown()  # the client itself leaves it open where the server has said its farewell
    batch.delete_namespaced_job("quiet", "default", propagation_policy="Background")
    api.close()


def _running(core, selector):
    watcher = watch.Watch()
    for event in watcher.stream(core.list_namespaced_pod, "default", label_selector=selector, timeout_seconds=600):
        if event["object"].status.phase == "Running":
            watcher.stop()
            return event["object"].metadata.name
    return pytest.fail("no pod runs")
