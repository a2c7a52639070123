"""Knative Services and InferenceServices: what keeps their pods, what takes them away, and what nobody here knows."""

from __future__ import annotations

import pytest
from cluster_world import cluster, pods, until

from killcheck.embedded.models.serving import IDLE_S
from killcheck.kube import resources as r
from killcheck.kube.resources import Resource

NS = "fn"
KNATIVE = Resource("serving.knative.dev", "v1", "services", "Service")
INFERENCE = Resource("serving.kserve.io", "v1beta1", "inferenceservices", "InferenceService")
GPU = {"limits": {"nvidia.com/gpu": "1"}}
ONE = {"annotations": {"autoscaling.knative.dev/min-scale": "1"}}


def _knative(metadata):
    template = {"metadata": metadata, "spec": {"containers": [{"image": "acme/embed:1", "resources": GPU}]}}
    return _object(KNATIVE, {"template": template})


def _inference(mode, **annotations):
    said = {"serving.kserve.io/deploymentMode": mode} if mode else {}
    said |= {f"serving.kserve.io/{key}": value for key, value in annotations.items()}
    model = {"modelFormat": {"name": "huggingface"}, "storageUri": "s3://m", "runtime": "vllm"}
    return _object(INFERENCE, {"predictor": {"minReplicas": 1, "model": model}}, annotations=said)


def _object(resource, spec, **metadata):
    metadata |= {"name": "embed", "namespace": NS}
    return {"apiVersion": resource.api_version, "kind": resource.kind, "metadata": metadata, "spec": spec}


RUNTIME = {
    "apiVersion": "serving.kserve.io/v1alpha1",
    "kind": "ClusterServingRuntime",
    "metadata": {"name": "vllm"},
    "spec": {"containers": [{"name": "kserve-container", "image": "acme/vllm:1", "resources": GPU}]},
}
STOP = {"metadata": {"annotations": {"serving.kserve.io/stop": "true"}}}
LEAST = {"spec": {"predictor": {"minReplicas": 0}}}


def _count(made):
    return len(pods(made))


@pytest.mark.parametrize(
    ("obj", "back"),
    [
        (_knative(ONE), True),
        (_inference("Knative"), True),
        (_inference("RawDeployment"), False),
        (_inference("Standard", autoscalerClass="none"), True),
    ],
)
def test_who_scales_its_deployment_is_undone_but_for_a_horizontal_autoscaler(obj, back):
    """What an autoscaler of Kubernetes keeps is let alone at zero, and made again where it is deleted."""
    with cluster(RUNTIME, obj) as made:
        until(made, lambda: _count(made) == 1)
        (one,) = made.kube.list(r.DEPLOYMENTS, NS).items
        made.kube.patch(r.DEPLOYMENTS, one["metadata"]["name"], {"spec": {"replicas": 0}}, NS)
        made.loop.run_until(lambda: False, 120)
        assert (_count(made) == 1) is back
        made.kube.delete(r.DEPLOYMENTS, one["metadata"]["name"], NS)
        until(made, lambda: _count(made) == 1)
        made.kube.delete(KNATIVE if obj["kind"] == "Service" else INFERENCE, "embed", NS)
        until(made, lambda: not _count(made))
        assert not made.unknowns


@pytest.mark.parametrize(
    ("obj", "change", "goes", "known"),
    [
        (_inference("RawDeployment"), STOP, True, True),
        (_inference("Knative"), STOP, True, True),
        (_inference("RawDeployment"), LEAST, False, True),
        (_inference("RawDeployment", autoscalerClass="none"), LEAST, True, True),
        (_inference("Knative"), LEAST, True, False),
        (
            _knative(ONE),
            {"spec": {"template": {"metadata": {"annotations": {next(iter(ONE["annotations"])): "0"}}}}},
            True,
            False,
        ),
    ],
)
def test_what_it_says_of_itself_takes_its_pods_away_where_its_mode_knows_it(obj, change, goes, known):
    with cluster(RUNTIME, obj) as made:
        until(made, lambda: _count(made) == 1)
        made.kube.patch(KNATIVE if obj["kind"] == "Service" else INFERENCE, "embed", change, NS)
        assert made.loop.run_until(lambda: not _count(made), 2 * IDLE_S) is goes
        assert (not made.unknowns) is known


def test_gpus_are_those_of_the_runtime_that_it_names():
    with cluster(RUNTIME, _inference("Standard")) as made:
        until(made, lambda: _count(made) == 1)
        (container,) = pods(made)[0]["spec"]["containers"]
        assert (container["image"], container["resources"]["limits"]) == ("acme/vllm:1", GPU["limits"])


def test_a_mode_that_is_not_said_is_told_where_it_matters():
    with cluster(RUNTIME, _inference("")) as made:
        until(made, lambda: _count(made) == 1)
        assert not made.unknowns
        made.kube.patch(r.DEPLOYMENTS, "embed-predictor", {"spec": {"replicas": 0}}, NS)
        until(made, lambda: not _count(made))
        assert made.unknowns
