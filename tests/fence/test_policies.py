"""Policies beside a fence are told: what may widen a pool leaves it unproven, what may only refuse counts for nothing."""

import pytest

from killcheck.fence.ceiling import Ceiling
from killcheck.fence.evaluate import evaluate
from killcheck.fence.policies import told

POOL = {
    "apiVersion": "karpenter.sh/v1",
    "kind": "NodePool",
    "metadata": {"name": "l4"},
    "spec": {
        "limits": {"nvidia.com/gpu": 4, "cpu": 64},
        "template": {
            "spec": {
                "nodeClassRef": {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "l4"},
                "requirements": [
                    {"key": "node.kubernetes.io/instance-type", "operator": "In", "values": ["g6.xlarge"]},
                    {"key": "karpenter.sh/capacity-type", "operator": "In", "values": ["on-demand"]},
                ],
            }
        },
    },
}
RULE = {"apiGroups": ["karpenter.sh"], "resources": ["nodepools"], "operations": ["CREATE"], "apiVersions": ["v1"]}
PODS = {"apiGroups": [""], "resources": ["pods"], "operations": ["CREATE"], "apiVersions": ["v1"]}


def admission(kind, rule, name="x", webhook="x.example.com"):
    obj = {"apiVersion": "admissionregistration.k8s.io/v1", "kind": kind, "metadata": {"name": name}}
    if kind.endswith("Configuration"):
        return obj | {"webhooks": [{"name": webhook, "rules": [rule]}]}
    return obj | {"spec": {"matchConstraints": {"resourceRules": [rule]}}}


def kyverno(kinds, **rule):
    match = {"any": [{"resources": {"kinds": kinds}}]}
    return {
        "apiVersion": "kyverno.io/v1",
        "kind": "ClusterPolicy",
        "metadata": {"name": "x"},
        "spec": {"rules": [{"match": match, **rule}]},
    }


def gatekeeper(group, kind, *kinds):
    match = {"kinds": [{"apiGroups": ["*"], "kinds": list(kinds)}]} if kinds else {}
    return {"apiVersion": f"{group}/v1", "kind": kind, "metadata": {"name": "x"}, "spec": {"match": match}}


NAMESAKE = admission("MutatingWebhookConfiguration", RULE, webhook="widen.karpenter.sh")
NAMESAKE["webhooks"][0]["clientConfig"] = {"service": {"namespace": "team-a", "name": "widener"}}


@pytest.mark.parametrize(
    ("policy", "verdict", "noted"),
    [
        (admission("MutatingWebhookConfiguration", RULE), "unproven", False),
        (
            admission("MutatingWebhookConfiguration", {**RULE, "apiGroups": ["*"], "resources": ["*/*"]}),
            "unproven",
            False,
        ),
        (admission("MutatingAdmissionPolicy", {**RULE, "resources": ["nodeclaims"]}), "unproven", False),
        (admission("MutatingWebhookConfiguration", RULE, webhook="defaulting.webhook.karpenter.sh"), "safe", False),
        (NAMESAKE, "unproven", False),
        (admission("MutatingWebhookConfiguration", PODS), "safe", False),
        (admission("ValidatingAdmissionPolicy", RULE), "safe", True),
        (admission("ValidatingWebhookConfiguration", RULE), "safe", True),
        (
            kyverno(
                ["karpenter.sh/v1/NodePool"],
                mutate={},
            ),
            "safe",
            True,
        ),
        (kyverno(["karpenter.sh/v1/NodePool"], mutate={"patchStrategicMerge": {}}), "unproven", False),
        (kyverno(["NodePool"], validate={"deny": {}}), "safe", True),
        (kyverno(["karpenter.sh/*/NodePool/status"], mutate={"patchStrategicMerge": {}}), "unproven", False),
        (kyverno(["*/*"], mutate={"patchStrategicMerge": {}}), "unproven", False),
        (kyverno(["apps/*/Deployment", "Pod/*"], mutate={"patchStrategicMerge": {}}), "safe", False),
        (kyverno(["Pod"], mutate={"patchStrategicMerge": {}}), "safe", False),
        (kyverno(["Node*"], mutate={"foreach": []}), "unproven", False),
        (kyverno(["{{ request.kind }}"], mutate={"foreach": []}), "unproven", False),
        (kyverno(["ConfigMap"], mutate={"targets": [{"kind": "NodePool"}]}), "unproven", False),
        (kyverno(["Namespace"], generate={"kind": "NodePool", "apiVersion": "karpenter.sh/v1"}), "unproven", False),
        (kyverno(["Namespace"], generate={"cloneList": {"kinds": ["karpenter.sh/v1/NodePool"]}}), "unproven", False),
        (kyverno(["Namespace"], generate={"kind": "NetworkPolicy"}), "safe", False),
        (
            kyverno(["Namespace"], generate={"apiVersion": "networking.k8s.io/v1", "kind": "NetworkPolicy"}),
            "safe",
            False,
        ),
        (
            kyverno(["Namespace"], generate={"apiVersion": "eks.services.k8s.aws/v1alpha1", "kind": "Nodegroup"}),
            "unproven",
            False,
        ),
        (
            kyverno(["Namespace"], generate={"apiVersion": "ec2.aws.upbound.io/v1beta1", "kind": "Instance"}),
            "unproven",
            False,
        ),
        (kyverno(["EC2NodeClass"], mutate={"patchStrategicMerge": {}}), "unproven", False),
        (kyverno(["compute.example.io/v1/Fleet"], mutate={"patchStrategicMerge": {}}), "unproven", False),
        (
            admission(
                "MutatingWebhookConfiguration",
                {**RULE, "apiGroups": ["karpenter.k8s.aws"], "resources": ["ec2nodeclasses"]},
            ),
            "unproven",
            False,
        ),
        (
            admission("MutatingAdmissionPolicy", {**RULE, "apiGroups": ["fleet.example.io"], "resources": ["fleets"]}),
            "unproven",
            False,
        ),
        ({**kyverno([]), "apiVersion": "policies.kyverno.io/v1", "kind": "GeneratingPolicy"}, "unproven", False),
        (gatekeeper("mutations.gatekeeper.sh", "Assign"), "unproven", False),
        (gatekeeper("mutations.gatekeeper.sh", "Assign", "Pod"), "safe", False),
        (gatekeeper("constraints.gatekeeper.sh", "SmallPools", "NodePool"), "safe", True),
    ],
)
def test_what_may_widen_a_pool_leaves_it_unproven_and_what_may_refuse_is_told(policy, verdict, noted):
    report = evaluate([POOL, policy], Ceiling(max_devices_per_node=1, max_usd_per_hour=10))
    assert report.cluster.verdict == verdict, report.cluster.reasons
    assert any("may refuse pools" in note for note in report.notes) is noted


def test_a_fence_without_policies_has_nothing_to_tell():
    assert told([POOL]) == ([], [])
