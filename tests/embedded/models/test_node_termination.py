"""aws-node-termination-handler in both of its modes, against notices by metadata, by queue, and none at all."""

import pytest
from cluster_world import cluster, events, gpu_nodes, name_of, pods, running, until

from killcheck.kube import resources as r
from killcheck.kube.objects import dig

NAME = "aws-node-termination-handler"
TAG = f"{NAME}/managed"


def groups(**more):
    tags = more.get("tags", f"{{{TAG}: ''}}")
    hook = f", lifecycleHook: {more['hook']}" if "hook" in more else ""
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "groups", "namespace": "kube-system", "labels": {"killcheck.dev/node-groups": "true"}},
        "data": {
            "groups": "[{name: gpu, instanceType: g6.4xlarge, min: 1, max: 2, capacityType: spot, "
            f"tags: {tags}{hook}}}]"
        },
    }


def handler(kind, *, replicas=1, **env):
    labels = {"app.kubernetes.io/name": NAME}
    env = {"EMIT_KUBERNETES_EVENTS": "true"} | env
    spec = {
        "selector": {"matchLabels": labels},
        "template": {
            "metadata": {"labels": labels},
            "spec": {
                "tolerations": [{"operator": "Exists"}],
                "containers": [
                    {
                        "name": NAME,
                        "image": "public.ecr.aws/aws-ec2/aws-node-termination-handler:v1.25.3",
                        "env": [{"name": name, "value": value} for name, value in env.items()],
                    }
                ],
            },
        },
    }
    if kind == "Deployment":
        spec["replicas"] = replicas
        spec["template"]["spec"]["nodeSelector"] = {"node.kubernetes.io/instance-type": "m6i.xlarge"}
    return {
        "apiVersion": "apps/v1",
        "kind": kind,
        "metadata": {"name": NAME, "namespace": "kube-system", "labels": labels},
        "spec": spec,
    }


def imds(**env):
    return handler("DaemonSet", **env)


def queue(**env):
    return handler("Deployment", ENABLE_SQS_TERMINATION_DRAINING="true", **env)


def trainer(*, grace=5, volumes=(), replicas=1, **labels):
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "train", "namespace": "default"},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": {"app": "train"}},
            "template": {
                "metadata": {"labels": {"app": "train"} | labels},
                "spec": {
                    "terminationGracePeriodSeconds": grace,
                    "volumes": list(volumes),
                    "containers": [
                        {
                            "name": "main",
                            "image": "registry.example.internal/train:1",
                            "resources": {"limits": {"nvidia.com/gpu": "1"}},
                        }
                    ],
                },
            },
        },
    }


BUDGET = {
    "apiVersion": "policy/v1",
    "kind": "PodDisruptionBudget",
    "metadata": {"name": "all", "namespace": "default"},
    "spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": "train"}}},
}


def ready(made):
    """The instance, once everything runs and is a while old; until then nothing has happened to it."""
    until(made, running(made, 1, app="train"))
    made.loop.sleep(30)
    (node,) = gpu_nodes(made)
    assert not node["spec"].get("unschedulable")
    return made.cloud.of(name_of(node))


def cordoned(made, instance):
    node = made.kube.find(r.NODES, instance.node_name)
    return bool(node and node["spec"].get("unschedulable"))


def on(made, instance):
    return [p for p in pods(made, app="train") if dig(p, "spec", "nodeName") == instance.node_name]


@pytest.mark.parametrize("mode", [imds, queue], ids=["metadata", "queue"])
def test_a_notice_cordons_and_drains_within_seconds(mode):
    with cluster(groups(), mode(), trainer()) as made:
        instance = ready(made)
        made.cloud.interrupt(instance.instance_id)
        assert until(made, lambda: cordoned(made, instance), 30) <= 5
        until(made, lambda: not on(made, instance), 60)
        made.loop.sleep(2)
        assert instance.state == "running", "long before the machine is taken"
        assert events(made, "CordonAndDrain") == ["Node successfully cordoned and drained"]
        (said,) = events(made, "SpotInterruption")
        assert instance.instance_id in said or "Spot ITN received. Instance will be interrupted at" in said


@pytest.mark.parametrize(("mode", "via"), [(imds, "queue"), (queue, "metadata")])
def test_each_mode_hears_only_what_it_listens_to(mode, via):
    with cluster(groups(), mode(), trainer()) as made:
        instance = ready(made)
        made.cloud.interrupt(instance.instance_id, via=[via])
        made.loop.sleep(100)
        assert not cordoned(made, instance)
        assert len(on(made, instance)) == 1


def test_without_the_tag_the_queue_mode_drops_the_message():
    with cluster(groups(tags="{}"), queue(), trainer()) as made:
        instance = ready(made)
        made.cloud.interrupt(instance.instance_id)
        made.loop.sleep(100)
        assert not cordoned(made, instance)


def test_the_check_of_the_tag_can_be_turned_off():
    with cluster(groups(tags="{}"), queue(CHECK_TAG_BEFORE_DRAINING="false"), trainer()) as made:
        instance = ready(made)
        made.cloud.interrupt(instance.instance_id)
        until(made, lambda: cordoned(made, instance), 10)


def test_a_handler_that_is_down_does_nothing_and_reads_what_waited_once_it_is_up():
    with cluster(groups(), queue(), trainer()) as made:
        instance = ready(made)
        made.kube.patch(r.DEPLOYMENTS, NAME, {"spec": {"replicas": 0}}, "kube-system", subresource="scale")
        made.loop.sleep(60)
        made.cloud.interrupt(instance.instance_id)
        made.loop.sleep(60)
        assert not cordoned(made, instance)
        made.kube.patch(r.DEPLOYMENTS, NAME, {"spec": {"replicas": 1}}, "kube-system", subresource="scale")
        until(made, lambda: cordoned(made, instance), 30)


@pytest.mark.parametrize(
    ("env", "seen"),
    [
        ({}, (False, False)),
        ({"ENABLE_REBALANCE_MONITORING": "true"}, (True, False)),
        ({"ENABLE_REBALANCE_DRAINING": "true"}, (True, True)),
    ],
)
def test_a_rebalance_recommendation_by_metadata_is_off_cordons_or_drains(env, seen):
    with cluster(groups(), imds(**env), trainer()) as made:
        instance = ready(made)
        made.cloud.recommend_rebalance(instance.instance_id)
        made.loop.sleep(60)
        assert (cordoned(made, instance), not on(made, instance)) == seen


def test_a_rebalance_recommendation_by_queue_drains():
    with cluster(groups(), queue(), trainer()) as made:
        instance = ready(made)
        made.cloud.recommend_rebalance(instance.instance_id)
        until(made, lambda: not on(made, instance), 30)
        assert len(events(made, "RebalanceRecommendation")) == 1


def test_a_budget_holds_the_drain_until_the_machine_goes_with_the_pod_on_it():
    with cluster(groups(), imds(), trainer(), BUDGET) as made:
        instance = ready(made)
        made.cloud.interrupt(instance.instance_id)
        made.loop.sleep(115)
        assert cordoned(made, instance)
        (pod,) = on(made, instance)
        assert "deletionTimestamp" not in pod["metadata"]
        until(made, lambda: instance.state != "running", 10)
        assert events(made, "CordonAndDrain") == []


def test_by_metadata_it_begins_only_as_long_before_the_end_as_a_drain_may_take():
    with cluster(groups(), imds(NODE_TERMINATION_GRACE_PERIOD="20"), trainer(), BUDGET) as made:
        instance = ready(made)
        made.cloud.interrupt(instance.instance_id)
        made.loop.sleep(90)
        assert not cordoned(made, instance)
        until(made, lambda: cordoned(made, instance), 15)


def test_a_drain_that_takes_longer_than_it_may_is_an_error_and_begun_again():
    with cluster(groups(), queue(NODE_TERMINATION_GRACE_PERIOD="20"), trainer(), BUDGET) as made:
        instance = ready(made)
        made.cloud.interrupt(instance.instance_id)
        until(made, lambda: events(made, "CordonAndDrainError"), 40)
        (told,) = events(made, "CordonAndDrainError")
        (pod,) = on(made, instance)
        assert told.endswith(f'"{name_of(pod)}" -n "default": global timeout reached: 20s')
        made.kube.delete(r.PDBS, "all", "default")
        until(made, lambda: not on(made, instance), 60)


def test_local_data_stays_unless_it_may_go():
    scratch = [{"name": "scratch", "emptyDir": {}}]
    with cluster(groups(), queue(DELETE_LOCAL_DATA="false"), trainer(volumes=scratch)) as made:
        instance = ready(made)
        made.cloud.interrupt(instance.instance_id)
        made.loop.sleep(60)
        assert len(on(made, instance)) == 1
        told = events(made, "CordonAndDrainError")
        assert "(use --delete-emptydir-data to override): default/train-" in told[0]
        tries = [e for e in made.kube.list(r.EVENTS).items if e["reason"] == "CordonAndDrainError"]
        assert sum(e.get("count") or 1 for e in tries) >= 2, "the message is visible again after twenty seconds"


@pytest.mark.parametrize(("env", "taints"), [({}, []), ({"TAINT_NODE": "true"}, [f"{NAME}/spot-itn"])])
def test_a_taint_only_where_it_is_asked_for(env, taints):
    with cluster(groups(), imds(**env), trainer()) as made:
        instance = ready(made)
        made.cloud.interrupt(instance.instance_id)
        made.loop.sleep(10)
        node = made.kube.get(r.NODES, instance.node_name)
        assert [t["key"] for t in node["spec"]["taints"] if t["key"].startswith(NAME)] == taints


def test_daemons_and_the_handler_itself_stay():
    with cluster(groups(), imds(), trainer()) as made:
        instance = ready(made)
        made.cloud.interrupt(instance.instance_id)
        made.loop.sleep(60)
        left = [p for p in made.kube.list(r.PODS).items if dig(p, "spec", "nodeName") == instance.node_name]
        assert [p["metadata"]["labels"]["app.kubernetes.io/name"] for p in left] == [NAME]
        assert len(events(made, "CordonAndDrain")) == 1


def test_a_reclaim_without_notice_is_heard_of_by_the_queue_alone_and_too_late():
    with cluster(groups(), queue(), trainer()) as made:
        instance = ready(made)
        made.cloud.reclaim(instance.instance_id)
        made.loop.sleep(5)
        assert cordoned(made, instance)
        assert events(made, "StateChange")
        assert made.nodes.kubelet(instance.node_name).holding() == []


def scale_in(made, size=0):
    """The group ends what it has, as its hook allows."""
    group = made.cloud.groups["gpu"]
    group.minimum = group.desired = size
    for tell in made.cloud.group_listeners:
        tell("gpu")


def test_a_group_with_a_hook_waits_for_the_drain_and_not_for_the_hooks_hour():
    with cluster(groups(hook="{name: drain}"), queue(TAINT_NODE="true"), trainer(grace=20)) as made:
        instance = ready(made)
        scale_in(made)
        until(made, lambda: cordoned(made, instance), 30)
        assert instance.state == "running", "it waits for whoever drains it"
        assert instance.lifecycle == "Terminating:Wait"
        taints = {taint["key"] for taint in made.kube.get(r.NODES, instance.node_name)["spec"]["taints"]}
        assert f"{NAME}/asg-lifecycle-termination" in taints
        until(made, lambda: instance.state != "running", 60)
        assert events(made, "PostDrain") == ["Post-drain task successfully executed"]
        assert any("ASG Lifecycle Termination event received." in said for said in events(made, "ASGLifecycle"))


def test_a_hook_that_nobody_completes_keeps_the_machine_until_its_timeout():
    with cluster(groups(hook="{name: drain, heartbeatTimeout: 900}"), trainer()) as made:
        instance = ready(made)
        scale_in(made)
        made.loop.sleep(890)
        assert instance.state == "running"
        made.loop.sleep(20)
        assert instance.state != "running"


def test_a_handler_that_may_not_complete_the_action_says_so_and_the_bill_goes_on():
    with cluster(groups(hook="{name: drain}"), queue(), trainer()) as made:
        made.cloud.denied.add("autoscaling:CompleteLifecycleAction")
        instance = ready(made)
        scale_in(made)
        made.loop.sleep(600)
        assert instance.state == "running"
        (said,) = events(made, "PostDrainError")
        assert said.startswith("There was a problem executing the post-drain task: ")


def test_a_spot_reclaim_asks_no_hook():
    with cluster(groups(hook="{name: drain}"), trainer()) as made:
        instance = ready(made)
        made.cloud.reclaim(instance.instance_id)
        made.loop.sleep(1)
        assert instance.state != "running"
