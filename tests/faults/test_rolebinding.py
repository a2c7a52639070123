"""Where the executor has its rights from: every binding that gives it what it needs, and no more than it."""

from __future__ import annotations

import pytest
from faults_world import World
from safety_world import differences, picture

from killcheck import faults
from killcheck.kube import resources as r

GROUP = "rbac.authorization.k8s.io"
ACCOUNT = {"kind": "ServiceAccount", "name": "gpu-nightly-off", "namespace": "inference"}


def binding(kind, name, subjects, role, namespace=None, role_kind="ClusterRole"):
    meta = {"name": name} | ({"namespace": namespace} if namespace else {})
    return {
        "apiVersion": f"{GROUP}/v1",
        "kind": kind,
        "metadata": meta,
        "subjects": subjects,
        "roleRef": {"apiGroup": GROUP, "kind": role_kind, "name": role},
    }


def scaler(name="scaler"):
    rule = {"apiGroups": ["apps"], "resources": ["deployments/scale"], "verbs": ["*"]}
    return {"apiVersion": f"{GROUP}/v1", "kind": "ClusterRole", "metadata": {"name": name}, "rules": [rule]}


@pytest.fixture
def world():
    made = World()
    made.settle()
    yield made
    made.close()


def create(world, *objects):
    kube = world.cluster.embedded.kube
    for obj in objects:
        kube.create(kube.resource_for(obj["apiVersion"], obj["kind"]), obj)


def user(name):
    return {"kind": "User", "apiGroup": GROUP, "name": name}


def test_every_binding_that_gives_what_it_needs_loses_it_and_nobody_else_loses_anything(world):
    other = {"kind": "ServiceAccount", "name": "somebody", "namespace": "inference"}
    create(
        world,
        scaler(),
        binding("RoleBinding", "shared", [other, ACCOUNT], "scaler", "inference"),
        binding(
            "ClusterRoleBinding", "everywhere", [user("system:serviceaccount:inference:gpu-nightly-off")], "scaler"
        ),
    )
    before = picture(world.cluster.embedded)
    seen = {}
    kube = world.cluster.embedded.kube
    original = kube.transport.request

    def watching(method, path, *rest):
        answer = original(method, path, *rest)
        if method == "PATCH" and "binding" in path:
            seen[path.rpartition("/")[2]] = answer.body.get("subjects") or []
        return answer

    world.cluster.kube.transport.request = watching
    taken = []
    world.seen = type(
        "Sink", (list,), {"append": lambda self, event: taken.append(dict(seen)) or list.append(self, event)}
    )()
    result = world.drill(faults.RoleBindingGone)
    assert str(result.verdict) == "exposed", result.why
    assert "403" in result.cause
    injected = next(picture for picture in taken if len(picture) == 3)
    assert injected == {"gpu-nightly-off": [], "everywhere": [], "shared": [other]}
    world.settle()
    assert differences(before, picture(world.cluster.embedded)) == []


def test_a_binding_that_gives_it_nothing_it_needs_is_left_alone(world):
    rule = {"apiGroups": [""], "resources": ["services"], "verbs": ["list"]}
    create(
        world,
        {
            "apiVersion": f"{GROUP}/v1",
            "kind": "Role",
            "metadata": {"name": "other", "namespace": "inference"},
            "rules": [rule],
        },
        binding("RoleBinding", "other", [ACCOUNT], "other", "inference", "Role"),
    )
    result = world.drill(faults.RoleBindingGone, horizon_s=1800.0)
    assert list(result.bites) == ["rolebinding-gone"]
    assert [said for said in result.healed if "RoleBinding/" in said] == [
        "undone: took gpu-nightly-off out of RoleBinding/inference/gpu-nightly-off"
    ]


@pytest.mark.parametrize("group", ["system:serviceaccounts:inference", "system:authenticated"])
def test_what_a_whole_group_has_cannot_be_taken_from_one(world, group):
    create(
        world,
        scaler(),
        binding("ClusterRoleBinding", "all", [{"kind": "Group", "apiGroup": GROUP, "name": group}], "scaler"),
    )
    result = world.drill(faults.RoleBindingGone, horizon_s=1800.0)
    assert str(result.verdict) == "inconclusive"
    assert "ClusterRoleBinding/all gives a group what ServiceAccount inference/gpu-nightly-off needs" in result.why
    assert result.healed == ()


def test_on_somebodys_cluster_a_clusterrolebinding_has_to_opt_in():
    world = World(real=True)
    try:
        world.settle()
        create(world, scaler(), binding("ClusterRoleBinding", "everywhere", [ACCOUNT], "scaler"))
        result = world.drill(faults.RoleBindingGone, horizon_s=1800.0)
        assert str(result.verdict) == "inconclusive"
        assert "kubectl label clusterrolebinding everywhere killcheck.dev/consent=true" in result.why
        world.cluster.embedded.kube.patch(
            r.CLUSTERROLEBINDINGS, "everywhere", {"metadata": {"labels": {"killcheck.dev/consent": "true"}}}
        )
        result = world.drill(faults.RoleBindingGone, horizon_s=1800.0)
    finally:
        world.close()
    assert list(result.bites) == ["rolebinding-gone"], result.why


def test_an_executor_without_rights_has_none_to_lose(world):
    world.cluster.embedded.kube.delete(r.ROLEBINDINGS, "gpu-nightly-off", "inference")
    result = world.drill(faults.RoleBindingGone, horizon_s=1800.0)
    assert str(result.verdict) == "inconclusive"
    assert "nothing to take away" in result.why
