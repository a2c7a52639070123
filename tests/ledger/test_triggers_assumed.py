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
