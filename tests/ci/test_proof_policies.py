"""The policies of ci/proof: no pod with GPUs without a proof, and nobody but the pipeline says that there is one."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest
import yaml

from killcheck.embedded.cluster import Cluster
from killcheck.kube import gpus
from killcheck.kube.errors import ApiError
from killcheck.kube.objects import format_time

pytest.importorskip("celpy")

CI = Path(__file__).resolve().parents[2] / "ci/proof"
POLICIES = list(yaml.safe_load_all((CI / "validatingadmissionpolicy.yaml").read_text()))
KYVERNO = yaml.safe_load((CI / "kyverno.yaml").read_text())
NO_PROOF = "no kill path of this namespace is proven"
TOO_OLD = "is too old: drill again"


@pytest.fixture(scope="module")
def cluster():
    """One with the policies, and a namespace that wants a proof."""
    made = Cluster(exec_mode="none")
    made.kube.call("POST", "/api/v1/namespaces", body=namespace("paid", {"killcheck.dev/proof": "required"}))
    made.kube.call("POST", "/api/v1/namespaces", body=namespace("free", {}))
    for obj in POLICIES:
        resource = made.kube.resource_for(obj["apiVersion"], obj["kind"])
        made.kube.call("POST", resource.path(""), query={"fieldValidation": "Strict"}, body=obj)
    yield made
    made.close()


def namespace(name, labels):
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": labels}}


def pod(resource="nvidia.com/gpu", where="containers", **spec):
    wants = {"name": "c", "image": "x", "resources": {"limits": {resource: "1"}} if resource else {}}
    plain = {"name": "main", "image": "x"}
    spec["containers"] = [wants] if where == "containers" else [plain]
    if where != "containers":
        spec[where] = [wants]
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"generateName": "p-"}, "spec": spec}


def create(cluster, body, where="paid"):
    """What a dry run of the server says: empty where it lets the pod in."""
    try:
        cluster.kube.call("POST", f"/api/v1/namespaces/{where}/pods", query={"dryRun": "All"}, body=body)
    except ApiError as refused:
        return str(refused)
    return ""


@pytest.fixture
def proof(cluster):
    """proof(verdict, days): what the pipeline leaves; taken away at the end."""

    def put(verdict, days):
        until = format_time(cluster.loop.now() + timedelta(days=days))
        data = {"verdict": verdict, "provenUntil": until}
        store(cluster, {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "killcheck-proof"}, "data": data})

    yield put
    cluster.server.store.remove(("", "configmaps"), ("paid", "killcheck-proof"))


def store(cluster, obj):
    obj["metadata"] |= {"namespace": "paid", "uid": "u", "creationTimestamp": format_time(cluster.loop.now())}
    cluster.server.store.put(("", "configmaps"), ("paid", "killcheck-proof"), obj)


GPUS = {
    "a GPU": pod(),
    "a slice": pod("nvidia.com/mig-1g.5gb"),
    "another maker's": pod("amd.com/gpu"),
    "another cloud's": pod("aws.amazon.com/neuroncore"),
    "one that nobody knows": pod("devices.example.com/a9"),
    "while it begins": pod(where="initContainers"),
    "a share": {**pod(""), "metadata": {"generateName": "p-", "annotations": {"gpu-fraction": "0.5"}}},
    "a claim": pod("", resourceClaims=[{"name": "g", "resourceClaimTemplateName": "one-gpu"}]),
}


@pytest.fixture
def empty(cluster, proof):
    """A ConfigMap that says nothing, as it is made at first."""
    store(cluster, {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "killcheck-proof"}})


@pytest.mark.parametrize("what", GPUS)
def test_without_a_proof_no_pod_with_gpus(cluster, empty, what):
    assert NO_PROOF in create(cluster, GPUS[what])


def test_others_come_in(cluster, empty):
    assert create(cluster, pod("")) == ""
    for name in ("memory", "vpc.amazonaws.com/efa", "nvidia.com/hostdev", "rdma/hca_shared_devices_a"):
        assert create(cluster, pod(name)) == ""
    assert create(cluster, pod(), "free") == ""


def test_where_the_configmap_is_missing_none_comes_in(cluster):
    """Params are looked up before match conditions (apiserver's plugin/policy/validating/dispatcher.go)."""
    assert "no params found" in create(cluster, pod())
    assert "no params found" in create(cluster, pod(""))


@pytest.mark.parametrize(
    ("verdict", "days", "said"),
    [
        ("proven", 1, ""),
        ("proven", -1, TOO_OLD),
        ("accepted", 1, NO_PROOF),
        ("exposed", 1, NO_PROOF),
        ("inconclusive", 1, NO_PROOF),
        ("", 1, NO_PROOF),
    ],
)
def test_with_one_it_depends(cluster, proof, verdict, days, said):
    proof(verdict, days)
    got = create(cluster, pod())
    assert (got == "") is (said == ""), got
    assert said in got


def test_nobody_else_writes_the_proof(cluster):
    body = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "killcheck-proof"},
        "data": {"verdict": "proven"},
    }
    with pytest.raises(ApiError, match="only the release pipeline says"):
        cluster.kube.call("POST", "/api/v1/namespaces/paid/configmaps", query={"dryRun": "All"}, body=body)
    body["metadata"]["name"] = "another"
    assert cluster.kube.call("POST", "/api/v1/namespaces/paid/configmaps", query={"dryRun": "All"}, body=body)


def test_the_policy_tells_gpus_as_killcheck_does():
    """By the same patterns: a vendor that is known here from now on is known to the recipe, too."""
    [asked] = POLICIES[0]["spec"]["matchConditions"]
    for pattern in (gpus._DEVICES, gpus._OTHERS, gpus._OTHER_DOMAINS):
        assert f"({pattern.pattern})" in asked["expression"]
    assert str(list(gpus._FRACTIONS)) in asked["expression"]


def test_kyverno_asks_the_same():
    """Nothing here evaluates Kyverno's policies; its expressions are those that were evaluated above."""
    policy, binding = POLICIES[0]["spec"], POLICIES[1]["spec"]
    [rule] = KYVERNO["spec"]["rules"]
    flat = [" ".join(one["expression"].split()) for one in rule["celPreconditions"]]
    assert flat == [" ".join(one["expression"].split()) for one in policy["matchConditions"]]
    asked = rule["validate"]["cel"]
    assert asked["expressions"] == policy["validations"]
    assert asked["paramKind"] == policy["paramKind"]
    assert asked["paramRef"] == binding["paramRef"]
    [matched] = rule["match"]["any"]
    assert matched["resources"]["namespaceSelector"] == binding["matchResources"]["namespaceSelector"]
    assert matched["resources"]["operations"] == policy["matchConstraints"]["resourceRules"][0]["operations"]
