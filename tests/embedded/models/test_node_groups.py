import pytest
from model_world import World, pod

from killcheck.embedded.models.clusterautoscaler import ClusterAutoscaler
from killcheck.embedded.models.nodegroups import NodeGroups, read_groups
from killcheck.kube import resources as r
from killcheck.kube.objects import dig, name_of


def config(groups, **settings):
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "groups", "namespace": "kube-system", "labels": {"killcheck.dev/node-groups": "true"}},
        "data": {"groups": groups, **settings},
    }


def world_of(groups, *pods, autoscaler=True, **settings):
    world = World(karpenter=False, models=[NodeGroups, ClusterAutoscaler] if autoscaler else [NodeGroups])
    world.kube.create(r.CONFIGMAPS, config(groups, **settings))
    for one in pods:
        world.kube.create(r.PODS, one)
    return world


def running(world):
    return lambda: all(dig(p, "status", "phase") == "Running" for p in world.list(r.PODS))


def test_a_floor_bills_whatever_pods_want_and_replaces_what_is_terminated():
    world = world_of("[{name: gpu, instanceType: p4d.24xlarge, min: 2}]")
    world.run(120)
    assert len(world.nodes()) == 2
    world.cloud.terminate(world.cloud.billed()[0].instance_id, by="an operator")
    world.run(3600)
    assert [one.state for one in world.cloud.billed()] == ["running", "running"]
    assert {one.launched_by for one in world.cloud.billed()} == {"asg/gpu"}


def test_a_pending_pod_grows_the_group_and_an_unneeded_node_goes_after_ten_minutes():
    world = world_of("[{name: gpu, instanceType: g5.xlarge, max: 3}]", pod(gpus=1))
    world.until(running(world))
    assert world.events("TriggeredScaleUp") == ["pod triggered scale-up: [{gpu 0->1 (max: 3)}]"]
    world.run(1200)
    assert len(world.cloud.billed()) == 1
    world.kube.delete(r.PODS, "train", "default")
    assert 600 < world.until(lambda: not world.cloud.billed()) < 700
    assert world.events("ScaleDown") == [
        "marked the node as toBeDeleted/unschedulable",
        "node removed by cluster autoscaler",
    ]


def test_a_node_just_added_is_kept_for_ten_minutes_more():
    world = world_of("[{name: gpu, instanceType: g5.xlarge}]", pod(gpus=1), **{"scale-down-unneeded-time": "1m"})
    world.until(running(world))
    world.kube.delete(r.PODS, "train", "default")
    assert world.until(lambda: not world.cloud.billed()) > 480


def test_what_fits_no_group_is_said_once():
    world = world_of("[{name: gpu, instanceType: g5.xlarge}, {name: big, instanceType: g6.xlarge}]", pod(gpus=8))
    world.run(600)
    assert world.events("NotTriggerScaleUp") == ["pod didn't trigger scale-up: 2 Insufficient nvidia.com/gpu"]


@pytest.mark.parametrize(
    ("change", "kept"),
    [
        ({}, False),
        ({"annotations": {"cluster-autoscaler.kubernetes.io/safe-to-evict": "false"}}, True),
        ({"owner": None}, True),
        ({"owner": None, "annotations": {"cluster-autoscaler.kubernetes.io/safe-to-evict": "true"}}, False),
        ({"namespace": "kube-system"}, True),
        ({"volumes": [{"name": "scratch", "emptyDir": {}}]}, True),
    ],
)
def test_what_keeps_a_little_used_node(change, kept):
    world = world_of(
        "[{name: gpu, instanceType: g5.xlarge, labels: {pool: gpu}}, {name: cpu, instanceType: m5.4xlarge, min: 1}]",
        pod("train", gpus=1),
    )
    world.until(running(world))
    gpu_node = next(n for n in world.nodes() if dig(n, "status", "allocatable", "nvidia.com/gpu"))
    small = pod("small", cpu="100m", **change)
    small["spec"]["nodeName"] = name_of(gpu_node)
    world.kube.create(r.PODS, small)
    world.kube.delete(r.PODS, "train", "default")
    world.run(1800)
    assert (name_of(gpu_node) in [name_of(n) for n in world.nodes()]) is kept


def test_scale_down_disabled_on_a_node_keeps_it():
    world = world_of("[{name: gpu, instanceType: g5.xlarge}]", pod(gpus=1))
    world.until(running(world))
    world.kube.patch(
        r.NODES,
        name_of(world.nodes()[0]),
        {"metadata": {"annotations": {"cluster-autoscaler.kubernetes.io/scale-down-disabled": "true"}}},
    )
    world.kube.delete(r.PODS, "train", "default")
    world.run(7200)
    assert len(world.cloud.billed()) == 1


def test_while_the_autoscaler_is_down_the_group_keeps_its_size():
    world = world_of("[{name: gpu, instanceType: g5.xlarge, desired: 1}]", autoscaler=False)
    world.run(7200)
    assert len(world.cloud.billed()) == 1


def test_a_refused_eviction_ends_in_scale_down_failed_and_the_node_stays():
    world = world_of(
        "[{name: gpu, instanceType: g5.xlarge}, {name: cpu, instanceType: m5.4xlarge, min: 1}]", pod("train", gpus=1)
    )
    world.until(running(world))
    gpu_node = next(n for n in world.nodes() if dig(n, "status", "allocatable", "nvidia.com/gpu"))
    small = pod("small", cpu="100m")
    small["spec"]["nodeName"] = name_of(gpu_node)
    world.kube.create(r.PODS, small)
    world.kube.create(
        r.PDBS,
        {
            "apiVersion": "policy/v1",
            "kind": "PodDisruptionBudget",
            "metadata": {"name": "hold", "namespace": "default"},
            "spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": "small"}}},
        },
    )
    world.kube.patch(
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
    world.kube.delete(r.PODS, "train", "default")
    world.run(900)
    assert "failed to drain the node, aborting ScaleDown" in world.events("ScaleDownFailed")
    assert name_of(gpu_node) in [name_of(n) for n in world.nodes()]


def test_a_group_that_cannot_be_read_is_an_event_not_a_guess():
    with pytest.raises(ValueError, match="instanceType"):
        read_groups(config("[{name: gpu, typ: g5.xlarge}]"))
    world = world_of("[{name: gpu}]")
    world.run(60)
    assert not world.cloud.billed()
    assert len(world.events("InvalidNodeGroups")) == 1
