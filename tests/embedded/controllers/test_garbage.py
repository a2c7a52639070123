"""What nobody owns any more: recordings 30b-*."""

from __future__ import annotations

from typing import Any

import pytest
from controller_world import World, template

from killcheck.kube import resources as r
from killcheck.kube.objects import Obj, name_of, namespace_of, owners


def gone(world: World, *resources: Any) -> list[tuple[float, str]]:
    seen: list[tuple[float, str]] = []
    for resource in resources:

        def look(change: str, obj: Obj, kind: str = resource.kind) -> None:
            if change == "deleted":
                seen.append((world.t, kind))

        world.watch(resource, look)
    return seen


def test_in_the_background_the_owners_go_at_once_and_the_pod_after_its_grace(world: World) -> None:
    """30b-gc-background."""
    world.deployment()
    world.run(5)
    seen = gone(world, r.DEPLOYMENTS, r.REPLICASETS, r.PODS)
    world.kube.delete(r.DEPLOYMENTS, "vllm", "ns", propagation="Background")
    world.run(20)
    assert seen == [(5.0, "Deployment"), (5.0, "ReplicaSet"), (10.5, "Pod")]


def test_in_the_foreground_the_deployment_goes_last(world: World) -> None:
    """30b-gc-foreground: foregroundDeletion finalizers on both owners."""
    world.deployment()
    world.run(5)
    seen = gone(world, r.DEPLOYMENTS, r.REPLICASETS, r.PODS)
    world.kube.delete(r.DEPLOYMENTS, "vllm", "ns", propagation="Foreground")
    world.run(1)
    (rs,) = world.kube.list(r.REPLICASETS, "ns").items
    assert rs["metadata"]["finalizers"] == ["foregroundDeletion"]
    world.run(20)
    assert seen == [(10.5, "Pod"), (10.5, "ReplicaSet"), (10.5, "Deployment")]


def test_orphans_run_on_without_an_owner(world: World) -> None:
    """30b-gc-orphan."""
    world.deployment()
    world.run(5)
    world.kube.delete(r.DEPLOYMENTS, "vllm", "ns", propagation="Orphan")
    world.run(20)
    assert world.kube.find(r.DEPLOYMENTS, "vllm", "ns") is None
    (rs,) = world.kube.list(r.REPLICASETS, "ns").items
    assert list(owners(rs)) == []
    assert len(world.pods()) == 1


@pytest.mark.parametrize(("propagation", "left"), [(None, 1), ("Background", 0)])
def test_a_job_deleted_without_a_policy_leaves_its_pod_running(
    world: World,
    propagation: Any,
    left: int,
) -> None:
    """30b-gc-job-default: the finalizer goes in either case."""
    world.job("a")
    world.run(5)
    world.kube.delete(r.JOBS, "a", "ns", propagation=propagation)
    world.run(10)
    assert world.kube.find(r.JOBS, "a", "ns") is None
    pods = world.pods()
    assert len(pods) == left
    assert all("finalizers" not in pod["metadata"] and not list(owners(pod)) for pod in pods)


def test_an_owner_of_another_uid_is_no_owner(world: World) -> None:
    """A name alone does not own: the uid has to be right."""
    ref = {"apiVersion": "v1", "kind": "ConfigMap", "name": "kube-root-ca.crt", "uid": "not-its-uid"}
    world.create(
        {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": "child", "namespace": "ns", "ownerReferences": [ref]},
        }
    )
    world.run(1)
    assert world.kube.find(r.CONFIGMAPS, "child", "ns") is None


def test_an_owner_in_another_namespace_is_no_owner(world: World) -> None:
    world.namespace("other")
    world.run(0)
    owner = world.create({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "o", "namespace": "other"}})
    ref = {"apiVersion": "v1", "kind": "ConfigMap", "name": "o", "uid": owner["metadata"]["uid"]}
    world.create(
        {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": "child", "namespace": "ns", "ownerReferences": [ref]},
        }
    )
    world.run(1)
    assert world.kube.find(r.CONFIGMAPS, "child", "ns") is None
    assert [event["type"] for event in world.events("OwnerRefInvalidNamespace")] == ["Warning"]


def test_custom_resources_own_and_are_owned(world: World) -> None:
    world.create(
        {
            "apiVersion": "apiextensions.k8s.io/v1",
            "kind": "CustomResourceDefinition",
            "metadata": {"name": "widgets.example.com"},
            "spec": {
                "group": "example.com",
                "scope": "Namespaced",
                "names": {"plural": "widgets", "singular": "widget", "kind": "Widget"},
                "versions": [
                    {
                        "name": "v1",
                        "served": True,
                        "storage": True,
                        "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}},
                    }
                ],
            },
        }
    )
    world.run(1)
    widget = world.create(
        {"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "w", "namespace": "ns"}}
    )
    ref = {"apiVersion": "example.com/v1", "kind": "Widget", "name": "w", "uid": widget["metadata"]["uid"]}
    world.create(
        {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": "child", "namespace": "ns", "ownerReferences": [ref]},
        }
    )
    world.run(1)
    assert world.kube.find(r.CONFIGMAPS, "child", "ns") is not None
    resource = world.kube.resource_for("example.com/v1", "Widget")
    world.kube.delete(resource, "w", "ns")
    world.run(1)
    assert world.kube.find(r.CONFIGMAPS, "child", "ns") is None


def test_a_namespace_goes_with_all_that_is_in_it(world: World) -> None:
    world.deployment()
    world.job()
    world.run(5)
    seen = gone(world, r.NAMESPACES, r.PODS)
    world.kube.delete(r.NAMESPACES, "ns")
    world.run(1)
    assert world.get(r.NAMESPACES, "ns", None)["status"]["phase"] == "Terminating"
    world.run(30)
    assert seen == [(10.5, "Pod"), (10.5, "Pod"), (10.5, "Namespace")]
    for resource in (r.DEPLOYMENTS, r.REPLICASETS, r.JOBS, r.CONFIGMAPS, r.SERVICEACCOUNTS, r.EVENTS):
        assert [name_of(o) for o in world.kube.list(resource).items if namespace_of(o) == "ns"] == []


def test_every_namespace_has_an_account_and_the_certificate(world: World) -> None:
    world.namespace("fresh")
    world.run(0)
    assert world.kube.get(r.SERVICEACCOUNTS, "default", "fresh")
    ca = world.kube.get(r.CONFIGMAPS, "kube-root-ca.crt", "fresh")
    assert ca["data"] == {"ca.crt": "-----BEGIN CERTIFICATE-----"}

    world.kube.delete(r.SERVICEACCOUNTS, "default", "fresh")
    world.kube.patch(r.CONFIGMAPS, "kube-root-ca.crt", {"data": {"ca.crt": "forged"}}, "fresh")
    world.run(0)
    assert world.kube.get(r.SERVICEACCOUNTS, "default", "fresh")
    assert world.kube.get(r.CONFIGMAPS, "kube-root-ca.crt", "fresh")["data"] == ca["data"]


def test_a_service_has_the_addresses_of_its_ready_pods(world: World) -> None:
    world.create(
        {
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": {"name": "vllm", "namespace": "ns"},
            "spec": {"selector": {"app": "vllm"}, "ports": [{"port": 80, "targetPort": 8000}]},
        }
    )
    world.deployment(template=template("vllm"))
    world.run(3)
    (pod,) = world.pods()
    world.kube.patch(r.PODS, name_of(pod), {"status": {"podIP": "10.0.0.7"}}, "ns", subresource="status")
    world.run(1)
    subset = world.get(r.ENDPOINTS, "vllm")["subsets"][0]
    assert [a["ip"] for a in subset["addresses"]] == ["10.0.0.7"]
    assert subset["ports"] == [{"port": 8000, "protocol": "TCP"}]
    (piece,) = world.kube.list(r.ENDPOINTSLICES, "ns").items
    assert piece["endpoints"][0]["conditions"] == {"ready": True, "serving": True, "terminating": False}

    world.kube.delete(r.SERVICES, "vllm", "ns")
    world.run(1)
    assert world.kube.find(r.ENDPOINTS, "vllm", "ns") is None
    assert world.kube.list(r.ENDPOINTSLICES, "ns").items == []
