"""RayJob, RayService and TrainJob: what they make, what takes it away, and what puts it back."""

from __future__ import annotations

import pytest
from cluster_world import cluster, pods, until

from killcheck.embedded.models.groups import JOBSETS, RAY_CLUSTERS
from killcheck.embedded.models.volcano import VOLCANO_JOBS
from killcheck.kube import resources as r
from killcheck.kube.resources import Resource

NS = "lab"
RAY_JOBS = Resource("ray.io", "v1", "rayjobs", "RayJob")
RAY_SERVICES = Resource("ray.io", "v1", "rayservices", "RayService")
TRAIN_JOBS = Resource("trainer.kubeflow.org", "v1alpha1", "trainjobs", "TrainJob")


def _pod(name="node", gpus=1):
    limits = {"nvidia.com/gpu": gpus} if gpus else {"cpu": 1}
    return {"spec": {"containers": [{"name": name, "image": "ray:1", "resources": {"limits": limits}}]}}


def _ray():
    workers = {"groupName": "a", "replicas": 2, "minReplicas": 2, "maxReplicas": 4, "template": _pod()}
    return {"headGroupSpec": {"template": _pod(gpus=0)}, "workerGroupSpecs": [workers]}


def _object(resource, spec, name="sweep"):
    meta = {"name": name, "namespace": NS} if resource.namespaced else {"name": name}
    return {"apiVersion": resource.api_version, "kind": resource.kind, "metadata": meta, "spec": spec}


def _ray_job(**spec):
    return _object(RAY_JOBS, {"rayClusterSpec": _ray(), "shutdownAfterJobFinishes": True} | spec)


def _ray_service(**spec):
    return _object(RAY_SERVICES, {"rayClusterConfig": _ray()} | spec)


def _train_job(**spec):
    trainer = {"numNodes": 3, "resourcesPerNode": {"limits": {"nvidia.com/gpu": 1}}}
    return _object(TRAIN_JOBS, {"runtimeRef": {"name": "torch"}, "trainer": trainer} | spec)


def _runtime():
    step = {"labels": {"trainer.kubeflow.org/trainjob-ancestor-step": "trainer"}}
    group = {"name": "node", "template": {"metadata": step, "spec": {"template": _pod(gpus=0)}}}
    kind = Resource("trainer.kubeflow.org", "v1alpha1", "clustertrainingruntimes", "ClusterTrainingRuntime", False)
    return _object(kind, {"template": {"spec": {"replicatedJobs": [group]}}}, "torch")


def _there(made, count):
    return lambda: len(pods(made)) == count


@pytest.mark.parametrize(
    ("obj", "resource", "count"),
    [(_ray_job(), RAY_JOBS, 3), (_ray_service(), RAY_SERVICES, 3), (_train_job(), TRAIN_JOBS, 3)],
)
def test_makes_its_pods_makes_them_again_and_takes_them_with_it(obj, resource, count):
    child = JOBSETS if resource is TRAIN_JOBS else RAY_CLUSTERS
    with cluster(_runtime(), obj) as made:
        until(made, _there(made, count))
        (one,) = made.kube.list(child, NS).items
        made.kube.delete(child, one["metadata"]["name"], NS)
        until(made, lambda: {p["metadata"]["uid"] for p in pods(made)} and _renewed(made, child, one))
        until(made, _there(made, count))
        made.kube.delete(resource, "sweep", NS)
        until(made, _there(made, 0))


def _renewed(made, child, one):
    return [each for each in made.kube.list(child, NS).items if each["metadata"]["uid"] != one["metadata"]["uid"]]


@pytest.mark.parametrize(
    ("obj", "resource", "goes"),
    [
        (_ray_job(), RAY_JOBS, True),
        (_ray_job(shutdownAfterJobFinishes=False), RAY_JOBS, False),
        (_ray_service(), RAY_SERVICES, False),
        (_train_job(), TRAIN_JOBS, True),
    ],
)
def test_suspend_takes_the_pods_away_where_the_kind_knows_it(obj, resource, goes):
    with cluster(_runtime(), obj) as made:
        until(made, _there(made, 3))
        made.kube.patch(resource, "sweep", {"spec": {"suspend": True}}, NS)
        assert made.loop.run_until(_there(made, 0), 900) is goes
        assert bool(made.unknowns) is (resource is RAY_SERVICES)
        made.kube.patch(resource, "sweep", {"spec": {"suspend": False}}, NS)
        until(made, _there(made, 3))


@pytest.mark.parametrize("queued", [False, True])
def test_pods_of_a_training_job_are_made_again_and_go_while_it_is_suspended(queued):
    """Under a queue of Kueue's it may be started again: that is told."""
    roles = {role: {"replicas": n, "template": _pod("pytorch")} for role, n in (("Master", 1), ("Worker", 2))}
    kind = Resource("kubeflow.org", "v1", "pytorchjobs", "PyTorchJob")
    job = _object(kind, {"pytorchReplicaSpecs": roles})
    job["metadata"]["labels"] = {"kueue.x-k8s.io/queue-name": "team"} if queued else {}
    with cluster(job) as made:
        until(made, _there(made, 3))
        made.kube.delete(r.PODS, "sweep-worker-1", NS)
        until(made, lambda: len(pods(made, **{"training.kubeflow.org/replica-index": "1"})) == 1)
        made.kube.patch(kind, "sweep", {"spec": {"runPolicy": {"suspend": True}}}, NS)
        until(made, _there(made, 0))
        assert bool(made.doubts) is queued


def test_workers_of_an_mpi_job_are_made_again_and_go_while_it_is_suspended():
    kind = Resource("kubeflow.org", "v2beta1", "mpijobs", "MPIJob")
    roles = {"Launcher": {"template": _pod(gpus=0)}, "Worker": {"replicas": 2, "template": _pod()}}
    with cluster(_object(kind, {"mpiReplicaSpecs": roles})) as made:
        until(made, _there(made, 3))
        for name in ("sweep-worker-0", "sweep-worker-1"):
            made.kube.delete(r.PODS, name, NS)
        until(made, lambda: len(pods(made, **{"training.kubeflow.org/job-role": "worker"})) == 2)
        made.kube.patch(kind, "sweep", {"spec": {"runPolicy": {"suspend": True}}}, NS)
        until(made, _there(made, 0))


@pytest.mark.parametrize(
    ("policies", "own", "deletions", "left"),
    [
        ([], [], 3, 2),
        ([{"event": "PodEvicted", "action": "RestartJob"}], [], 1, 2),
        ([{"event": "PodEvicted", "action": "RestartJob"}], [], 3, 0),
        ([{"events": ["PodFailed", "PodEvicted"], "action": "TerminateJob"}], [], 1, 0),
        ([{"event": "*", "action": "AbortJob"}], [{"event": "PodEvicted", "action": "RestartTask"}], 3, 2),
    ],
)
def test_pods_of_a_volcano_job_are_made_again_until_a_policy_ends_it(policies, own, deletions, left):
    task = {"name": "w", "replicas": 2, "template": _pod(), "policies": own}
    with cluster(_object(VOLCANO_JOBS, {"tasks": [task], "policies": policies, "maxRetry": 2})) as made:
        until(made, _there(made, 2))
        for _ in range(deletions):
            made.kube.delete(r.PODS, "sweep-w-1", NS)
            made.loop.run_until(lambda: False, 120)
        assert len(pods(made, **{"volcano.sh/job-name": "sweep"})) == left
        made.kube.delete(VOLCANO_JOBS, "sweep", NS)
        until(made, _there(made, 0))


def test_pod_that_shares_a_gpu_by_annotation_lands_where_gpus_are():
    """As whoever hands out shares reserves a whole one: else it would be counted, and cost nothing."""
    pod = _pod(gpus=0) | {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "half", "namespace": NS}}
    pod["metadata"]["annotations"] = {"gpu-fraction": "0.5"}
    with cluster(pod) as made:
        (found,) = pods(made)
        assert found["spec"]["containers"][0]["resources"]["limits"]["nvidia.com/gpu"] == "1"


def test_jobset_that_somebody_suspends_is_resumed_by_its_trainjob():
    with cluster(_runtime(), _train_job()) as made:
        until(made, _there(made, 3))
        made.kube.patch(JOBSETS, "sweep", {"spec": {"suspend": True}}, NS)
        made.loop.run_until(lambda: False, 60)
        assert made.kube.get(JOBSETS, "sweep", NS)["spec"]["suspend"] is False
        until(made, _there(made, 3))


@pytest.mark.parametrize("key", ["replicas", "image"])
def test_changes_of_a_rayservice_are_not_taken_for_a_stop(key):
    """Numbers change nothing of a cluster that is there; anything else makes another one, which is told as unknown."""
    with cluster(_ray_service()) as made:
        until(made, _there(made, 3))
        spec = _ray()
        if key == "replicas":
            spec["workerGroupSpecs"][0] |= {"replicas": 0, "minReplicas": 0}
        else:
            spec["workerGroupSpecs"] = []
        made.kube.patch(RAY_SERVICES, "sweep", {"spec": {"rayClusterConfig": spec}}, NS)
        assert not made.loop.run_until(_there(made, 0), 600)
        assert bool(made.unknowns) is (key == "image")


def test_trainjob_without_its_runtime_says_so():
    with cluster(_train_job()) as made:
        said = "TrainJobResourcesCreationFailed"
        from killcheck.kube import resources as r

        until(made, lambda: [e for e in made.kube.list(r.EVENTS).items if e["reason"] == said], 60)
        assert not pods(made)


def test_pods_carry_the_labels_that_scripts_find_them_by():
    """Labels of KubeRay's, JobSet's, LWS's and Kubeflow's own: who deletes or waits by one must find its pods."""
    lws = Resource("leaderworkerset.x-k8s.io", "v1", "leaderworkersets", "LeaderWorkerSet")
    books = Resource("kubeflow.org", "v1", "notebooks", "Notebook")
    parts = {"size": 3, "workerTemplate": _pod()}
    steps = [{"name": "w", "replicas": 2, "template": {"spec": {"template": _pod()}}}]
    every = [
        _object(RAY_CLUSTERS, _ray(), "rays"),
        _object(lws, {"replicas": 2, "leaderWorkerTemplate": parts}, "big"),
        _object(JOBSETS, {"replicatedJobs": steps}, "steps"),
        _object(books, {"template": _pod()}, "alice"),
    ]
    found = {
        "ray.io/node-type=worker,ray.io/cluster=rays,ray.io/group=a": 2,
        "ray.io/node-type=head,ray.io/identifier=rays-head,ray.io/is-ray-node=yes": 1,
        "app.kubernetes.io/name=kuberay,app.kubernetes.io/created-by=kuberay-operator": 3,
        "leaderworkerset.sigs.k8s.io/name=big": 6,
        "leaderworkerset.sigs.k8s.io/name=big,leaderworkerset.sigs.k8s.io/worker-index=0": 2,
        "leaderworkerset.sigs.k8s.io/group-index=1,leaderworkerset.sigs.k8s.io/worker-index=2": 1,
        "jobset.sigs.k8s.io/jobset-name=steps,jobset.sigs.k8s.io/job-index=1": 1,
        "notebook-name=alice": 1,
    }
    with cluster(*every) as made:
        until(made, _there(made, 12))
        for wanted, count in found.items():
            labels = dict(one.split("=") for one in wanted.split(","))
            until(made, lambda labels=labels, count=count: len(pods(made, **labels)) == count, 60)
