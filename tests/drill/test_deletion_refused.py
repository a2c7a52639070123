"""Zero that is written while a policy refuses the deletion of the pods is named by the policy's own words."""

from types import SimpleNamespace

import pytest

from killcheck.diagnosis.targets import deletion_refused

VLLM = {"kind": "Deployment", "metadata": {"name": "vllm", "namespace": "inference", "uid": "d"}}
SET = {
    "kind": "ReplicaSet",
    "metadata": {"name": "vllm-1", "namespace": "inference", "uid": "r", "ownerReferences": [{"uid": "d"}]},
}
OTHERS = {"kind": "ReplicaSet", "metadata": {"name": "shop-1", "namespace": "inference", "uid": "x"}}
WORDS = "pods \"vllm-1-a\" is forbidden: ValidatingAdmissionPolicy 'keep' denied request"


def case(refused_of, stuck_at="pods_terminating"):
    said = {"type": "Warning", "reason": "FailedDelete", "message": f"Error deleting: {WORDS}", "about": refused_of}
    scene = SimpleNamespace(
        kill_path=SimpleNamespace(covered_by=lambda layer: [SimpleNamespace(kind="Deployment")]),
        objects_of=lambda target: [VLLM],
        replicasets={"a": SET, "b": OTHERS},
        events_about=lambda *objects: [said] if refused_of in objects else [],
    )
    return SimpleNamespace(stuck_at=stuck_at, scene=scene, layer=SimpleNamespace(layer=None))


@pytest.mark.parametrize("about", [VLLM, SET])
def test_the_policy_is_named(about):
    found = deletion_refused(case(about))
    assert WORDS in found.cause
    assert "FailedDelete" in found.evidence[0]


def test_somebody_elses_pods_are_not_the_cause():
    assert deletion_refused(case(OTHERS)) is None
    assert deletion_refused(case(SET, stuck_at="image_pulled")) is None
