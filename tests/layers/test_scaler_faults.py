"""What a scaler reads goes wrong: on the reference path, and on a stranger's queue with other names and numbers."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
import yaml
from killcheck.probes.load_cut_short import LoadCutShort
from killcheck.probes.world import World

from killcheck.faults.kubernetes.scalers import ColdStartSlow, QueueRunaway, ReadingStuck
from killcheck.kube.objects import copy
from killcheck.run.planned import PlannedDrill
from killcheck.run.runner import Run
from killcheck.run.session import Session
from killcheck.spec.killpath import Layer, LayerType, Ref
from killcheck.verdict import Verdict

NOW = datetime(2026, 1, 15, tzinfo=UTC)
STRANGER = """
apiVersion: v1
kind: Namespace
metadata: {name: ocr-batch}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: page-reader, namespace: ocr-batch}
spec:
  replicas: 2
  selector: {matchLabels: {app: page-reader}}
  template:
    metadata: {labels: {app: page-reader}}
    spec:
      terminationGracePeriodSeconds: 20
      containers:
        - name: reader
          image: quay.io/example/page-reader:4.2
          resources: {limits: {nvidia.com/gpu: 1}}
---
apiVersion: keda.sh/v1alpha1
kind: ScaledObject
metadata:
  name: pages
  namespace: ocr-batch
  annotations: {killcheck.dev/trigger-value: "9"}
spec:
  scaleTargetRef: {name: page-reader}
  minReplicaCount: 0
  maxReplicaCount: 4
  pollingInterval: 15
  cooldownPeriod: 240
  triggers:
    - type: aws-sqs-queue
      metadata: {queueURL: https://sqs.eu-west-1.amazonaws.com/123456789012/pages, queueLength: "5"}
"""


@pytest.fixture
def stranger(tmp_path, monkeypatch):
    """A drill of the stranger's only layer; ``change`` edits the ScaledObject."""
    monkeypatch.chdir(tmp_path)

    def drill(*under, change=lambda spec: None):
        objects = list(yaml.safe_load_all(STRANGER))
        change(objects[-1]["spec"])
        (tmp_path / "all.yaml").write_text(yaml.safe_dump_all(objects))
        session = Session(manifests=[tmp_path / "all.yaml"], exec_mode="none")
        session.night_s = 3600.0
        (layer,) = session.kill_path.layers
        return Run(session, [PlannedDrill(layer.name, under)], sinks=[]).execute().drills[0]

    return drill


@pytest.mark.parametrize(
    ("fault", "layer", "bite", "cause"),
    [
        ("reading-stuck", "render-ui-idle", "ScalerActive 1800 s after", "is active still"),
        ("trigger-fails", "video-idle", "TriggerError", "cannot be read: KEDA keeps what is there"),
        ("queue-runaway", "video-idle", "wants 1 replica(s), and may have no more", "is active still"),
        ("cold-start-slow", "render-ui-idle", "comfyui", "it wakes too late: a pod is ready 315 s after"),
    ],
)
def test_it_bites_on_the_reference_path_and_heals(drilled, fault, layer, bite, cause):
    result = drilled("scale-to-zero", layer, under=[fault])
    assert result.verdict is Verdict.EXPOSED, result.why
    assert bite in result.bites[fault]
    assert cause in (result.cause or result.why)
    assert result.remedy.startswith((f"to survive {fault}: ", "shorten the cold start"))
    assert result.problems == ()


def _front_door(obj):
    """An Ingress that sends the pages' requests to the Service itself; another, more exact, to the interceptor."""
    if obj["kind"] != "HTTPScaledObject":
        return []
    backend = {"service": {"name": "render-ui", "port": {"number": 8080}}}
    rule = {"host": "*.example.internal", "http": {"paths": [{"path": "/", "pathType": "Prefix", "backend": backend}]}}
    where = {"name": "front", "namespace": "render"}
    return [{"apiVersion": "networking.k8s.io/v1", "kind": "Ingress", "metadata": where, "spec": {"rules": [rule]}}]


def _impatient(obj):
    """A container whose startupProbe gives up after half a minute."""
    if obj["metadata"]["name"] == "render-ui" and obj["kind"] == "Deployment":
        (container,) = obj["spec"]["template"]["spec"]["containers"]
        container["startupProbe"] = {"httpGet": {"path": "/readyz", "port": "http"}, "failureThreshold": 3}


def _says_nothing(obj):
    if obj["metadata"]["name"] == "render-ui" and obj["kind"] == "Deployment":
        del obj["spec"]["template"]["spec"]["containers"][0]["readinessProbe"]


@pytest.mark.parametrize(
    ("change", "verdict", "bite", "said"),
    [
        (None, Verdict.SURVIVED, "was ready 96 s after it started", "KEDA deactivated the target"),
        (_impatient, Verdict.EXPOSED, "failed startup probe, will be restarted", "it wakes and does not answer"),
        (_says_nothing, Verdict.EXPOSED, "was ready 0 s after it started", "it answers too early"),
        (_front_door, Verdict.EXPOSED, "was ready 96 s", "Ingress render/front leads render.example.internal"),
    ],
)
def test_a_model_that_takes_nearly_all_of_the_cold_start(drilled, change, verdict, bite, said):
    result = drilled("scale-to-zero", "render-ui-idle", change, under=["model-loads-slow"])
    assert result.verdict is verdict, (result.why, result.cause)
    assert bite in result.bites["model-loads-slow"]
    assert said in (result.cause or result.why)
    assert result.problems == ()


def test_a_strangers_queue_that_never_falls_goes_as_far_as_its_ceiling(stranger):
    result = stranger("queue-runaway")
    assert result.verdict is Verdict.EXPOSED, result.why
    assert "wants 4 replica(s), and may have no more" in result.bites["queue-runaway"]
    assert result.problems == ()


def test_a_fallback_keeps_as_many_on_as_it_says(stranger):
    def fallback(spec):
        spec["fallback"] = {"failureThreshold": 3, "replicas": 3}

    result = stranger("trigger-fails", change=fallback)
    assert result.verdict is Verdict.EXPOSED, result.why
    assert "TriggerError" in result.bites["trigger-fails"]
    assert "KEDA holds 3 (fallback.replicas)" in result.cause


def test_a_stranger_without_limits_on_waking_is_asked_for_none():
    ref = Ref("keda.sh/v1alpha1", "ScaledObject", "ocr-batch", "pages")
    layer = Layer("pages", LayerType.SCALE_TO_ZERO, covers=("page-reader",), scaler=ref, idle_s=240.0)
    assert ColdStartSlow().unsuited_layer(layer) == "nobody waits for the first pod: the spec gives no coldStart"
    assert QueueRunaway().unsuited_layer(layer) is None
    http = Ref("http.keda.sh/v1alpha1", "HTTPScaledObject", "ocr-batch", "pages")
    asked = Layer("pages", LayerType.SCALE_TO_ZERO, covers=("page-reader",), scaler=http, idle_s=240.0)
    assert QueueRunaway().unsuited_layer(asked) == "it counts requests: there is no queue"
    assert ColdStartSlow().unsuited_layer(asked) is None
    dead_man = Layer("off", LayerType.DEAD_MAN, covers=("page-reader",))
    assert ReadingStuck().unsuited_layer(dead_man) == "the layer is no scaler"


@pytest.mark.parametrize(
    ("change", "found"), [(None, []), (_impatient, ["its startupProbe ends it 20 s after its start"])]
)
def test_a_probe_with_less_patience_than_the_cold_start_is_told(change, found):
    session = Session(fixture="scale-to-zero")
    objects = [copy(obj) for obj in session.objects]
    for obj in objects if change else ():
        change(obj)
    world = World(objects, session.kill_path, NOW)
    assert [one.message[: len(said)] for one, said in zip(LoadCutShort().ask(world), found, strict=True)] == found


def test_what_keda_refuses_turns_nothing_off(stranger):
    """idleReplicaCount 0 without a minReplicaCount: KEDA says ScaledObjectCheckFailed, and never scales."""

    def idle(spec):
        spec["idleReplicaCount"] = spec.pop("minReplicaCount")

    result = stranger(change=idle)
    assert result.verdict is Verdict.EXPOSED
    assert result.cause.startswith("KEDA refuses ScaledObject ocr-batch/pages and scales nothing: ")


def test_minimum_that_keda_itself_keeps_is_seen(stranger):
    """Nothing is written where the scaler is the layer: with KEDA itself that was *inconclusive*, for want of a bite."""

    def counting(spec):
        spec["triggers"] = [{"type": "kubernetes-workload", "metadata": {"podSelector": "app=none", "value": "1"}}]
        spec["initialCooldownPeriod"] = 600

    result = stranger("keda-minimum", change=counting)
    assert result.verdict is Verdict.EXPOSED
    assert "its triggers are not active, and KEDA keeps minReplicaCount 2" in str(result.bites)
