"""Node pools of GKE and AKS, from what gcloud and az print or from manifests, and drills on their nodes."""

from __future__ import annotations

import json
from datetime import UTC, datetime

import pytest
from killcheck.probes.spot_grace import SpotGrace

from killcheck import discover, run_drill
from killcheck.instances.provided import is_provided
from killcheck.kube import manifests, provider_pools
from killcheck.lint import asking

NOW = datetime(2026, 1, 15, tzinfo=UTC)
GCLOUD = {
    "name": "l4-spot",
    "config": {
        "machineType": "g2-standard-8",
        "spot": True,
        "accelerators": [{"acceleratorCount": "1", "acceleratorType": "nvidia-l4"}],
        "labels": {"team": "radar"},
        "taints": [{"key": "team", "value": "radar", "effect": "NO_EXECUTE"}],
    },
    "autoscaling": {"enabled": True, "minNodeCount": 0, "maxNodeCount": 3},
    "initialNodeCount": 1,
    "locations": ["europe-west4-a", "europe-west4-b"],
}
GCLOUD_YAML = """
name: fixed
config: {machineType: a2-highgpu-1g, accelerators: [{acceleratorCount: '1', acceleratorType: nvidia-tesla-a100}]}
initialNodeCount: 2
locations: [us-central1-a]
"""
AZ = {
    "name": "prod",
    "location": "westeurope",
    "agentPoolProfiles": [
        {
            "name": "t4",
            "vmSize": "Standard_NC4as_T4_v3",
            "enableAutoScaling": True,
            "minCount": 1,
            "maxCount": 4,
            "count": 2,
            "scaleSetPriority": "Spot",
            "nodeTaints": ["sku=gpu:NoSchedule", "kubernetes.azure.com/scalesetpriority=spot:NoSchedule"],
            "nodeLabels": {"purpose": "speech"},
            "availabilityZones": ["1", "3"],
        },
        {"name": "system", "vmSize": "Standard_D4s_v5", "count": 3},
    ],
}
SPOT = "kubernetes.azure.com/scalesetpriority"
READ = {
    "gcloud": (
        json.dumps([GCLOUD]),
        ("l4-spot", "g2-standard-8", 0, 6, "spot", ["europe-west4-a", "europe-west4-b"]),
        {"cloud.google.com/gke-spot": "true", "cloud.google.com/gke-accelerator": "nvidia-l4", "team": "radar"},
        [("team", "radar", "NoExecute"), ("nvidia.com/gpu", "present", "NoSchedule")],
    ),
    "gcloud, as YAML": (
        GCLOUD_YAML,
        ("fixed", "a2-highgpu-1g", 2, 2, "on-demand", ["us-central1-a"]),
        {"cloud.google.com/gke-nodepool": "fixed", "cloud.google.com/gke-provisioning": "standard"},
        [("nvidia.com/gpu", "present", "NoSchedule")],
    ),
    "az": (
        json.dumps(AZ),
        ("t4", "Standard_NC4as_T4_v3", 1, 4, "spot", ["westeurope-1", "westeurope-3"]),
        {"agentpool": "t4", "kubernetes.azure.com/agentpool": "t4", SPOT: "spot", "purpose": "speech"},
        [("sku", "gpu", "NoSchedule"), (SPOT, "spot", "NoSchedule")],
    ),
}


@pytest.mark.parametrize("answer", READ)
def test_what_a_command_line_prints_is_read_as_the_object_that_says_the_same(answer):
    text, wanted, labels, taints = READ[answer]
    found = manifests.loads(text, "pools.json" if text[0] in "[{" else "pools.yaml")
    assert found.skipped == ()
    group = provider_pools.node_group(found.objects[0])
    assert tuple(group[key] for key in ("name", "instanceType", "min", "max", "capacityType", "zones")) == wanted
    assert labels.items() <= group["labels"].items()
    assert [(one["key"], one["value"], one["effect"]) for one in group["taints"]] == taints
    assert [is_provided(obj) for obj in found.objects] == [True, False][: len(found.objects)]


@pytest.mark.parametrize(
    "text", ['{"machineType": "g2-standard-8"}', "vmSize: [1", '[{"vmSize": "x", "name": "a"}, 3]']
)
def test_what_is_no_such_answer_is_passed_over(text):
    assert [
        len(found) for found in (manifests.loads(text, "x.json").objects, manifests.loads(text, "x.json").skipped)
    ] == [0, 1]


WORK = """
apiVersion: v1
kind: Namespace
metadata: {name: radar}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: segmenter, namespace: radar}
spec:
  replicas: 2
  selector: {matchLabels: {app: seg}}
  template:
    metadata: {labels: {app: seg}}
    spec:
      nodeSelector: {SELECTED}
      tolerations: [{key: nvidia.com/gpu, operator: Exists}, {key: team, operator: Exists}, {key: sku, operator: Exists}, MORE]
      containers: [{name: s, image: "ghcr.io/radar/seg:1", resources: {limits: {nvidia.com/gpu: 1}}}]
---
apiVersion: batch/v1
kind: CronJob
metadata: {name: lights-out, namespace: radar}
spec:
  schedule: "40 18 * * 1-5"
  timeZone: Europe/Amsterdam
  jobTemplate:
    spec:
      template:
        spec:
          serviceAccountName: lights
          restartPolicy: Never
          containers:
            - {name: k, image: "registry.k8s.io/kubectl:v1.34.1", command: [kubectl, scale, deploy/segmenter, --replicas=0, -n, radar]}
---
apiVersion: v1
kind: ServiceAccount
metadata: {name: lights, namespace: radar}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {name: lights, namespace: radar}
rules: [{apiGroups: [apps], resources: [deployments, deployments/scale], verbs: [get, patch, update]}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: lights, namespace: radar}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: lights}
subjects: [{kind: ServiceAccount, name: lights, namespace: radar}]
"""
SPEC = """
apiVersion: killcheck/v1
kind: KillPath
name: radar
targets: [{name: seg, kind: Deployment, namespace: radar, object: segmenter}]
layers:
  - {name: lights-out, type: dead-man, covers: [seg], cronJob: {namespace: radar, name: lights-out}}
  - {name: reclaim, type: spot-handler, covers: [seg], notice: 30s}
nodes: [{name: gpu, selector: POOL}]
"""
NIGHTS = [
    ("gcloud", "reclaim", "survived", "the kubelet's graceful shutdown drained"),
    # A pod that tolerates every taint comes to the node that goes, again and again, and is turned away.
    ("gcloud", "reclaim, all tolerated", "survived", "the kubelet's graceful shutdown drained"),
    ("az", "lights-out", "exposed", "is never smaller than"),
    ("az", "reclaim", "inconclusive", "AKS' node auto-drain"),
]


@pytest.mark.parametrize(("answer", "layer", "verdict", "words"), NIGHTS)
@pytest.mark.one_in(2)
def test_nights_on_a_providers_pool(tmp_path, answer, layer, verdict, words):
    layer, _, all_of_them = layer.partition(", ")
    more = "{operator: Exists}" if all_of_them else "{key: kubernetes.azure.com/scalesetpriority, operator: Exists}"
    selected = {"gcloud": ("cloud.google.com/gke-nodepool", "l4-spot"), "az": ("purpose", "speech")}[answer]
    (tmp_path / "pools.json").write_text(READ[answer][0])
    (tmp_path / "work.yaml").write_text(WORK.replace("SELECTED", ": ".join(selected)).replace("MORE", more))
    (tmp_path / "killcheck.yaml").write_text(SPEC.replace("POOL", "=".join(selected)))
    result = run_drill(tmp_path / "killcheck.yaml", layer=layer, exec_mode="host", horizon_s=2000.0)
    assert str(result.verdict) == verdict, (result.why, result.cause)
    assert words in (result.cause or result.why)
    if verdict == "survived":
        reached = {row["phase"]: row["at_s"] for row in result.phases}
        # An autoscaler takes an empty node after ten minutes; a kubelet that shuts down lets nothing on from the start.
        assert 600 < reached["node_drained"] < 700 if layer == "lights-out" else reached["node_drained"] < 15


@pytest.mark.parametrize(
    ("answer", "grace_s", "found"),
    [("gcloud", 20, "GKE leaves it 15 s"), ("az", 45, "Azure leaves it 30 s"), ("az", 20, "")],
)
def test_more_grace_than_a_notice_leaves_is_told(answer, grace_s, found):
    selected = {"gcloud": "cloud.google.com/gke-nodepool: l4-spot", "az": "agentpool: t4"}[answer]
    work = WORK.replace("SELECTED", selected).replace("MORE", "{operator: Exists}")
    graced = work.replace("      nodeSelector", f"      terminationGracePeriodSeconds: {grace_s}\n      nodeSelector")
    objects = [*manifests.loads(READ[answer][0], "p.json").objects, *manifests.loads(graced).objects]
    world, _ = asking.world_of(objects, NOW)
    told = [one.message for one in SpotGrace().ask(world)]
    assert [found in one for one in told] == ([True] if found else [])


def test_what_is_found_has_its_nodes_judged():
    objects = [
        *manifests.loads(READ["gcloud"][0], "p.json").objects,
        *manifests.loads(WORK.replace("SELECTED", "a: b").replace("MORE", "{operator: Exists}")).objects,
    ]
    found = discover.from_objects(objects, complete=False)
    (pool,) = found.kill_path.nodes
    assert pool.selector == "cloud.google.com/gke-nodepool=l4-spot"
    assert not [note for note in found.notes if "nodes are not judged" in note]
