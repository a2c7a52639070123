"""Machines beneath a whole cluster: groups and the autoscaler at work, and what is left when a machine is taken."""

from cluster_world import cluster, events, gpu_nodes, name_of, pods, ready, running, until

from killcheck.kube import resources as r
from killcheck.kube.objects import condition, dig

GROUPS = {
    "apiVersion": "v1",
    "kind": "ConfigMap",
    "metadata": {"name": "groups", "namespace": "kube-system", "labels": {"killcheck.dev/node-groups": "true"}},
    "data": {"groups": "[{name: gpu, instanceType: g6.4xlarge, max: 3, capacityType: spot}]"},
}


def workers(replicas):
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "worker", "namespace": "default"},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": {"app": "worker"}},
            "template": {
                "metadata": {"labels": {"app": "worker"}},
                "spec": {
                    "containers": [
                        {
                            "name": "main",
                            "image": "registry.example.internal/worker:1",
                            "resources": {"limits": {"nvidia.com/gpu": "1"}},
                        }
                    ]
                },
            },
        },
    }


def test_node_groups_and_the_autoscaler_are_there_and_give_back_what_nobody_needs():
    with cluster(GROUPS, workers(2)) as made:
        until(made, running(made, 2, app="worker"))
        assert not any("GPU node(s) made" in note for note in made.assumptions)
        assert len(gpu_nodes(made)) == len(made.cloud.billed()) == 2
        assert "pod triggered scale-up: [{gpu 0->2 (max: 3)}]" in events(made, "TriggeredScaleUp")
        made.kube.patch(r.DEPLOYMENTS, "worker", {"spec": {"replicas": 0}}, "default", subresource="scale")
        assert 600 < until(made, lambda: not made.cloud.billed()) < 700
        until(made, lambda: not gpu_nodes(made))


def test_without_groups_the_autoscaler_has_nothing_to_look_at():
    with cluster(workers(1)) as made:
        made.loop.sleep(60)
        idle = made.controllers["cluster-autoscaler"], made.controllers["auto-scaling-groups"]
        assert not any(controller.queue._ready or controller.queue._later for controller in idle)


def test_a_stopped_autoscaler_keeps_what_bills_until_it_is_started_again():
    with cluster(GROUPS, workers(1)) as made:
        until(made, running(made, 1, app="worker"))
        made.stop_controller("cluster-autoscaler")
        made.kube.patch(r.DEPLOYMENTS, "worker", {"spec": {"replicas": 0}}, "default", subresource="scale")
        made.loop.sleep(3600)
        assert len(made.cloud.billed()) == 1
        made.start_controller("cluster-autoscaler")
        until(made, lambda: not made.cloud.billed())


def test_a_machine_that_is_taken_without_notice_leaves_a_node_that_only_falls_silent():
    with cluster(GROUPS, workers(1)) as made:
        until(made, running(made, 1, app="worker"))
        made.loop.sleep(120)
        (node,), (pod,) = gpu_nodes(made), pods(made, app="worker")
        instance = made.cloud.of(name_of(node))
        made.cloud.timing = made.cloud.timing.__class__(terminate_s=3600)  # the cloud takes its time to say so
        made.cloud.reclaim(instance.instance_id)
        made.loop.sleep(30)
        assert ready(made.kube.get(r.NODES, name_of(node))) == "True", "nobody has noticed yet"
        assert made.nodes.kubelet(name_of(node)).holding() == [], "nothing runs on it any more"
        seen = until(made, lambda: ready(made.kube.get(r.NODES, name_of(node))) == "Unknown")
        assert 10 <= seen <= 30, "50 s of grace after the last of its heartbeats, looked at every 5 s"
        made.loop.sleep(1)
        lost = made.kube.get(r.PODS, name_of(pod), "default")
        assert condition(lost, "Ready")["status"] == "False"
        assert dig(lost, "status", "phase") == "Running"
        assert {t["key"] for t in made.kube.get(r.NODES, name_of(node))["spec"]["taints"]} == {
            "node.kubernetes.io/unreachable"
        }
        evicted = until(made, lambda: "deletionTimestamp" in made.kube.get(r.PODS, name_of(pod), "default")["metadata"])
        assert 295 <= evicted <= 305, "the default toleration of node.kubernetes.io/unreachable"
        made.loop.sleep(900)
        stuck = made.kube.get(r.PODS, name_of(pod), "default")
        assert "deletionTimestamp" in stuck["metadata"], "no kubelet is there to confirm the end"
        assert condition(stuck, "DisruptionTarget")["reason"] == "DeletionByTaintManager"


def test_once_the_cloud_says_that_it_is_gone_node_and_pod_are_collected():
    with cluster(GROUPS, workers(1)) as made:
        until(made, running(made, 1, app="worker"))
        made.loop.sleep(120)
        (node,), (pod,) = gpu_nodes(made), pods(made, app="worker")
        made.cloud.reclaim(made.cloud.of(name_of(node)).instance_id)
        gone = until(made, lambda: made.kube.find(r.NODES, name_of(node)) is None)
        assert 40 <= gone <= 65
        collected = until(made, lambda: made.kube.find(r.PODS, name_of(pod), "default") is None)
        assert 40 <= collected <= 61, "PodGC: every 20 s, and 40 s of doubt"
        until(made, running(made, 1, app="worker"))
        assert len(made.cloud.billed()) == 1, "the group has replaced it"


def test_what_is_loaded_later_finds_the_nodes_that_are_there():
    with cluster(GROUPS) as made:
        before = len(made.kube.list(r.NODES).items)
        made.load([workers(1)])
        assert len(made.kube.list(r.NODES).items) == before == 2
        assert made.notes == []
    with cluster() as made:
        made.load([workers(2)])
        assert made.advance(60, lambda: len(gpu_nodes(made)) == 2), "nothing else would bring them"
        made.load([{**workers(1), "metadata": {"name": "second", "namespace": "default"}}])
        made.advance(60)
        told = [said for said in made.assumptions if "no node pool is in the manifests" in said]
        assert [str(len(gpu_nodes(made))) in said for said in told] == [True]
