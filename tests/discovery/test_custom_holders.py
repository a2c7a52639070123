"""Custom resources that ask for accelerators in words of their own are holders; what only names them is told."""

from __future__ import annotations

from typing import Any

import pytest

from killcheck import discover
from killcheck.discover import DiscoveryError
from killcheck.kube.objects import Obj

GPU = {"nvidia.com/gpu": "1"}


def custom(kind: str, spec: Any = None, version: str = "example.com/v1", name: str = "x", **top: Any) -> Obj:
    made: Obj = {"apiVersion": version, "kind": kind, "metadata": {"name": name, "namespace": "ml"}, **top}
    return {**made, "spec": spec} if spec is not None else made


def pod(gpus: int = 1) -> Obj:
    return {"containers": [{"name": "main", "resources": {"limits": {"nvidia.com/gpu": gpus}}}]}


#: As Knative's users write it: it names the container itself.
KNATIVE = {"template": {"spec": {"containers": [{"image": "i", "resources": {"limits": GPU}}]}}}
HOLDERS = [
    (custom("Service", KNATIVE, "serving.knative.dev/v1"), 1),
    (custom("Model", {"resourceProfile": "nvidia-gpu-l4:2", "replicas": 3}, "kubeai.org/v1"), 6),
    (custom("Model", {"resourceProfile": "nvidia-gpu-h100:8", "minReplicas": 0}, "kubeai.org/v1"), 8),
    (
        custom(
            "Workspace", version="kaito.sh/v1beta1", resource={"instanceType": "Standard_NC24ads_A100_v4", "count": 2}
        ),
        2,
    ),
    (custom("RAGEngine", {"compute": {"instanceType": "Standard_NC4as_T4_v3"}}, "kaito.sh/v1alpha1"), 1),
    (
        custom(
            "InferenceSet",
            {"replicas": 3, "template": {"resource": {"instanceType": "Standard_NV36ads_A10_v5"}}},
            "kaito.sh/v1alpha1",
        ),
        3,
    ),
    (
        custom(
            "DynamoGraphDeployment",
            {
                "services": {
                    "decode": {"replicas": 2, "resources": {"limits": {"gpu": "4"}}, "multinode": {"nodeCount": 2}},
                    "frontend": {"replicas": 1},
                }
            },
            "nvidia.com/v1alpha1",
        ),
        16,
    ),
    (
        custom(
            "VLLMRuntime",
            {"deploymentConfig": {"replicas": 2, "resources": {"cpu": "8", "gpu": "1"}}},
            "production-stack.vllm.ai/v1alpha1",
        ),
        2,
    ),
    (custom("VLLMRuntime", {"resources": {"cpu": "8", "gpu": "1"}}, "production-stack.vllm.ai/v1alpha1"), 1),
    (
        custom(
            "SparkApplication",
            {"driver": {"cores": 1}, "executor": {"instances": 4, "gpu": {"name": "nvidia.com/gpu", "quantity": 2}}},
            "sparkoperator.k8s.io/v1beta2",
        ),
        8,
    ),
    (
        custom(
            "TrainJob",
            {"trainer": {"numNodes": 4, "resourcesPerNode": {"limits": {"nvidia.com/gpu": 8}}}},
            "trainer.kubeflow.org/v1alpha1",
        ),
        32,
    ),
    (
        custom(
            "Workflow",
            {
                "templates": [
                    {"name": "a", "container": {"image": "i", "resources": {"limits": GPU}}},
                    {"name": "b", "script": {"resources": {"requests": GPU}}},
                ]
            },
            "argoproj.io/v1alpha1",
        ),
        2,
    ),
    (
        custom(
            "LLMInferenceService",
            {"replicas": 2, "parallelism": {"data": 16, "dataLocal": 8}, "template": pod(8), "worker": pod(8)},
            "serving.kserve.io/v1alpha1",
        ),
        32,
    ),
    (
        custom(
            "LLMInferenceService",
            {
                "parallelism": {"pipeline": 3},
                "template": pod(1),
                "worker": pod(2),
                "prefill": {"replicas": 2, "template": pod(4)},
            },
            "serving.kserve.io/v1alpha1",
        ),
        13,
    ),
    (
        custom(
            "InferenceService",
            {
                "predictor": {
                    "model": {"resources": {"limits": GPU}},
                    "workerSpec": {"pipelineParallelSize": 4, **pod(1)},
                }
            },
            "serving.kserve.io/v1beta1",
        ),
        4,
    ),
    (
        custom(
            "HelmRelease",
            {"values": {"vllm": {"replicaCount": 2, "resources": {"limits": GPU}}}},
            "helm.toolkit.fluxcd.io/v2",
        ),
        2,
    ),
    (
        custom(
            "SeldonDeployment",
            {"predictors": [{"replicas": 2, "componentSpecs": [{"spec": pod(1)}]}]},
            "machinelearning.seldon.io/v1",
        ),
        2,
    ),
    (
        custom(
            "BentoDeployment",
            {"autoscaling": {"minReplicas": 2}, "resources": {"limits": {"gpu": "1"}}},
            "serving.yatai.ai/v2alpha1",
        ),
        2,
    ),
    (custom("NeverHeardOf", {"pools": [{"numNodes": 3, "resources": {"requests": {"amd.com/gpu": 2}}}]}), 6),
    (custom("ScaledJob", {"jobTargetRef": {"template": {"spec": pod(1)}}}, "keda.sh/v1alpha1"), 1),
]


@pytest.mark.parametrize(("obj", "devices"), HOLDERS, ids=[f"{obj['kind']}-{n}" for obj, n in HOLDERS])
def test_a_custom_resource_that_asks_is_a_holder(obj: Obj, devices: int):
    assert [(h.obj["kind"], h.devices) for h in discover.holders([obj])] == [(obj["kind"], devices)]
    assert discover.unknown_holders([obj]) == []


NAMES = [
    custom("NeverHeardOf", {"gpuCount": 4}),
    custom("NeverHeardOf", {"accelerator": "NVIDIA-H100"}),
    custom("NeverHeardOf", {"machine": {"instanceType": "p5.48xlarge"}}),
    custom(
        "Application",
        {"source": {"helm": {"values": "resources:\n  limits:\n    nvidia.com/gpu: 1\n"}}},
        "argoproj.io/v1alpha1",
    ),
    custom("NeverHeardOf", {"devices": [{"kind": "nvidia.com/gpu"}]}),
    custom("NeverHeardOf", None, data={"gpus": 1}),
    custom("TrainJob", {"runtimeRef": {"name": "nowhere"}}, "trainer.kubeflow.org/v1alpha1"),
]


@pytest.mark.parametrize("obj", NAMES, ids=lambda obj: str(obj.get("spec") or obj.get("data"))[:30])
def test_what_only_names_accelerators_is_told_and_never_said_to_ask_for_none(obj: Obj):
    assert [one.obj for one in discover.unknown_holders([obj])] == [obj]
    with pytest.raises(DiscoveryError) as caught:
        discover.from_objects([obj])
    assert "nothing here asks for a GPU" not in str(caught.value)
    assert obj["kind"] in str(caught.value)


NOTHING = [
    custom("LLMInferenceServiceConfig", {"template": pod(8)}, "serving.kserve.io/v1alpha1"),
    {**custom("PodTemplate", version="v1"), "template": {"spec": pod(1)}},
    custom(
        "ClusterTrainingRuntime",
        {"template": {"spec": {"replicatedJobs": [{"template": {"spec": {"template": {"spec": pod(1)}}}}]}}},
        "trainer.kubeflow.org/v1alpha1",
    ),
    custom("NodePool", {"limits": {"nvidia.com/gpu": 8}}, "karpenter.sh/v1"),
    custom("ResourceQuota", {"hard": {"requests.nvidia.com/gpu": 8}}, "v1"),
    custom("ClusterQueue", {"resourceGroups": [{"coveredResources": ["nvidia.com/gpu"]}]}, "kueue.x-k8s.io/v1beta1"),
    custom("PodGroup", {"minResources": {"nvidia.com/gpu": 8}}, "scheduling.volcano.sh/v1beta1"),
    custom("NeverHeardOf", {"gpuCount": 0, "gpu": False, "gpuMemoryUtilization": "0.9"}),
    # domain/name is a device only where resources are counted: else it is a label, an annotation, a selector.
    custom("HelmRelease", {"values": {"podAnnotations": {"reloader.stakater.com/auto": "true", "a.io/port": 9421}}}),
    custom("PodMonitoring", {"selector": {"matchLabels": {"redis.io/cluster": "rec"}}}),
    custom("Agent", {"maxOutputTokens": 20480}),
    custom("Notebook", {"template": {"spec": {**pod(0), "tolerations": [{"key": "nvidia.com/gpu"}]}}}),
]


@pytest.mark.parametrize("obj", NOTHING, ids=lambda obj: obj["kind"])
def test_templates_quotas_and_capacity_hold_nothing(obj: Obj):
    assert discover.holders([obj]) == []
    assert discover.unknown_holders([obj]) == []


def test_a_template_that_somebody_uses_is_what_its_user_asks_for():
    runtime = custom("ClusterTrainingRuntime", {"template": {"spec": pod(2)}}, "trainer.kubeflow.org/v1alpha1", "torch")
    job = custom(
        "TrainJob", {"runtimeRef": {"name": "torch"}, "trainer": {"numNodes": 3}}, "trainer.kubeflow.org/v1alpha1"
    )
    assert [(h.obj["kind"], h.devices) for h in discover.holders([runtime, job])] == [("TrainJob", 6)]


def test_a_model_that_a_playground_claims_is_what_it_asks_for():
    model = custom("OpenModel", {"inferenceConfig": {"flavors": [{"name": "t4", "limits": GPU}]}}, "llmaz.io/v1alpha1")
    played = custom("Playground", {"replicas": 1, "modelClaim": {"modelName": "x"}}, "inference.llmaz.io/v1alpha1")
    assert [(h.obj["kind"], h.devices) for h in discover.holders([model, played])] == [("Playground", 1)]
    assert [one.obj for one in discover.unknown_holders([played])] == [played]


def test_only_where_nothing_names_a_gpu_it_is_said_that_nothing_asks_for_one():
    web = custom("Deployment", {"template": {"spec": {"containers": [{"name": "web", "image": "nginx"}]}}}, "apps/v1")
    with pytest.raises(DiscoveryError, match="nothing here asks for a GPU"):
        discover.from_objects([web])


@pytest.mark.parametrize(
    "spec",
    [
        {"values": {"env": {"NVIDIA_VISIBLE_DEVICES": "all"}}},
        {"values": {"runtimeClassName": "nvidia"}},
        {"pool": {"capacity": {"acme.io/brain": 1}}},
        {"pool": {"nvidia.com/gpu": "$GPUS"}},
        {"tolerations": [{"key": "nvidia.com/gpu", "operator": "Exists"}], "model": "x"},
        {"gpu": {"value": "2"}},  # Run:ai
        {"gpuDevices": {"value": 1}},
        {"template": {"domain": {"devices": {"gpus": [{"name": "g", "deviceName": "nvidia.com/A100"}]}}}},  # KubeVirt
    ],
    ids=str,
)
def test_what_names_gpus_in_words_of_its_own_is_told(spec: Obj):
    strange = custom("NeverHeardOf", spec)
    assert discover.holders([strange]) == []
    assert [one.obj for one in discover.unknown_holders([strange])] == [strange]


@pytest.mark.parametrize(
    ("kind", "told"), [("gpu.intel.com", True), ("gpu.nvidia.com", True), ("dranet.io", False), ("", True)]
)
def test_a_chart_whose_values_claim_devices_names_them(kind: str, told: bool):
    """A chart's pods take ``resourceClaims`` from its values; a claim that is not here may be for anything."""
    release = {
        "apiVersion": "helm.toolkit.fluxcd.io/v2",
        "kind": "HelmRelease",
        "metadata": {"name": "plex"},
        "spec": {"values": {"pod": {"resourceClaims": [{"name": "g", "resourceClaimTemplateName": "plex"}]}}},
    }
    claim = {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaimTemplate",
        "metadata": {"name": "plex"},
        "spec": {"spec": {"devices": {"requests": [{"name": "g", "exactly": {"deviceClassName": kind}}]}}},
    }
    assert bool(discover.unknown_holders([release, *([claim] if kind else [])])) is told
