import pytest
from model_world import World, pod, pool

from killcheck.embedded.models.cloud_errors import CloudError
from killcheck.embedded.models.karpenter.packing import Existing, Packing
from killcheck.embedded.models.karpenter.pool import UNBOUNDED, read_pool
from killcheck.embedded.models.karpenter.shortage import Shortage
from killcheck.instances.catalogue import load
from killcheck.instances.launchable import launchable
from killcheck.kube import resources as r
from killcheck.kube.objects import condition, dig, labels_of, name_of

TYPE = "node.kubernetes.io/instance-type"
TAINT = {"key": "nvidia.com/gpu", "value": "true", "effect": "NoSchedule"}
TOLERATION = {"key": "nvidia.com/gpu", "operator": "Exists"}


def launched(world):
    return [one.type.name for one in world.cloud.instances.values()]


def kept(*types):
    """A pool that never consolidates."""
    return pool("gpu", (TYPE, "In", *types), disruption={"consolidateAfter": "Never"})


def on(world):
    return lambda: any(dig(p, "status", "phase") == "Running" for p in world.list(r.PODS))


def running(*pools, pods=(), **kwargs):
    """A world in which every pod runs."""
    world = World(**kwargs)
    for one in pools:
        world.kube.create(r.NODEPOOLS, one)
    for one in pods:
        world.kube.create(r.PODS, one)
    world.until(lambda: all(dig(p, "status", "phase") == "Running" for p in world.list(r.PODS)))
    return world


def status(world, kind):
    found = [condition(claim, kind) for claim in world.claims()]
    return [one["status"] for one in found if one]


def patched(world, resource, name, patch, namespace=None, **kwargs):
    return world.kube.patch(resource, name, patch, namespace, **kwargs)


def test_what_refused_a_pod_is_not_asked_about_one_like_it(monkeypatch):
    asked, join = [], Packing._join
    monkeypatch.setattr(Packing, "_join", lambda self, one, *rest: asked.append(one) or join(self, one, *rest))
    full = [Existing(f"node/{i}", {}, (), {"nvidia.com/gpu": 0.0}) for i in range(3)]
    pools = [read_pool({**kept("g5.48xlarge"), "apiVersion": r.NODEPOOLS.api_version, "kind": "NodePool"})]
    round_of = Packing(
        launchable(load()), pools, remaining={}, existing=full, daemons=[], unavailable=Shortage(("us-east-1a",))
    )
    assert {round_of.place(pod(gpus=gpus)) for gpus in (8,) * 9 + (4,) * 4} == {None}
    assert [len(one.pods) for one in round_of.fresh] == [1] * 9 + [2] * 2
    assert len(asked) < 50  # of each kind each claim refuses once; some 85 where all are asked for each pod


# -- launching -------------------------------------------------------------------------------------------------
def test_a_pending_pod_gets_the_cheapest_type_that_fits():
    world = running(pool("gpu", (TYPE, "In", "p5.48xlarge", "p4d.24xlarge", "g6.48xlarge")), pods=[pod(gpus=8)])
    assert launched(world) == ["g6.48xlarge"]
    (node,) = world.nodes()
    (claim,) = world.claims()
    assert labels_of(node)["karpenter.sh/nodepool"] == "gpu"
    assert labels_of(node)["karpenter.sh/initialized"] == "true"
    assert dig(node, "status", "allocatable", "nvidia.com/gpu") == "8"
    assert {c["type"]: c["status"] for c in claim["status"]["conditions"]}["Ready"] == "True"
    assert claim["spec"]["resources"]["requests"]["nvidia.com/gpu"] == "8"
    assert world.events("Nominated") == [f"Pod should schedule on: nodeclaim/{name_of(claim)}"]


def test_the_machine_takes_some_tens_of_seconds():
    world = World()
    world.kube.create(r.NODEPOOLS, pool("gpu", (TYPE, "In", "g5.xlarge")))
    world.kube.create(r.PODS, pod(gpus=1))
    assert 30 < world.until(on(world)) < 90


def test_a_pod_that_asks_for_no_device_gets_no_device():
    world = running(pool("any", ("karpenter.sh/capacity-type", "In", "on-demand")), pods=[pod()])
    (kind,) = launched(world)
    assert not world.cloud.catalogue.get(kind).resource


def test_a_heavier_pool_goes_first_and_of_equals_the_last_by_name():
    pools = [
        pool("a", (TYPE, "In", "g5.xlarge"), weight=5),
        pool("b", (TYPE, "In", "g5.2xlarge")),
        pool("c", (TYPE, "In", "g6.xlarge")),
    ]
    assert launched(running(*pools, pods=[pod(gpus=1)])) == ["g5.xlarge"]
    assert launched(running(*pools[1:], pods=[pod(gpus=1)])) == ["g6.xlarge"]


@pytest.mark.parametrize(
    ("asked", "why"),
    [
        ({"gpus": 8}, "no instance type has enough resources"),
        ({"gpus": 1, "node_selector": {"team": "x"}}, 'label "team" does not have known values'),
        ({"gpus": 1, "node_selector": {TYPE: "p5.48xlarge"}}, f"incompatible requirements, key {TYPE}"),
        ({"gpus": 1, "tolerations": ()}, "did not tolerate taint (taint=nvidia.com/gpu=true:NoSchedule)"),
    ],
)
def test_what_fits_nowhere_stays_pending_and_karpenter_says_why(asked, why):
    world = World()
    if why.startswith("no instance type has enough"):
        world.kube.create(r.NODEPOOLS, pool("gpu", (TYPE, "In", "g5.xlarge"), ("x", "Exists")))
        expected = "no instance type which had enough resources and the required offering met"
    else:
        world.kube.create(r.NODEPOOLS, pool("gpu", (TYPE, "In", "g5.xlarge"), taints=[TAINT]))
        asked = {"tolerations": [TOLERATION]} | asked
        expected = why
    world.kube.create(r.PODS, pod(**asked))
    world.run(60)
    assert not world.claims()
    (message,) = world.events("FailedScheduling")
    assert expected in message


def test_limits_leave_out_what_is_too_large_for_what_is_left():
    gpus = pool("gpu", ("karpenter.k8s.aws/instance-category", "In", "g", "p"), limits={"nvidia.com/gpu": "4"})
    world = running(gpus, pods=[pod("one", gpus=1), pod("two", gpus=2)])
    assert sum(world.cloud.catalogue.get(name).gpus for name in launched(world)) <= 4
    world.kube.create(r.PODS, pod("eight", gpus=8))
    world.run(120)
    assert dig(world.kube.get(r.PODS, "eight", "default"), "spec", "nodeName") is None
    assert len(world.events("FailedScheduling")) == 1


def test_a_limit_on_gpus_does_not_stop_neuron_devices():
    world = World()
    world.kube.create(
        r.NODEPOOLS,
        pool("any", ("karpenter.k8s.aws/instance-category", "In", "trn", "g"), limits={"nvidia.com/gpu": "4"}),
    )
    asks = pod()
    asks["spec"]["containers"][0]["resources"] = {
        "limits": {"aws.amazon.com/neuron": "16"},
        "requests": {"aws.amazon.com/neuron": "16", "cpu": "1"},
    }
    world.kube.create(r.PODS, asks)
    world.until(on(world))
    assert launched(world) == ["trn1.32xlarge"]


def test_a_claim_made_by_hand_launches_without_any_pool():
    world = World()
    world.kube.create(
        r.NODECLAIMS,
        {
            "apiVersion": "karpenter.sh/v1",
            "kind": "NodeClaim",
            "metadata": {"name": "by-hand"},
            "spec": {
                "nodeClassRef": {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "x"},
                "requirements": [{"key": TYPE, "operator": "In", "values": ["p5.48xlarge"]}],
            },
        },
    )
    world.run(90)
    assert launched(world) == ["p5.48xlarge"]
    assert world.cloud.billed()[0].launched_by == "karpenter/by-hand"
    assert len(world.nodes()) == 1


@pytest.mark.parametrize("zones", [["us-east-1b"], ["ap-southeast-2a", "ap-southeast-2c"]], ids=len)
def test_an_interruption_in_any_region_is_heard_and_marks_its_own_zone_alone(zones):
    spot = ("karpenter.sh/capacity-type", "In", "spot", "on-demand")
    where = ("topology.kubernetes.io/zone", "In", *zones)
    world = running(pool("gpu", (TYPE, "In", "g5.xlarge"), spot, where), pods=[pod(gpus=1)])
    first = world.cloud.billed()[0]
    world.cloud.interrupt(first.instance_id)
    world.kube.create(r.PODS, pod(name="again", gpus=1))
    world.run(20)
    (second,) = [one for one in world.cloud.billed() if one is not first]
    assert (first.zone, second.zone) == (zones[0], zones[-1])
    assert second.capacity_type == ("spot" if len(zones) > 1 else "on-demand")
    assert all(zones[0][:-1] in node["metadata"]["labels"]["topology.kubernetes.io/region"] for node in world.nodes())


def test_another_type_is_taken_where_one_has_no_capacity_and_none_at_all_is_said():
    world = World()
    world.cloud.exhausted.add("g5.xlarge")
    world.kube.create(
        r.NODEPOOLS,
        pool("gpu", (TYPE, "In", "g5.xlarge", "g5.2xlarge"), ("karpenter.sh/capacity-type", "In", "on-demand")),
    )
    world.kube.create(r.PODS, pod(gpus=1))
    world.until(on(world))
    assert launched(world) == ["g5.2xlarge"]
    assert world.events("InsufficientCapacityError") == []
    world.cloud.exhausted.add("g5.2xlarge")
    world.kube.create(r.PODS, pod(name="second", gpus=1))
    world.run(60)
    assert launched(world) == ["g5.2xlarge"]
    assert "InsufficientInstanceCapacity" in world.events("InsufficientCapacityError")[0]


def test_a_role_that_may_not_launch_leaves_the_claim_unlaunched_and_nothing_runs():
    world = World()
    world.cloud.denied.add("ec2:RunInstances")
    world.kube.create(r.NODEPOOLS, pool("gpu", (TYPE, "In", "g5.xlarge")))
    world.kube.create(r.PODS, pod(gpus=1))
    world.run(30)
    launch = condition(world.claims()[0], "Launched")
    assert (launch["status"], launch["reason"]) == ("Unknown", "LaunchFailed")
    assert "UnauthorizedOperation" in launch["message"]
    world.cloud.denied.clear()
    world.until(on(world))


def test_a_missing_node_class_is_reported_where_there_are_node_classes():
    world = World()
    world.kube.create(r.NODEPOOLS, pool("gpu", (TYPE, "In", "g5.xlarge")))
    world.run(1)
    assert condition(world.kube.get(r.NODEPOOLS, "gpu"), "Ready")["status"] == "True"
    world.kube.create(
        r.EC2NODECLASSES,
        {"apiVersion": "karpenter.k8s.aws/v1", "kind": "EC2NodeClass", "metadata": {"name": "other"}, "spec": {}},
    )
    world.run(1)
    ready = condition(world.kube.get(r.NODEPOOLS, "gpu"), "NodeClassReady")
    assert (ready["status"], ready["reason"]) == ("False", "NodeClassNotFound")
    world.kube.create(r.NODEPOOLS, pool("filled-in", ("topology.kubernetes.io/zone", "In", "<AZ>")))
    world.kube.create(r.PODS, pod(gpus=1))
    world.run(60)
    assert not world.claims()
    assert "invalid value <AZ>" in condition(world.kube.get(r.NODEPOOLS, "filled-in"), "ValidationSucceeded")["message"]


@pytest.mark.parametrize(
    ("group", "requirement", "gets"),
    [
        ("karpenter.azure.com", ("karpenter.azure.com/sku-gpu-name", "In", "A100"), ["Standard_NC24ads_A100_v4"]),
        ("karpenter.azure.com", ("karpenter.azure.com/sku-family", "In", "NC"), []),  # the first letter alone is one
        ("karpenter.azure.com", ("karpenter.sh/capacity-type", "In", "on-demand"), ["Standard_NC4as_T4_v3"]),
        ("karpenter.k8s.gcp", ("karpenter.sh/capacity-type", "In", "on-demand"), []),
    ],
)
def test_each_clouds_karpenter_launches_its_own_machines_or_none(group, requirement, gets):
    one = pool("gpu", requirement)
    one["spec"]["template"]["spec"]["nodeClassRef"] = {"group": group, "kind": "NodeClass", "name": "gpu"}
    world = World()
    world.kube.create(r.NODEPOOLS, one)
    world.kube.create(r.PODS, pod(gpus=1))
    world.run(120)
    assert launched(world) == gets
    for node in world.nodes():
        assert node["spec"]["providerID"].startswith("azure://")
        assert labels_of(node)["karpenter.azure.com/sku-family"] == "N"
        assert labels_of(node)["topology.kubernetes.io/region"] == "eastus"
        assert not any(key.startswith("karpenter.k8s.aws/") for key in labels_of(node))


def test_a_zone_that_is_no_part_of_a_name_names_a_node_all_the_same():
    world = World()
    world.kube.create(r.NODEPOOLS, pool("gpu", ("topology.kubernetes.io/zone", "In", "Cellar_1")))
    world.kube.create(r.PODS, pod(gpus=1))
    world.until(on(world))
    assert world.kube.list(r.NODES).items[0]["metadata"]["labels"]["topology.kubernetes.io/zone"] == "Cellar_1"


def test_a_static_pool_keeps_its_nodes_without_any_pod():
    static = pool("reserved", (TYPE, "In", "p4d.24xlarge"), replicas=2)
    world = World()
    world.kube.create(r.NODEPOOLS, static)
    world.run(3600)
    assert [one.state for one in world.cloud.billed()] == ["running", "running"]
    world.kube.call(
        "PATCH",
        r.NODEPOOLS.path(None, "reserved", "scale"),
        body={"spec": {"replicas": 0}},
        headers={"content-type": "application/merge-patch+json"},
    )
    world.run(300)
    assert not world.cloud.billed()
    assert not world.claims()


# -- disruption ------------------------------------------------------------------------------------------------
def test_an_empty_node_goes_after_consolidate_after_and_its_instance_with_it():
    world = running(
        pool(
            "gpu", (TYPE, "In", "g5.xlarge"), disruption={"consolidateAfter": "5m", "consolidationPolicy": "WhenEmpty"}
        ),
        pods=[pod(gpus=1)],
    )
    world.kube.delete(r.PODS, "train", "default")
    assert 300 < world.until(lambda: not world.cloud.billed()) < 420
    world.until(lambda: not world.nodes() and not world.claims(), 60)
    assert world.events("DisruptionTerminating").count("Disrupting Node: Empty") == 1


def test_consolidation_that_is_never_leaves_the_node_billing():
    world = running(kept("g5.xlarge"), pods=[pod(gpus=1)])
    world.kube.delete(r.PODS, "train", "default")
    world.run(24 * 3600)
    assert len(world.cloud.billed()) == 1


def test_ten_per_cent_of_ten_nodes_go_one_at_a_time_and_one_that_is_not_ready_blocks_them_all():
    pods = [pod(f"p{i}", gpus=1) for i in range(10)]
    world = running(pool("gpu", (TYPE, "In", "g5.xlarge")), pods=pods)
    world.kubelets.ready(name_of(world.nodes()[0]), "False")
    for i in range(10):
        world.kube.delete(r.PODS, f"p{i}", "default")
    world.run(600)
    assert len(world.cloud.billed()) == 10
    world.kubelets.ready(name_of(world.nodes()[0]), "True")
    most = 0
    for _ in range(120):
        world.run(10)
        going = [claim for claim in world.claims() if dig(claim, "metadata", "deletionTimestamp")]
        most = max(most, sum(1 for claim in going if condition(claim, "InstanceTerminating") is None))
    assert most == 1
    assert not world.cloud.billed()


@pytest.mark.parametrize(
    ("budgets", "nodes", "allowed"),
    [
        ([{"nodes": "10%"}], 10, 1),
        ([{"nodes": "10%"}], 11, 2),
        ([{"nodes": "5%"}], 10, 1),
        ([{"nodes": "0"}], 10, 0),
        ([{"nodes": "50%"}, {"nodes": "3"}], 10, 3),
        ([{"nodes": "1", "reasons": ["Drifted"]}], 10, UNBOUNDED),
        ([{"nodes": "0", "schedule": "0 3 * * *", "duration": "1h"}], 10, 0),
        ([{"nodes": "0", "schedule": "0 4 * * *", "duration": "1h"}], 10, UNBOUNDED),
        ([{"nodes": "0", "schedule": "not cron at all x", "duration": "1h"}], 10, 0),
    ],
)
def test_budgets(budgets, nodes, allowed):
    world = World(karpenter=False)
    read = read_pool(pool("gpu", disruption={"budgets": budgets}))
    assert read.allowed("Empty", nodes, world.loop.now()) == allowed


def test_a_do_not_disrupt_pod_keeps_a_drain_waiting_for_ever_unless_there_is_a_grace_period():
    protected = pod(gpus=1, annotations={"karpenter.sh/do-not-disrupt": "true"})
    world = running(pool("gpu", (TYPE, "In", "g5.xlarge")), pods=[protected])
    world.kube.delete(r.NODECLAIMS, name_of(world.claims()[0]))
    world.run(3600)
    assert len(world.cloud.billed()) == 1
    assert status(world, "Drained") == ["Unknown"]
    graced = running(
        pool("gpu", (TYPE, "In", "g5.xlarge"), template={"terminationGracePeriod": "10m"}), pods=[protected]
    )
    graced.kube.delete(r.NODECLAIMS, name_of(graced.claims()[0]))
    assert 540 < graced.until(lambda: not graced.cloud.billed()) < 700
    assert "This bypasses the PDB of the pod" in graced.events("Disrupted")[0]


def test_expiry_is_not_bounded_by_any_budget():
    world = running(
        pool(
            "gpu",
            (TYPE, "In", "g5.xlarge"),
            template={"expireAfter": "1h"},
            disruption={"budgets": [{"nodes": "0"}], "consolidateAfter": "Never"},
        ),
        pods=[pod(gpus=1)],
    )
    first = world.cloud.billed()[0]
    world.run(3900)
    assert first.state == "terminated"


# -- termination -----------------------------------------------------------------------------------------------
def test_a_node_drains_in_order_and_every_step_is_a_condition():
    critical = pod(
        "critical", priorityClassName="system-cluster-critical", owner="DaemonSet", annotations={"takes": "8"}
    )
    daemon = pod("daemon", owner="DaemonSet", annotations={"takes": "6"})
    train = pod("train", gpus=1, annotations={"takes": "4"})
    world = running(pool("gpu", (TYPE, "In", "g5.4xlarge")), pods=[train])
    for one in (critical, daemon):
        one["spec"]["nodeName"] = name_of(world.nodes()[0])
        world.kube.create(r.PODS, one)
    world.run(5)
    order = []
    world.scheduler.pods.handlers.append(
        lambda change, old, new: order.append(name_of(new)) if change == "deleted" else None
    )
    claim = name_of(world.claims()[0])
    world.kube.delete(r.NODECLAIMS, claim)
    world.run(2)
    assert {"key": "karpenter.sh/disrupted", "effect": "NoSchedule"} in world.nodes()[0]["spec"]["taints"]
    assert labels_of(world.nodes()[0])["node.kubernetes.io/exclude-from-external-load-balancers"] == "karpenter"
    world.until(lambda: status(world, "InstanceTerminating") == ["True"])
    assert order == ["train", "daemon", "critical"]
    assert (status(world, "Drained"), status(world, "VolumesDetached")) == (["True"], ["True"])
    world.until(lambda: not world.nodes() and not world.claims(), 120)
    assert world.cloud.instances[next(iter(world.cloud.instances))].terminated_by == "karpenter"
    assert "Evicted pod: Forceful Termination" in world.events("Evicted")


def test_a_budget_of_zero_holds_the_drain_until_it_is_lifted():
    world = running(pool("gpu", (TYPE, "In", "g5.xlarge")), pods=[pod(gpus=1)])
    world.kube.create(
        r.PDBS,
        {
            "apiVersion": "policy/v1",
            "kind": "PodDisruptionBudget",
            "metadata": {"name": "hold", "namespace": "default"},
            "spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": "train"}}},
        },
    )
    patched(
        world,
        r.PDBS,
        "hold",
        {
            "status": {
                "disruptionsAllowed": 0,
                "currentHealthy": 1,
                "desiredHealthy": 1,
                "expectedPods": 1,
                "observedGeneration": 1,
            }
        },
        "default",
        subresource="status",
    )
    first = world.cloud.billed()[0]
    world.kube.delete(r.NODECLAIMS, name_of(world.claims()[0]))
    world.run(1800)
    assert first.state == "running"
    assert len(world.cloud.billed()) == 2, "and the replacement bills, too"
    assert any("evicting pod violates a PDB" in message for message in world.events("FailedDraining"))
    patched(world, r.PDBS, "hold", {"status": {"disruptionsAllowed": 1}}, "default", subresource="status")
    world.until(lambda: first.state == "terminated", 120)
    world.until(lambda: not world.cloud.billed(), 300)


def test_a_volume_that_stays_attached_keeps_the_instance():
    world = running(pool("gpu", (TYPE, "In", "g5.xlarge")), pods=[pod(gpus=1)])
    world.kube.create(
        r.VOLUMEATTACHMENTS,
        {
            "apiVersion": "storage.k8s.io/v1",
            "kind": "VolumeAttachment",
            "metadata": {"name": "csi-1"},
            "spec": {
                "attacher": "ebs.csi.aws.com",
                "nodeName": name_of(world.nodes()[0]),
                "source": {"persistentVolumeName": "pv-1"},
            },
        },
    )
    world.kube.delete(r.NODECLAIMS, name_of(world.claims()[0]))
    world.run(600)
    assert (status(world, "Drained"), status(world, "VolumesDetached")) == (["True"], ["Unknown"])
    assert world.events("AwaitingVolumeDetachment") == ["Awaiting deletion of bound volumeattachments (csi-1)"]
    world.kube.delete(r.VOLUMEATTACHMENTS, "csi-1")
    world.until(lambda: not world.cloud.billed(), 120)


def test_a_role_that_may_not_terminate_leaves_a_drained_node_billing():
    world = running(pool("gpu", (TYPE, "In", "g5.xlarge")), pods=[pod(gpus=1)])
    world.cloud.denied.add("ec2:TerminateInstances")
    with pytest.raises(CloudError, match="UnauthorizedOperation"):
        world.cloud.terminate("i-0", by="test")
    world.kube.delete(r.PODS, "train", "default")
    world.run(3600)
    assert len(world.cloud.billed()) == 1
    assert status(world, "InstanceTerminating") == []
    world.cloud.denied.clear()
    world.until(lambda: not world.cloud.billed(), 180)


def test_while_karpenter_is_down_nothing_goes_and_a_new_one_takes_over():
    world = running(pool("gpu", (TYPE, "In", "g5.xlarge")), pods=[pod(gpus=1)])
    world.karpenter.stop()
    world.kube.delete(r.PODS, "train", "default")
    world.run(3600)
    assert len(world.cloud.billed()) == 1
    type(world.karpenter)(world.kube, world.loop, world.informers, world.cloud).start()
    world.until(lambda: not world.cloud.billed(), 300)


# -- interruption and garbage ----------------------------------------------------------------------------------
def test_a_spot_notice_drains_within_the_two_minutes_and_a_replacement_is_on_its_way():
    spot = pool("gpu", (TYPE, "In", "g5.xlarge", "g6.xlarge"), ("karpenter.sh/capacity-type", "In", "spot"))
    world = running(spot, pods=[pod(gpus=1, owner="ReplicaSet")])
    first = world.cloud.billed()[0]
    world.cloud.interrupt(first.instance_id)
    world.until(lambda: first.state == "shutting-down", 119)
    assert first.terminated_by == "karpenter"
    assert "Spot interruption warning was triggered" in world.events("SpotInterrupted")
    assert "Interruption triggered termination for the NodeClaim" in world.events("TerminatingOnInterruption")


@pytest.mark.parametrize(
    ("message", "drains"),
    [
        ({"version": "0", "source": "aws.ec2", "detail-type": "EC2 Instance Rebalance Recommendation"}, False),
        ({"version": "1", "source": "aws.ec2", "detail-type": "EC2 Spot Instance Interruption Warning"}, False),
        ({"version": "0", "source": "my.tool", "detail-type": "EC2 Spot Instance Interruption Warning"}, False),
        ({"version": "0", "source": "aws.ec2", "detail-type": "EC2 Spot Instance Interruption Warning"}, True),
        ("not even JSON", False),
    ],
)
def test_only_messages_of_the_right_version_source_and_type_drain(message, drains):
    world = running(pool("gpu", (TYPE, "In", "g5.xlarge")), pods=[pod(gpus=1)])
    instance = world.cloud.billed()[0]
    if isinstance(message, dict):
        message = message | {"detail": {"instance-id": instance.instance_id, "instance-action": "terminate"}}
    world.cloud.queue.send(message)
    world.run(10)
    assert bool(dig(world.claims()[0], "metadata", "deletionTimestamp")) is drains
    assert not world.cloud.queue.waiting


def test_a_reclaim_without_notice_is_found_and_cleaned_up():
    world = running(pool("gpu", (TYPE, "In", "g5.xlarge")), pods=[pod(gpus=1)])
    node = name_of(world.nodes()[0])
    world.cloud.queue._subscribers.clear()
    world.cloud.reclaim(world.cloud.billed()[0].instance_id)
    world.kubelets.silent.add(node)
    world.kubelets.ready(node, "Unknown")
    world.run(600)
    assert node not in [name_of(one) for one in world.nodes()]


def test_an_instance_whose_claim_lost_its_finalizer_is_collected_but_not_somebody_elses():
    world = running(kept("g5.xlarge"), pods=[pod(gpus=1)])
    stranger = world.cloud.ghost("p5.48xlarge", by="somebody's script")
    claim = name_of(world.claims()[0])
    patched(world, r.NODECLAIMS, claim, {"metadata": {"finalizers": None}})
    world.kube.delete(r.NODECLAIMS, claim)
    mine = next(one for one in world.cloud.billed() if one is not stranger)
    assert world.cloud.ghosts([mine.provider_id]) == [stranger]
    world.until(lambda: mine.state != "running", 300)
    assert mine.terminated_by == "karpenter/garbage-collection"
    world.run(3600)
    assert stranger.state == "running"


def test_a_night_with_nothing_to_do_costs_next_to_no_work():
    world = running(kept("g5.xlarge"), pods=[pod(gpus=1)])
    before = world.store.revision
    world.run(24 * 3600)
    assert world.store.revision - before < 10
