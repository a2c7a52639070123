"""DELETE: grace, finalizers, propagation, preconditions; who is told what, in which order."""

import pytest
from api_world import World, configmap, deployment, pod

from killcheck.kube import resources as r
from killcheck.kube.errors import ApiError, Conflict, Invalid, NotFound


@pytest.fixture
def world():
    return World()


def test_an_ordinary_object_goes_at_once(world):
    uid = world.kube.create(r.DEPLOYMENTS, deployment())["metadata"]["uid"]
    assert world.kube.delete(r.DEPLOYMENTS, "vllm", "default", propagation="Background") == {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Success",
        "details": {"name": "vllm", "group": "apps", "kind": "deployments", "uid": uid},
    }
    with pytest.raises(NotFound):
        world.kube.delete(r.DEPLOYMENTS, "vllm", "default")


def test_a_pod_on_a_node_gets_its_grace(world):
    world.kube.create(r.PODS, pod(node="gpu-1", grace=40))
    meta = world.kube.delete(r.PODS, "worker", "default")["metadata"]
    assert (meta["deletionTimestamp"], meta["deletionGracePeriodSeconds"], meta["generation"]) == (
        "2026-11-21T02:01:46Z",
        40,
        2,
    )
    assert world.kube.get(r.PODS, "worker", "default")["metadata"] == meta


def test_grace_can_only_be_shortened(world):
    world.kube.create(r.PODS, pod(node="gpu-1", grace=40))
    world.kube.delete(r.PODS, "worker", "default")

    def grace(seconds):
        meta = world.kube.delete(r.PODS, "worker", "default", grace_s=seconds)["metadata"]
        return meta["deletionGracePeriodSeconds"], meta["deletionTimestamp"][-3:-1]

    assert grace(60) == (40, "46")
    assert grace(None) == (40, "46")
    assert grace(10) == (10, "16")
    world.loop.sleep(8)
    assert grace(3) == (1, "14")  # three seconds are over already: the least that is still graceful


def test_the_kubelets_last_delete_is_a_change_and_a_removal(world):
    world.kube.create(r.PODS, pod(node="gpu-1", grace=5))
    world.kube.delete(r.PODS, "worker", "default")
    frames = world.watch(f"/api/v1/pods?watch=1&resourceVersion={world.store.revision}")
    world.loop.sleep(8)
    world.kube.delete(r.PODS, "worker", "default", grace_s=0)
    world.settle()
    assert [frame["type"] for frame in frames] == ["MODIFIED", "DELETED"]
    meta = frames[0]["object"]["metadata"]
    assert (meta["deletionTimestamp"], meta["deletionGracePeriodSeconds"]) == ("2026-11-21T02:01:14Z", 0)


@pytest.mark.parametrize(
    "make",
    [
        lambda world: world.kube.create(r.PODS, pod(grace=30)),
        lambda world: (
            world.kube.create(r.PODS, pod(node="gpu-1", grace=30)),
            world.kube.patch(r.PODS, "worker", {"status": {"phase": "Succeeded"}}, "default", subresource="status"),
        ),
        lambda world: world.kube.create(r.PODS, pod(node="gpu-1", grace=0)),
    ],
)
def test_pods_without_anything_to_wait_for_go_at_once(world, make):
    make(world)
    world.kube.delete(r.PODS, "worker", "default")
    assert world.kube.find(r.PODS, "worker", "default") is None


def test_a_finalizer_holds_a_pod_also_against_force(world):
    world.kube.create(r.PODS, pod(node="gpu-1", grace=5, finalizers=["kueue.x-k8s.io/managed"]))
    world.kube.delete(r.PODS, "worker", "default")
    world.kube.delete(r.PODS, "worker", "default", grace_s=0)
    meta = world.kube.get(r.PODS, "worker", "default")["metadata"]
    assert (meta["deletionGracePeriodSeconds"], meta["finalizers"]) == (0, ["kueue.x-k8s.io/managed"])
    world.kube.patch(r.PODS, "worker", {"metadata": {"finalizers": None}}, "default")
    assert world.kube.find(r.PODS, "worker", "default") is None


def test_a_pod_that_loses_its_finalizer_within_its_grace_stays_for_the_kubelet(world):
    world.kube.create(r.PODS, pod(node="gpu-1", grace=30, finalizers=["x/y"]))
    world.kube.delete(r.PODS, "worker", "default")
    world.kube.patch(r.PODS, "worker", {"metadata": {"finalizers": None}}, "default")
    assert world.kube.get(r.PODS, "worker", "default")["metadata"]["deletionGracePeriodSeconds"] == 30


def test_no_new_finalizers_on_the_way_out(world):
    world.kube.create(r.CONFIGMAPS, configmap(finalizers=["x/y"]))
    world.kube.delete(r.CONFIGMAPS, "settings", "default")
    with pytest.raises(Invalid, match=r'no new finalizers can be added .* found new finalizers \[\]string\{"x/z"\}'):
        world.kube.patch(r.CONFIGMAPS, "settings", {"metadata": {"finalizers": ["x/y", "x/z"]}}, "default")


@pytest.mark.parametrize(("policy", "finalizer"), [("Foreground", "foregroundDeletion"), ("Orphan", "orphan")])
def test_propagation_leaves_work_for_the_garbage_collector(world, policy, finalizer):
    world.kube.create(r.DEPLOYMENTS, deployment())
    body = world.kube.delete(r.DEPLOYMENTS, "vllm", "default", propagation=policy)
    meta = body["metadata"]
    assert body["kind"] == "Deployment"
    assert (meta["finalizers"], meta["deletionGracePeriodSeconds"], meta["generation"]) == ([finalizer], 0, 2)
    world.kube.patch(r.DEPLOYMENTS, "vllm", {"metadata": {"finalizers": None}}, "default")
    assert world.kube.find(r.DEPLOYMENTS, "vllm", "default") is None


def test_a_bare_delete_of_a_job_orphans_and_says_so(world):
    for name in ("a", "b", "c"):
        world.kube.create(
            r.JOBS,
            {
                "metadata": {"name": name, "namespace": "default"},
                "spec": {"template": {"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]}}},
            },
        )
    path = r.JOBS.path("default")
    bare = world.raw("DELETE", f"{path}/a")
    assert bare.headers["Warning"] == (
        '299 - "child pods are preserved by default when jobs are deleted; set propagationPolicy=Background to remove '
        'them or set propagationPolicy=Orphan to suppress this warning"'
    )
    assert bare.body["metadata"]["finalizers"] == ["orphan"]
    background = world.raw("DELETE", f"{path}/b?propagationPolicy=Background")
    assert ("Warning" in background.headers, background.body["status"]) == (False, "Success")
    orphan = world.raw(
        "DELETE", f"{path}/c", {"kind": "DeleteOptions", "apiVersion": "v1", "propagationPolicy": "Orphan"}
    )
    assert ("Warning" in orphan.headers, orphan.body["metadata"]["finalizers"]) == (False, ["orphan"])


def test_preconditions(world):
    made = world.kube.create(r.CONFIGMAPS, configmap())["metadata"]
    with pytest.raises(Conflict, match=r"the UID in the precondition \(nope\) does not match the UID in record"):
        world.kube.delete(r.CONFIGMAPS, "settings", "default", uid="nope")
    with pytest.raises(Conflict, match=r"the ResourceVersion in the precondition \(1\) does not match"):
        world.kube.delete(r.CONFIGMAPS, "settings", "default", resource_version="1")
    world.kube.delete(r.CONFIGMAPS, "settings", "default", uid=made["uid"], resource_version=made["resourceVersion"])


def test_a_dry_run_deletes_nothing(world):
    world.kube.create(r.CONFIGMAPS, configmap())
    world.kube.create(r.PODS, pod(node="gpu-1"))
    before = world.store.revision
    assert world.kube.delete(r.CONFIGMAPS, "settings", "default", dry_run=True)["status"] == "Success"
    assert world.kube.delete(r.PODS, "worker", "default", dry_run=True)["metadata"]["deletionGracePeriodSeconds"] == 30
    assert world.store.revision == before


def test_a_collection_goes_as_selected(world):
    for name, tier in (("a", "gpu"), ("b", "gpu"), ("c", "cpu")):
        world.kube.create(r.PODS, pod(name, labels={"tier": tier}))
    world.kube.create(r.PODS, pod("d", node="gpu-1", labels={"tier": "gpu"}))
    answer = world.kube.call("DELETE", r.PODS.path("default"), query={"labelSelector": "tier=gpu"}).body
    assert (answer["kind"], len(answer["items"])) == ("PodList", 3)
    left = {item["metadata"]["name"]: "deletionTimestamp" in item["metadata"] for item in world.kube.list(r.PODS).items}
    assert left == {"c": False, "d": True}


def test_options_that_make_no_sense(world):
    world.kube.create(r.CONFIGMAPS, configmap())
    path = r.CONFIGMAPS.path("default", "settings")
    with pytest.raises(Invalid, match="propagationPolicy"):
        world.kube.call("DELETE", path, body={"propagationPolicy": "Sideways"})
    with pytest.raises(ApiError, match="dryRun: Unsupported value: "):
        world.kube.call("DELETE", path, body={"dryRun": ["Some"]})
