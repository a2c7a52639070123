"""What a kill path changes besides its targets is told as left changed; what controllers do by themselves is not."""

from __future__ import annotations

import pytest
from safety_world import small_cluster

from killcheck.kube import resources as r
from killcheck.safety import accounting

POD = {"containers": [{"name": "c", "image": "i"}]}
OWNED = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "x", "uid": "u", "controller": True}


@pytest.fixture
def cluster():
    cluster = small_cluster()
    kube = cluster.kube
    kube.create(r.PODS, {"metadata": {"name": "bare", "namespace": "inference"}, "spec": POD})
    kube.create(
        r.JOBS,
        {
            "metadata": {"name": "train", "namespace": "inference"},
            "spec": {"template": {"spec": {**POD, "restartPolicy": "Never"}}},
        },
    )
    kube.create(
        r.CRONJOBS,
        {
            "metadata": {"name": "nightly", "namespace": "inference"},
            "spec": {
                "schedule": "0 3 29 2 *",
                "jobTemplate": {"spec": {"template": {"spec": {**POD, "restartPolicy": "Never"}}}},
            },
        },
    )
    kube.create(
        r.SCALEDOBJECTS,
        {
            "metadata": {"name": "vllm", "namespace": "inference"},
            "spec": {"scaleTargetRef": {"name": "web"}, "triggers": [{"type": "cpu", "metadata": {"value": "5"}}]},
        },
    )
    kube.create(
        r.NODEPOOLS,
        {
            "metadata": {"name": "gpu"},
            "spec": {
                "template": {"spec": {"requirements": [], "nodeClassRef": {"group": "g", "kind": "k", "name": "n"}}}
            },
        },
    )
    cluster.loop.sleep(5)
    yield cluster
    cluster.close()


def patch(resource, name, change):
    return lambda kube: kube.patch(resource, name, change, "inference")


@pytest.mark.parametrize(
    ("act", "told"),
    [
        (lambda kube: kube.delete(r.PODS, "bare", "inference", grace_s=0), "Pod inference/bare is gone"),
        (
            patch(r.JOBS, "train", {"spec": {"suspend": True}}),
            "Job inference/train: spec.suspend was false and is true",
        ),
        (
            lambda kube: kube.delete(r.JOBS, "train", "inference", propagation="Background"),
            "Job inference/train is gone",
        ),
        (patch(r.CRONJOBS, "nightly", {"spec": {"suspend": True}}), "CronJob inference/nightly: spec.suspend was"),
        (lambda kube: kube.delete(r.NODEPOOLS, "gpu"), "NodePool gpu is gone"),
        (
            patch(r.SCALEDOBJECTS, "vllm", {"metadata": {"annotations": {"autoscaling.keda.sh/paused": "true"}}}),
            'ScaledObject inference/vllm: annotations.autoscaling.keda.sh/paused was null and is "true"',
        ),
        (
            patch(r.DEPLOYMENTS, "vllm", {"spec": {"replicas": 0}}),
            "Deployment inference/vllm: spec.replicas was 2 and is 0",
        ),
        (
            lambda kube: kube.create(r.PODS, {"metadata": {"name": "new", "namespace": "inference"}, "spec": POD}),
            "Pod inference/new was not there before, and is",
        ),
    ],
)
def test_what_the_executor_did_is_told(cluster, act, told):
    before = accounting.taken(cluster.kube, cluster.loop, ["inference"])
    act(cluster.kube)
    cluster.loop.sleep(120)
    after = accounting.taken(cluster.kube, cluster.loop, ["inference"])
    left = [one.said for one in accounting.differences(before, after, "run")]
    assert any(one.startswith(told) for one in left), left


def test_what_controllers_and_killcheck_do_is_not(cluster):
    before = accounting.taken(cluster.kube, cluster.loop, ["inference"])
    kube = cluster.kube
    for pod in kube.list(r.PODS, "inference", labels="app=vllm").items:
        kube.delete(r.PODS, pod["metadata"]["name"], "inference", grace_s=0)  # the ReplicaSet makes others
    kube.create(
        r.PODS,
        {"metadata": {"name": "probe", "namespace": "inference", "labels": {"killcheck.dev/run": "run"}}, "spec": POD},
    )
    cluster.loop.sleep(60)
    assert list(accounting.differences(before, accounting.taken(kube, cluster.loop, ["inference"]), "run")) == []


def test_what_may_not_be_listed_is_known_to_be_unseen(cluster, monkeypatch):
    monkeypatch.setattr(cluster.kube, "may", lambda verb, resource, **where: resource != "nodepools")
    assert accounting.taken(cluster.kube, cluster.loop, ["inference"]).unseen == ("nodepools.karpenter.sh",)
