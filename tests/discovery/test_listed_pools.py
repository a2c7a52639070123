"""Of a cluster that was read, a NodePool that is not there is none: the label is its nodes' own."""

import copy

import pytest

from killcheck import discover

TARGET = {
    "apiVersion": "apps/v1",
    "kind": "Deployment",
    "metadata": {"name": "vllm", "namespace": "inference"},
    "spec": {
        "replicas": 1,
        "selector": {"matchLabels": {"app": "vllm"}},
        "template": {
            "metadata": {"labels": {"app": "vllm"}},
            "spec": {
                "nodeSelector": {"karpenter.sh/nodepool": "gpu"},
                "containers": [{"name": "main", "image": "vllm:1", "resources": {"limits": {"nvidia.com/gpu": "1"}}}],
            },
        },
    },
}
NODE = {
    "apiVersion": "v1",
    "kind": "Node",
    "metadata": {"name": "n1", "labels": {"karpenter.sh/nodepool": "gpu"}},
    "spec": {"providerID": "aws:///eu-west-1a/i-0"},
    "status": {"capacity": {"nvidia.com/gpu": "1"}, "allocatable": {"nvidia.com/gpu": "1"}},
}


def pools(objects, listed):
    found = discover.from_objects(copy.deepcopy(objects), complete=False, listed=listed)
    return [(pool.node_pool, pool.selector) for pool in found.kill_path.nodes], found


@pytest.mark.parametrize("objects", [[TARGET], [TARGET, NODE]])
def test_without_a_node_pool_in_the_cluster_the_label_is_a_selector(objects):
    assert pools(objects, {"NodePool", "Node"})[0] == [("", "karpenter.sh/nodepool=gpu")]
    assert pools(objects, ())[0] == [("gpu", "")]


def test_of_a_cluster_that_was_read_the_reason_is_the_clusters():
    _, found = pools([TARGET], {"NodePool"})
    assert "the cluster has no node pool" in " ".join(found.notes)


def test_that_no_context_is_allowed_stands_in_what_is_written():
    _, found = pools([TARGET], ())
    assert "no cluster is touched until yours is named here" in found.comments["consent.contexts"]
