"""Server-side apply over what client-side apply wrote, values in another spelling, and what a dry run shows.

Source: apimachinery pkg/util/managedfields/internal/lastappliedmanager.go and structured-merge-diff merge/update.go.
"""

from __future__ import annotations

import json

import pytest
from api_world import World

from killcheck.embedded import Cluster
from killcheck.kube import resources as r
from killcheck.kube.client import Kube
from killcheck.kube.errors import Conflict

PATH = "/apis/apps/v1/namespaces/default/deployments/llm"
POSTED = "/apis/apps/v1/namespaces/default/deployments"
APPLY = "application/apply-patch+yaml"


def deployment(replicas=2, cpu="1", image="vllm:1"):
    container = {"name": "c", "image": image, "resources": {"requests": {"cpu": cpu}}}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "llm", "namespace": "default"},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": {"app": "llm"}},
            "template": {"metadata": {"labels": {"app": "llm"}}, "spec": {"containers": [container]}},
        },
    }


@pytest.fixture
def world():
    """A Deployment as ``kubectl apply`` leaves it: its annotation, its manager."""
    made = World()
    last = json.dumps(deployment()) + "\n"
    obj = deployment()
    obj["metadata"]["annotations"] = {"kubectl.kubernetes.io/last-applied-configuration": last}
    assert made.raw("POST", f"{POSTED}?fieldManager=kubectl-client-side-apply", obj).status == 201
    return made


def applied(world, obj, manager="kubectl", more=""):
    return world.raw("PATCH", f"{PATH}?fieldManager={manager}{more}", json.dumps(obj), APPLY)


def managers(answer):
    return {(e["manager"], e["operation"]) for e in answer.body["metadata"]["managedFields"]}


def test_kubectl_owns_what_its_last_applied_configuration_has(world):
    answer = applied(world, deployment(replicas=0, image="vllm:2"))
    assert answer.status == 200, answer.body
    assert answer.body["spec"]["replicas"] == 0
    fields = {
        e["manager"]: e["fieldsV1"]["f:spec"]
        for e in answer.body["metadata"]["managedFields"]
        if "f:spec" in e["fieldsV1"]
    }
    assert "f:replicas" in fields["kubectl"]
    assert "f:replicas" not in fields["kubectl-client-side-apply"]


@pytest.mark.parametrize("manager", ["argocd-controller", "kubectl-x"])
def test_nobody_else_does(world, manager):
    answer = applied(world, deployment(replicas=0), manager)
    assert answer.status == 409
    assert answer.body["message"] == (
        'Apply failed with 1 conflict: conflict with "kubectl-client-side-apply" using apps/v1: .spec.replicas'
    )


def test_what_somebody_changed_since_is_not_its_own(world):
    patch = {"spec": {"replicas": 5}}
    kind = "application/merge-patch+json"
    assert world.raw("PATCH", f"{PATH}?fieldManager=hpa", patch, kind).status == 200
    answer = applied(world, deployment(replicas=0, image="vllm:2"))
    assert answer.status == 409
    assert answer.body["details"]["causes"] == [
        {
            "reason": "FieldManagerConflict",
            "message": 'conflict with "hpa" using apps/v1',
            "field": ".spec.replicas",
        }
    ]


@pytest.mark.parametrize("annotation", ["", "no json", '{"apiVersion": "apps/v1beta1"}'])
def test_an_annotation_that_says_nothing_of_it_owns_nothing(world, annotation):
    told = {"metadata": {"annotations": {"kubectl.kubernetes.io/last-applied-configuration": annotation or None}}}
    world.raw("PATCH", f"{PATH}?fieldManager=kubectl-client-side-apply", told, "application/merge-patch+json")
    assert applied(world, deployment(replicas=0)).status == 409


@pytest.mark.parametrize(("cpu", "status"), [("1", 200), (1, 409), ("1000m", 409)])
def test_a_value_in_another_spelling_is_another_value(world, cpu, status):
    """What is stored is "1" in any case; it is compared as it was spelled."""
    answer = applied(world, deployment(cpu=cpu), "other")
    assert answer.status == status, answer.body
    if status == 409:
        assert 'containers[name="c"].resources.requests.cpu' in answer.body["message"]
    assert applied(world, deployment(cpu=cpu), "other", "&force=true").status == 200
    found = world.raw("GET", PATH).body["spec"]["template"]["spec"]["containers"][0]
    assert found["resources"] == {"requests": {"cpu": "1"}}


def test_a_dry_run_shows_who_would_manage_what_and_changes_nothing(world):
    before = world.raw("GET", PATH).body
    answer = applied(world, deployment(), "argocd", "&dryRun=All")
    assert managers(answer) == {("kubectl-client-side-apply", "Update"), ("argocd", "Apply")}
    patched = world.raw(
        "PATCH", f"{PATH}?fieldManager=x&dryRun=All", {"spec": {"replicas": 7}}, "application/merge-patch+json"
    )
    assert managers(patched) == {("kubectl-client-side-apply", "Update"), ("x", "Update")}
    forced = applied(world, deployment(replicas=7), "argocd", "&dryRun=All&force=true").body["metadata"][
        "managedFields"
    ]
    assert [one["manager"] for one in forced if "f:replicas" in one["fieldsV1"].get("f:spec", {})] == ["argocd"]
    made = world.raw("POST", f"{POSTED}?fieldManager=y&dryRun=All", deployment() | {"metadata": {"name": "new"}})
    assert managers(made) == {("y", "Update")}
    assert world.raw("GET", PATH).body == before
    assert world.raw("GET", f"{POSTED}/new").status == 404


@pytest.mark.parametrize(
    ("labels", "annotations", "manager", "annotated"),
    [
        ({}, {}, "kubectl-client-side-apply", True),
        ({}, {"argocd.argoproj.io/tracking-id": "llm:apps/Deployment:default/llm"}, "argocd-controller", True),
        ({"app.kubernetes.io/managed-by": "Helm"}, {}, "helm", False),
    ],
    ids=["kubectl", "argo", "helm"],
)
def test_what_is_loaded_is_as_its_tool_would_have_left_it(labels, annotations, manager, annotated):
    obj = deployment(replicas=0)
    obj["metadata"] |= {"labels": labels, "annotations": annotations}
    with Cluster(exec_mode="none") as cluster:
        cluster.load([obj])
        kube = Kube(cluster.kube.transport, field_manager="kubectl")
        patch = {key: obj[key] for key in ("apiVersion", "kind")} | {
            "metadata": {"name": "llm"},
            "spec": {"replicas": 1},
        }
        if annotated:
            after = kube.patch(r.DEPLOYMENTS, "llm", patch, "default", kind="apply")
            assert "kubectl.kubernetes.io/last-applied-configuration" in after["metadata"]["annotations"]
        else:
            with pytest.raises(Conflict, match=f'conflict with "{manager}" using apps/v1: .spec.replicas'):
                kube.patch(r.DEPLOYMENTS, "llm", patch, "default", kind="apply")
        other = Kube(cluster.kube.transport, field_manager="other")
        with pytest.raises(Conflict):
            other.patch(r.DEPLOYMENTS, "llm", patch | {"spec": {"replicas": 3}}, "default", kind="apply")
