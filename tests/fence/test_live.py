"""``killcheck fence --live`` over the wire: consent, refusal, a canary that is held, and kill -9 in the middle."""

from __future__ import annotations

import json

import pytest
from live_world import CONTEXT, LiveWorld

from killcheck.clock import WallLoop
from killcheck.fence import Ceiling, evaluate, would
from killcheck.fence.gathered import gather
from killcheck.kube import resources as r
from killcheck.kube.config import connect
from killcheck.kube.objects import name_of


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    made = LiveWorld(tmp_path_factory.mktemp("live"))
    yield made
    made.close()


def test_a_fence_that_holds_keeps_it_pending_and_nothing_is_left(world, tmp_path):
    before = world.machines()
    done = world.fence(tmp_path, "--deadline", "2s", "--yes", "--json")
    found = json.loads(done["out"][done["out"].index("{") :])
    assert (done["code"], found["canary"]["outcome"], found["canary"]["devices"]) == (0, "held", 9), done["out"]
    assert found["canary"]["expected"] == "pending"
    assert world.there() == []
    assert world.machines() == before


def test_one_that_would_launch_is_not_sent_out_and_that_is_an_exposure(world, tmp_path):
    done = world.fence(tmp_path, "--ask", "8", "--yes")
    assert done["code"] == 1, done["out"]
    assert "not sent out: the evaluation says that it would launch: NodePool/gpu would launch" in done["out"] or (
        "not sent out: the evaluation says that it would launch: Node/" in done["out"]
    )
    assert not any(step.startswith("POST") for step in done["steps"])


def test_one_that_nobody_can_judge_is_not_sent_out_and_proves_nothing(world, tmp_path):
    odd = {"apiVersion": "cluster.x-k8s.io/v1beta1", "kind": "MachineDeployment", "metadata": {"name": "x"}}
    assert would([odd], 9, namespace="inference").outcome == "unproven"
    spec = {
        "nodeClassRef": {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "gpu"},
        "requirements": [{"key": "node.kubernetes.io/instance-type", "operator": "In", "values": ["p9.96xlarge"]}],
    }
    pool = {
        "apiVersion": "karpenter.sh/v1",
        "kind": "NodePool",
        "metadata": {"name": "odd"},
        "spec": {"template": {"spec": spec}},
    }
    with world.cluster.loop.entered():
        world.cluster.kube.create(r.NODEPOOLS, pool)
    try:
        done = world.fence(tmp_path, "--yes", "--deadline", "1s")
    finally:
        with world.cluster.loop.entered():
            world.cluster.kube.delete(r.NODEPOOLS, "odd")
    assert done["code"] == 3, done["out"]
    assert "is unproven: NodePool/odd may launch it" in done["out"]
    assert not any(step.startswith("POST") for step in done["steps"])


def crd(group, kind):
    plural = f"{kind.lower()}s"
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
    names = {"kind": kind, "plural": plural}
    spec = {"group": group, "scope": "Cluster", "names": names, "versions": [version]}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.{group}"},
        "spec": spec,
    }


def custom(group, kind):
    return {"apiVersion": f"{group}/v1", "kind": kind, "metadata": {"name": "x"}, "spec": {}}


def webhook(kind, name="x.example.com"):
    rule = {"apiGroups": ["karpenter.sh"], "apiVersions": ["*"], "resources": ["nodepools"], "operations": ["UPDATE"]}
    called = {"name": name, "rules": [rule], "clientConfig": {"url": "https://x.example.com/"}, "sideEffects": "None"}
    called |= {"admissionReviewVersions": ["v1"], "failurePolicy": "Ignore"}
    return {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": kind,
        "metadata": {"name": "x"},
        "webhooks": [called],
    }


def node(provider, **labels):
    metadata = {"name": "stray", "labels": labels}
    return {"apiVersion": "v1", "kind": "Node", "metadata": metadata, "spec": {"providerID": f"{provider}://x"}}


def program(*words):
    container = {"name": "c", "image": "i", "command": list(words)}
    template = {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [container]}}
    spec = {"replicas": 0, "selector": {"matchLabels": {"a": "b"}}, "template": template}
    metadata = {"name": "x", "namespace": "default"}
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": metadata, "spec": spec}


MUTATING, VALIDATING = "MutatingWebhookConfiguration", "ValidatingWebhookConfiguration"


@pytest.mark.parametrize(
    ("objects", "unproven"),
    [
        ([], ""),
        ([crd("platform.example.io", "Farm")], ""),
        ([crd("platform.example.io", "Farm"), custom("platform.example.io", "Farm")], "Farm/x: what acts on"),
        ([crd("monitoring.coreos.com", "Probe"), custom("monitoring.coreos.com", "Probe")], ""),
        ([crd("mutations.gatekeeper.sh", "Assign"), custom("mutations.gatekeeper.sh", "Assign")], "may change pools"),
        ([webhook(MUTATING)], "may change pools as they are written"),
        ([webhook(MUTATING, "mutation.gatekeeper.sh")], ""),
        ([webhook(VALIDATING)], ""),
        ([program("eksctl", "create", "nodegroup", "--cluster", "c")], "eksctl create nodegroup"),
        ([node("gce", **{"cloud.google.com/gke-nodepool": "a"})], "gcloud container clusters describe"),
        ([node("aws", **{"eks.amazonaws.com/nodegroup": "system"})], ""),
        ([node("aws")], "Node/stray: no pool that was read launched it"),
        ([node("kind")], ""),
    ],
)
def test_what_lives_there_and_is_not_known_whole_is_unproven(world, objects, unproven):
    kube = connect(CONTEXT, kubeconfig=world.kubeconfig, loop=WallLoop())
    made = []
    with world.cluster.loop.entered():
        for obj in objects:
            resource = world.cluster.kube.resource_for(obj["apiVersion"], obj["kind"])
            world.cluster.kube.create(resource, obj)
            made.append((resource, obj))
    try:
        found = gather(kube)
        said = {"doubts": found.unread, "nodes": found.nodes}
        report = evaluate(found.objects, Ceiling(max_devices_per_node=8), **said)
        canary = would(found.objects, 9, namespace="inference", **said)
    finally:
        with world.cluster.loop.entered():
            for resource, obj in reversed(made):
                world.cluster.kube.delete(resource, name_of(obj), obj["metadata"].get("namespace"))
    assert (report.cluster.verdict, canary.outcome) == (("unproven", "unproven") if unproven else ("safe", "pending"))
    assert unproven in "; ".join(report.cluster.reasons)


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (("[inference]", "[elsewhere]"), "namespace inference is not named in the spec"),
        ((f"[{CONTEXT}]", "[staging]"), f"context {CONTEXT} is not among consent.contexts"),
    ],
)
def test_nothing_is_made_where_nobody_consented(world, tmp_path, change, says):
    spec = tmp_path / "killcheck.yaml"
    spec.write_text(world.spec.read_text().replace(*change))
    done = world.fence(tmp_path, "-n", "inference", "--yes", spec=spec)
    assert (done["code"], says in done["out"]) == (2, True), done["out"]
    assert not any(step.startswith("POST") for step in done["steps"])


def test_without_a_terminal_and_a_yes_nothing_is_made(world, tmp_path):
    done = world.fence(tmp_path)
    assert done["code"] == 4
    assert "create pod inference/killcheck-canary, which asks for 9 x nvidia.com/gpu" in done["out"]
    assert "say --yes" in done["out"]
    assert world.there() == []


def test_killed_anywhere_restore_takes_it_back(world, tmp_path):
    whole = world.fence(tmp_path / "whole", "--deadline", "1s", "--yes")
    assert whole["code"] == 0, whole["out"]
    steps = whole["steps"]
    pod = next(n for n, what in enumerate(steps, 1) if what.startswith("POST") and what.endswith("/pods"))
    points = [(pod, "before"), (pod, "after"), (pod + 1, "before"), (len(steps) - 2, "before")]
    for at, when in points:
        folder = tmp_path / f"{at}-{when}"
        killed = world.fence(folder, "--deadline", "1s", "--yes", at=at, when=when)
        assert killed["code"] == -9, killed["out"]
        assert world.there() != [], "the journal and the Lease at least"
        answer = world.order(folder, "restore", "--on", CONTEXT)
        assert answer["code"] == 0, answer["out"]
        assert world.there() == [], (at, when, answer["out"])
