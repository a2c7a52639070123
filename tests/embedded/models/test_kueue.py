"""Kueue on a whole cluster: queues admit, hold and drain; what was evicted stays out until somebody opens the queue."""

import json

import pytest
from cluster_world import cluster, events, pods, running, until

from killcheck import fixtures
from killcheck.embedded.models.kueue import names as n
from killcheck.kube import manifests
from killcheck.kube import resources as r
from killcheck.kube.errors import ApiError, ServerFault
from killcheck.kube.objects import condition, dig, name_of

NODE = {
    "apiVersion": "v1",
    "kind": "Node",
    "metadata": {"name": "gpu-1", "labels": {"kubernetes.io/hostname": "gpu-1", "capacity": "spot"}},
    "status": {"capacity": {"cpu": "96", "memory": "512Gi", "pods": "110", "nvidia.com/gpu": "16"}},
}
FLAVOR = {
    "apiVersion": "kueue.x-k8s.io/v1beta1",
    "kind": "ResourceFlavor",
    "metadata": {"name": "spot"},
    "spec": {"nodeLabels": {"capacity": "spot"}},
}
LOCAL = {
    "apiVersion": "kueue.x-k8s.io/v1beta1",
    "kind": "LocalQueue",
    "metadata": {"name": "team", "namespace": "default"},
    "spec": {"clusterQueue": "gpus"},
}


def queue(quota=8, name="gpus", **spec):
    return {
        "apiVersion": "kueue.x-k8s.io/v1beta1",
        "kind": "ClusterQueue",
        "metadata": {"name": name},
        "spec": {
            "namespaceSelector": {},
            "resourceGroups": [
                {
                    "coveredResources": ["cpu", "nvidia.com/gpu"],
                    "flavors": [
                        {
                            "name": "spot",
                            "resources": [
                                {"name": "cpu", "nominalQuota": 64},
                                {"name": "nvidia.com/gpu", "nominalQuota": quota},
                            ],
                        }
                    ],
                }
            ],
        }
        | spec,
    }


def container(gpus):
    return {
        "name": "main",
        "image": "registry.example.internal/train:1",
        "resources": {"requests": {"cpu": "1", "nvidia.com/gpu": str(gpus)}, "limits": {"nvidia.com/gpu": str(gpus)}},
    }


def job(name="train", *, gpus=2, parallelism=2, local="team", priority=None, **spec):
    pod = {"restartPolicy": "Never", "terminationGracePeriodSeconds": 5, "containers": [container(gpus)]}
    if priority:
        pod["priorityClassName"] = priority
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": name, "namespace": "default", "labels": {n.QUEUE: local} if local else {}},
        "spec": {
            "parallelism": parallelism,
            "completions": parallelism,
            "template": {"metadata": {"labels": {"app": name}}, "spec": pod},
        }
        | spec,
    }


def workload(made, of="train"):
    found = made.kube.list(n.WORKLOADS).items
    return next((w for w in found if w["metadata"]["ownerReferences"][0]["name"] == of), {})


def stop(made, policy, resource=n.CLUSTERQUEUES, name="gpus", namespace=None):
    made.kube.patch(resource, name, {"spec": {"stopPolicy": policy}}, namespace)


def state(made, kind, of="train"):
    found = condition(workload(made, of), kind)
    return (found["status"], found["reason"], found["message"]) if found else None


def active(made, of="train"):
    return [p for p in pods(made, app=of) if "deletionTimestamp" not in p["metadata"]]


def test_a_job_is_suspended_at_birth_and_runs_with_its_flavors_labels_once_quota_is_reserved():
    with cluster(NODE, FLAVOR, queue(), LOCAL) as made:
        born = made.kube.create(r.JOBS, job())
        assert born["spec"]["suspend"] is True, "by the webhook, before the Job controller saw it"
        until(made, running(made, 2, app="train"))
        found = workload(made)
        assert name_of(found).startswith("job-train-")
        assert state(made, "Admitted") == ("True", "Admitted", "The workload is admitted")
        assert found["status"]["admission"]["podSetAssignments"] == [
            {
                "name": "main",
                "count": 2,
                "flavors": {"cpu": "spot", "nvidia.com/gpu": "spot"},
                "resourceUsage": {"cpu": "2", "nvidia.com/gpu": "4"},
            }
        ]
        assert {p["spec"]["nodeSelector"]["capacity"] for p in pods(made, app="train")} == {"spot"}
        assert "Admitted by ClusterQueue gpus, wait time since reservation was 0s" in events(made, "Admitted")
        assert events(made, "Started").count("Admitted by clusterQueue gpus") == 1
        made.loop.sleep(2)
        status = made.kube.get(n.CLUSTERQUEUES, "gpus")["status"]
        assert (status["admittedWorkloads"], status["pendingWorkloads"]) == (1, 0)
        assert {"name": "nvidia.com/gpu", "total": "4", "borrowed": "0"} in status["flavorsUsage"][0]["resources"]


def test_a_job_without_the_label_is_not_kueues():
    with cluster(NODE, FLAVOR, queue(quota=0), LOCAL, job(local=None)) as made:
        until(made, running(made, 2, app="train"))
        assert made.kube.list(n.WORKLOADS).items == []


def test_what_does_not_fit_waits_and_says_why_until_another_has_finished():
    with cluster(NODE, FLAVOR, queue(quota=4), LOCAL, job("first")) as made:
        until(made, running(made, 2, app="first"))
        made.kube.create(r.JOBS, job("second"))
        made.loop.sleep(5)
        assert state(made, "QuotaReserved", "second") == (
            "False",
            "WaitingForQuota",
            "couldn't assign flavors to pod set main: insufficient unused quota for "
            "nvidia.com/gpu in flavor spot, 4 more needed",
        )
        assert pods(made, app="second") == []
        made.kube.delete(r.JOBS, "first", "default", propagation="Background")
        until(made, running(made, 2, app="second"))


def test_more_than_there_will_ever_be():
    with cluster(NODE, FLAVOR, queue(quota=4), LOCAL, job(gpus=8)) as made:
        made.loop.sleep(5)
        status, reason, message = state(made, "QuotaReserved")
        assert (status, reason) == ("False", "ExceedsMaxQuota")
        assert message == (
            "couldn't assign flavors to pod set main: insufficient quota for nvidia.com/gpu in flavor spot, previously "
            "considered podsets requests (0) + current podset request (16) > maximum capacity (4)"
        )


def test_hold_and_drain_evicts_and_nothing_comes_back_until_the_queue_is_opened():
    with cluster(NODE, FLAVOR, queue(), LOCAL, job()) as made:
        until(made, running(made, 2, app="train"))
        first = {p["metadata"]["uid"] for p in pods(made, app="train")}
        stop(made, "HoldAndDrain")
        until(made, lambda: not pods(made, app="train"), 60)
        assert state(made, "Evicted") == ("True", "ClusterQueueStopped", "The ClusterQueue is stopped")
        made.loop.sleep(8 * 3600)
        assert pods(made, app="train") == [], "nothing is admitted again"
        assert state(made, "Requeued")[:2] == ("False", "ClusterQueueStopped")
        assert state(made, "QuotaReserved") == ("False", "Suspended", "ClusterQueue gpus is inactive")
        held = made.kube.get(r.JOBS, "train", "default")
        assert held["spec"]["suspend"] is True
        assert "capacity" not in (dig(held, "spec", "template", "spec", "nodeSelector") or {}), "its own template again"
        assert events(made, "EvictedDueToClusterQueueStopped") == ["The ClusterQueue is stopped"]
        assert condition(made.kube.get(n.CLUSTERQUEUES, "gpus"), "Active")["message"] == (
            "Can't admit new workloads: is stopped."
        )
        stop(made, "None")
        until(made, running(made, 2, app="train"), 120)
        assert state(made, "Requeued")[:2] == ("True", "ClusterQueueRestarted")
        assert not first & {p["metadata"]["uid"] for p in pods(made, app="train")}


def test_hold_alone_admits_nothing_new_and_lets_what_runs_run():
    with cluster(NODE, FLAVOR, queue(), LOCAL, job()) as made:
        until(made, running(made, 2, app="train"))
        stop(made, "Hold")
        made.kube.create(r.JOBS, job("late"))
        made.loop.sleep(3600)
        assert len(active(made)) == 2
        assert pods(made, app="late") == []
        assert condition(made.kube.get(n.LOCALQUEUES, "team", "default"), "Active")["reason"] == (
            "ClusterQueueIsInactive"
        )


def test_a_local_queue_drains_its_own():
    with cluster(NODE, FLAVOR, queue(), LOCAL, job()) as made:
        until(made, running(made, 2, app="train"))
        stop(made, "HoldAndDrain", n.LOCALQUEUES, "team", "default")
        until(made, lambda: not pods(made, app="train"), 60)
        assert state(made, "Evicted")[1:] == ("LocalQueueStopped", "The LocalQueue is stopped")


def test_pods_that_are_deleted_come_back_and_a_job_that_somebody_suspends_is_started_again():
    with cluster(NODE, FLAVOR, queue(), LOCAL, job()) as made:
        until(made, running(made, 2, app="train"))
        for pod in pods(made, app="train"):
            made.kube.delete(r.PODS, name_of(pod), "default")
        made.loop.sleep(60)
        assert len(active(made)) == 2, "the Job is still admitted"
        made.kube.patch(r.JOBS, "train", {"spec": {"suspend": True}}, "default")
        made.loop.sleep(60)
        assert made.kube.get(r.JOBS, "train", "default")["spec"]["suspend"] is False
        assert len(active(made)) == 2


def test_a_lowered_quota_evicts_nothing_and_admits_nothing():
    with cluster(NODE, FLAVOR, queue(), LOCAL, job()) as made:
        until(made, running(made, 2, app="train"))
        made.kube.replace(n.CLUSTERQUEUES, made.kube.get(n.CLUSTERQUEUES, "gpus") | {"spec": queue(quota=0)["spec"]})
        made.kube.create(r.JOBS, job("late", gpus=1, parallelism=1))
        made.loop.sleep(3600)
        assert len(active(made)) == 2, "what was admitted stays (FACTS: lowering limits removes nothing)"
        assert pods(made, app="late") == []
        assert state(made, "QuotaReserved", "late")[1] == "ExceedsMaxQuota"


def test_a_deactivated_workload_stops_its_job():
    with cluster(NODE, FLAVOR, queue(), LOCAL, job()) as made:
        until(made, running(made, 2, app="train"))
        made.kube.patch(n.WORKLOADS, name_of(workload(made)), {"spec": {"active": False}}, "default")
        until(made, lambda: not pods(made, app="train"), 60)
        assert state(made, "Evicted")[1:] == ("Deactivated", "The workload is deactivated")


def test_the_more_important_takes_the_place_of_the_less_important():
    high = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": "high"}, "value": 1000}
    gpus = queue(quota=4, preemption={"withinClusterQueue": "LowerPriority"})
    with cluster(NODE, FLAVOR, gpus, LOCAL, high, job("low")) as made:
        until(made, running(made, 2, app="low"))
        made.kube.create(r.JOBS, job("urgent", priority="high"))
        until(made, running(made, 2, app="urgent"), 120)
        assert active(made, "low") == []
        assert state(made, "Evicted", "low")[1] == "Preempted"
        assert "due to prioritization in the ClusterQueue" in events(made, "Preempted")[0]
        assert state(made, "Requeued", "low")[0] == "True", "it waits again, by itself"
        made.kube.delete(r.JOBS, "urgent", "default", propagation="Background")
        until(made, running(made, 2, app="low"), 120)


def test_a_cohort_lends_and_takes_back():
    lender = queue(quota=4, name="lender", cohort="all", preemption={"reclaimWithinCohort": "Any"})
    other = {**LOCAL, "metadata": {"name": "owners", "namespace": "default"}, "spec": {"clusterQueue": "lender"}}
    with cluster(NODE, FLAVOR, queue(quota=4, cohort="all"), lender, LOCAL, other, job("borrower", gpus=4)) as made:
        until(made, running(made, 2, app="borrower"))
        made.loop.sleep(2)
        rows = made.kube.get(n.CLUSTERQUEUES, "gpus")["status"]["flavorsUsage"][0]["resources"]
        assert {"name": "nvidia.com/gpu", "total": "8", "borrowed": "4"} in rows
        made.kube.create(r.JOBS, job("owner", local="owners"))
        until(made, running(made, 2, app="owner"), 120)
        assert active(made, "borrower") == []
        assert "due to reclamation within the cohort" in events(made, "Preempted")[0]


def test_a_finished_job_gives_its_quota_back():
    with cluster(NODE, FLAVOR, queue(quota=4), LOCAL, job(activeDeadlineSeconds=30)) as made:
        until(made, lambda: state(made, "Finished") is not None, 120)
        assert state(made, "Finished")[:2] == ("True", "Failed")
        made.loop.sleep(2)
        assert made.kube.get(n.CLUSTERQUEUES, "gpus")["status"]["reservingWorkloads"] == 0
        made.kube.delete(r.JOBS, "train", "default", propagation="Background")
        until(made, lambda: not made.kube.list(n.WORKLOADS).items, 60)


def test_a_deployment_under_a_queue_is_gated_and_replaced_pods_wait_while_it_is_held():
    server = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "vllm", "namespace": "default", "labels": {n.QUEUE: "team"}},
        "spec": {
            "replicas": 2,
            "selector": {"matchLabels": {"app": "vllm"}},
            "template": {"metadata": {"labels": {"app": "vllm"}}, "spec": {"containers": [container(2)]}},
        },
    }
    with cluster(NODE, FLAVOR, queue(), LOCAL, server) as made:
        until(made, running(made, 2, app="vllm"))
        assert all(not p["spec"].get("schedulingGates") for p in pods(made, app="vllm"))
        stop(made, "HoldAndDrain")
        until(made, lambda: not running(made, 1, app="vllm")() and not running(made, 2, app="vllm")(), 120)
        made.loop.sleep(600)
        left = pods(made, app="vllm")
        assert [p["spec"]["schedulingGates"] for p in left] == [[{"name": n.GATE}]] * 2
        assert not any(dig(p, "spec", "nodeName") for p in left), "what the ReplicaSet made anew holds nothing"
        stop(made, "None")
        until(made, running(made, 2, app="vllm"), 120)


def test_a_plain_pod_is_gated_and_let_go():
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "notebook", "namespace": "default", "labels": {n.QUEUE: "team", "app": "notebook"}},
        "spec": {"containers": [container(1)], "terminationGracePeriodSeconds": 2},
    }
    with cluster(NODE, FLAVOR, queue(), LOCAL, pod) as made:
        until(made, running(made, 1, app="notebook"))
        assert n.MANAGED in pods(made, app="notebook")[0]["metadata"]["finalizers"]
        stop(made, "HoldAndDrain")
        until(made, lambda: not pods(made, app="notebook"), 60)
        until(made, lambda: not made.kube.list(n.WORKLOADS).items, 60)


def test_where_kueue_is_down_its_webhooks_refuse_jobs_and_switches_and_what_runs_runs_on():
    with cluster(NODE, FLAVOR, queue(), LOCAL, job()) as made:
        until(made, running(made, 2, app="train"))
        made.stop_controller("kueue")
        for hook, ask in (
            ("vclusterqueue", lambda: stop(made, "HoldAndDrain")),
            ("vjob", lambda: made.kube.patch(r.JOBS, "train", {"spec": {"suspend": True}}, "default")),
            ("mjob", lambda: made.kube.create(r.JOBS, job("any", local=None))),
        ):
            with pytest.raises(ServerFault, match=rf'failed calling webhook "{hook}\.kb\.io".*no endpoints available'):
                ask()
        made.loop.sleep(3600)
        assert len(active(made)) == 2
        made.start_controller("kueue")
        stop(made, "HoldAndDrain")
        until(made, lambda: not pods(made, app="train"), 60)
        made.kube.create(r.JOBS, job("any", local=None))


def test_a_queue_goes_when_nothing_holds_any_of_it_and_what_runs_keeps_its_queue():
    with cluster(NODE, FLAVOR, queue(), LOCAL, job()) as made:
        until(made, running(made, 2, app="train"))
        with pytest.raises(ApiError, match=r'webhook "vjob\.kb\.io" denied the request: .*field is immutable'):
            made.kube.patch(r.JOBS, "train", {"metadata": {"labels": {n.QUEUE: None}}}, "default")
        for resource, name in ((n.CLUSTERQUEUES, "gpus"), (n.FLAVORS, "spot")):
            made.kube.delete(resource, name)
        made.loop.sleep(60)
        assert len(active(made)) == 2
        assert "deletionTimestamp" in made.kube.find(n.CLUSTERQUEUES, "gpus")["metadata"]
        made.kube.delete(r.JOBS, "train", "default", propagation="Background")
        until(made, lambda: made.kube.find(n.CLUSTERQUEUES, "gpus") is None, 60)
        until(made, lambda: made.kube.find(n.FLAVORS, "spot") is None, 60)
        assert made.kube.create(r.JOBS, job())["spec"]["suspend"] is True, "Kueue is there without a queue"


def test_without_queues_kueue_does_nothing_at_all():
    with cluster(NODE, job(local="team")) as made:
        until(made, running(made, 2, app="train"))
        assert made.kube.list(n.WORKLOADS).items == []


def test_the_reference_path_plays_its_night():
    with cluster(*manifests.load(fixtures.path("kueue-quota")).objects, exec_mode="host") as made:
        until(made, running(made, 4, app="training-run-82"))
        assert all(
            dig(p, "spec", "nodeSelector", "karpenter.sh/capacity-type") == "spot"
            for p in pods(made, app="training-run-82")
        )
        assert {one.capacity_type for one in made.cloud.billed()} == {"spot"}
        made.loop.sleep(16.5 * 3600)
        assert pods(made, app="training-run-82") == []
        until(made, lambda: not made.cloud.billed(), 1200)
        made.loop.sleep(8 * 3600)
        assert not made.cloud.billed(), json.dumps(workload(made, "training-run-82")["status"])


def test_queues_say_what_stops_them_from_the_start():
    """As their CRDs do: who writes None to an open queue has changed nothing of it."""
    with cluster(NODE, FLAVOR, queue(), LOCAL) as made:
        for resource, namespace in ((n.CLUSTERQUEUES, None), (n.LOCALQUEUES, LOCAL["metadata"]["namespace"])):
            (found,) = made.kube.list(resource, namespace).items
            assert found["spec"]["stopPolicy"] == "None"
            with pytest.raises(ApiError, match="Unsupported value"):
                made.kube.patch(resource, name_of(found), {"spec": {"stopPolicy": "Drain"}}, namespace)
