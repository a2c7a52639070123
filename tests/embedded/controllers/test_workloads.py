"""Deployments, ReplicaSets, StatefulSets and DaemonSets against the recordings of a v1.36 cluster."""

from __future__ import annotations

from typing import Any

import pytest
from controller_world import World, template

from killcheck.embedded.controllers.replicaset import ReplicaSetController
from killcheck.embedded.controllers.runtime import MANY, Key
from killcheck.kube import resources as r
from killcheck.kube.objects import Obj, annotations_of, condition, controller_of, dig, labels_of, name_of, owners


def summary(_change: str, deployment: Obj) -> Any:
    """Counts (zeros are absent) and the reasons of the conditions."""
    status = deployment.get("status") or {}
    counts = {key: value for key, value in status.items() if key.endswith("eplicas")}
    return counts, {c["type"]: (c["status"], c["reason"]) for c in status.get("conditions") or []}


def sets(world: World) -> dict[str, int]:
    """Desired replicas by ReplicaSet, the oldest first."""
    found = world.kube.list(r.REPLICASETS, "ns").items
    found.sort(key=lambda rs: int(annotations_of(rs)["deployment.kubernetes.io/revision"]))
    return {name_of(rs): rs["spec"]["replicas"] for rs in found}


def change_template(world: World, value: str, name: str = "vllm") -> None:
    env = [{"name": "A", "value": value}]
    patch = {"spec": {"template": {"spec": {"containers": [{"name": name, "env": env}]}}}}
    world.kube.patch(r.DEPLOYMENTS, name, patch, "ns", kind="strategic")


# -- Deployments -------------------------------------------------------------------------------------------
def test_a_deployment_comes_up_in_the_recorded_order(world: World) -> None:
    """01."""
    seen = world.watch(r.DEPLOYMENTS, summary)
    world.deployment()
    world.run(5)

    unavailable = ("False", "MinimumReplicasUnavailable")
    assert [value for _, value in seen] == [
        ({}, {}),
        ({}, {"Progressing": ("True", "NewReplicaSetCreated")}),
        (
            {"unavailableReplicas": 1, "terminatingReplicas": 0},
            {"Progressing": ("True", "NewReplicaSetCreated"), "Available": unavailable},
        ),
        (
            {"replicas": 1, "updatedReplicas": 1, "unavailableReplicas": 1, "terminatingReplicas": 0},
            {"Progressing": ("True", "ReplicaSetUpdated"), "Available": unavailable},
        ),
        (
            {"replicas": 1, "updatedReplicas": 1, "readyReplicas": 1, "availableReplicas": 1, "terminatingReplicas": 0},
            {"Progressing": ("True", "NewReplicaSetAvailable"), "Available": ("True", "MinimumReplicasAvailable")},
        ),
    ]
    deployment = world.get(r.DEPLOYMENTS, "vllm")
    (rs,) = sets(world)
    assert deployment["metadata"]["generation"] == deployment["status"]["observedGeneration"] == 1
    assert annotations_of(deployment)["deployment.kubernetes.io/revision"] == "1"
    assert dig(condition(deployment, "Progressing"), "message") == f'ReplicaSet "{rs}" has successfully progressed.'
    assert dig(condition(deployment, "Available"), "message") == "Deployment has minimum availability."
    (pod,) = world.pods()
    assert world.said()[:2] == [
        f"Normal ScalingReplicaSet: Scaled up replica set {rs} from 0 to 1",
        f"Normal SuccessfulCreate: Created pod: {name_of(pod)}",
    ]
    assert labels_of(pod)["pod-template-hash"] == rs.removeprefix("vllm-")
    assert dig(controller_of(pod), "name") == rs


def test_at_zero_replicas_the_pod_is_still_terminating(world: World) -> None:
    """21: no replicas at once, terminatingReplicas 1 until the containers are dead (not until the object goes)."""
    world.deployment(template=template("vllm", grace=40))
    world.run(5)
    seen = world.watch(r.DEPLOYMENTS, lambda _, d: summary("", d)[0])
    world.kube.patch(r.DEPLOYMENTS, "vllm", {"spec": {"replicas": 0}}, "ns", subresource="scale")
    world.run(60)

    assert seen[1:] == [(5.0, {"terminatingReplicas": 1}), (45.0, {"terminatingReplicas": 0})]
    (rs,) = sets(world)
    events = [entry for entry in world.said() if "SuccessfulDelete" in entry or "from 1 to 0" in entry]
    assert events[0] == f"Normal ScalingReplicaSet: Scaled down replica set {rs} from 1 to 0"
    assert events[1].startswith("Normal SuccessfulDelete: Deleted pod: vllm-")
    assert world.get(r.REPLICASETS, rs)["status"]["replicas"] == 0
    assert world.pods() == []


def test_a_rollout_replaces_pods_one_by_one(world: World) -> None:
    """30: up one, down one, up one, down one, never less than two available."""
    world.deployment(replicas=2)
    world.run(5)
    seen = world.watch(r.DEPLOYMENTS, lambda _, d: dig(d, "status", "availableReplicas", default=0))
    (old,) = sets(world)
    change_template(world, "1")
    world.run(30)

    new = next(name for name in sets(world) if name != old)
    assert sets(world) == {old: 0, new: 2}
    assert [entry.partition(": ")[2] for entry in world.said(about="vllm")][1:] == [
        f"Scaled up replica set {new} from 0 to 1",
        f"Scaled down replica set {old} from 2 to 1",
        f"Scaled up replica set {new} from 1 to 2",
        f"Scaled down replica set {old} from 1 to 0",
    ]
    assert min(count for _, count in seen) >= 2
    assert annotations_of(world.get(r.DEPLOYMENTS, "vllm"))["deployment.kubernetes.io/revision"] == "2"


def test_a_bad_rollout_runs_out_of_time_and_the_old_pods_go_on(world: World) -> None:
    """30: ProgressDeadlineExceeded after progressDeadlineSeconds, without an event; undo brings the old set back."""
    world.deployment(replicas=2, progressDeadlineSeconds=20)
    world.run(5)
    (good,) = sets(world)
    world.kubelet.stuck.add("vllm")
    seen = world.watch(r.DEPLOYMENTS, lambda _, d: dig(condition(d, "Progressing"), "reason"))
    change_template(world, "broken")
    world.run(40)

    bad = next(name for name in sets(world) if name != good)
    assert seen[-1] == (26.0, "ProgressDeadlineExceeded")
    progressing = condition(world.get(r.DEPLOYMENTS, "vllm"), "Progressing") or {}
    assert progressing["message"] == f'ReplicaSet "{bad}" has timed out progressing.'
    assert sets(world) == {good: 2, bad: 1}
    assert not any("Deadline" in entry for entry in world.said())

    containers = [{"name": "vllm", "env": [{"name": "A", "$patch": "delete"}]}]
    undo = {"spec": {"template": {"spec": {"containers": containers}}}}
    world.kube.patch(r.DEPLOYMENTS, "vllm", undo, "ns", kind="strategic")
    world.run(10)
    assert sets(world) == {bad: 0, good: 2}
    rs = world.get(r.REPLICASETS, good)
    assert annotations_of(rs)["deployment.kubernetes.io/revision"] == "3"
    assert annotations_of(rs)["deployment.kubernetes.io/revision-history"] == "1"


def test_recreate_waits_until_the_old_pods_have_ended(world: World) -> None:
    """Their containers, that is: the objects may go later (``oldPodsRunning``)."""
    world.deployment(replicas=2, strategy={"type": "Recreate"})
    world.run(5)
    (old,) = sets(world)
    seen = world.watch(r.PODS, lambda _, pod: (name_of(pod).rpartition("-")[0], dig(pod, "status", "phase")))
    change_template(world, "1")
    world.run(20)

    new = next(name for name in sets(world) if name != old)
    assert seen == [
        (5.0, (old, "Running")),
        (10.0, (old, "Failed")),
        (10.0, (new, "Pending")),
        (10.5, (old, "Failed")),
        (10.5, (new, "Running")),
    ]


def test_a_paused_deployment_scales_but_does_not_roll(world: World) -> None:
    world.deployment(replicas=1)
    world.run(3)
    world.kube.patch(r.DEPLOYMENTS, "vllm", {"spec": {"paused": True}}, "ns")
    change_template(world, "1")
    world.kube.patch(r.DEPLOYMENTS, "vllm", {"spec": {"replicas": 3}}, "ns")
    world.run(3)
    assert list(sets(world).values()) == [3]
    assert dig(condition(world.get(r.DEPLOYMENTS, "vllm"), "Progressing"), "reason") == "DeploymentPaused"

    world.kube.patch(r.DEPLOYMENTS, "vllm", {"spec": {"paused": False}}, "ns")
    world.run(20)
    assert list(sets(world).values()) == [0, 3]


def test_old_replica_sets_are_kept_up_to_the_limit(world: World) -> None:
    world.deployment(revisionHistoryLimit=1)
    for number in range(4):
        world.run(10)
        change_template(world, str(number))
    world.run(10)
    assert len(sets(world)) == 2


def test_scaling_in_the_middle_of_a_rollout_is_shared_out(world: World) -> None:
    world.deployment(
        replicas=10, strategy={"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 3, "maxUnavailable": 2}}
    )
    world.run(3)
    world.kubelet.stuck.add("vllm")
    change_template(world, "stuck")
    world.run(1)
    assert list(sets(world).values()) == [8, 5]
    world.kube.patch(r.DEPLOYMENTS, "vllm", {"spec": {"replicas": 20}}, "ns")
    world.run(1)
    assert list(sets(world).values()) == [14, 9]


# -- ReplicaSets -------------------------------------------------------------------------------------------
def test_a_refused_pod_is_a_condition_up_to_the_deployment(world: World) -> None:
    world.deployment(template=template("vllm", serviceAccountName="missing"))
    world.run(1)
    (rs,) = world.kube.list(r.REPLICASETS, "ns").items
    failure = condition(rs, "ReplicaFailure") or {}
    assert failure["reason"] == "FailedCreate"
    assert 'service account ns/missing: serviceaccount "missing" not found' in failure["message"]
    assert dig(condition(world.get(r.DEPLOYMENTS, "vllm"), "ReplicaFailure"), "reason") == "FailedCreate"

    world.create({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "missing", "namespace": "ns"}})
    world.run(10)
    assert len(world.pods()) == 1
    assert condition(world.get(r.DEPLOYMENTS, "vllm"), "ReplicaFailure") is None


def test_the_pod_that_costs_least_goes_first(world: World) -> None:
    world.deployment(replicas=3)
    world.run(3)
    cheap = name_of(world.pods()[1])
    cost = {"metadata": {"annotations": {"controller.kubernetes.io/pod-deletion-cost": "-5"}}}
    world.kube.patch(r.PODS, cheap, cost, "ns")
    world.kube.patch(r.DEPLOYMENTS, "vllm", {"spec": {"replicas": 2}}, "ns")
    world.run(1)
    assert [name_of(pod) for pod in world.pods() if "deletionTimestamp" in pod["metadata"]] == [cheap]


def test_a_pod_that_no_longer_matches_is_released_and_replaced(world: World) -> None:
    world.deployment()
    world.run(3)
    (pod,) = world.pods()
    world.kube.patch(r.PODS, name_of(pod), {"metadata": {"labels": {"app": "quarantine"}}}, "ns")
    world.run(1)
    assert list(owners(world.get(r.PODS, name_of(pod)))) == []
    assert len(world.pods(app="vllm")) == 1


def test_pods_count_as_available_after_min_ready_seconds(world: World) -> None:
    seen = world.watch(r.DEPLOYMENTS, lambda _, d: dig(d, "status", "availableReplicas", default=0))
    world.deployment(minReadySeconds=10)
    world.run(30)
    assert seen == [(0.0, 0), (10.0, 1)]


# -- StatefulSets ------------------------------------------------------------------------------------------
def stateful_set(world: World, replicas: int = 3, **spec: Any) -> Obj:
    return world.create(
        {
            "apiVersion": "apps/v1",
            "kind": "StatefulSet",
            "metadata": {"name": "web", "namespace": "ns"},
            "spec": {
                "replicas": replicas,
                "serviceName": "web",
                "selector": {"matchLabels": {"app": "web"}},
                "template": template("web"),
                **spec,
            },
        }
    )


def arrivals(world: World) -> list[tuple[float, Any]]:
    return world.watch(r.PODS, lambda change, pod: (change, name_of(pod)) if change != "modified" else None)


def test_stateful_pods_come_one_after_the_other_and_go_in_reverse(world: World) -> None:
    seen = arrivals(world)
    stateful_set(world)
    world.run_to(10)
    assert seen == [(0.0, ("added", "web-0")), (0.5, ("added", "web-1")), (1.0, ("added", "web-2"))]
    assert world.said(about="web") == [
        f"Normal SuccessfulCreate: Create Pod web-{n} in StatefulSet web successful" for n in range(3)
    ]
    status = world.get(r.STATEFULSETS, "web")["status"]
    assert (status["replicas"], status["readyReplicas"], status["availableReplicas"]) == (3, 3, 3)
    assert status["currentRevision"] == status["updateRevision"]
    pod = world.get(r.PODS, "web-1")
    assert labels_of(pod)["apps.kubernetes.io/pod-index"] == "1"
    assert (pod["spec"]["hostname"], pod["spec"]["subdomain"]) == ("web-1", "web")

    world.kube.patch(r.STATEFULSETS, "web", {"spec": {"replicas": 0}}, "ns")
    world.run(30)
    assert seen[3:] == [(15.5, ("deleted", "web-2")), (21.0, ("deleted", "web-1")), (26.5, ("deleted", "web-0"))]


def test_a_stateful_pod_that_never_ran_is_replaced_by_one_of_the_new_revision(world: World) -> None:
    """It came back as it was before, again and again at one moment, for ever."""
    stateful_set(world, replicas=1, podManagementPolicy="Parallel")
    template = {"metadata": {"annotations": {"v": "2"}}}
    world.kube.patch(r.STATEFULSETS, "web", {"spec": {"template": template}}, "ns")
    world.run(5)
    pods = world.kube.list(r.PODS, "ns").items
    assert [annotations_of(pod).get("v") for pod in pods] == ["2"]
    assert pods[0]["metadata"]["generateName"] == "web-"


def test_a_stateful_set_counts_terminating_pods(world: World) -> None:
    """FACTS: unlike a Deployment's, its status.replicas counts Terminating pods."""
    stateful_set(world, 1)
    world.run(3)
    world.kube.patch(r.STATEFULSETS, "web", {"spec": {"replicas": 0}}, "ns")
    world.run(2)
    assert world.get(r.STATEFULSETS, "web")["status"]["replicas"] == 1
    world.run(5)
    assert world.get(r.STATEFULSETS, "web")["status"]["replicas"] == 0


def test_parallel_stateful_pods_come_and_go_at_once(world: World) -> None:
    seen = arrivals(world)
    stateful_set(world, podManagementPolicy="Parallel")
    world.run(3)
    world.kube.patch(r.STATEFULSETS, "web", {"spec": {"replicas": 1}}, "ns")
    world.run(10)
    assert [t for t, _ in seen] == [0.0, 0.0, 0.0, 8.5, 8.5]


def test_a_stateful_update_begins_with_the_last_pod(world: World) -> None:
    stateful_set(world)
    world.run(5)
    seen = world.watch(r.PODS, lambda change, pod: name_of(pod) if change == "deleted" else None)
    patch = {"spec": {"template": {"metadata": {"labels": {"v": "2"}}}}}
    world.kube.patch(r.STATEFULSETS, "web", patch, "ns")
    world.run(60)
    assert [name for _, name in seen] == ["web-2", "web-1", "web-0"]
    status = world.get(r.STATEFULSETS, "web")["status"]
    assert status["updatedReplicas"] == 3
    assert status["currentRevision"] == status["updateRevision"]
    assert all(labels_of(pod)["v"] == "2" for pod in world.pods())


def test_a_partition_holds_the_update_back(world: World) -> None:
    stateful_set(world, updateStrategy={"type": "RollingUpdate", "rollingUpdate": {"partition": 2}})
    world.run(5)
    world.kube.patch(r.STATEFULSETS, "web", {"spec": {"template": {"metadata": {"labels": {"v": "2"}}}}}, "ns")
    world.run(30)
    assert [labels_of(pod).get("v") for pod in sorted(world.pods(), key=name_of)] == [None, None, "2"]


def test_a_failed_stateful_pod_is_made_again(world: World) -> None:
    stateful_set(world, 1)
    world.run(3)
    before = world.get(r.PODS, "web-0")["metadata"]["uid"]
    world.kube.patch(r.PODS, "web-0", {"status": {"phase": "Failed"}}, "ns", subresource="status")
    world.run(10)
    assert world.get(r.PODS, "web-0")["metadata"]["uid"] != before
    assert not [said for said in world.said(about="web") if "Recreating" in said]  # v1.36 says nothing of it


def test_stateful_pods_get_volumes_of_their_own(world: World) -> None:
    world.create(
        {
            "apiVersion": "storage.k8s.io/v1",
            "kind": "StorageClass",
            "metadata": {"name": "fast"},
            "provisioner": "ebs.csi.aws.com",
            "volumeBindingMode": "WaitForFirstConsumer",
        }
    )
    claim = {
        "metadata": {"name": "data"},
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "storageClassName": "fast",
            "resources": {"requests": {"storage": "10Gi"}},
        },
    }
    stateful_set(world, 2, volumeClaimTemplates=[claim])
    world.run(10)
    claims = {name_of(c): c for c in world.kube.list(r.PERSISTENTVOLUMECLAIMS, "ns").items}
    assert set(claims) == {"data-web-0", "data-web-1"}
    assert {c["status"]["phase"] for c in claims.values()} == {"Bound"}
    assert annotations_of(claims["data-web-0"])["volume.kubernetes.io/selected-node"] == "node-0"
    assert all(pod["spec"].get("nodeName") for pod in world.pods())


# -- DaemonSets --------------------------------------------------------------------------------------------
def daemon_set(world: World, **spec: Any) -> Obj:
    return world.create(
        {
            "apiVersion": "apps/v1",
            "kind": "DaemonSet",
            "metadata": {"name": "agent", "namespace": "ns"},
            "spec": {"selector": {"matchLabels": {"app": "agent"}}, "template": template("agent"), **spec},
        }
    )


def test_a_daemon_runs_on_every_node_that_takes_it(world: World) -> None:
    world.node("node-1")
    world.node("gpu", taints=[{"key": "nvidia.com/gpu", "value": "true", "effect": "NoSchedule"}])
    world.node("cordoned")
    world.kube.patch(r.NODES, "cordoned", {"spec": {"unschedulable": True}})
    daemon_set(world)
    world.run(3)
    assert sorted(pod["spec"]["nodeName"] for pod in world.pods()) == ["cordoned", "node-0", "node-1"]
    status = world.get(r.DAEMONSETS, "agent")["status"]
    assert (status["desiredNumberScheduled"], status["numberReady"], status["numberAvailable"]) == (3, 3, 3)
    assert status["numberMisscheduled"] == 0

    world.node("node-2")
    world.run(3)
    assert len(world.pods()) == 4


def test_daemons_are_updated_one_at_a_time(world: World) -> None:
    world.node("node-1")
    daemon_set(world)
    world.run(3)
    seen = world.watch(r.PODS, lambda change, pod: name_of(pod) if change == "deleted" else None)
    world.kube.patch(r.DAEMONSETS, "agent", {"spec": {"template": {"metadata": {"labels": {"v": "2"}}}}}, "ns")
    world.run(30)
    assert [t for t, _ in seen] == [8.5, 14.5]
    assert world.get(r.DAEMONSETS, "agent")["status"]["updatedNumberScheduled"] == 2


def test_what_is_left_of_many_pods_is_counted_once_a_moment(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not once for each pod that ends: what takes a pass over all pods for every one of them grows with its square."""
    world.deployment(replicas=2 * MANY)
    world.run(30)
    passes: list[Key] = []
    reconcile = ReplicaSetController.reconcile
    monkeypatch.setattr(
        ReplicaSetController, "reconcile", lambda self, key: (passes.append(key), reconcile(self, key))[1]
    )
    world.kube.patch(r.DEPLOYMENTS, "vllm", {"spec": {"replicas": 0}}, "ns")
    world.run(60)
    assert world.kube.list(r.PODS, "ns").items == []
    (name,) = sets(world)
    assert world.get(r.REPLICASETS, name)["status"].get("terminatingReplicas") == 0
    assert len(passes) < 3 * MANY, "two changes of each pod and the first half at once; one by one there are 300"
