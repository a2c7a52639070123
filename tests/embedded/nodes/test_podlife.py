"""A pod's life on a hollow node: recorded situations 01, 07, 20b, 21, 21b, 22, 28c, 33."""

import pytest
from node_world import World, pod

from killcheck.kube import resources as r
from killcheck.kube.errors import BadRequest
from killcheck.kube.objects import condition

DEAF = ["python3", "-c", "import time; time.sleep(1e6)"]


@pytest.fixture
def world():
    return World()


def truths(pod):
    return {c["type"]: (c["status"], c.get("reason")) for c in pod["status"]["conditions"]}


def test_a_server_starts_and_gets_ready(world):
    world.add(pod("server"))
    world.run(0)
    begun = world.pod("server")
    assert begun["status"]["phase"] == "Pending"
    assert truths(begun)["Ready"] == ("False", "ContainersNotReady")
    assert condition(begun, "Ready")["message"] == "containers with unready status: [main]"
    assert begun["status"]["containerStatuses"][0]["state"] == {"waiting": {"reason": "ContainerCreating"}}
    world.run(5)
    running = world.pod("server")
    assert running["status"]["phase"] == "Running"
    assert truths(running) == dict.fromkeys(
        ("PodReadyToStartContainers", "Initialized", "Ready", "ContainersReady", "PodScheduled"), ("True", None)
    )
    assert "reason" not in condition(running, "Ready")
    assert running["status"]["containerStatuses"][0]["started"]
    assert [event[1] for event in world.events("server")] == ["Pulling", "Pulled", "Created", "Started"]


def test_a_readiness_probe_takes_the_time_that_the_annotation_says(world):
    probe = {"httpGet": {"path": "/health", "port": 8000}}
    world.add(pod("slow", readinessProbe=probe, annotations={"killcheck.dev/ready-after-s": "90"}))
    world.add(pod("never", readinessProbe=probe, annotations={"killcheck.dev/never-ready": "true"}))
    world.run(60)
    assert truths(world.pod("slow"))["Ready"][0] == "False"
    assert world.pod("slow")["status"]["phase"] == "Running"
    world.run(60)
    assert truths(world.pod("slow"))["Ready"][0] == "True"
    assert truths(world.pod("never"))["Ready"][0] == "False"


def test_a_server_that_handles_sigterm_ends_soon(world):
    world.add(pod("server", grace=30))
    world.run(5)
    world.kube.delete(r.PODS, "server", "team")
    world.run(0.5)
    assert ("Normal", "Killing", "Stopping container main", 1) in world.events("server")
    assert not world.gone("server")
    world.run(3)
    assert world.gone("server")


def test_a_first_process_without_a_handler_takes_its_whole_grace(world):
    world.add(pod("vllm", command=DEAF, grace=15))
    world.run(5)
    world.kube.delete(r.PODS, "vllm", "team")
    last = []
    world.kube.watch(
        r.PODS, lambda e: last.append(e.object) if e.type == "MODIFIED" else None, lambda _: None, namespace="team"
    )
    world.run(14.9)
    assert world.state("vllm") == {"running": world.state("vllm")["running"]}
    world.run(2)
    assert world.gone("vllm")
    ended = next(o for o in last if o["status"].get("phase") == "Failed")
    assert ended["status"]["containerStatuses"][0]["state"]["terminated"]["exitCode"] == 137
    assert truths(ended)["Ready"] == ("False", "PodFailed")


def test_pre_stop_counts_as_grace(world):
    hook = {"preStop": {"exec": {"command": ["sh", "-c", "sleep 20"]}}}
    world.add(pod("vllm", lifecycle=hook, grace=40))
    world.add(pod("sleepy", lifecycle={"preStop": {"sleep": {"seconds": 10}}}, grace=40))
    world.add(pod("deaf", lifecycle=hook, command=DEAF, grace=40))
    world.run(5)
    for name in ("vllm", "sleepy", "deaf"):
        world.kube.delete(r.PODS, name, "team")
    world.run(13)
    assert world.gone("sleepy")
    assert not world.gone("vllm")
    world.run(12)
    assert world.gone("vllm")
    world.run(14)
    assert not world.gone("deaf")
    world.run(3)
    assert world.gone("deaf")


def test_a_second_deletion_can_only_shorten_the_grace(world):
    world.add(pod("vllm", command=DEAF, grace=300))
    world.run(5)
    world.kube.delete(r.PODS, "vllm", "team")
    world.run(5)
    world.kube.delete(r.PODS, "vllm", "team", grace_s=10)
    world.run(12)
    assert world.gone("vllm")


def test_a_finalizer_keeps_the_object_when_the_containers_are_dead(world):
    held = pod("vllm", command=DEAF, grace=5)
    held["metadata"]["finalizers"] = ["rec.example/hold"]
    world.add(held)
    world.run(5)
    world.kube.delete(r.PODS, "vllm", "team")
    world.run(3600)
    left = world.pod("vllm")
    assert left["status"]["phase"] == "Failed"
    assert left["metadata"]["deletionGracePeriodSeconds"] == 0
    world.kube.patch(r.PODS, "vllm", {"metadata": {"finalizers": None}}, "team")
    world.run(1)
    assert world.gone("vllm")


def test_a_pod_deleted_by_force_still_runs_on_its_node(world):
    world.add(pod("vllm", command=DEAF, grace=30))
    world.run(5)
    world.kube.delete(r.PODS, "vllm", "team", grace_s=0)
    world.run(5)
    assert world.gone("vllm")
    assert [life.key[1] for life in world.nodes.kubelet("cpu-1").holding()] == ["vllm"]
    world.run(60)
    assert world.nodes.kubelet("cpu-1").holding() == []


def test_a_pod_that_never_started_ends_as_unknown(world):
    world.registry.delete_tag("localhost:5000/rec/gone:1")
    world.add(pod("puller", image="localhost:5000/rec/gone:1"))
    world.run(20)
    last = []
    world.kube.watch(r.PODS, lambda e: last.append(e.object), lambda _: None, namespace="team")
    world.kube.delete(r.PODS, "puller", "team")
    world.run(3)
    assert world.gone("puller")
    ended = next(o for o in last if o["status"].get("phase") == "Failed")
    assert ended["status"]["containerStatuses"][0]["state"] == {
        "terminated": {
            "exitCode": 137,
            "reason": "ContainerStatusUnknown",
            "startedAt": None,
            "finishedAt": None,
            "message": "The container could not be located when the pod was terminated",
        }
    }
    assert truths(ended)["Ready"] == ("False", "ContainersNotReady")


@pytest.mark.parametrize(
    ("program", "message"),
    [
        (
            "/usr/local/bin/kubectl",
            'exec: "/usr/local/bin/kubectl": stat /usr/local/bin/kubectl: no such file or directory',
        ),
        ("kubectl", 'exec: "kubectl": executable file not found in $PATH'),
    ],
)
def test_a_program_that_a_known_image_lacks_is_a_start_error(world, program, message):
    world.add(pod("job", image="python:3.12-slim", command=[program], policy="Never"))
    world.run(10)
    ended = world.pod("job")
    assert ended["status"]["phase"] == "Failed"
    state = ended["status"]["containerStatuses"][0]["state"]["terminated"]
    assert (state["reason"], state["exitCode"], state["startedAt"]) == ("StartError", 128, "1970-01-01T00:00:00Z")
    assert state["message"] == (
        "failed to create containerd task: failed to create shim task: OCI runtime create failed: runc create failed: "
        f"unable to start container process: {message}: unknown"
    )
    assert ("Warning", "Failed", f"Error: {state['message']}", 1) in world.events("job")


def test_a_start_error_is_retried_where_the_policy_says_so(world):
    world.add(pod("server", image="python:3.12-slim", command=["kubectl"]))
    world.run(100)
    status = world.pod("server")["status"]["containerStatuses"][0]
    assert status["restartCount"] >= 3
    assert status["state"]["waiting"]["reason"] in ("CrashLoopBackOff", "RunContainerError")
    assert status["lastState"]["terminated"]["exitCode"] == 128


def test_a_missing_config_map_is_mounted_for_ever(world):
    world.add(
        pod(
            "mount",
            volumes=[{"name": "s", "configMap": {"name": "kill-script"}}],
            volumeMounts=[{"name": "s", "mountPath": "/s"}],
        )
    )
    world.run(10)
    assert world.state("mount") == {"waiting": {"reason": "ContainerCreating"}}
    message = 'MountVolume.SetUp failed for volume "s" : configmap "kill-script" not found'
    assert world.events("mount") == [("Warning", "FailedMount", message, 5)]
    world.add({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "kill-script", "namespace": "team"}})
    world.run(30)
    assert "running" in world.state("mount")


def test_a_missing_secret_key_is_a_config_error(world):
    ref = {"secretKeyRef": {"name": "kill-token", "key": "token"}}
    world.add(pod("env", env=[{"name": "TOKEN", "valueFrom": ref}]))
    world.run(5)
    assert world.state("env") == {
        "waiting": {"reason": "CreateContainerConfigError", "message": 'secret "kill-token" not found'}
    }
    assert ("Warning", "Failed", 'Error: secret "kill-token" not found', 2) in world.events("env")
    world.run(3600)  # most of its passes find and write nothing: they are left out, and counted
    (count,) = [count for kind, *_, count in world.events("env") if kind == "Warning"]
    assert 240 <= count <= 320  # a pass in 10 to 15 s, written down once in five minutes
    world.add({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "kill-token", "namespace": "team"}})
    world.run(31)  # a pass that finds it, and one that shows it
    assert "couldn't find key token in Secret" in world.state("env")["waiting"]["message"]
    data = {"data": {"token": "eA=="}}
    world.kube.patch(r.SECRETS, "kill-token", data, "team")
    world.run(16)
    assert "running" in world.state("env")


def test_run_as_non_root_refuses_an_image_that_is_root(world):
    world.add(pod("root", image="alpine:3.20", command=["sleep", "1"], securityContext={"runAsNonRoot": True}))
    world.run(5)
    assert world.state("root")["waiting"]["reason"] == "CreateContainerConfigError"
    assert world.state("root")["waiting"]["message"].startswith(
        'container has runAsNonRoot and image will run as root (pod: "root_team('
    )


def test_a_pods_own_deadline_fails_it(world):
    world.add(pod("late", command=DEAF, grace=5, activeDeadlineSeconds=60))
    world.run(50)
    assert world.pod("late")["status"]["phase"] == "Running"
    world.run(20)
    ended = world.pod("late")["status"]
    assert (ended["phase"], ended["reason"]) == ("Failed", "DeadlineExceeded")
    assert ended["message"] == "Pod was active on the node longer than the specified deadline"


def test_init_containers_come_first_and_sidecars_before_them_that_follow(world):
    init = [
        {"name": "side", "image": "localhost:5000/a:1", "restartPolicy": "Always"},
        {"name": "prepare", "image": "localhost:5000/b:1"},
    ]
    world.add(pod("both", initContainers=init))
    world.run(1)
    waiting = world.pod("both")
    assert truths(waiting)["Initialized"] == ("False", "ContainersNotInitialized")
    assert waiting["status"]["containerStatuses"][0]["state"] == {"waiting": {"reason": "PodInitializing"}}
    world.run(20)
    started = world.pod("both")["status"]
    assert started["phase"] == "Running"
    assert [next(iter(s["state"])) for s in started["initContainerStatuses"]] == ["running", "terminated"]


def test_logs_say_why_there_are_none(world):
    world.registry.delete_tag("localhost:5000/rec/gone:1")
    world.add(pod("puller", image="localhost:5000/rec/gone:1"))
    for reason, told in (("ErrImagePull", "image can't be pulled"), ("ImagePullBackOff", "trying and failing to pull")):
        assert world.loop.run_until(lambda reason=reason: reason in str(world.pod("puller")), 60), world.pod("puller")
        with pytest.raises(BadRequest, match=f'"main" in pod "puller" is waiting to start: {told}'):
            world.log("puller")
    world.add(pod("server"))
    world.run(5)
    assert world.log("server") == ""


def test_without_permission_an_executor_stays_and_is_unknown(world):
    world.add(pod("executor", command=["sh", "-c", "exit 0"], policy="Never"))
    world.run(600)
    assert world.pod("executor")["status"]["phase"] == "Running"
    assert world.nodes.unknown == [
        "Pod/team/executor: its command was not run: nobody allowed it to run on this host (--exec host)"
    ]


def test_what_is_assumed_is_said(world):
    world.add(pod("server", image="ghcr.io/team/server:1"))
    world.run(5)
    assert world.nodes.assumptions == ["nothing is known of image ghcr.io/team/server:1: assumed that it exists"]
