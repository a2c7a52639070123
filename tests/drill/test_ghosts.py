"""A pod list is not proof: what was force-deleted while it ran counts until its node is gone, in a pool or not."""

from __future__ import annotations

import shutil

import pytest

from killcheck import fixtures
from killcheck.drill.sequence import Options
from killcheck.kube import resources as r
from killcheck.run.session import Session
from killcheck.watch.scene import Scene

STRAY = """
apiVersion: v1
kind: Node
metadata: {name: gpu-stray, labels: {kubernetes.io/arch: amd64, kubernetes.io/os: linux}}
status:
  capacity: {cpu: "8", memory: 32Gi, pods: "110", nvidia.com/gpu: "1"}
  allocatable: {cpu: "8", memory: 32Gi, pods: "110", nvidia.com/gpu: "1"}
---
apiVersion: v1
kind: Pod
metadata: {name: notebook, namespace: inference}
spec:
  containers:
    - {name: notebook, image: vllm/vllm-openai:v0.11.0, resources: {limits: {nvidia.com/gpu: 1}}}
"""


@pytest.mark.parametrize("in_pool", [True, False])
def test_a_force_deleted_pod_counts_until_its_node_is_gone(in_pool):
    session = Session(fixture="dead-man", exec_mode="none")
    with session.cluster() as (cluster, kill_path):
        scene = Scene(cluster, kill_path, lambda change, old, new: None).open()
        cluster.loop.run_until(
            lambda: any(
                scene.pods.get(p.name, p.namespace)["status"].get("phase") == "Running" for p in scene.gpu_pods()
            ),
            900,
        )
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


@pytest.mark.parametrize(("meta", "ghosts"), [({}, 1), ({"deletionTimestamp": "2026-01-15T03:00:00Z"}, 0)])
def test_a_pod_that_was_about_to_start_and_vanished_by_force_may_have_started(meta, ghosts):
    session = Session(fixture="dead-man", exec_mode="none")
    with session.cluster() as (cluster, kill_path):
        scene = Scene(cluster, kill_path, lambda change, old, new: None).open()
        cluster.loop.run_until(lambda: bool(scene.gpu_pods()), 900)
        held = scene.gpu_pods()[0]
        obj = scene.pods.get(held.name, held.namespace)
        starting = {
            **obj,
            "metadata": {**obj["metadata"], "name": "late", "uid": "late", **meta},
            "status": {"phase": "Pending", "containerStatuses": [{"name": "vllm", "state": {"waiting": {}}}]},
        }
        scene._changed("deleted", starting, starting)
        assert [pod.name for pod in scene.gpu_pods() if pod.ghost] == ["late"] * ghosts
        scene.close()


def test_a_gpu_pod_on_a_node_of_no_named_pool_proves_nothing_about_nodes(drill, tmp_path):
    folder = tmp_path / "deploy"
    shutil.copytree(fixtures.path("dead-man"), folder)
    (folder / "stray.yaml").write_text(STRAY)
    spec = folder / "killcheck.yaml"
    session = Session(spec=spec, manifests=[folder], exec_mode="host")
    result = drill(session=session, options=Options(steady_timeout_s=600)).only
    assert str(result.verdict) == "inconclusive"
    assert "gpu-stray" in result.why
