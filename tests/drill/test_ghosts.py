"""A pod list is not proof: what was force-deleted while it ran counts until its node is gone, in a pool or not."""

from __future__ import annotations

import pytest

from killcheck.kube import resources as r
from killcheck.scene import Scene
from killcheck.session import Session


@pytest.mark.parametrize("in_pool", [True, False])
def test_a_force_deleted_pod_counts_until_its_node_is_gone(in_pool):
    session = Session(exec_mode="none")
    with session.cluster() as (cluster, kill_path):
        scene = Scene(cluster, kill_path, lambda change, old, new: None).open()
        cluster.loop.run_until(
            lambda: any(scene.pods.get(p.name, p.namespace)["status"].get("phase") == "Running"
                        for p in scene.gpu_pods()), 900)
        (held,) = scene.gpu_pods()
        if not in_pool:
            scene.known_nodes.clear()
        cluster.embedded.nodes.stop(held.node)
        cluster.kube.patch(r.DEPLOYMENTS, "vllm", {"spec": {"replicas": 0}}, "inference")
        cluster.kube.delete(r.PODS, held.name, held.namespace, grace_s=0)
        cluster.loop.sleep(5)
        assert [pod.ghost for pod in scene.gpu_pods()] == [True]
        cluster.kube.patch(r.NODES, held.node, {"metadata": {"finalizers": None}})
        cluster.kube.delete(r.NODES, held.node)
        cluster.loop.sleep(5)
        assert scene.gpu_pods() == []
        scene.close()
