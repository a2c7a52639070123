"""Nodes' own signs of life, and what a kubelet that stops leaves behind."""

from datetime import timedelta
from itertools import pairwise

import pytest
from node_world import START, World, node, pod

from killcheck.clock import Loop
from killcheck.embedded.cluster import Cluster
from killcheck.kube import resources as r
from killcheck.kube.errors import ServerFault
from killcheck.kube.objects import annotations_of, condition, parse_time


@pytest.fixture
def world():
    return World(nodes_named=("cpu-1", "cpu-2"))


def lease(world, name="cpu-1"):
    return world.kube.get(r.LEASES, name, "kube-node-lease")


def test_a_node_gets_ready_and_tells_its_address(world):
    found = world.kube.get(r.NODES, "cpu-1")
    assert condition(found, "Ready")["reason"] == "KubeletReady"
    assert condition(found, "DiskPressure")["status"] == "False"
    assert {a["type"] for a in found["status"]["addresses"]} == {"InternalIP", "Hostname"}
    assert found["status"]["nodeInfo"]["kubeletVersion"] == "v1.36.2"


def test_a_node_may_take_its_time(world):
    slow = node("slow")
    slow["metadata"]["annotations"] = {"killcheck.dev/ready-after-s": "40"}
    world.add(slow)
    world.run(30)
    assert condition(world.kube.get(r.NODES, "slow"), "Ready")["reason"] == "KubeletNotReady"
    world.run(20)
    assert condition(world.kube.get(r.NODES, "slow"), "Ready")["status"] == "True"


def test_a_quiet_node_writes_nothing(world):
    world.run(60)
    before = world.store.revision
    world.run(24 * 3600)
    assert world.store.revision == before
    assert annotations_of(lease(world)) == {"killcheck.dev/heartbeat": "until-stopped"}


def test_a_stopped_kubelet_leaves_its_true_last_renewal(world):
    world.run(57)
    world.nodes.stop("cpu-1")
    assert annotations_of(lease(world)) == {}
    assert parse_time(lease(world)["spec"]["renewTime"]) == START + timedelta(seconds=50)
    assert annotations_of(lease(world, "cpu-2"))
    world.run(100)
    world.nodes.start("cpu-1")
    assert annotations_of(lease(world)) == {"killcheck.dev/heartbeat": "until-stopped"}
    assert parse_time(lease(world)["spec"]["renewTime"]) == START + timedelta(seconds=157)


class HostLoop(Loop):
    """Not the cluster's own virtual time, as far as a kubelet can tell; yet nobody has to wait for it."""

    elapsed = 0.0

    def now(self):
        return START + timedelta(seconds=self.elapsed)

    def monotonic(self):
        return self.elapsed

    def _pass_time(self, until):
        self.elapsed = max(self.elapsed, until)


def test_on_the_hosts_clock_a_lease_is_renewed_every_ten_seconds():
    """A real control plane's node controller knows nothing of hollow kubelets: it wants to see them beat."""
    world = World(loop=HostLoop())
    assert not annotations_of(lease(world))
    renewed = []
    for _ in range(60):
        world.run(1)
        moment = parse_time(lease(world)["spec"]["renewTime"])
        if not renewed or moment != renewed[-1]:
            renewed.append(moment)
    assert 6 <= len(renewed) <= 7
    assert all(10 <= (b - a).total_seconds() <= 10.4 for a, b in pairwise(renewed))
    world.run(300)
    reported = condition(world.kube.get(r.NODES, "cpu-1"), "Ready")["lastHeartbeatTime"]
    assert 300 <= (parse_time(reported) - START).total_seconds() <= 312
    world.nodes.stop("cpu-1")
    last = lease(world)["spec"]["renewTime"]
    world.run(60)
    assert lease(world)["spec"]["renewTime"] == last
    world.nodes.start("cpu-1")
    assert parse_time(lease(world)["spec"]["renewTime"]) == START + timedelta(seconds=420)


def test_a_stopped_kubelet_does_nothing_and_catches_up(world):
    world.add(pod("server"))
    world.run(5)
    world.nodes.stop("cpu-1")
    world.add(pod("later"))
    world.kube.delete(r.PODS, "server", "team")
    world.run(600)
    assert world.pod("server")["metadata"]["deletionTimestamp"]
    assert "startTime" not in world.pod("later")["status"]
    with pytest.raises(ServerFault, match="connection refused"):
        world.log("server")
    world.nodes.start("cpu-1")
    world.run(10)
    assert world.gone("server")
    assert world.pod("later")["status"]["phase"] == "Running"


def test_a_machine_that_is_off_says_nothing(world):
    world.add(pod("server"))
    world.run(5)
    world.nodes.power_off("cpu-1")
    world.run(60)
    assert world.pod("server")["status"]["phase"] == "Running"
    assert world.nodes.kubelet("cpu-1").holding() == []


def test_a_removed_node_takes_its_kubelet_along(world):
    world.add(pod("server"))
    world.run(5)
    world.kube.delete(r.NODES, "cpu-1")
    world.run(5)
    assert set(world.nodes.kubelets) == {"cpu-2"}
    assert set(world.server.kubelets) == {"cpu-2"}


def test_a_pod_bound_before_its_node_came_is_taken_up(world):
    world.add(pod("early", node="gpu-1"))
    world.run(5)
    world.add(node("gpu-1"))
    world.run(10)
    assert world.pod("early")["status"]["phase"] == "Running"


def test_a_node_controller_that_is_none_of_ours_sees_them_beat():
    """As with ``cluster up --without kube-controller-manager``: the real one takes no Lease's word for it."""
    with Cluster(exec_mode="none", disabled={"node-lifecycle-controller"}) as cluster:
        cluster.load([node("cpu-1")])
        cluster.advance(60)
        first = cluster.kube.get(r.LEASES, "cpu-1", "kube-node-lease")
        cluster.advance(30)
        later = cluster.kube.get(r.LEASES, "cpu-1", "kube-node-lease")
    assert not annotations_of(first)
    assert parse_time(later["spec"]["renewTime"]) - parse_time(first["spec"]["renewTime"]) >= timedelta(seconds=20)
