"""A monitor whose metric's source does not answer: what it did not do, and for how long it was watched."""

from __future__ import annotations

import pytest
from rehearsal.conftest import NOW

from killcheck.lint import asking
from killcheck.rehearsal.record import Call, Firing, Outcome, Rehearsed

LOOP = "while true; do curl -fsS http://prometheus.monitoring/ || continue; kubectl scale deploy/asr --replicas=0; done"
OFF = Call(1.0, "PATCH", "/", "patch", "apps", "v1", "deployments", "scale", "gpu-lab", "asr", replicas=0)


def _watched(path, loop):
    objects = [obj for obj in path.does(loop).objects() if obj["kind"] != "CronJob"]
    pod = {"serviceAccountName": "lights-out", "containers": [{"name": "main", **path.container}]}
    watch = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "idler", "namespace": "gpu-lab"},
        "spec": {"selector": {"matchLabels": {"app": "idler"}}, "template": {"spec": pod}},
    }
    return [*objects, watch]


def _found(path, firing):
    objects = _watched(path, LOOP)
    seen = {"Deployment/gpu-lab/idler": Rehearsed("Deployment/gpu-lab/idler", "gpu-lab", "lights-out", firing)}
    world, _ = asking.world_of(objects, NOW, rehearsed=seen)
    return [(f.severity, f.unproven) for f in asking.lint(world).findings if f.probe == "blind-watch"]


@pytest.mark.parametrize(
    ("firing", "told"),
    [
        (Firing(Outcome.ENDLESS, 3600.0, services=("prometheus.monitoring",)), [("warning", False)]),
        (Firing(Outcome.GIVEN_UP, 600.0, services=("prometheus.monitoring",)), [("note", True)]),
        (Firing(Outcome.ENDLESS, 3600.0, (OFF,), services=("prometheus.monitoring",)), []),
        (Firing(Outcome.ENDLESS, 3600.0), []),  # it asked nothing that was not there
    ],
)
def test_an_outage_that_counts_as_work(path, firing, told):
    assert _found(path, firing) == told


@pytest.mark.parametrize(
    ("loop", "lost"),
    [
        ("while true; do kubectl scale deploy/asr -n gpu-lab --replicas=0; sleep 60; done", 0),
        ("kubectl scale deploy/asr -n gpu-lab --replicas=0; echo done", 1),
    ],
)
def test_what_goes_round_tries_again_and_is_green_to_nobody(path, loop, lost):
    world, _ = asking.world_of(_watched(path, loop), NOW)
    assert len([f for f in asking.lint(world).findings if f.probe == "false-green"]) == lost
