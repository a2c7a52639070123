"""Probes that say no, as in recording 23b: events while the container is there, restarts where a probe causes them."""

import pytest
from node_world import World, pod

from killcheck.kube import resources as r
from killcheck.kube.objects import condition

NO = {"exec": {"command": ["false"]}, "periodSeconds": 10}


@pytest.fixture
def world():
    return World()


def said(world, name, reason):
    return [(event[2], event[3]) for event in world.events(name) if event[1] == reason]


def test_a_readiness_probe_that_fails_says_so_at_every_look_and_restarts_nothing(world):
    world.add(pod("sick", main={"readinessProbe": NO}))
    world.run(63)
    found = world.pod("sick")
    assert condition(found, "Ready")["status"] == "False"
    assert found["status"]["containerStatuses"][0]["restartCount"] == 0
    ((message, count),) = said(world, "sick", "Unhealthy")
    assert message == "Readiness probe failed: "
    assert 6 <= count <= 7


def test_a_readiness_probe_is_asked_to_the_very_end(world):
    world.add(pod("sick", main={"readinessProbe": NO | {"periodSeconds": 1}, "command": ["sleep", "1000"]}, grace=10))
    world.run(5)
    ((_, before),) = said(world, "sick", "Unhealthy")
    world.kube.delete(r.PODS, "sick", "team")
    world.run(8)
    ((_, after),) = said(world, "sick", "Unhealthy")
    assert after >= before + 7


@pytest.mark.parametrize("kind", ["liveness", "startup"])
def test_a_probe_that_fails_three_times_has_the_container_killed_and_started_again(world, kind):
    world.add(pod("sick", main={f"{kind}Probe": NO}, grace=5))
    world.run(60)
    found = world.pod("sick")
    assert found["status"]["containerStatuses"][0]["restartCount"] >= 1
    assert said(world, "sick", "Unhealthy")[0][0] == f"{kind.capitalize()} probe failed: "
    assert said(world, "sick", "Killing")[0][0] == f"Container main failed {kind} probe, will be restarted"


def test_what_ignores_sigterm_is_killed_when_its_grace_is_over(world):
    world.add(pod("deaf", main={"livenessProbe": NO | {"failureThreshold": 1}, "command": ["sleep", "1000"]}, grace=20))
    world.run(22)
    last = world.pod("deaf")["status"]["containerStatuses"][0]
    assert last["restartCount"] == 0 or last["lastState"]["terminated"]["exitCode"] == 137
    world.run(10)
    assert world.pod("deaf")["status"]["containerStatuses"][0]["lastState"]["terminated"]["exitCode"] == 137


def test_other_probes_wait_for_the_startup_probe(world):
    world.add(pod("slow", main={"startupProbe": NO | {"failureThreshold": 100}, "livenessProbe": NO}))
    world.run(100)
    assert {message for message, _ in said(world, "slow", "Unhealthy")} == {"Startup probe failed: "}


def test_a_probe_that_may_pass_passes(world):
    world.add(pod("well", main={"readinessProbe": {"exec": {"command": ["cat", "/tmp/ready"]}}}))
    world.run(30)
    assert condition(world.pod("well"), "Ready")["status"] == "True"
    assert said(world, "well", "Unhealthy") == []


def test_the_conditions_of_others_come_first_in_the_status(world):
    world.add(pod("guest"))
    world.run(5)
    target = {"type": "DisruptionTarget", "status": "True", "reason": "EvictionByEvictionAPI"}
    world.kube.patch(
        r.PODS, "guest", {"status": {"conditions": [target]}}, "team", kind="strategic", subresource="status"
    )
    world.kube.delete(r.PODS, "guest", "team")
    world.run(1.9)
    assert [c["type"] for c in world.pod("guest")["status"]["conditions"]] == [
        "DisruptionTarget",
        "PodReadyToStartContainers",
        "Initialized",
        "Ready",
        "ContainersReady",
        "PodScheduled",
    ]
