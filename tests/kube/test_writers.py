"""Who last wrote a target's replicas, by the record that every API server keeps."""

from __future__ import annotations

import pytest

from killcheck.embedded import Cluster
from killcheck.kube import resources as r
from killcheck.kube.writers import told, writer_of_replicas

DEPLOYMENT = {
    "apiVersion": "apps/v1",
    "kind": "Deployment",
    "metadata": {"name": "llm", "namespace": "default"},
    "spec": {
        "replicas": 2,
        "selector": {"matchLabels": {"app": "llm"}},
        "template": {
            "metadata": {"labels": {"app": "llm"}},
            "spec": {"containers": [{"name": "main", "image": "ghcr.io/example/llm:1"}]},
        },
    },
}


@pytest.mark.parametrize(
    ("replicas", "manager", "said"),
    [(3, "kubectl", "3 replicas, last written by "), (0, None, "0 replicas, which nobody manages")],
)
def test_a_scale_up_names_its_manager_and_a_scale_to_zero_nobody(replicas, manager, said):
    with Cluster() as cluster:
        cluster.kube.create(r.DEPLOYMENTS, DEPLOYMENT)
        path = f"{r.DEPLOYMENTS.path('default', 'llm')}/scale"
        cluster.kube.call(
            "PATCH",
            path,
            query={"fieldManager": "kubectl"},
            body={"spec": {"replicas": replicas}},
            headers={"content-type": "application/merge-patch+json"},
        )
        obj = cluster.kube.call("GET", path.removesuffix("/scale"), query={"managedFields": "true"}).body
    writer = writer_of_replicas(obj)
    assert (writer and (writer.manager, writer.subresource)) == (manager and (manager, "scale"))
    assert said in told("Deployment/default/llm", obj)


def test_an_object_without_a_record_says_nothing():
    assert told("Deployment/default/llm", DEPLOYMENT) is None
