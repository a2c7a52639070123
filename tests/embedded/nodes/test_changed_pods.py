"""Pods that are changed while they run: containers for debugging, and other resources."""

import json

import pytest
from node_world import World, pod

from killcheck.kube import resources as r
from killcheck.kube.objects import condition


@pytest.fixture
def world():
    return World()


def patch(world, name, subresource, spec):
    return world.kube.patch(r.PODS, name, {"spec": spec}, "team", kind="strategic", subresource=subresource)


def debug(world, name="web", **container):
    made = {"name": "debug", "image": "busybox:1", "command": ["sh", "-c", "echo looked; exit 3"]} | container
    patch(world, name, "ephemeralcontainers", {"ephemeralContainers": [made]})


def said(world, name, *reasons):
    return [(event[1], event[2]) for event in world.events(name) if event[1] in reasons]


# -- debugging -----------------------------------------------------------------------------------------------
def test_a_debugging_container_runs_beside_hollow_ones_and_never_again(host):
    host.add(pod("web"))
    host.run(5)
    debug(host)
    host.run(30)
    found = host.pod("web")["status"]
    (status,) = found["ephemeralContainerStatuses"]
    assert (status["name"], status["ready"], status["restartCount"]) == ("debug", False, 0)
    assert status["state"]["terminated"]["exitCode"] == 3
    assert "started" not in status
    assert host.log("web", container="debug") == "looked\n"
    assert condition({"status": found}, "Ready")["status"] == "True"
    assert found["phase"] == "Running"
    events = [e for e in host.kube.list(r.EVENTS, "team").items if e["reason"] == "Started"]
    assert "spec.ephemeralContainers{debug}" in {e["involvedObject"].get("fieldPath") for e in events}


def test_a_debugging_container_ends_with_its_pod(host):
    host.add(pod("job", policy="Never", command=["sh", "-c", "sleep 30"], grace=2))
    host.run(5)
    debug(host, "job", command=["sleep", "infinity"])
    host.run(5)
    assert "running" in host.pod("job")["status"]["ephemeralContainerStatuses"][0]["state"]
    host.run(40)
    found = host.pod("job")["status"]
    assert found["phase"] == "Succeeded"
    assert "terminated" in found["ephemeralContainerStatuses"][0]["state"]


def test_an_image_for_debugging_that_is_not_there_harms_nobody(world):
    world.add(pod("web"))
    world.run(5)
    debug(world, image="localhost:1/none:1", imagePullPolicy="Never")
    world.run(5)
    found = world.pod("web")["status"]
    assert found["ephemeralContainerStatuses"][0]["state"]["waiting"]["reason"] == "ErrImageNeverPull"
    assert condition({"status": found}, "Ready")["status"] == "True"


# -- another image -------------------------------------------------------------------------------------------
@pytest.mark.parametrize("policy", ["Always", "Never"])
def test_a_container_with_another_image_starts_again(world, policy):
    """kuberuntime_manager.go (computePodActions): regardless of the restart policy."""
    world.add(pod("web", policy=policy, annotations={"killcheck.dev/execute": "false"}))
    world.run(5)
    world.kube.patch(
        r.PODS,
        "web",
        {"spec": {"containers": [{"name": "main", "image": "localhost:5000/rec/other:2"}]}},
        "team",
        kind="strategic",
    )
    world.run(10)
    found = world.pod("web")["status"]["containerStatuses"][0]
    assert (found["restartCount"], found["image"], "running" in found["state"]) == (
        1,
        "localhost:5000/rec/other:2",
        True,
    )
    assert ("Killing", "Container main definition changed, will be restarted") in said(world, "web", "Killing")
    assert world.pod("web")["status"]["phase"] == "Running"


def test_an_init_container_that_is_done_is_ready(world):
    """prober_manager.go (UpdatePodStatus)."""
    world.add(pod("web", initContainers=[{"name": "i", "image": "localhost:5000/rec/executor:1"}]))
    world.run(10)
    (status,) = world.pod("web")["status"]["initContainerStatuses"]
    assert (status["ready"], status["state"]["terminated"]["exitCode"]) == (True, 0)


# -- other resources -----------------------------------------------------------------------------------------
def asking(name, cpu, **main):
    return pod(name, main={"resources": {"requests": {"cpu": cpu, "memory": "1Gi"}}, **main})


def resize(world, name, **requests):
    return patch(world, name, "resize", {"containers": [{"name": "main", "resources": {"requests": requests}}]})


def test_a_container_is_given_more_while_it_runs(world):
    """allocation_manager.go (handlePodResourcesResize), kubelet.go (SyncPod), events/resize.go."""
    world.add(asking("web", "1"))
    world.run(5)
    resize(world, "web", cpu="2")
    world.run(0.5)
    found = world.pod("web")
    assert condition(found, "PodResizeInProgress") == {
        "type": "PodResizeInProgress",
        "status": "True",
        "lastProbeTime": None,
        "observedGeneration": 2,
        "lastTransitionTime": condition(found, "PodResizeInProgress")["lastTransitionTime"],
    }
    assert found["status"]["containerStatuses"][0]["resources"] == {"requests": {"cpu": "2", "memory": "1Gi"}}
    world.run(5)
    found = world.pod("web")
    assert condition(found, "PodResizeInProgress") is None
    assert found["status"]["containerStatuses"][0]["allocatedResources"]["cpu"] == "2"
    assert found["status"]["containerStatuses"][0]["restartCount"] == 0
    started, completed = said(world, "web", "ResizeStarted", "ResizeCompleted")
    words, _, summary = started[1].partition(": ")
    assert words == "Pod resize started"
    assert json.loads(summary) == {
        "generation": 2,
        "containers": [{"name": "main", "resources": {"requests": {"cpu": "2", "memory": "1Gi"}}}],
    }
    assert completed[1] == f"Pod resize completed: {summary}"


def test_what_the_node_does_not_have_is_put_off_until_it_has(world):
    """predicate.go (InsufficientResourceError), status_manager.go (SetPodResizePendingCondition)."""
    world.add(asking("web", "1"))
    world.add(asking("other", "2"))
    world.run(5)
    resize(world, "web", cpu="3")
    world.run(5)
    found = world.pod("web")
    pending = condition(found, "PodResizePending")
    assert (pending["status"], pending["reason"], pending["message"]) == (
        "True",
        "Deferred",
        "Node didn't have enough resource: cpu, requested: 3000, used: 2000, capacity: 4000",
    )
    assert found["status"]["containerStatuses"][0]["allocatedResources"]["cpu"] == "1"
    ((_, message),) = said(world, "web", "ResizeDeferred")
    assert message.startswith("Pod resize Deferred: ")
    assert json.loads(message.partition(": ")[2])["error"] == pending["message"]
    world.kube.delete(r.PODS, "other", "team", grace_s=0)
    world.run(200)
    found = world.pod("web")
    assert condition(found, "PodResizePending") is None
    assert found["status"]["containerStatuses"][0]["allocatedResources"]["cpu"] == "3"


def test_a_container_that_has_to_starts_again(world):
    world.add(asking("web", "1", resizePolicy=[{"resourceName": "cpu", "restartPolicy": "RestartContainer"}]))
    world.run(5)
    resize(world, "web", memory="2Gi")
    world.run(10)
    assert world.pod("web")["status"]["containerStatuses"][0]["restartCount"] == 0
    resize(world, "web", cpu="2")
    world.run(10)
    found = world.pod("web")["status"]["containerStatuses"][0]
    assert (found["restartCount"], "running" in found["state"]) == (1, True)
    assert ("Killing", "Container main resize requires restart") in said(world, "web", "Killing")


def test_a_process_may_hold_more_than_it_might(host):
    """The memory limit of a container that really runs."""
    script = "sleep 30; python3 -c 'x = bytearray(60 << 20); print(len(x))'"
    limits = {"limits": {"memory": "32Mi", "cpu": "1"}, "requests": {"memory": "32Mi", "cpu": "1"}}
    for name in ("small", "large"):
        host.add(
            pod(
                name,
                policy="Never",
                image="python:3.12-slim",
                main={"command": ["sh", "-c", script], "resources": limits},
            )
        )
    host.run(5)
    more = {"memory": "256Mi", "cpu": "1"}
    patch(host, "large", "resize", {"containers": [{"name": "main", "resources": {"limits": more, "requests": more}}]})
    host.run_until_over("small")
    host.run_until_over("large")
    assert host.state("large")["terminated"]["exitCode"] == 0
    assert host.log("large") == f"{60 << 20}\n"
    assert host.state("small")["terminated"]["reason"] == "OOMKilled"
