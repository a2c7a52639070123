"""What a trigger reads that only a live source knows: assumed idle where the scaler is the switch, active where it is not."""

from __future__ import annotations

from datetime import date

import pytest

from killcheck.capabilities.inventory import Inventory
from killcheck.embedded.cluster import MODELS
from killcheck.entries import Status
from killcheck.kube.objects import Obj
from killcheck.ledger.keeping import keep
from killcheck.spec.killpath import KillPath, Layer, LayerType, Ref, Target

TRIGGER = {"type": "prometheus", "metadata": {"serverAddress": "http://prometheus", "query": "up", "threshold": "1"}}
SCALED: Obj = {
    "apiVersion": "keda.sh/v1alpha1",
    "kind": "ScaledObject",
    "metadata": {"name": "loom", "namespace": "atelier"},
    "spec": {"scaleTargetRef": {"name": "loom"}, "minReplicaCount": 0, "triggers": [TRIGGER]},
}
GPU = {"name": "a", "image": "i", "resources": {"limits": {"nvidia.com/gpu": 1}}}
DEPLOYMENT: Obj = {
    "apiVersion": "apps/v1",
    "kind": "Deployment",
    "metadata": {"name": "loom", "namespace": "atelier"},
    "spec": {"replicas": 1, "template": {"spec": {"containers": [GPU]}}},
}
TARGET = Target("loom", "apps/v1", "Deployment", "atelier", "loom")
SWITCH = Layer("switch", LayerType.DEAD_MAN, ("loom",), cron_job=Ref("batch/v1", "CronJob", "atelier", "switch"))
IDLES = Layer(
    "idles", LayerType.SCALE_TO_ZERO, ("loom",), scaler=Ref("keda.sh/v1alpha1", "ScaledObject", "atelier", "loom")
)


@pytest.mark.parametrize(
    ("layer", "by", "status", "taken"),
    [
        (IDLES, None, Status.ASSUMED, "taken to be idle"),
        (SWITCH, IDLES, Status.ASSUMED, "taken to be idle"),
        (SWITCH, None, Status.MODELLED, "taken to be active"),
    ],
)
def test_it_is_taken_for_the_worse(layer: Layer, by: Layer | None, status: Status, taken: str) -> None:
    path = KillPath("atelier", targets=(TARGET,), layers=(SWITCH, IDLES))
    models = frozenset(model.name for model in MODELS)
    kept = keep(Inventory([SCALED, DEPLOYMENT]), path, layer, by=by, today=date(2026, 1, 15), models=models)
    (entry,) = [entry for entry in kept.entries if entry.object == "ScaledObject/atelier/loom"]
    assert entry.status is status
    assert taken in entry.because


KEY = {
    "apiVersion": "keda.sh/v1alpha1",
    "kind": "TriggerAuthentication",
    "metadata": {"name": "k", "namespace": "atelier"},
}
KEY["spec"] = {"secretTargetRef": [{"parameter": "host", "name": "rabbit", "key": "host"}]}
SECRET = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "rabbit", "namespace": "atelier"}}


@pytest.mark.parametrize(
    ("objects", "kind", "status", "said"),
    [
        ([], "", Status.NOT_MODELLED, "TriggerAuthentication k is not here"),
        ([KEY | {"metadata": {"name": "k", "namespace": "x"}}], "", Status.NOT_MODELLED, "k is not here"),
        ([KEY], "", Status.ASSUMED, "to be read with Secret rabbit, which is not here"),
        ([KEY, SECRET], "", Status.ASSUMED, "taken to be idle"),
        ([], "ClusterTriggerAuthentication", Status.ASSUMED, "taken to be idle"),
    ],
)
def test_what_keda_logs_in_with_has_to_be_there(objects: list[Obj], kind: str, status: Status, said: str) -> None:
    """A trigger that cannot be read scales nothing in; a Secret may be made elsewhere, and is told."""
    trigger = {**TRIGGER, "authenticationRef": {"name": "k", **({"kind": kind} if kind else {})}}
    scaled = {**SCALED, "spec": {**SCALED["spec"], "triggers": [trigger]}}
    path = KillPath("atelier", targets=(TARGET,), layers=(IDLES,))
    models = frozenset(model.name for model in MODELS)
    kept = keep(Inventory([scaled, DEPLOYMENT, *objects]), path, IDLES, today=date(2026, 1, 15), models=models)
    (entry,) = [entry for entry in kept.entries if entry.object == "ScaledObject/atelier/loom"]
    assert entry.status is status
    assert said in entry.because
