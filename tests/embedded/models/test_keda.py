"""KEDA's triggers that ask Kubernetes itself, and pauses that a person takes off."""

from __future__ import annotations

import pytest
from cluster_world import cluster, named, running, until

from killcheck.drill.pauses import Pauses
from killcheck.embedded.models import keda_triggers
from killcheck.kube import resources as r
from killcheck.kube.objects import annotations_of, dig
from killcheck.spec.killpath import Target

NS = "clips"
PAUSED_AT = "autoscaling.keda.sh/paused-replicas"


def _deployment(name, replicas, gpus=0):
    limits = {"nvidia.com/gpu": gpus} if gpus else {"cpu": "1"}
    container = {"name": "c", "image": "registry.example.net/c:1", "resources": {"limits": limits}}
    pod = {"metadata": {"labels": {"app": name}}, "spec": {"containers": [container]}}
    spec = {"replicas": replicas, "selector": {"matchLabels": {"app": name}}, "template": pod}
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name, "namespace": NS}, "spec": spec}


def _scaled(*triggers):
    spec = {
        "scaleTargetRef": {"name": "encoder"},
        "minReplicaCount": 0,
        "cooldownPeriod": 60,
        "triggers": list(triggers),
    }
    meta = {"name": "encoder", "namespace": NS}
    return {"apiVersion": "keda.sh/v1alpha1", "kind": "ScaledObject", "metadata": meta, "spec": spec}


def _counting(selector, **more):
    return {"type": "kubernetes-workload", "metadata": {"podSelector": selector, "value": "2"} | more}


def _replicas(made):
    return dig(named(made, r.DEPLOYMENTS, "encoder", NS), "spec", "replicas")


def test_pods_that_a_trigger_counts_keep_its_target_on_and_wake_it():
    objects = [_deployment("encoder", 2, 1), _deployment("front", 2), _scaled(_counting("app=front"))]
    with cluster(*objects) as made:
        until(made, running(made, 2, app="front"))
        until(made, lambda: _replicas(made) > 0, 120)
        assert not made.loop.run_until(lambda: _replicas(made) == 0, 1800)
        made.kube.patch(r.DEPLOYMENTS, "front", {"spec": {"replicas": 0}}, NS)
        until(made, lambda: _replicas(made) == 0)
        made.kube.patch(r.DEPLOYMENTS, "front", {"spec": {"replicas": 1}}, NS)
        until(made, lambda: _replicas(made) == 1, 120)
        assert not [said for said in made.assumptions if "trigger" in said]


@pytest.mark.parametrize("trigger", [_counting("app=front", activationValue="5"), _counting("app=nobody")])
def test_pods_that_are_too_few_or_others_keep_nothing_on(trigger):
    with cluster(_deployment("encoder", 2, 1), _deployment("front", 2), _scaled(trigger)) as made:
        until(made, lambda: _replicas(made) == 0)


def test_pause_that_a_switch_left_is_taken_off_and_one_that_was_there_stays():
    quiet = {
        "type": "cron",
        "metadata": {"timezone": "UTC", "start": "0 6 * * *", "end": "0 23 * * *", "desiredReplicas": "1"},
    }
    target = Target("encoder", "apps/v1", "Deployment", NS, "encoder")
    with cluster(_deployment("encoder", 1, 1), _scaled(quiet)) as made:
        made.advance(1)
        for before, after in ((None, "0"), ("3", "0"), ("3", None)):
            _annotate(made, before)
            pauses = Pauses(made.kube, [target])
            _annotate(made, after)
            pauses.take_off()
            assert annotations_of(named(made, r.SCALEDOBJECTS, "encoder", NS)).get(PAUSED_AT) == before
        made.advance(5)
        assert _told(made) == ("keda-hpa-encoder", 1, "True ScaledObjectPaused", False)  # the HPA goes with a pause
        _annotate(made, None)
        made.advance(5)
        assert _told(made) == ("keda-hpa-encoder", 1, "False ScaledObjectUnpaused", True)


def _told(made):
    """hpaName, originalReplicaCount and Paused of its status, and whether it has an HPA."""
    status = named(made, r.SCALEDOBJECTS, "encoder", NS)["status"]
    paused = next(one for one in status["conditions"] if one["type"] == "Paused")
    words = f"{paused['status']} {paused.get('reason', '')}"
    has = made.kube.find(r.HPAS, "keda-hpa-encoder", NS) is not None
    return status["hpaName"], status["originalReplicaCount"], words, has


def _annotate(made, value):
    made.kube.patch(r.SCALEDOBJECTS, "encoder", {"metadata": {"annotations": {PAUSED_AT: value}}}, NS)


@pytest.mark.parametrize("kind", ["LeaderWorkerSet", "Deployment"])
def test_floor_is_kept_of_whatever_has_a_scale_and_of_no_namesake(kind):
    """scale_scaledobjects.go goes by the scale subresource: of a LeaderWorkerSet as of a Deployment."""
    deployment = _deployment("encoder", 1, 1)
    worker = deployment["spec"]["template"]
    group = {
        "apiVersion": "leaderworkerset.x-k8s.io/v1",
        "kind": "LeaderWorkerSet",
        "metadata": {"name": "encoder", "namespace": NS},
        "spec": {"replicas": 1, "leaderWorkerTemplate": {"size": 1, "workerTemplate": worker}},
    }
    scaled = _scaled(_counting("app=nobody"))
    scaled["spec"] |= {"minReplicaCount": 1}
    scaled["spec"]["scaleTargetRef"] |= {
        "kind": kind,
        "apiVersion": group["apiVersion"] if kind != "Deployment" else "apps/v1",
    }
    with cluster(deployment, group, scaled) as made:
        until(made, running(made, 2, app="encoder"))
        for one in (r.DEPLOYMENTS, r.LEADERWORKERSETS):
            made.kube.patch(one, "encoder", {"spec": {"replicas": 0}}, NS)
        held, other = r.LEADERWORKERSETS, r.DEPLOYMENTS
        if kind == "Deployment":
            held, other = other, held
        until(made, lambda: dig(named(made, held, "encoder", NS), "spec", "replicas") == 1, 120)
        assert dig(named(made, other, "encoder", NS), "spec", "replicas") == 0


_BOUNDS = "ScaledObject doesn't have correct Idle/Min/Max Replica Counts specification: "


@pytest.mark.parametrize(
    ("spec", "said"),
    [
        ({}, ""),
        ({"minReplicaCount": 0, "idleReplicaCount": 0}, ""),
        ({"minReplicaCount": 2, "idleReplicaCount": 0}, ""),
        ({"idleReplicaCount": 0}, _BOUNDS + "IdleReplicaCount=0 must be less than MinReplicaCount=0"),
        (
            {"minReplicaCount": 2, "idleReplicaCount": 2},
            _BOUNDS + "IdleReplicaCount=2 must be less than MinReplicaCount=2",
        ),
        (
            {"minReplicaCount": 3, "maxReplicaCount": 2},
            _BOUNDS + "MinReplicaCount=3 must be less than MaxReplicaCount=2",
        ),
        ({"triggers": []}, "ScaledObject doesn't have correct triggers specification: no triggers defined in the "),
        (
            {"triggers": [_counting("a=b") | {"name": "x"}] * 2},
            "ScaledObject doesn't have correct triggers specification: ",
        ),
        ({"triggers": [{"type": "cron", "useCachedMetrics": True}]}, "ScaledObject doesn't have correct triggers spec"),
    ],
    ids=str,
)
def test_what_keda_refuses(spec, said):
    found = keda_triggers.refused({"spec": {"triggers": [_counting("a=b")]} | spec})
    assert (found.startswith(said), bool(found)) == (True, bool(said))


def test_what_is_refused_is_not_scaled():
    """idleReplicaCount 0 with no minReplicaCount beside it is a scaler that never acts, whatever its triggers say."""
    scaled = _scaled(_counting("app=nobody"))
    scaled["spec"] |= {"idleReplicaCount": 0}
    del scaled["spec"]["minReplicaCount"]
    with cluster(_deployment("encoder", 1, 1), scaled) as made:
        assert not made.loop.run_until(lambda: _replicas(made) == 0, 900)
        status = named(made, r.SCALEDOBJECTS, "encoder", NS)["status"]
        assert [one["reason"] for one in status["conditions"][:2]] == ["ScaledObjectCheckFailed", "UnknownState"]
        assert named(made, r.HPAS, "keda-hpa-encoder", NS) is None


def test_namespace_goes_when_a_finalizer_of_a_custom_resource_has_gone():
    """KEDA puts its finalizer on each ScaledObject: seen with KEDA itself, whose namespaces stayed Terminating here."""
    scaled = _scaled(_counting("app=nobody"))
    scaled["metadata"]["finalizers"] = ["finalizer.keda.sh"]
    with cluster(scaled) as made:
        made.kube.delete(r.NAMESPACES, NS)
        assert not made.loop.run_until(lambda: named(made, r.NAMESPACES, NS) is None, 60)
        made.kube.patch(r.SCALEDOBJECTS, "encoder", {"metadata": {"finalizers": None}}, NS)
        until(made, lambda: named(made, r.NAMESPACES, NS) is None, 60)
