"""Claims and volumes that are used stay until they are not; claims that nothing can serve say so."""

from typing import Any

from controller_world import World, template

from killcheck.kube import resources as r
from killcheck.kube.errors import NotFound

ONCE = {"accessModes": ["ReadWriteOnce"]}


def volume(world: World, policy: str = "Retain") -> None:
    world.create(
        {
            "apiVersion": "v1",
            "kind": "PersistentVolume",
            "metadata": {"name": "disk"},
            "spec": ONCE
            | {
                "capacity": {"storage": "10Gi"},
                "hostPath": {"path": "/data"},
                "storageClassName": "",
                "persistentVolumeReclaimPolicy": policy,
            },
        }
    )


def claim(world: World, **spec: Any) -> None:
    world.create(
        {
            "apiVersion": "v1",
            "kind": "PersistentVolumeClaim",
            "metadata": {"name": "data", "namespace": "ns"},
            "spec": ONCE | {"storageClassName": "", "resources": {"requests": {"storage": "5Gi"}}} | spec,
        }
    )


def gone(world: World, resource: Any, name: str) -> bool:
    try:
        world.kube.get(resource, name, "ns" if resource is r.PERSISTENTVOLUMECLAIMS else None)
    except NotFound:
        return True
    return False


def test_a_claim_goes_with_the_last_pod_that_uses_it(world: World) -> None:
    volume(world)
    claim(world)
    spec = template("user", volumes=[{"name": "d", "persistentVolumeClaim": {"claimName": "data"}}])["spec"]
    world.create({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "user", "namespace": "ns"}, "spec": spec})
    world.run(5)
    found = world.get(r.PERSISTENTVOLUMECLAIMS, "data")
    assert (found["metadata"]["finalizers"], found["status"]["phase"]) == (["kubernetes.io/pvc-protection"], "Bound")
    world.kube.delete(r.PERSISTENTVOLUMECLAIMS, "data", "ns")
    world.kube.delete(r.PERSISTENTVOLUMES, "disk")
    world.run(60)
    assert "deletionTimestamp" in world.get(r.PERSISTENTVOLUMECLAIMS, "data")["metadata"]
    assert not gone(world, r.PERSISTENTVOLUMES, "disk")
    world.kube.delete(r.PODS, "user", "ns")
    world.run(60)
    assert gone(world, r.PERSISTENTVOLUMECLAIMS, "data")
    assert gone(world, r.PERSISTENTVOLUMES, "disk")


def test_a_claim_of_a_pods_own_is_made_with_it_and_goes_with_it(world: World) -> None:
    """Also where the pod waits for what is its own (pvc_protection_controller.go, podIsShutDown)."""
    volume(world)
    wanted = {"spec": ONCE | {"storageClassName": "", "resources": {"requests": {"storage": "5Gi"}}}}
    spec = template("user", volumes=[{"name": "d", "ephemeral": {"volumeClaimTemplate": wanted}}])["spec"]
    world.create({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "user", "namespace": "ns"}, "spec": spec})
    world.run(5)
    found = world.get(r.PERSISTENTVOLUMECLAIMS, "user-d")
    assert (found["status"]["phase"], found["metadata"]["ownerReferences"][0]["name"]) == ("Bound", "user")
    world.kube.delete(r.PODS, "user", "ns", propagation="Foreground")
    world.run(60)
    assert gone(world, r.PERSISTENTVOLUMECLAIMS, "user-d")
    assert world.kube.find(r.PODS, "user", "ns") is None


def test_what_nobody_uses_goes_at_once(world: World) -> None:
    volume(world)
    claim(world, storageClassName="none")
    world.run(1)
    world.kube.delete(r.PERSISTENTVOLUMECLAIMS, "data", "ns")
    world.kube.delete(r.PERSISTENTVOLUMES, "disk")
    world.run(1)
    assert gone(world, r.PERSISTENTVOLUMECLAIMS, "data")
    assert gone(world, r.PERSISTENTVOLUMES, "disk")


def test_a_claim_that_nothing_can_serve_says_so(world: World) -> None:
    """pv_controller.go, syncUnboundClaim and provisionClaim; the first as a real v1.36.2 said it."""
    claim(world)
    world.run(1)
    assert world.said("data") == [
        "Normal FailedBinding: no persistent volumes available for this claim and no storage class is set"
    ]
    world.kube.delete(r.PERSISTENTVOLUMECLAIMS, "data", "ns")
    world.run(1)
    claim(world, storageClassName="fast")
    world.run(1)
    assert 'Warning ProvisioningFailed: storageclass.storage.k8s.io "fast" not found' in world.said("data")


def test_a_claim_that_names_a_volume_is_bound_when_that_is_made_and_no_other_is():
    world = World()
    claim(world, volumeName="disk")
    world.run(5)
    assert world.kube.get(r.PERSISTENTVOLUMECLAIMS, "data", "ns")["status"]["phase"] == "Pending"
    volume(world)
    world.run(5)
    assert world.kube.get(r.PERSISTENTVOLUMECLAIMS, "data", "ns")["status"]["phase"] == "Bound"
    second = {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "late", "namespace": "ns"}}
    spec = ONCE | {"storageClassName": "", "volumeName": "disk", "resources": {"requests": {"storage": "5Gi"}}}
    world.create(second | {"spec": spec})
    world.run(60)
    assert world.kube.get(r.PERSISTENTVOLUMECLAIMS, "late", "ns")["status"]["phase"] == "Pending"
