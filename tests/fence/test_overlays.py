"""NodeOverlays: proven where they can be evaluated, else unproven and why."""

import pytest

from killcheck.fence import Ceiling, evaluate

TYPE = "node.kubernetes.io/instance-type"
CEILING = Ceiling(max_devices_per_node=4)


def pool(limits=None, labels=None):
    return {
        "apiVersion": "karpenter.sh/v1",
        "kind": "NodePool",
        "metadata": {"name": "gpu"},
        "spec": {
            "limits": limits or {"nvidia.com/gpu": "4"},
            "template": {
                "metadata": {"labels": labels or {}},
                "spec": {
                    "nodeClassRef": {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "x"},
                    "requirements": [{"key": TYPE, "operator": "In", "values": ["g5.xlarge", "p4d.24xlarge"]}],
                },
            },
        },
    }


def overlay(name, *requirements, weight=None, **spec):
    more = {} if weight is None else {"weight": weight}
    asked = [{"key": key, "operator": operator, "values": list(values)} for key, operator, *values in requirements]
    return {
        "apiVersion": "karpenter.sh/v1alpha1",
        "kind": "NodeOverlay",
        "metadata": {"name": name},
        "spec": {"requirements": asked, **more, **spec},
    }


def karpenter(gates="NodeOverlay=true"):
    return {
        "kind": "Deployment",
        "metadata": {"name": "karpenter"},
        "spec": {"template": {"spec": {"containers": [{"env": [{"name": "FEATURE_GATES", "value": gates}]}]}}},
    }


def judged(*objects, ceiling=CEILING):
    return evaluate([pool(), karpenter(), *objects], ceiling).of("NodePool/gpu")


NOTHING = {"capacity": {"nvidia.com/gpu": "0"}}
BOX = (TYPE, "In", "p4d.24xlarge")


def test_a_box_that_counts_for_nothing_passes_every_limit_on_devices():
    result = judged(overlay("hides", BOX, **NOTHING))
    assert (result.verdict, result.worst_instance, result.bounded) == ("exposed", "p4d.24xlarge", False)


@pytest.mark.parametrize(
    "requirement", [("karpenter.sh/nodepool", "In", "other"), ("team", "In", "research"), (TYPE, "In", "p5.48xlarge")]
)
def test_one_for_other_pools_labels_or_types_changes_nothing(requirement):
    assert judged(overlay("elsewhere", BOX, requirement, **NOTHING)).verdict == "safe"


def test_one_by_the_pools_own_label_counts():
    hides = overlay("hides", ("team", "In", "research"), **NOTHING)
    report = evaluate([pool(labels={"team": "research"}), karpenter(), hides], CEILING)
    assert report.of("NodePool/gpu").verdict == "exposed"


def test_of_two_the_greater_weight_counts():
    box = overlay("counts", BOX, weight=10, capacity={"nvidia.com/gpu": "8"})
    assert judged(overlay("hides", BOX, weight=5, **NOTHING), box).verdict == "safe"
    assert judged(overlay("hides", BOX, weight=20, **NOTHING), box).verdict == "exposed"


def test_two_of_one_weight_prove_nothing():
    result = judged(overlay("a", BOX, **NOTHING), overlay("b", BOX, capacity={"nvidia.com/gpu": "8"}))
    assert result.verdict == "unproven"
    assert any("another of its weight" in text for text in result.reasons)


def test_one_that_cannot_be_read_proves_nothing():
    result = judged(overlay("odd", (TYPE, "Near", "p4d.24xlarge"), **NOTHING))
    assert result.verdict == "unproven"
    assert any("NodeOverlay/odd" in text for text in result.reasons)


def test_more_than_a_type_has_keeps_it_out():
    result = judged(overlay("doubles", (TYPE, "In", "g5.xlarge"), capacity={"nvidia.com/gpu": "16"}))
    assert (result.verdict, result.type_count) == ("safe", 0)


def test_what_limits_do_not_count_changes_nothing():
    assert judged(overlay("fuse", BOX, capacity={"smarter-devices/fuse": "1"})).verdict == "safe"


def test_a_price_is_noted_and_is_neither_a_door_nor_the_bill():
    cheap = overlay("cheap", BOX, price="0.01")
    report = evaluate([pool({"nvidia.com/gpu": "8"}), karpenter(), cheap], Ceiling(max_usd_per_hour=5.0))
    assert report.of("NodePool/gpu").verdict == "exposed"
    assert any("NodeOverlay/cheap tells Karpenter a price" in note for note in report.notes)
