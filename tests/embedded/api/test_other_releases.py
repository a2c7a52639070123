"""An API server of another release: what it serves, what it takes, what it drops, and what it calls itself."""

from __future__ import annotations

import pytest

from killcheck.embedded import Cluster, LoadError
from killcheck.kube import resources as r
from killcheck.kube.errors import ApiError

HPA = {
    "apiVersion": "autoscaling/v2",
    "kind": "HorizontalPodAutoscaler",
    "metadata": {"name": "queue", "namespace": "default"},
    "spec": {
        "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "queue"},
        "minReplicas": 0,
        "maxReplicas": 3,
        "metrics": [
            {"type": "External", "external": {"metric": {"name": "depth"}, "target": {"type": "Value", "value": "5"}}}
        ],
    },
}


@pytest.fixture
def on():
    """A cluster of a release; closed at the end."""
    made = []

    def cluster(version, **more):
        made.append(Cluster(exec_mode="none", kubernetes_version=version, **more))
        return made[-1]

    yield cluster
    for one in made:
        one.close()


def deployment(replicas=1, **spec):
    labels = {"app": "queue"}
    pod = {"containers": [{"name": "c", "image": "a"}], **spec}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "queue", "namespace": "default"},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": pod},
        },
    }


def test_it_says_which_it_is_and_so_do_its_kubelets(on):
    cluster = on("v1.34.3-eks-1")
    cluster.load([{"apiVersion": "v1", "kind": "Node", "metadata": {"name": "a"}}])
    cluster.advance(5)
    version = cluster.kube.call("GET", "/version").body
    assert (version["gitVersion"], version["minor"]) == ("v1.34.3-eks-1", "34")
    assert cluster.kube.get(r.NODES, "a")["status"]["nodeInfo"]["kubeletVersion"] == "v1.34.3-eks-1"


@pytest.mark.parametrize(("version", "served"), [("1.33", False), ("1.34", True), ("", True), ("1.37", True)])
def test_device_claims_are_served_since_1_34(on, version, served):
    cluster = on(version)
    paths = cluster.kube.call("GET", "/apis").body["groups"]
    assert ("resource.k8s.io" in [group["name"] for group in paths]) is served
    claim = {"apiVersion": "resource.k8s.io/v1", "kind": "DeviceClass", "metadata": {"name": "gpu"}, "spec": {}}
    if served:
        cluster.load([claim])
        return
    with pytest.raises(LoadError, match=r"Kubernetes v1\.33\.5 does not serve it: v1\.34 is the first"):
        cluster.load([claim])
    services = cluster.kube.call("GET", "/apis/apiregistration.k8s.io/v1/apiservices").body["items"]
    assert "v1.resource.k8s.io" not in [one["metadata"]["name"] for one in services]


def test_a_pod_asks_for_no_device_where_there_are_no_claims(on):
    pod = {
        "metadata": {"name": "a"},
        "spec": {
            "resourceClaims": [{"name": "gpu", "resourceClaimTemplateName": "gpu"}],
            "containers": [{"name": "c", "image": "a", "resources": {"claims": [{"name": "gpu"}]}}],
        },
    }
    kept = on("1.34").kube.create(r.PODS, pod, "default")
    dropped = on("1.33").kube.create(r.PODS, pod, "default")
    assert kept["spec"]["resourceClaims"]
    assert "resourceClaims" not in dropped["spec"]
    assert "claims" not in dropped["spec"]["containers"][0]["resources"]


def test_a_field_of_a_later_release_is_unknown(on):
    pod = {"metadata": {"name": "a"}, "spec": {"hostnameOverride": "b", "containers": [{"name": "c", "image": "a"}]}}
    strict = {"fieldValidation": "Strict"}
    with pytest.raises(ApiError, match=r'unknown field "spec\.hostnameOverride"'):
        on("1.33").kube.call("POST", "/api/v1/namespaces/default/pods", body=pod, query=strict)
    body = on("1.34").kube.call("POST", "/api/v1/namespaces/default/pods", body=pod, query=strict).body
    assert "hostnameOverride" not in body["spec"]  # known, and its gate is off
    body = on("1.35").kube.call("POST", "/api/v1/namespaces/default/pods", body=pod, query=strict).body
    assert body["spec"]["hostnameOverride"] == "b"


def test_the_default_release_drops_what_a_real_one_was_seen_to_drop(on):
    """Asked of kube-apiserver v1.36.2, as a dry run."""
    sources = [{"podCertificate": {"signerName": "a.b/c", "keyType": "ED25519", "credentialBundlePath": "a"}}]
    pod = {
        "metadata": {"name": "a"},
        "spec": {
            "schedulingGroup": {"podGroupName": "x"},
            "containers": [{"name": "c", "image": "a", "lifecycle": {"stopSignal": "SIGINT"}}],
            "volumes": [{"name": "v", "projected": {"sources": sources}}],
        },
    }
    made = on("").kube.create(r.PODS, pod, "default")
    assert "schedulingGroup" not in made["spec"]
    assert "lifecycle" not in made["spec"]["containers"][0]
    assert made["spec"]["volumes"][0]["projected"]["sources"] == [{}]


def test_watches_begin_with_what_is_there_since_1_34(on):
    query = {"watch": "true", "sendInitialEvents": "true", "resourceVersionMatch": "NotOlderThan"}
    with pytest.raises(ApiError, match="unless the WatchList feature gate is enabled"):
        on("1.33").kube.call("GET", "/api/v1/pods", query=query)


def test_an_autoscaler_may_go_to_zero_since_1_37(on):
    with pytest.raises(LoadError, match="must be greater than or equal to 1"):
        on("1.36").load([deployment(), HPA])
    on("1.37").load([deployment(), HPA])


def test_what_is_refused_whatever_else_there_is_is_told_at_once(on):
    """But not beside what others stand on: without it, another is assumed."""
    old = [{**HPA, "apiVersion": "autoscaling/v2beta2", "metadata": {"name": name}} for name in "ab"]
    space = {"apiVersion": "v1beta1", "kind": "Namespace", "metadata": {"name": "x"}}
    for objects, told in ((old, ["a", "b"]), ([*old, space], ["x"])):
        with pytest.raises(LoadError) as raised:
            on("1.36").load(objects)
        assert [one.obj["metadata"]["name"] for one in raised.value.refused] == told


def replicas(cluster):
    return cluster.kube.get(r.DEPLOYMENTS, "queue", "default")["spec"]["replicas"]


def condition(cluster):
    found = cluster.kube.get(r.HPAS, "queue", "default").get("status", {}).get("conditions", [])
    return next((one["status"] for one in found if one["type"] == "ScaledToZero"), None)


def test_it_wakes_what_it_put_to_zero_itself(on):
    cluster = on("1.37")
    cluster.load([deployment(), HPA])
    autoscaler = cluster.controllers["horizontal-pod-autoscaler-controller"]
    autoscaler.propose("default", "queue", 0)
    cluster.advance(60)
    assert (replicas(cluster), condition(cluster)) == (0, "True")
    autoscaler.propose("default", "queue", 2)
    cluster.advance(60)
    assert (replicas(cluster), condition(cluster)) == (2, "False")


def test_it_leaves_asleep_what_somebody_else_put_to_zero(on):
    """A dead-man's zero holds: KEP-2021 keeps replicas 0 by hand as the way to pause an autoscaler."""
    cluster = on("1.37")
    cluster.load([deployment(), HPA])
    cluster.controllers["horizontal-pod-autoscaler-controller"].propose("default", "queue", 2)
    cluster.kube.patch(r.DEPLOYMENTS, "queue", {"spec": {"replicas": 0}}, "default")
    cluster.advance(600)
    assert (replicas(cluster), condition(cluster)) == (0, None)


@pytest.mark.parametrize(("version", "told"), [("1.34", False), ("1.35", True), ("", True)])
def test_pods_on_their_way_out_are_counted_since_1_35(on, version, told):
    cluster = on(version)
    cluster.load([deployment()])
    cluster.advance(5)
    assert ("terminatingReplicas" in cluster.kube.get(r.DEPLOYMENTS, "queue", "default")["status"]) is told


@pytest.mark.parametrize(("version", "taken"), [("1.35", False), ("1.36", True)])
def test_what_a_suspended_job_uses_may_be_changed_since_1_36(on, version, taken):
    cluster = on(version)
    pod = {"restartPolicy": "Never", "containers": [{"name": "c", "image": "a"}]}
    job = {"metadata": {"name": "train"}, "spec": {"suspend": True, "template": {"spec": pod}}}
    cluster.kube.create(r.JOBS, job, "default")
    change = {"spec": {"template": {"spec": {"containers": [{"name": "c", "resources": {"limits": {"cpu": "1"}}}]}}}}
    if taken:
        cluster.kube.patch(r.JOBS, "train", change, "default", kind="strategic")
        return
    with pytest.raises(ApiError, match="field is immutable"):
        cluster.kube.patch(r.JOBS, "train", change, "default", kind="strategic")
