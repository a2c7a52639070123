"""Where pods go, and what is said of those that go nowhere: recordings 16, 16b, 16c, 16d and 32."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from controller_world import World, template

from killcheck.kube import resources as r
from killcheck.kube.objects import Obj, condition, dig, name_of

NOT_HELPFUL = "3 Preemption is not helpful for scheduling."
TAINT = [{"key": "node-role", "value": "x", "effect": "NoSchedule"}]


@pytest.fixture
def three(make_world: Callable[..., World]) -> World:
    """One node that is open, and two that are tainted, as recorded."""
    world = make_world()
    world.node("tainted-1", taints=TAINT)
    world.node("tainted-2", taints=TAINT)
    world.run(0)
    return world


def pod(world: World, name: str = "p", *, resources: Obj | None = None, labels: Obj | None = None, **spec: Any) -> Obj:
    body = template("c", **spec)["spec"]
    if resources:
        body["containers"][0]["resources"] = {"requests": resources, "limits": resources}
    return world.create(
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "spec": body,
            "metadata": {"name": name, "namespace": "ns", "labels": labels or {}},
        }
    )


def node_of(world: World, name: str = "p") -> str:
    return str(world.get(r.PODS, name)["spec"].get("nodeName", ""))


def why(world: World, name: str = "p") -> str:
    return str(dig(condition(world.get(r.PODS, name), "PodScheduled"), "message", default=""))


@pytest.mark.parametrize(
    ("spec", "resources", "reason"),
    [
        ({"nodeSelector": {"no": "node"}}, None, "node(s) didn't match Pod's node affinity/selector"),
        ({}, {"nvidia.com/gpu": "16"}, "Insufficient nvidia.com/gpu"),
        ({}, {"cpu": "64"}, "Insufficient cpu"),
    ],
)
def test_a_pod_that_fits_nowhere_says_why(
    three: World,
    spec: Obj,
    resources: Obj | None,
    reason: str,
) -> None:
    """16, 16b, 16d: condition and event have the same text; the event has an eventTime and no count."""
    pod(three, resources=resources, **spec)
    three.run(1)
    counts = sorted([f"1 {reason}", "2 node(s) had untolerated taint(s)"])
    text = (
        f"0/3 nodes are available: {', '.join(counts)}. no new claims to deallocate, preemption: "
        f"0/3 nodes are available: {NOT_HELPFUL}"
    )
    found = condition(three.get(r.PODS, "p"), "PodScheduled") or {}
    assert (found["status"], found["reason"], found["message"]) == ("False", "Unschedulable", text)
    assert found["observedGeneration"] == 1
    (event,) = three.events("FailedScheduling")
    assert (event["type"], event["message"], event["reportingComponent"]) == ("Warning", text, "default-scheduler")
    assert event["eventTime"] == "2026-11-21T01:44:58.000000Z"
    assert not event.get("count")


def test_a_bound_pod_says_where(world: World) -> None:
    pod(world)
    world.run(0)
    assert node_of(world) == "node-0"
    (event,) = world.events("Scheduled")
    assert event["message"] == "Successfully assigned ns/p to node-0"
    assert event["action"] == "Binding"
    assert dig(condition(world.get(r.PODS, "p"), "PodScheduled"), "status") == "True"


def test_without_nodes(make_world: Callable[..., World]) -> None:
    world = make_world(nodes=0)
    pod(world)
    world.run(0)
    assert why(world) == "no nodes available to schedule pods"
    world.node("late")
    world.run(2)
    assert node_of(world) == "late"


def test_a_pod_waits_silently_until_something_changes_that_matters(three: World) -> None:
    """No retries in a quiet night; a node's capacity is enough to try again, a node's heartbeat is not."""
    pod(three, resources={"nvidia.com/gpu": "1"})
    three.run(5)
    before = three.store.revision
    three.run(3600)
    assert three.store.revision == before

    node = three.get(r.NODES, "node-0", None)
    status = {"allocatable": node["status"]["allocatable"] | {"nvidia.com/gpu": "8"}}
    three.kube.patch(r.NODES, "node-0", {"status": status}, subresource="status")
    three.run(0)
    assert node_of(three) == "node-0"


def test_capacity_is_counted_and_freed_when_containers_are_dead(make_world: Callable[..., World]) -> None:
    """22: a pod held by a finalizer frees its GPUs as soon as its phase is Failed."""
    world = make_world(nodes=0)
    world.node("gpu", nvidia_com__gpu="8")
    pod(world, "first", resources={"nvidia.com/gpu": "8"})
    world.run(1)
    held = {"metadata": {"finalizers": ["example.com/held"]}}
    world.kube.patch(r.PODS, "first", held, "ns")
    pod(world, "second", resources={"nvidia.com/gpu": "8"})
    world.run(2)
    assert why(world, "second") == (
        "0/1 nodes are available: 1 Insufficient nvidia.com/gpu. no new claims to deallocate, preemption: "
        "0/1 nodes are available: 1 No preemption victims found for incoming pod."
    )
    world.kube.delete(r.PODS, "first", "ns")
    world.run(4.9)
    assert node_of(world, "second") == ""
    world.run(1)
    assert node_of(world, "second") == "gpu"
    assert world.kube.find(r.PODS, "first", "ns") is not None


def test_taints_are_tolerated_by_key_value_and_effect(make_world: Callable[..., World]) -> None:
    world = make_world(nodes=0)
    world.node("gpu", taints=[{"key": "nvidia.com/gpu", "value": "true", "effect": "NoSchedule"}])
    pod(world, "exists", tolerations=[{"key": "nvidia.com/gpu", "operator": "Exists"}])
    pod(world, "equal", tolerations=[{"key": "nvidia.com/gpu", "value": "true", "effect": "NoSchedule"}])
    pod(world, "other", tolerations=[{"key": "nvidia.com/gpu", "value": "no"}])
    pod(world, "all", tolerations=[{"operator": "Exists"}])
    world.run(0)
    assert [bool(node_of(world, name)) for name in ("exists", "equal", "other", "all")] == [True, True, False, True]


def test_a_cordoned_node_takes_nothing(world: World) -> None:
    world.kube.patch(r.NODES, "node-0", {"spec": {"unschedulable": True}})
    pod(world)
    world.run(0)
    assert why(world).startswith("0/1 nodes are available: 1 node(s) were unschedulable.")
    world.kube.patch(r.NODES, "node-0", {"spec": {"taints": TAINT}})
    world.run(2)  # a taint is no help to who waits for the cordon: nobody looks at it again
    assert why(world).startswith("0/1 nodes are available: 1 node(s) were unschedulable.")
    world.kube.patch(r.NODES, "node-0", {"spec": {"unschedulable": False}})
    world.run(2)
    assert why(world).startswith("0/1 nodes are available: 1 node(s) had untolerated taint(s).")
    world.kube.patch(r.NODES, "node-0", {"spec": {"unschedulable": True}})
    world.run(2)  # and the other way round
    assert why(world).startswith("0/1 nodes are available: 1 node(s) had untolerated taint(s).")
    world.kube.patch(r.NODES, "node-0", {"spec": {"taints": None, "unschedulable": False}})
    world.run(2)
    assert node_of(world) == "node-0"


def test_node_affinity_required_and_preferred(make_world: Callable[..., World]) -> None:
    world = make_world(nodes=0)
    for zone in ("a", "b", "c"):
        world.node(zone, labels={"zone": zone})
    not_a = [{"matchExpressions": [{"key": "zone", "operator": "NotIn", "values": ["a"]}]}]
    rather_c = [
        {"weight": 10, "preference": {"matchExpressions": [{"key": "zone", "operator": "In", "values": ["c"]}]}}
    ]
    pod(
        world,
        affinity={
            "nodeAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": not_a},
                "preferredDuringSchedulingIgnoredDuringExecution": rather_c,
            }
        },
    )
    world.run(0)
    assert node_of(world) == "c"


def test_pods_keep_their_distance(make_world: Callable[..., World]) -> None:
    world = make_world(nodes=2)
    apart = {
        "podAntiAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": [
                {"labelSelector": {"matchLabels": {"app": "x"}}, "topologyKey": "kubernetes.io/hostname"}
            ]
        }
    }
    for number in range(3):
        pod(world, f"p{number}", labels={"app": "x"}, affinity=apart)
    world.run(0)
    assert {node_of(world, "p0"), node_of(world, "p1")} == {"node-0", "node-1"}
    assert why(world, "p2").startswith("0/2 nodes are available: 2 node(s) didn't match pod anti-affinity rules.")
    pod(world, "plain", labels={"app": "x"})
    world.run(0)
    assert "2 node(s) didn't satisfy existing pods anti-affinity rules" in why(world, "plain")


def test_pods_keep_together_and_the_first_may_go_anywhere(make_world: Callable[..., World]) -> None:
    world = make_world(nodes=3)
    together = {
        "podAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": [
                {"labelSelector": {"matchLabels": {"app": "x"}}, "topologyKey": "kubernetes.io/hostname"}
            ]
        }
    }
    for number in range(3):
        pod(world, f"p{number}", labels={"app": "x"}, affinity=together)
    pod(
        world,
        "stranger",
        labels={"app": "y"},
        affinity={
            "podAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": [
                    {"labelSelector": {"matchLabels": {"app": "nobody"}}, "topologyKey": "kubernetes.io/hostname"}
                ]
            }
        },
    )
    world.run(0)
    assert len({node_of(world, f"p{number}") for number in range(3)}) == 1
    assert "3 node(s) didn't match pod affinity rules" in why(world, "stranger")


def test_pods_spread_evenly(make_world: Callable[..., World]) -> None:
    world = make_world(nodes=0)
    for name, zone in (("a1", "a"), ("a2", "a"), ("b1", "b")):
        world.node(name, labels={"zone": zone})
    world.node("nowhere")
    constraint = {
        "maxSkew": 1,
        "topologyKey": "zone",
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": {"app": "x"}},
    }
    for number in range(4):
        pod(world, f"p{number}", labels={"app": "x"}, topologySpreadConstraints=[constraint])
        world.run(0)
    zones = [node_of(world, f"p{number}")[0] for number in range(4)]
    assert sorted(zones) == ["a", "a", "b", "b"]
    world.kube.patch(r.NODES, "b1", {"spec": {"unschedulable": True}})
    pod(world, "p4", labels={"app": "x"}, topologySpreadConstraints=[constraint], nodeSelector={"zone": "a"})
    world.run(0)
    assert node_of(world, "p4")[0] == "a"  # its own domains are those it can reach


def test_replicas_are_spread_over_nodes(make_world: Callable[..., World]) -> None:
    world = make_world(nodes=4)
    world.deployment(replicas=4)
    world.run(0)
    assert len({p["spec"]["nodeName"] for p in world.pods()}) == 4


def test_host_ports_are_taken_once(make_world: Callable[..., World]) -> None:
    world = make_world(nodes=1)
    for number in range(2):
        made = template("c")["spec"]
        made["containers"][0]["ports"] = [{"containerPort": 80, "hostPort": 8080}]
        world.create(
            {"apiVersion": "v1", "kind": "Pod", "spec": made, "metadata": {"name": f"p{number}", "namespace": "ns"}}
        )
    world.run(0)
    assert "1 node(s) didn't have free ports for the requested pod ports" in why(world, "p1")


def test_scheduling_gates_hold_a_pod(world: World) -> None:
    pod(world, schedulingGates=[{"name": "example.com/wait"}])
    world.run(5)
    assert node_of(world) == ""
    assert world.events("FailedScheduling") == []
    world.kube.patch(r.PODS, "p", {"spec": {"schedulingGates": None}}, "ns")
    world.run(0)
    assert node_of(world) == "node-0"


def test_a_more_important_pod_makes_room(make_world: Callable[..., World]) -> None:
    world = make_world(nodes=0)
    world.node("gpu", nvidia_com__gpu="8")
    world.create(
        {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": "high"}, "value": 1000}
    )
    pod(world, "low", resources={"nvidia.com/gpu": "8"})
    world.run(1)
    pod(world, "high", resources={"nvidia.com/gpu": "8"}, priorityClassName="high")
    world.run(0)
    high = world.get(r.PODS, "high")
    assert high["status"]["nominatedNodeName"] == "gpu"
    low = world.get(r.PODS, "low")
    target = condition(low, "DisruptionTarget") or {}
    assert (target["reason"], target["message"]) == (
        "PreemptionByScheduler",
        "default-scheduler: preempting to accommodate a higher priority pod",
    )
    (event,) = world.events("Preempted")
    assert event["message"] == f"Preempted by pod {high['metadata']['uid']} on node gpu"
    pod(world, "cheeky", resources={"nvidia.com/gpu": "8"})

    world.run(10)
    assert node_of(world, "high") == "gpu"
    assert node_of(world, "cheeky") == ""
    assert world.kube.find(r.PODS, "low", "ns") is None


def test_preemption_policy_never(make_world: Callable[..., World]) -> None:
    world = make_world(nodes=0)
    world.node("gpu", nvidia_com__gpu="8")
    world.create(
        {
            "apiVersion": "scheduling.k8s.io/v1",
            "kind": "PriorityClass",
            "metadata": {"name": "polite"},
            "value": 1000,
            "preemptionPolicy": "Never",
        }
    )
    pod(world, "low", resources={"nvidia.com/gpu": "8"})
    pod(world, "polite", resources={"nvidia.com/gpu": "8"}, priorityClassName="polite")
    world.run(5)
    late = next(name for name in ("low", "polite") if not node_of(world, name))
    if late == "polite":
        assert why(world, "polite").endswith("preemption: not eligible due to preemptionPolicy=Never.")
    else:
        assert world.events("Preempted") == []


def test_a_missing_volume_claim(world: World) -> None:
    pod(world, volumes=[{"name": "d", "persistentVolumeClaim": {"claimName": "data"}}])
    world.run(0)
    assert why(world).startswith('0/1 nodes are available: persistentvolumeclaim "data" not found.')
    world.create(
        {
            "apiVersion": "v1",
            "kind": "PersistentVolume",
            "metadata": {"name": "disk"},
            "spec": {
                "capacity": {"storage": "10Gi"},
                "accessModes": ["ReadWriteOnce"],
                "hostPath": {"path": "/data"},
                "storageClassName": "",
            },
        }
    )
    world.create(
        {
            "apiVersion": "v1",
            "kind": "PersistentVolumeClaim",
            "metadata": {"name": "data", "namespace": "ns"},
            "spec": {
                "accessModes": ["ReadWriteOnce"],
                "storageClassName": "",
                "resources": {"requests": {"storage": "5Gi"}},
            },
        }
    )
    world.run(5)
    assert node_of(world) == "node-0"
    assert world.get(r.PERSISTENTVOLUMECLAIMS, "data")["spec"]["volumeName"] == "disk"


# -- dynamic resource allocation ---------------------------------------------------------------------------
def claim(world: World, name: str = "one-gpu", *, selectors: list[Obj] | None = None, count: int = 1) -> None:
    exactly = {"deviceClassName": "gpu.example.com", "count": count, "selectors": selectors or []}
    world.create(
        {
            "apiVersion": "resource.k8s.io/v1",
            "kind": "ResourceClaim",
            "metadata": {"name": name, "namespace": "ns"},
            "spec": {"devices": {"requests": [{"name": "gpu", "exactly": exactly}]}},
        }
    )


def device_class(world: World) -> None:
    world.create(
        {
            "apiVersion": "resource.k8s.io/v1",
            "kind": "DeviceClass",
            "metadata": {"name": "gpu.example.com"},
            "spec": {"selectors": [{"cel": {"expression": 'device.driver == "gpu.example.com"'}}]},
        }
    )


def slices(world: World, node: str, *models: str) -> None:
    devices = [
        {"name": f"gpu-{number}", "attributes": {"model": {"string": model}}, "capacity": {"memory": {"value": "80Gi"}}}
        for number, model in enumerate(models)
    ]
    world.create(
        {
            "apiVersion": "resource.k8s.io/v1",
            "kind": "ResourceSlice",
            "metadata": {"name": f"{node}-gpus"},
            "spec": {
                "driver": "gpu.example.com",
                "nodeName": node,
                "devices": devices,
                "pool": {"name": node, "generation": 1, "resourceSliceCount": 1},
            },
        }
    )


USES = {"resourceClaims": [{"name": "gpu", "resourceClaimName": "one-gpu"}]}


def test_a_claim_waits_for_its_class_then_for_devices(world: World) -> None:
    """32."""
    claim(world)
    pod(world, **USES)
    world.run(5)
    assert why(world) == (
        "0/1 nodes are available: request gpu: device class gpu.example.com does not exist. no new claims to "
        "deallocate, preemption: 0/1 nodes are available: 1 Preemption is not helpful for scheduling."
    )
    device_class(world)
    world.run(0)
    assert why(world) == (
        "0/1 nodes are available: 1 cannot allocate all claims. still not schedulable, preemption: "
        "0/1 nodes are available: 1 Preemption is not helpful for scheduling."
    )
    world.run(10)
    slices(world, "node-0", "H100")
    world.run(0)
    assert node_of(world) == "node-0"
    status = world.get(r.RESOURCECLAIMS, "one-gpu")["status"]
    assert status["allocation"]["devices"]["results"] == [
        {"request": "gpu", "driver": "gpu.example.com", "pool": "node-0", "device": "gpu-0"}
    ]
    assert [user["name"] for user in status["reservedFor"]] == ["p"]


def test_a_claim_that_is_missing_is_never_mentioned(world: World) -> None:
    """32: no event, no condition at all."""
    pod(world, **USES)
    world.run(30)
    assert world.events(about="p") == []
    assert "conditions" not in world.get(r.PODS, "p")["status"]
    device_class(world)
    slices(world, "node-0", "H100")
    claim(world)
    world.run(0)
    assert node_of(world) == "node-0"


def test_a_missing_template_is_a_warning_that_counts_up(world: World) -> None:
    """32: retried after 5 ms, 10 ms, 20 ms ..."""
    pod(world, resourceClaims=[{"name": "gpu", "resourceClaimTemplateName": "no-such-template"}])
    world.run(45)
    (event,) = world.events("FailedResourceClaimCreation")
    assert event["message"] == (
        'PodResourceClaim gpu: resource claim template "no-such-template": resourceclaimtemplate.resource.k8s.io '
        '"no-such-template" not found'
    )
    assert (event["count"], event["source"]["component"]) == (14, "resource_claim")


def test_a_claim_from_a_template_lives_and_dies_with_its_pod(world: World) -> None:
    device_class(world)
    slices(world, "node-0", "H100")
    exactly = {"deviceClassName": "gpu.example.com"}
    world.create(
        {
            "apiVersion": "resource.k8s.io/v1",
            "kind": "ResourceClaimTemplate",
            "metadata": {"name": "single", "namespace": "ns"},
            "spec": {"spec": {"devices": {"requests": [{"name": "gpu", "exactly": exactly}]}}},
        }
    )
    pod(world, resourceClaims=[{"name": "gpu", "resourceClaimTemplateName": "single"}])
    world.run(2)
    (made,) = world.kube.list(r.RESOURCECLAIMS, "ns").items
    assert name_of(made).startswith("p-gpu-")
    assert node_of(world) == "node-0"
    world.kube.delete(r.PODS, "p", "ns")
    world.run(10)
    assert world.kube.list(r.RESOURCECLAIMS, "ns").items == []


def test_devices_are_chosen_by_cel_and_used_once(world: World) -> None:
    device_class(world)
    slices(world, "node-0", "A100", "H100")
    wants = (
        'device.attributes["gpu.example.com"].model == "H100" && '
        'device.capacity["gpu.example.com"].memory.compareTo(quantity("40Gi")) >= 0'
    )
    for name in ("first", "second"):
        claim(world, name, selectors=[{"cel": {"expression": wants}}])
        pod(world, name, resourceClaims=[{"name": "gpu", "resourceClaimName": name}])
    world.run(0)
    results = world.get(r.RESOURCECLAIMS, "first")["status"]["allocation"]["devices"]["results"]
    assert [result["device"] for result in results] == ["gpu-1"]
    assert "cannot allocate all claims" in why(world, "second")

    world.kube.delete(r.PODS, "first", "ns")
    world.run(10)
    assert node_of(world, "second") == "node-0"
