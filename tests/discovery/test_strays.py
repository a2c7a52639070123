"""What stops workloads that nothing here is: a switch that misses, where nothing else turns a target off."""

from __future__ import annotations

from typing import Any

import pytest
import yaml

from killcheck.discover import from_objects

TARGET = """
apiVersion: apps/v1
kind: Deployment
metadata: {name: llm, namespace: inf, labels: {app: llm, tier: gpu}}
spec:
  selector: {matchLabels: {app: llm}}
  template:
    metadata: {labels: {app: llm}}
    spec: {containers: [{name: a, image: a/b:1, resources: {limits: {nvidia.com/gpu: 1}}}]}
"""
MISSES = (
    "kubectl -n inf scale deploy -l tier=GPU --replicas=0",
    "kubectl -n inf scale deploy/llm-v1 --replicas=0",
    "kubectl -n inf scale rs -l app=llm --replicas=0",
    'kubectl -n inf patch job llm-w-0 --type merge -p \'{"spec":{"suspend":true}}\'',
    "kubectl -n inf delete raycluster --all",
    "kubectl -n inf rollout restart deploy/llm",
    "kubectl -n inf rollout restart deploy -l tier=gpu",
    "kubectl -n inf delete pod -l made-by=an-operator",
)
#: What stops nothing, stops something elsewhere, or something that is there.
OTHERS = (
    "kubectl -n web scale deploy/shop --replicas=0",
    "kubectl -n inf scale deploy/cache --replicas=0",
    "kubectl -n inf delete configmap old",
    "kubectl -n inf scale deploy/llm-v1 --replicas=2",
    "kubectl -n inf get deploy",
    "kubectl -n inf rollout restart deploy/cache",
    "kubectl -n inf delete pod -l app=cache",
    'kubectl -n inf patch cronjob backup -p \'{"spec":{"suspend":true}}\'',
)
CACHE = TARGET.replace("nvidia.com/gpu: 1", "cpu: 1").replace("llm", "cache")


def cron(script: str, name: str = "off") -> dict[str, Any]:
    """A nightly CronJob."""
    container = {"name": "a", "image": "alpine/k8s:1.31.3", "command": ["/bin/sh", "-c", script]}
    pod = {"restartPolicy": "Never", "containers": [container]}
    return {
        "apiVersion": "batch/v1",
        "kind": "CronJob",
        "metadata": {"name": name, "namespace": "inf"},
        "spec": {"schedule": "0 22 * * *", "jobTemplate": {"spec": {"template": {"spec": pod}}}},
    }


def found(*crons: dict[str, Any]) -> Any:
    objects = [*yaml.safe_load_all(f"{TARGET}---{CACHE}"), *crons]
    return from_objects(objects, complete=False, strays=True)


@pytest.mark.parametrize("script", MISSES)
def test_switch_that_misses_is_drilled_for_what_nothing_else_turns_off(script: str) -> None:
    discovery = found(cron(script))
    assert [(layer.name, layer.covers) for layer in discovery.kill_path.layers] == [("off", ("llm",))]
    assert any("is taken to be meant for llm, and misses: it does" in note for note in discovery.notes)
    assert not any("touches no target" in note for note in discovery.notes)


@pytest.mark.parametrize("script", OTHERS)
def test_what_stops_nothing_of_the_kind_is_no_switch(script: str) -> None:
    assert found(cron(script)).kill_path.layers == ()


RUN = """
apiVersion: batch/v1
kind: Job
metadata: {name: train-1, namespace: inf, ownerReferences: [{apiVersion: batch/v1, kind: CronJob, name: train, uid: u}]}
spec:
  template:
    spec: {restartPolicy: Never, containers: [{name: a, image: a/b:1, resources: {limits: {nvidia.com/gpu: 1}}}]}
"""


@pytest.mark.parametrize(
    ("script", "named"),
    [
        ('kubectl -n inf patch cronjob train -p \'{"spec":{"suspend":true}}\'', ["off"]),
        ('kubectl -n inf patch cronjob train -p \'{"spec":{"suspend":false}}\'', []),
        ('kubectl -n inf patch cronjob other -p \'{"spec":{"suspend":true}}\'', []),
    ],
)
def test_who_suspends_the_schedule_is_meant_for_the_run_that_goes_on(script: str, named: list[str]) -> None:
    discovery = from_objects([yaml.safe_load(RUN), cron(script)], complete=False, strays=True)
    assert [layer.name for layer in discovery.kill_path.layers] == named


def test_beside_a_switch_that_hits_one_that_misses_is_none() -> None:
    discovery = found(cron(MISSES[1], "stale"), cron("kubectl -n inf scale deploy/llm --replicas=0"))
    assert [layer.name for layer in discovery.kill_path.layers] == ["off"]


@pytest.mark.parametrize(
    ("edit", "layers"),
    [
        ("set resources deploy/llm --limits=nvidia.com/gpu=0", ["off"]),
        ("set resources deploy/llm --limits nvidia.com/gpu=0,cpu=1 --requests nvidia.com/gpu=0", ["off"]),
        ("set resources deploy/llm --limits=nvidia.com/gpu=1", []),
        ("set resources deploy/llm --limits=cpu=2", []),
        ("""patch deploy llm --type json -p '[{"op":"add","path":"/spec/x/limits/nvidia.com~1gpu","value":2}]'""", []),
        (
            """patch deploy llm --type json -p '[{"op":"add","path":"/spec/x/limits/nvidia.com~1gpu","value":0}]'""",
            ["off"],
        ),
    ],
)
def test_edit_that_leaves_gpus_asked_for_is_no_switch(edit: str, layers: list[str]) -> None:
    assert [layer.name for layer in found(cron(f"kubectl -n inf {edit}")).kill_path.layers] == layers


def test_who_applies_the_manifest_again_in_the_morning_is_no_switch() -> None:
    data = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "m", "namespace": "inf"}}
    data["data"] = {"llm.yaml": TARGET.replace("spec:\n  sel", "spec:\n  replicas: 1\n  sel")}
    morning = cron("kubectl apply -f /m/llm.yaml", "on")
    pod = morning["spec"]["jobTemplate"]["spec"]["template"]["spec"]
    pod["volumes"] = [{"name": "m", "configMap": {"name": "m"}}]
    pod["containers"][0]["volumeMounts"] = [{"name": "m", "mountPath": "/m"}]
    discovery = found(cron("kubectl -n inf delete deploy llm"), morning, data)
    assert [layer.name for layer in discovery.kill_path.layers] == ["off"]
