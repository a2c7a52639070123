"""Pods that Kueue admits together or not at all."""

from cluster_world import cluster, events, pods, until
from test_kueue import FLAVOR, LOCAL, NODE, container, queue, state, stop

from killcheck.embedded.models.kueue import names as n
from killcheck.kube import resources as r
from killcheck.kube.objects import dig


def member(name, *, gpus=2, total="2", **annotations):
    said = {n.TOTAL_COUNT: total} | {f"kueue.x-k8s.io/{key.replace('_', '-')}": v for key, v in annotations.items()}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": name,
            "namespace": "default",
            "annotations": said,
            "labels": {n.QUEUE: "team", n.POD_GROUP: "ring", "app": "ring"},
        },
        "spec": {"restartPolicy": "Never", "terminationGracePeriodSeconds": 5, "containers": [container(gpus)]},
    }


def group(made):
    return next((one for one in made.kube.list(n.WORKLOADS).items if one["metadata"]["name"] == "ring"), None)


def said(made, kind):
    found = next((c for c in dig(group(made), "status", "conditions", default=[]) if c["type"] == kind), None)
    return (found["status"], found["reason"], found["message"]) if found else None


def phases(made):
    return sorted(dig(pod, "status", "phase") for pod in pods(made, app="ring"))


def test_nothing_runs_before_all_of_a_group_are_there_and_then_all_do():
    with cluster(NODE, FLAVOR, queue(), LOCAL, member("a")) as made:
        made.loop.sleep(30)
        assert group(made) is None
        assert phases(made) == ["Pending"]
        assert "'ring' group has fewer runnable pods than expected" in events(made, "ErrWorkloadCompose")
        made.kube.create(r.PODS, member("b"))
        until(made, lambda: phases(made) == ["Running", "Running"])
        assert [one["count"] for one in group(made)["spec"]["podSets"]] == [2]
        assert {owner["name"] for owner in group(made)["metadata"]["ownerReferences"]} == {"a", "b"}


def test_a_group_that_does_not_fit_whole_runs_not_at_all():
    with cluster(NODE, FLAVOR, queue(quota=3), LOCAL, member("a"), member("b")) as made:
        made.loop.sleep(30)
        assert phases(made) == ["Pending", "Pending"]
        assert said(made, "QuotaReserved")[:2] == ("False", "ExceedsMaxQuota")


def test_pods_that_ask_for_different_things_are_different_roles():
    with cluster(NODE, FLAVOR, queue(), LOCAL, member("a", gpus=1), member("b", gpus=4)) as made:
        until(made, lambda: phases(made) == ["Running", "Running"])
        assert sorted(one["count"] for one in group(made)["spec"]["podSets"]) == [1, 1]


def test_the_first_may_speak_for_all():
    with cluster(NODE, FLAVOR, queue(), LOCAL, member("a", total="3", pod_group_fast_admission="true")) as made:
        until(made, lambda: phases(made) == ["Running"])
        assert group(made)["spec"]["podSets"][0]["count"] == 3


def test_a_drained_queue_stops_the_whole_group_and_takes_its_quota_back():
    with cluster(NODE, FLAVOR, queue(), LOCAL, member("a"), member("b")) as made:
        until(made, lambda: phases(made) == ["Running", "Running"])
        stop(made, "HoldAndDrain")
        until(made, lambda: pods(made, app="ring") == [])
        made.loop.sleep(2)
        status = made.kube.get(n.CLUSTERQUEUES, "gpus")["status"]
        assert (status["admittedWorkloads"], status["reservingWorkloads"]) == (0, 0)


def test_without_a_count_a_group_waits_for_ever():
    with cluster(NODE, FLAVOR, queue(), LOCAL, member("a", total="many")) as made:
        made.loop.sleep(3600)
        assert phases(made) == ["Pending"]
        assert state(made, "QuotaReserved", "a") is None


def test_a_group_is_over_when_all_of_it_has_succeeded():
    with cluster(NODE, FLAVOR, queue(), LOCAL, member("a"), member("b")) as made:
        until(made, lambda: phases(made) == ["Running", "Running"])
        for name in ("a", "b"):
            assert said(made, "Finished") is None
            made.kube.patch(r.PODS, name, {"status": {"phase": "Succeeded"}}, "default", subresource="status")
            made.loop.sleep(1)
        assert said(made, "Finished") == ("True", "Succeeded", "Pods succeeded: 2/2.")
        made.loop.sleep(2)
        assert made.kube.get(n.CLUSTERQUEUES, "gpus")["status"]["reservingWorkloads"] == 0
        assert all(n.MANAGED not in (pod["metadata"].get("finalizers") or []) for pod in pods(made, app="ring"))
