"""The fleet's Job on an API server: an index a shard, as many at once as may be, and a lost one comes again."""

from __future__ import annotations

import pytest
from test_fleet_file import written

from killcheck.embedded.cluster import Cluster
from killcheck.fleet import job
from killcheck.fleet.file import load
from killcheck.kube import resources as r

INDEX = "batch.kubernetes.io/job-completion-index"
KEY = {
    "apiVersion": "v1",
    "kind": "Secret",
    "metadata": {"name": "killcheck-key", "namespace": "ops"},
    "stringData": {"key": "a key that they all share"},
}


@pytest.fixture(scope="module")
def applied(tmp_path_factory):
    cluster = Cluster(exec_mode="none")
    made = job.manifests(load(written(tmp_path_factory.mktemp("fleet"))), namespace="ops", image="killcheck:0.1.0")
    kubeconfig = {**KEY, "metadata": {"name": "eu-kubeconfig", "namespace": "ops"}, "stringData": {"config": "{}"}}
    cluster.load([{"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "ops"}}, KEY, kubeconfig, *made])
    cluster.loop.sleep(60.0)
    yield cluster
    cluster.close()


def alive(cluster):
    """The pods that have not ended, by index."""
    pods = cluster.kube.list(r.PODS, "ops").items
    found = {
        pod["metadata"]["annotations"][INDEX]: pod
        for pod in pods
        if pod["status"]["phase"] in ("Pending", "Running") and "deletionTimestamp" not in pod["metadata"]
    }
    assert len(found) <= 2
    return found


def ended(cluster, index, code):
    """The container of an index ends."""
    pod = dict(alive(cluster)[index])
    state = {"terminated": {"exitCode": code, "reason": "Error"}}
    pod["status"] = {
        **pod["status"],
        "phase": "Failed" if code else "Succeeded",
        "containerStatuses": [{**one, "ready": False, "state": state} for one in pod["status"]["containerStatuses"]],
    }
    cluster.kube.call("PUT", f"/api/v1/namespaces/ops/pods/{pod['metadata']['name']}/status", body=pod)
    cluster.loop.sleep(120.0)


def test_a_lost_shard_comes_again_and_an_exposed_one_does_not(applied):
    first = alive(applied)
    assert sorted(first) == ["0", "1"]
    (container,) = first["0"]["spec"]["containers"]
    assert container["command"][:3] == ["killcheck", "fleet", "drill"]
    assert {one["name"] for one in container["env"]} >= {"KILLCHECK_KEY", "JOB_COMPLETION_INDEX", "NAMESPACE"}
    states = [one["state"] for pod in first.values() for one in pod["status"]["containerStatuses"]]
    assert all("running" in one for one in states), states  # all that they mount is there
    ended(applied, "0", 137)  # killed
    again = alive(applied)
    assert again["0"]["metadata"]["uid"] != first["0"]["metadata"]["uid"]
    ended(applied, "1", 1)
    assert sorted(alive(applied)) == ["0", "2"]
    ended(applied, "0", 0)
    assert sorted(alive(applied)) == ["2", "3"]
    status = applied.kube.get(r.JOBS, "killcheck-fleet-platform", "ops")["status"]
    assert (status["completedIndexes"], status["failedIndexes"]) == ("0", "1")


def test_its_account_may_hold_its_slots_and_nothing_else(applied):
    (role,) = applied.kube.list(r.ROLES, "ops").items
    assert {name for rule in role["rules"] for name in rule["resources"]} == {"leases"}
    named = [rule for rule in role["rules"] if "resourceNames" in rule]
    assert [rule["verbs"] for rule in role["rules"] if rule not in named] == [["create"]]
    assert named[0]["resourceNames"] == ["killcheck-fleet-platform-0", "killcheck-fleet-platform-1"]


def test_what_is_kept_back_is_in_no_config_map(tmp_path):
    """Whoever may read ConfigMaps reads it: what a drill reads goes there, and no key."""
    fleet = written(tmp_path)
    for name in ("main.tf", "off.timer", "id_rsa", "tls.key", "terraform.tfstate", ".env", ".killcheckignore"):
        (tmp_path / "two" / name).write_text(f"this is {name}\n")
    made = job.manifests(load(fleet), namespace="ops", image="killcheck:0.1.0")
    (held,) = [obj["data"].values() for obj in made if obj["kind"] == "ConfigMap"]
    sent = {text.removeprefix("this is ").strip() for text in held if text.startswith("this is ")}
    assert sent == {"main.tf", "off.timer", ".killcheckignore"}
