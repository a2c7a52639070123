"""A journal in a ConfigMap may be written by anybody who may write one: only what consented is touched on its word."""

from __future__ import annotations

import json

import pytest
from safety_world import differences, picture, small_cluster

from killcheck.kube import resources as r
from killcheck.safety import orphans
from killcheck.safety.journal import DATA, JOURNAL_LABEL, Journal
from killcheck.safety.undo import LABEL, Undo

ROLE = {"rules": [{"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}]}


@pytest.fixture
def cluster():
    cluster = small_cluster()
    cluster.kube.create(r.NAMESPACES, {"metadata": {"name": "other"}})
    yield cluster
    cluster.close()


def restored(cluster, **more):
    return orphans.restore(
        cluster.kube, cluster.loop, orphans.find(cluster.kube, cluster.loop, context="here", **more), named="planted"
    )


def plant(cluster, undo, home="inference"):
    """A ConfigMap as a run's journal, with one change that somebody would like to have undone."""
    journal = Journal("planted", cluster.loop, cluster.kube, home=home, context="here")
    with journal.change("something was done", undo):
        pass


def delete(resource, name, namespace=None):
    return Undo("delete", resource.path(namespace, name), manual="kubectl delete it")


def binding(name, **labels):
    return {
        "metadata": {"name": name, "labels": labels},
        "subjects": [],
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"},
    }


SUBJECTS = {"subjects": [{"kind": "ServiceAccount", "name": "mallory", "namespace": "inference"}]}
BINDING = r.CLUSTERROLEBINDINGS.path(None, "all")


@pytest.mark.parametrize(
    ("undo", "why"),
    [
        (delete(r.CONFIGMAPS, "settings", "other"), "namespace other does not carry killcheck.dev/consent=true"),
        (delete(r.DEPLOYMENTS, "vllm", "inference"), "deployments vllm was not made by that run"),
        (delete(r.NAMESPACES, "other"), "namespace other does not carry"),
        (delete(r.NAMESPACES, "inference"), "namespaces inference was not made by that run"),
        (Undo("sweep", r.CONFIGMAPS.path("other")), "namespace other does not carry"),
        (
            Undo("create", r.CLUSTERROLEBINDINGS.path(), binding("mine") | SUBJECTS),
            "is in no namespace and does not carry",
        ),
        (Undo("merge", BINDING, SUBJECTS, left={"subjects": []}), "clusterrolebindings all is in no namespace"),
        (
            Undo("merge", "/api/v1/namespaces/inference/../other/configmaps/settings", {"data": {"a": "c"}}, left={}),
            "is no path of an object",
        ),
        (
            Undo(
                "merge", "/api/v1/namespaces/inference/%2e%2e/other/configmaps/settings", {"data": {"a": "c"}}, left={}
            ),
            "is no path of an object",
        ),
        (Undo("put", "/api/v1/nodes/../namespaces/other", {"metadata": {"labels": {}}}), "is no path of an object"),
        (Undo("merge", "/api/v1/nodes/gpu-1/proxy/run/x", {}, left={}), "is no path of an object"),
        (Undo("merge", "/api/v1/namespaces/inference/pods/a/exec", {}, left={}), "is no path of an object"),
        (Undo("put", "/api/v1/namespaces/inference/finalize", {}), "is no path of an object"),
        (Undo("merge", "/version", {}, left={}), "is no path of an object"),
        (Undo("merge", "/api/v1/nodes/gpu-1?dryRun=All", {}, left={}), "is no path of an object"),
        (
            Undo(
                "merge",
                r.NAMESPACES.path(None, "other"),
                {"metadata": {"labels": {"killcheck.dev/consent": "true"}}},
                left={},
            ),
            "namespace other does not carry",
        ),
    ],
)
def test_what_nobody_named_is_not_touched_on_its_word(cluster, undo, why):
    cluster.kube.create(r.CLUSTERROLEBINDINGS, binding("all"))
    cluster.kube.create(r.CONFIGMAPS, {"metadata": {"name": "settings", "namespace": "other"}, "data": {"a": "b"}})
    plant(cluster, undo)
    before = picture(cluster)
    outcome = restored(cluster)
    assert differences(before, picture(cluster)) == []
    assert (outcome.undone, len(outcome.problems)) == ([], 1)
    assert why in outcome.problems[0]
    assert "only the ConfigMap in inference asks for it" in outcome.problems[0]
    assert not undo.manual or undo.manual in outcome.problems[0]


def test_a_journal_beside_a_namespace_that_consented_is_none_of_it(cluster):
    plant(cluster, Undo("merge", r.DEPLOYMENTS.path("inference", "vllm"), {"spec": {"replicas": 3}}, left={}), "other")
    before = picture(cluster)
    outcome = restored(cluster)
    assert differences(before, picture(cluster)) == []
    assert "namespace other does not carry killcheck.dev/consent=true" in outcome.problems[0]


@pytest.mark.parametrize("labels", [{"killcheck.dev/consent": "true"}, {LABEL: "planted"}])
def test_what_is_in_no_namespace_consents_by_its_label_or_was_made_by_the_run(cluster, labels):
    cluster.kube.create(r.CLUSTERROLEBINDINGS, binding("all", **labels))
    made = LABEL in labels
    plant(
        cluster,
        delete(r.CLUSTERROLEBINDINGS, "all") if made else Undo("merge", BINDING, SUBJECTS, left={"subjects": []}),
    )
    assert restored(cluster).problems == []
    found = cluster.kube.find(r.CLUSTERROLEBINDINGS, "all")
    assert (found is None) if made else found["subjects"][0]["name"] == "mallory"


def test_a_run_of_this_machine_needs_nobodys_word(cluster, tmp_path):
    """The label may have been taken off meanwhile: what this machine's own journal says is put back all the same."""
    folder = tmp_path / "runs" / "planted"
    folder.mkdir(parents=True)
    journal = Journal(
        "planted", cluster.loop, cluster.kube, path=folder / "journal-0.jsonl", home="inference", context="here"
    )
    journal.merge(r.DEPLOYMENTS, "vllm", "inference", {"spec": {"replicas": 7}}, "scaled vllm")
    cluster.kube.patch(r.NAMESPACES, "inference", {"metadata": {"labels": {"killcheck.dev/consent": None}}})
    alone = restored(cluster)
    assert "scaled vllm: not undone" in alone.problems[0]
    assert restored(cluster, folder=tmp_path).problems == []
    assert cluster.kube.get(r.DEPLOYMENTS, "vllm", "inference")["spec"]["replicas"] != 7
    left = cluster.kube.list(r.CONFIGMAPS, None, labels=f"{JOURNAL_LABEL}=true").items
    assert not [json.loads(line) for found in left for line in found["data"][DATA].splitlines()]
