"""Nodes that die, budgets that hold, autoscalers: recordings 23c, 24 and 29."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from controller_world import World, template

from killcheck.kube import resources as r
from killcheck.kube.objects import Obj, annotations_of, condition, dig, name_of


def tolerating(seconds: int) -> list[Obj]:
    return [
        {"key": f"node.kubernetes.io/{key}", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": seconds}
        for key in ("unreachable", "not-ready")
    ]


def stop_kubelet(world: World, node: str) -> None:
    """What a hollow kubelet does when it is stopped: its last heartbeat, and no promise of more."""
    lease = world.get(r.LEASES, node, "kube-node-lease")
    meta = lease["metadata"] | {"annotations": {}}
    spec = lease["spec"] | {"renewTime": world.loop.now().strftime("%Y-%m-%dT%H:%M:%S.%fZ")}
    world.kube.replace(r.LEASES, lease | {"metadata": meta, "spec": spec})


def taints(_change: str, node: Obj) -> Any:
    return (
        name_of(node),
        [f"{t['key'].rpartition('/')[2]}:{t['effect']}" for t in dig(node, "spec", "taints", default=[])],
        dig(condition(node, "Ready"), "status"),
    )


def test_a_dead_node_in_the_recorded_order(make_world: Callable[..., World]) -> None:
    """24: Unknown 50 to 55 s after the last heartbeat, NoExecute 0.1 s later, deletion after tolerationSeconds."""
    world = make_world(nodes=2)
    world.deployment(
        "train",
        template=template("train", tolerations=tolerating(10), nodeSelector={"kubernetes.io/hostname": "node-1"}),
    )
    world.run_to(7)
    nodes, pods = (
        world.watch(r.NODES, taints),
        world.watch(
            r.PODS,
            lambda _, pod: (
                dig(condition(pod, "Ready"), "status"),
                dig(condition(pod, "DisruptionTarget"), "reason"),
                "deletionTimestamp" in pod["metadata"],
            ),
        ),
    )
    stop_kubelet(world, "node-1")
    world.kubelet._ending.update(pod["metadata"]["uid"] for pod in world.pods())  # its kubelet ends nothing
    world.run_to(200)

    assert [(t, value) for t, value in nodes if value[0] == "node-1"][1:] == [
        (60.0, ("node-1", [], "Unknown")),
        (60.0, ("node-1", ["unreachable:NoSchedule"], "Unknown")),
        (60.1, ("node-1", ["unreachable:NoSchedule", "unreachable:NoExecute"], "Unknown")),
    ]
    assert pods[1:4] == [
        (60.0, ("False", None, False)),
        (70.1, ("False", "DeletionByTaintManager", False)),
        (70.1, ("False", "DeletionByTaintManager", True)),
    ]
    node = world.get(r.NODES, "node-1", None)
    assert {(c["reason"], c["message"]) for c in node["status"]["conditions"] if c["type"] == "Ready"} == {
        ("NodeStatusUnknown", "Kubelet stopped posting node status.")
    }
    dead = next(pod for pod in world.pods() if "deletionTimestamp" in pod["metadata"])
    assert world.said(about=name_of(dead))[1:] == [
        "Warning NodeNotReady: Node is not ready",
        f"Normal TaintManagerEviction: Marking for deletion Pod ns/{name_of(dead)}",
    ]
    assert dig(condition(world.get(r.DEPLOYMENTS, "train"), "Available"), "status") == "False"

    # 24: PodGC takes it within 40 to 60 s of the Node's deletion.
    world.kube.delete(r.NODES, "node-1")
    world.run_to(239)
    assert world.kube.find(r.PODS, name_of(dead), "ns") is not None
    world.run_to(261)
    assert world.kube.find(r.PODS, name_of(dead), "ns") is None
    assert pods[-1][1][1] == "DeletionByPodGC"


def test_by_default_pods_stay_five_minutes(make_world: Callable[..., World]) -> None:
    world = make_world(nodes=2)
    world.deployment(template=template("vllm", nodeSelector={"kubernetes.io/hostname": "node-1"}))
    world.run_to(5)
    stop_kubelet(world, "node-1")
    world.run_to(355)
    assert all("deletionTimestamp" not in pod["metadata"] for pod in world.pods())
    world.run_to(361)
    assert any("deletionTimestamp" in pod["metadata"] for pod in world.pods())


def test_a_node_that_comes_back_keeps_its_pods(make_world: Callable[..., World]) -> None:
    world = make_world(nodes=2)
    world.deployment(template=template("vllm", nodeSelector={"kubernetes.io/hostname": "node-1"}))
    world.run_to(5)
    stop_kubelet(world, "node-1")
    world.run_to(100)
    ready = {"type": "Ready", "status": "True", "lastHeartbeatTime": world.now, "lastTransitionTime": world.now}
    world.kube.patch(
        r.LEASES,
        "node-1",
        {"metadata": {"annotations": {"killcheck.dev/heartbeat": "until-stopped"}}},
        "kube-node-lease",
    )
    world.kube.patch(r.NODES, "node-1", {"status": {"conditions": [ready]}}, kind="strategic", subresource="status")
    world.run_to(600)
    assert dig(world.get(r.NODES, "node-1", None), "spec", "taints", default=[]) == []
    assert all("deletionTimestamp" not in pod["metadata"] for pod in world.pods())
    assert [e["message"].split()[0] for e in world.events("TaintManagerEviction")] == ["Cancelling"]


def test_where_every_node_is_lost_nothing_is_evicted(make_world: Callable[..., World]) -> None:
    """The fault is rather the control plane's."""
    world = make_world(nodes=2)
    world.deployment(template=template("vllm", tolerations=tolerating(10)))
    world.run_to(5)
    for node in ("node-0", "node-1"):
        stop_kubelet(world, node)
    world.run_to(600)
    assert len(world.pods()) == 1
    assert "deletionTimestamp" not in world.pods()[0]["metadata"]


def test_a_quiet_night_of_healthy_nodes_costs_nothing(make_world: Callable[..., World]) -> None:
    world = make_world(nodes=5)
    world.run(1)
    before = world.store.revision
    world.run(24 * 3600)
    assert world.store.revision == before


# -- disruption budgets ------------------------------------------------------------------------------------
def budget(world: World, **spec: Any) -> None:
    world.create(
        {
            "apiVersion": "policy/v1",
            "kind": "PodDisruptionBudget",
            "metadata": {"name": "one", "namespace": "ns"},
            "spec": {"selector": {"matchLabels": {"app": "vllm"}}, **spec},
        }
    )


def counts(_change: str, pdb: Obj) -> Any:
    status = pdb["status"]
    return tuple(
        status.get(key, 0) for key in ("expectedPods", "desiredHealthy", "currentHealthy", "disruptionsAllowed")
    )


def test_a_budget_counts_healthy_pods(world: World) -> None:
    budget(world, maxUnavailable=1)
    world.run(0)
    seen = world.watch(r.PDBS, counts)
    world.deployment(replicas=2)
    world.run(5)
    assert seen[-1][1] == (2, 1, 2, 1)
    allowed = condition(world.get(r.PDBS, "one"), "DisruptionAllowed") or {}
    assert (allowed["status"], allowed["reason"], allowed["message"]) == ("True", "SufficientPods", "")
    assert [e["message"] for e in world.events("NoPods")] == ["No matching pods found"]

    world.kube.patch(r.DEPLOYMENTS, "vllm", {"spec": {"replicas": 4}}, "ns")
    world.run(5)
    assert seen[-1][1] == (4, 3, 4, 1)


def test_an_eviction_that_did_not_happen_spends_the_budget_for_two_minutes(world: World) -> None:
    """23c: the entry in disruptedPods expires after 120 s."""
    budget(world, maxUnavailable=1)
    world.deployment()
    world.run_to(5)
    (pod,) = world.pods()
    pdb = world.get(r.PDBS, "one")
    status = pdb["status"] | {"disruptionsAllowed": 0, "disruptedPods": {name_of(pod): world.now}}
    world.kube.replace(r.PDBS, pdb | {"status": status}, subresource="status")
    world.run(1)
    assert counts("", world.get(r.PDBS, "one")) == (1, 0, 0, 0)
    world.run_to(124)
    assert counts("", world.get(r.PDBS, "one"))[3] == 0
    world.run_to(126)
    assert counts("", world.get(r.PDBS, "one")) == (1, 0, 1, 1)
    assert "disruptedPods" not in world.get(r.PDBS, "one")["status"]


def test_pods_that_nobody_scales_cannot_be_counted(world: World) -> None:
    budget(world, maxUnavailable=1)
    world.job("j", template=template("vllm", restart="Never"))
    world.run(3)
    found = condition(world.get(r.PDBS, "one"), "DisruptionAllowed") or {}
    assert (found["status"], found["reason"]) == ("False", "SyncFailed")
    assert world.events("CalculateExpectedPodCountFailed")[0]["message"].startswith(
        "Failed to calculate the number of expected pods: found no controllers for pod"
    )


# -- autoscaling -------------------------------------------------------------------------------------------
def autoscaler(world: World, **spec: Any) -> None:
    world.create(
        {
            "apiVersion": "autoscaling/v2",
            "kind": "HorizontalPodAutoscaler",
            "metadata": {"name": "vllm", "namespace": "ns"},
            "spec": {
                "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "vllm"},
                "minReplicas": 1,
                "maxReplicas": 4,
                "metrics": [
                    {
                        "type": "Resource",
                        "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 80}},
                    }
                ],
                **spec,
            },
        }
    )


def test_an_autoscaler_leaves_zero_alone_and_cuts_to_its_maximum(world: World) -> None:
    """29: looks every 15 s; ScalingDisabled at zero; six replicas become four although no metric works."""
    world.deployment()
    autoscaler(world)
    world.run_to(20)
    active = condition(world.get(r.HPAS, "vllm"), "ScalingActive") or {}
    missing = (
        "failed to get cpu utilization: unable to get metrics for resource cpu: unable to fetch metrics from resource "
        "metrics API: the server could not find the requested resource (get pods.metrics.k8s.io)"
    )
    assert (active["reason"], active["message"]) == (
        "FailedGetResourceMetric",
        f"the HPA was unable to compute the replica count: {missing}",
    )
    assert [e["message"] for e in world.events("FailedComputeMetricsReplicas")] == [
        f"invalid metrics (1 invalid out of 1), first error is: failed to get cpu resource metric value: {missing}"
    ]

    seen = world.watch(r.DEPLOYMENTS, lambda _, d: d["spec"]["replicas"])
    reasons = world.watch(r.HPAS, lambda _, h: dig(condition(h, "ScalingActive"), "reason"))
    world.kube.patch(r.DEPLOYMENTS, "vllm", {"spec": {"replicas": 0}}, "ns", subresource="scale")
    world.run_to(82)
    world.kube.patch(r.DEPLOYMENTS, "vllm", {"spec": {"replicas": 6}}, "ns", subresource="scale")
    world.run_to(110)
    assert seen == [(20.0, 1), (20.0, 0), (82.0, 6), (90.0, 4)]
    assert reasons == [(20.0, "FailedGetResourceMetric"), (30.0, "ScalingDisabled"), (105.0, "FailedGetResourceMetric")]
    assert [e["message"] for e in world.events("SuccessfulRescale")] == [
        "New size: 4; reason: Current number of replicas above Spec.MaxReplicas"
    ]
    before = world.store.revision
    world.run(3600)
    assert world.store.revision == before


def test_an_autoscaler_follows_what_it_is_told(world: World) -> None:
    world.deployment()
    autoscaler(world)
    world.controllers["horizontal-pod-autoscaler-controller"].propose("ns", "vllm", 9)  # type: ignore[attr-defined]
    world.run(20)
    assert world.get(r.DEPLOYMENTS, "vllm")["spec"]["replicas"] == 4
    assert annotations_of(world.get(r.DEPLOYMENTS, "vllm"))
