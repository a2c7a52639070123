import pytest

from killcheck.fence import Ceiling, evaluate, would

TYPE = "node.kubernetes.io/instance-type"


def pool(*types, limits=None, labels=None, name="gpu", **entry):
    requirements = [{"key": TYPE, "operator": "In", "values": list(types)}] if types else []
    if entry:
        requirements.append(entry)
    return {
        "apiVersion": "karpenter.sh/v1",
        "kind": "NodePool",
        "metadata": {"name": name},
        "spec": {
            "limits": limits or {},
            "template": {
                "metadata": {"labels": labels or {}},
                "spec": {
                    "nodeClassRef": {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "x"},
                    "requirements": requirements,
                },
            },
        },
    }


def quota(hard, used=None, namespace="ml", **spec):
    return {
        "kind": "ResourceQuota",
        "metadata": {"name": "gpus", "namespace": namespace},
        "spec": {"hard": hard, **spec},
        "status": {"used": used or {}},
    }


def limit_range(kind, most):
    return {
        "kind": "LimitRange",
        "metadata": {"name": "gpus", "namespace": "ml"},
        "spec": {"limits": [{"type": kind, "max": {"nvidia.com/gpu": most}}]},
    }


SMALL, LARGE = pool("g5.xlarge"), pool("p5.48xlarge")


@pytest.mark.parametrize(
    ("objects", "outcome", "by"),
    [
        ([SMALL], "pending", "no pool has a type with 8 of nvidia.com/gpu"),
        ([], "pending", ""),
        ([LARGE], "launches", "NodePool/gpu would launch p5.48xlarge"),
        ([LARGE, quota({"requests.nvidia.com/gpu": "4"})], "refused", "ResourceQuota/gpus allows 4"),
        ([LARGE, quota({"requests.nvidia.com/gpu": "8"})], "launches", ""),
        ([LARGE, quota({"requests.nvidia.com/gpu": "8"}, {"requests.nvidia.com/gpu": "1"})], "refused", ""),
        ([LARGE, quota({"requests.nvidia.com/gpu": "4"}, namespace="other")], "launches", ""),
        ([LARGE, quota({"requests.nvidia.com/gpu": "4"}, scopes=["BestEffort"])], "launches", ""),
        ([LARGE, quota({"pods": "0"})], "refused", ""),
        ([LARGE, limit_range("Container", "2")], "refused", "LimitRange/gpus allows 2 of nvidia.com/gpu a container"),
        ([LARGE, limit_range("PersistentVolumeClaim", "2")], "launches", ""),
        (
            [SMALL, {"kind": "Node", "metadata": {"name": "n"}, "status": {"allocatable": {"nvidia.com/gpu": "8"}}}],
            "launches",
            "Node/n has 8",
        ),
        ([pool("p5.48xlarge", limits={"nvidia.com/gpu": "4"})], "pending", ""),
        (
            [pool("p5.48xlarge", key="karpenter.k8s.aws/instance-network-bandwidth", operator="Gt", values=["1"])],
            "unproven",
            "NodePool/gpu may launch it",
        ),
    ],
)
def test_what_a_pod_that_asks_for_eight_gpus_would_meet(objects, outcome, by):
    asked = would(objects, 8, namespace="ml")
    assert asked.outcome == outcome, asked
    assert by in asked.by


def test_a_policy_that_is_not_evaluated_is_never_a_refusal():
    policy = {"kind": "ValidatingAdmissionPolicy", "metadata": {"name": "no-gpus"}}
    asked = would([LARGE, policy], 8, namespace="ml")
    assert (asked.outcome, asked.reasons) == ("launches", ("ValidatingAdmissionPolicy/no-gpus is not evaluated",))


def test_another_vendors_devices_are_asked_for_by_their_resource():
    assert would([pool("trn1.32xlarge")], 16, namespace="ml", resource="aws.amazon.com/neuron").outcome == "launches"
    assert would([pool("trn1.32xlarge")], 1, namespace="ml").outcome == "pending"


def flavor(name="gpu-spot", **labels):
    return {"kind": "ResourceFlavor", "metadata": {"name": name}, "spec": {"nodeLabels": labels}}


def queue(quota, name="gpu-spot", **more):
    return {
        "kind": "ClusterQueue",
        "metadata": {"name": "q"},
        "spec": {
            "resourceGroups": [
                {
                    "coveredResources": ["nvidia.com/gpu"],
                    "flavors": [
                        {"name": name, "resources": [{"name": "nvidia.com/gpu", "nominalQuota": quota, **more}]}
                    ],
                }
            ]
        },
    }


FOUR = pool(
    "g5.xlarge", limits={"nvidia.com/gpu": "4"}, key="karpenter.sh/capacity-type", operator="In", values=["spot"]
)
KWOK = {"apiVersion": "kwok.example/v1", "kind": "NodePool", "metadata": {"name": "k"}, "spec": {}}
SPOT = {"karpenter.sh/capacity-type": "spot"}


@pytest.mark.parametrize(
    ("objects", "says"),
    [
        ([FOUR, flavor(**SPOT), queue(4)], None),
        ([FOUR, flavor(**SPOT), queue(5)], "flavor gpu-spot admits 5 of nvidia.com/gpu, its pools can bring 4"),
        ([FOUR, flavor(**SPOT), queue(4, borrowingLimit=2)], "admits 6"),
        (
            [FOUR, flavor(**{"nvidia.com/gpu.product": "A100"}), queue(4)],
            "no pool's nodes carry the labels of flavor gpu-spot",
        ),
        ([FOUR, flavor(**{"karpenter.sh/capacity-type": "on-demand"}), queue(4)], "no pool's nodes carry"),
        ([FOUR, queue(4)], "flavor gpu-spot does not exist"),
        ([flavor(**SPOT), queue(5)], None),  # what nobody read may bring them
        ([FOUR, KWOK, flavor(**SPOT), queue(5)], None),
        ([pool("g5.xlarge", labels={"team": "ml"}), flavor(team="ml"), queue(400)], None),
    ],
)
def test_queues_that_admit_what_no_pool_brings(objects, says):
    findings = evaluate(objects, Ceiling(max_devices_per_node=1)).findings
    assert [says in one.message for one in findings] == ([True] if says else [])
    assert all(one.remedy and one.object == "ClusterQueue/q" for one in findings)
