"""Controllers whose watches lag behind their writes, as on a real API server: nothing is made or removed twice."""

import pytest
from controller_world import World, template
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from killcheck.embedded.controllers.expectations import TIMEOUT_S, Expectations
from killcheck.kube import resources as r
from killcheck.kube.objects import dig, name_of, uid_of


class Counted(World):
    """Counts every pod that was ever made or told to go."""

    def __init__(self, **settings):
        super().__init__(**settings)
        self.made, self.going, self.most = set(), set(), 0
        self.watch(r.PODS, self._count)

    def _count(self, change, pod):
        self.made.add(uid_of(pod))
        if change == "deleted" or "deletionTimestamp" in pod["metadata"]:
            self.going.add(uid_of(pod))
        self.most = max(self.most, len(self.made - self.going))

    @property
    def alive(self):
        return len(self.made - self.going)


@pytest.fixture(params=[0.0, 0.4, 3.0])
def world(request):
    made = Counted(lag_s=request.param, nodes=2)
    yield made
    made.close()


def scale(world, replicas, resource=r.DEPLOYMENTS):
    world.kube.patch(resource, "vllm", {"spec": {"replicas": replicas}}, "ns", subresource="scale")


def test_a_deployment_makes_as_many_pods_as_it_was_told(world):
    world.deployment(replicas=3)
    world.run(60)
    assert len(world.made) == world.alive == 3
    scale(world, 5)
    world.run(60)
    assert len(world.made) == world.alive == 5
    scale(world, 1)
    world.run(90)
    assert (len(world.made), len(world.going), world.alive) == (5, 4, 1)


def test_a_job_makes_as_many_pods_as_it_needs(world):
    world.kubelet.outcomes["gpu-off-drill"] = (5.0, 0)
    world.job(parallelism=2, completions=4)
    world.run(120)
    assert len(world.made) == 4
    assert world.get(r.JOBS, "gpu-off-drill")["status"]["succeeded"] == 4


def test_a_failed_pod_is_replaced_once(world):
    world.kubelet.outcomes["gpu-off-drill"] = (5.0, 1)
    world.job(backoffLimit=2)
    world.run(300)
    assert len(world.made) == 3
    assert dig(world.get(r.JOBS, "gpu-off-drill"), "status", "failed") == 3


def test_a_daemon_set_makes_one_a_node(world):
    world.create(
        {
            "apiVersion": "apps/v1",
            "kind": "DaemonSet",
            "metadata": {"name": "agent", "namespace": "ns"},
            "spec": {"selector": {"matchLabels": {"app": "agent"}}, "template": template("agent")},
        }
    )
    world.run(60)
    assert len(world.made) == world.alive == 2
    world.node("node-2")
    world.run(60)
    assert len(world.made) == world.alive == 3


def test_a_stateful_set_makes_one_an_ordinal(world):
    world.create(
        {
            "apiVersion": "apps/v1",
            "kind": "StatefulSet",
            "metadata": {"name": "vllm", "namespace": "ns"},
            "spec": {
                "replicas": 3,
                "serviceName": "vllm",
                "selector": {"matchLabels": {"app": "vllm"}},
                "template": template("vllm"),
            },
        }
    )
    world.run(120)
    assert sorted(map(name_of, world.pods())) == ["vllm-0", "vllm-1", "vllm-2"]
    assert len(world.made) == 3
    assert not world.events("FailedCreate")


def test_a_pod_gets_one_claim_from_its_template(world):
    world.create(
        {
            "apiVersion": "resource.k8s.io/v1",
            "kind": "ResourceClaimTemplate",
            "metadata": {"name": "card", "namespace": "ns"},
            "spec": {
                "spec": {"devices": {"requests": [{"name": "gpu", "exactly": {"deviceClassName": "gpu.nvidia.com"}}]}}
            },
        }
    )
    world.deployment(
        replicas=2, template=template("vllm", resourceClaims=[{"name": "gpu", "resourceClaimTemplateName": "card"}])
    )
    world.run(60)
    assert len(world.kube.list(r.RESOURCECLAIMS, "ns").items) == 2


def test_a_replication_controller_keeps_its_pods(world):
    world.create(
        {
            "apiVersion": "v1",
            "kind": "ReplicationController",
            "metadata": {"name": "vllm", "namespace": "ns"},
            "spec": {"replicas": 2, "selector": {"app": "vllm"}, "template": template("vllm")},
        }
    )
    world.run(60)
    assert len(world.made) == world.alive == 2
    status = world.get(r.REPLICATIONCONTROLLERS, "vllm")["status"]
    assert (status["replicas"], status["readyReplicas"], status["availableReplicas"]) == (2, 2, 2)
    assert "terminatingReplicas" not in status
    created = [e for e in world.events("SuccessfulCreate") if e["involvedObject"]["kind"] == "ReplicationController"]
    assert {e["source"]["component"] for e in created} == {"replication-controller"}
    scale(world, 0, r.REPLICATIONCONTROLLERS)
    world.run(60)
    assert world.pods() == []
    assert len(world.made) == 2


@settings(max_examples=12, deadline=None, suppress_health_check=list(HealthCheck))
@given(lag=st.floats(0.01, 8.0), course=st.lists(st.tuples(st.integers(0, 4), st.floats(0.0, 12.0)), max_size=4))
def test_whatever_the_lag_there_are_never_more_pods_than_were_ever_asked_for(lag, course):
    world = Counted(lag_s=lag)
    world.deployment(replicas=2)
    for replicas, pause in course:
        world.run(pause)
        scale(world, replicas)
    world.run(180)
    assert world.alive == ([replicas for replicas, _ in course] or [2])[-1]
    assert world.most <= max(2, *(replicas for replicas, _ in course), 2)
    world.close()


def test_what_is_never_seen_is_waited_for_five_minutes():
    world = World()
    expected, key = Expectations(world.loop, "ReplicaSet"), ("ns", "vllm")
    expected.creation(key)
    world.run(TIMEOUT_S - 1)
    assert not expected.satisfied(key)
    world.run(1)
    assert expected.satisfied(key)
    expected.creation(key)
    expected.deletion(key, "u-1")
    expected.created(key)
    assert not expected.satisfied(key)
    expected.deleted(key, "u-1")
    assert expected.satisfied(key)
    world.close()
