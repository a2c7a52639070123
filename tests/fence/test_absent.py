"""Pools that a spec names and that nothing read launches: what nobody read is under no ceiling."""

import pytest
from click.testing import CliRunner

from killcheck.cli import main
from killcheck.fence import Ceiling, evaluate
from killcheck.spec.killpath import NodePool

CEILING = Ceiling(max_devices_per_node=8, max_devices=64, max_usd_per_hour=1000.0)
SPEC = """\
apiVersion: killcheck/v1
kind: KillPath
name: path
targets: [{name: vllm, kind: Deployment, namespace: inference, object: vllm}]
layers: [{name: nightly, type: dead-man, covers: [vllm], cronJob: {namespace: inference, name: nightly}}]
nodes: [{name: gpu, nodePool: gpu}]
fences: {maxDevicesPerNode: 8}
"""


def karpenter_pool(name="gpu", **labels):
    return {
        "apiVersion": "karpenter.sh/v1",
        "kind": "NodePool",
        "metadata": {"name": name},
        "spec": {
            "limits": {"nvidia.com/gpu": "4"},
            "template": {
                "metadata": {"labels": labels},
                "spec": {
                    "nodeClassRef": {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "x"},
                    "requirements": [
                        {"key": "node.kubernetes.io/instance-type", "operator": "In", "values": ["g5.xlarge"]}
                    ],
                },
            },
        },
    }


GROUP = {
    "apiVersion": "container.cnrm.cloud.google.com/v1beta1",
    "kind": "ContainerNodePool",
    "metadata": {"name": "gpu"},
    "spec": {
        "autoscaling": {"maxNodeCount": 1},
        "nodeConfig": {"machineType": "g2-standard-4", "guestAccelerator": [{"type": "nvidia-l4", "count": 1}]},
    },
}


def test_an_autoscaler_scales_groups_that_nobody_read():
    container = {"name": "c", "image": "registry.k8s.io/autoscaling/cluster-autoscaler:v1.33.0"}
    spec = {"template": {"spec": {"containers": [container]}}}
    deployment = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "ca"}, "spec": spec}
    report = evaluate([karpenter_pool(), deployment], Ceiling(max_devices_per_node=1))
    assert report.cluster.verdict == "unproven"
    assert "Deployment/ca scales node groups, and none was read" in "; ".join(report.cluster.reasons)
    assert evaluate([karpenter_pool()], Ceiling(max_devices_per_node=1)).cluster.verdict == "safe"


@pytest.mark.parametrize(
    ("named", "there"),
    [
        (NodePool("gpu", node_pool="gpu"), []),
        (NodePool("gpu", node_pool="gpu"), [karpenter_pool("other")]),
        (NodePool("gpu", selector="team=research"), []),
        (NodePool("gpu", selector="team=research"), [karpenter_pool(team="web")]),
        (NodePool("gpu", node_pool="gpu"), [GROUP]),
    ],
)
def test_a_pool_that_was_not_read_is_under_no_ceiling(named, there):
    cluster = evaluate(there, CEILING, named=[named]).of("cluster")
    assert cluster.verdict == "unproven"
    assert any("add what makes them" in reason for reason in cluster.reasons), cluster.reasons


@pytest.mark.parametrize(
    ("named", "there"),
    [
        (NodePool("gpu", node_pool="gpu"), karpenter_pool()),
        (NodePool("gpu", selector="team=research"), karpenter_pool(team="research")),
        (NodePool("gpu", selector="node.kubernetes.io/instance-type=g5.xlarge"), karpenter_pool()),
        (NodePool("gpu", selector="karpenter.sh/nodepool=gpu"), karpenter_pool()),
    ],
)
def test_a_pool_that_was_read_is_judged_by_itself(named, there):
    assert evaluate([there], CEILING, named=[named]).of("cluster").verdict == "safe"


def test_of_what_nobody_read_there_is_no_figure():
    cluster = evaluate([], CEILING, named=[NodePool("gpu", node_pool="gpu")]).of("cluster")
    assert (cluster.max_devices_per_node, cluster.max_usd_per_hour, cluster.max_nodes) == (None, None, None)


def test_a_spec_without_its_pools_is_not_safe(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "killcheck.yaml").write_text(SPEC)
    (tmp_path / "web.yaml").write_text("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: web}\n")
    result = CliRunner().invoke(main, ["fence", "killcheck.yaml"])
    assert result.exit_code == 3, result.output
    assert "NodePool/gpu" in result.output
