"""A real cluster: what runs there was watched, unless a model stood in for it or none of its pods was up."""

from __future__ import annotations

import json
from datetime import date
from typing import Any
from unittest.mock import ANY

import pytest
from composed import Composition, Obj, account, workload

from killcheck.capabilities.inventory import Inventory
from killcheck.entries import Ledger
from killcheck.kube.machineless import StoodIn
from killcheck.ledger.keeping import keep
from killcheck.spec import specfile

MAY_SCALE = {"apiGroups": ["apps"], "resources": ["deployments/scale"], "verbs": ["patch"]}
READY = {"readyReplicas": 1}


def _owl(**status: Any) -> Obj:
    return workload("owl", "platform", "owl") | {"status": status}


def _kept(owl: Obj, *stood_in: StoodIn, rules: tuple[Obj, ...] = (MAY_SCALE,)) -> Ledger:
    one = Composition()
    path = specfile.loads(json.dumps(one.spec))
    objects = [*one.objects, *account("owl", "platform", list(rules), cluster=True), owl]
    return keep(Inventory(objects, live=True), path, path.layers[0], today=date(2026, 11, 1), stood_in=stood_in)


def _of(root: Obj, why: str | None = None) -> StoodIn:
    spec = root["spec"].get("template", root)["spec"]
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "owl-1", "namespace": "platform"}, "spec": spec}
    return StoodIn(pod, root, why)


def test_what_runs_there_was_watched() -> None:
    assert not _kept(_owl(**READY)).open


@pytest.mark.parametrize(
    ("command", "opens"),
    [
        ("kubectl scale deploy/{target} -n {home} --replicas=1", True),
        ("kubectl get deploy -A", False),
        ("./sweep", False),  # not known: that it may is told
    ],
)
def test_what_comes_by_the_clock_counts_where_it_says_so(command: str, opens: bool) -> None:
    target = Composition().spec["targets"][0]
    line = command.format(target=target["object"], home=target["namespace"])
    container = {"name": "c", "image": "alpine/k8s:1.31.4", "command": ["sh", "-c", line]}
    pod = {"serviceAccountName": "owl", "restartPolicy": "Never", "containers": [container]}
    owl = _owl() | {"apiVersion": "batch/v1", "kind": "CronJob"}
    owl["spec"] = {"schedule": "50 2 * * *", "jobTemplate": {"spec": {"template": {"spec": pod}}}}
    assert [entry.object for entry in _kept(owl).open] == ["CronJob/platform/owl"] * opens


def test_what_a_model_stood_in_for_was_not() -> None:
    owl = _owl(**READY)
    assert [entry.object for entry in _kept(owl, _of(owl)).open] == ["Deployment/platform/owl"]
    assert not _kept(owl, _of(owl), rules=()).open, "it may turn nothing on"


@pytest.mark.parametrize(
    ("why", "opens"),
    [
        ("nobody allowed it", True),
        ("what image docker.io/envoyproxy/envoy:v1.31.0 starts is not known", False),  # beside it, and acts on nothing
        ("what image registry.example/gpu/envoy-like:1 starts is not known", True),
    ],
)
def test_nor_what_no_object_of_the_inventory_makes(why: str, opens: bool) -> None:
    spec = workload("owl", "platform", "owl")["spec"]["template"]["spec"]
    meta = {"name": "owl-x", "namespace": "platform", "uid": "u"}
    job = {"apiVersion": "batch/v1", "kind": "Job", "metadata": meta, "spec": {"template": {"spec": spec}}}
    told = _kept(_owl(**READY), _of(job, why)).open
    assert [entry.object for entry in told] == ["Job/platform/owl-x"] * opens
    assert all(why in f"{entry}" for entry in told)


def test_a_target_is_counted_and_not_run() -> None:
    target = next(obj for obj in Composition().objects if obj["kind"] == "Deployment")
    assert not _kept(_owl(**READY), _of(target)).open


@pytest.mark.parametrize("pulled", [True, False])
def test_an_image_that_nobody_pulled_was_not_seen_to_be_there(pulled: bool) -> None:
    one = Composition()
    path = specfile.loads(json.dumps(one.spec))
    text = json.dumps(one.objects)
    (switch,) = [obj for obj in one.objects if obj["kind"] == "CronJob"]
    image = switch["spec"]["jobTemplate"]["spec"]["template"]["spec"]["containers"][0]["image"]
    objects = json.loads(text.replace(json.dumps(image), '"registry.example/ops/gpu-off:1"'))
    kept = keep(Inventory(objects, live=True), path, path.layers[0], today=date(2026, 11, 1), pulled=pulled)
    assert [f"{entry}" for entry in kept.open if "image-gone" in f"{entry}"] == ([] if pulled else [ANY])


@pytest.mark.parametrize(("replicas", "status", "down"), [(1, {}, True), (1, READY, False), (0, {}, False)])
def test_nor_what_has_no_pod_that_is_up(replicas: int, status: Obj, down: bool) -> None:
    owl = _owl(**status)
    owl["spec"]["replicas"] = replicas
    assert bool(_kept(owl).open) is down
