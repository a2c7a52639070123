"""Hollow nodes as clients: what is scheduled there, how it lives and ends, and whose kubelet a Node has."""

from __future__ import annotations

import pytest

from killcheck.cluster.hollow_nodes import HollowNodes, Shape
from killcheck.embedded.cluster import Cluster
from killcheck.kube import resources as r
from killcheck.kube.errors import NotFound
from killcheck.kube.objects import dig, name_of

TOLERATED = [{"key": "killcheck.dev/hollow", "operator": "Exists"}]


@pytest.fixture
def world():
    with Cluster(exec_mode="none") as cluster:
        cluster.load([{"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "studio"}}])
        hollow = HollowNodes(cluster.kube, cluster.loop, Shape(2, 8), home="studio", context="c")
        hollow.up()
        cluster.advance(5)
        yield cluster, hollow
        hollow.down()


def pod(name, gpus=8, **spec):
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "studio"},
        "spec": {
            "tolerations": TOLERATED,
            "terminationGracePeriodSeconds": 7,
            "containers": [{"name": "c", "image": "i", "resources": {"limits": {"nvidia.com/gpu": str(gpus)}}}],
        }
        | spec,
    }


def placed(cluster, body):
    cluster.kube.create(r.PODS, body)
    cluster.advance(8)
    return cluster.kube.get(r.PODS, name_of(body), "studio")


def test_only_what_tolerates_them_is_scheduled_there(world):
    cluster, hollow = world
    there = placed(cluster, pod("a"))
    assert there["spec"]["nodeName"] in hollow.names
    assert there["status"]["phase"] == "Running"
    assert there["status"]["podIP"].startswith("198.18.")  # routed nowhere
    elsewhere = placed(cluster, pod("b", tolerations=[{"key": "nvidia.com/gpu", "operator": "Exists"}]))
    assert elsewhere["spec"].get("nodeName") not in hollow.names


def test_a_node_has_one_kubelet(world):
    cluster, hollow = world
    assert not {*hollow.names} & {*cluster.nodes.kubelets}
    assert {*hollow.kubelets.agents.kubelets} == {*hollow.names}


def test_a_grace_is_honoured_and_a_finalizer_holds(world):
    cluster, _ = world
    placed(cluster, pod("a"))
    cluster.kube.patch(r.PODS, "a", {"metadata": {"finalizers": ["studio/held"]}}, "studio")
    cluster.kube.delete(r.PODS, "a", "studio")
    cluster.advance(20)
    held = cluster.kube.get(r.PODS, "a", "studio")
    assert dig(held, "status", "containerStatuses", 0, "state", "terminated") is not None
    cluster.kube.patch(r.PODS, "a", {"metadata": {"finalizers": None}}, "studio")
    cluster.advance(1)
    with pytest.raises(NotFound):
        cluster.kube.get(r.PODS, "a", "studio")


def test_what_was_on_them_goes_with_them(world):
    cluster, hollow = world
    placed(cluster, pod("a"))
    assert hollow.down() == []
    assert [node for node in cluster.kube.list(r.NODES).items if name_of(node) in hollow.names] == []
    with pytest.raises(NotFound):
        cluster.kube.get(r.PODS, "a", "studio")
    leases = {name_of(one) for one in cluster.kube.list(r.LEASES).items}
    assert not leases & {*hollow.names, f"killcheck-{hollow.run}"}
