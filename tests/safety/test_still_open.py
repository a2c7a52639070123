"""A signature says who wrote a journal, not that it holds still: replays change nothing, consent counts when it is done."""

from __future__ import annotations

import os

import pytest
from safety_world import differences, forget_finished, picture, small_cluster

from killcheck.kube import resources as r
from killcheck.kube.objects import copy
from killcheck.safety import orphans
from killcheck.safety.journal import DATA, Journal, config_map_name
from killcheck.safety.sealing import SEALED

RUN = "long-ago"
SECRET = "hunter2-correct-horse"
JOB = {
    "metadata": {"name": "train", "namespace": "inference"},
    "spec": {
        "template": {
            "spec": {
                "restartPolicy": "Never",
                "containers": [{"name": "c", "image": "i", "env": [{"name": "FAVOURITE", "value": SECRET}]}],
            }
        }
    },
}


@pytest.fixture
def cluster():
    cluster = small_cluster()
    cluster.kube.create(r.JOBS, JOB)
    cluster.loop.sleep(5)
    yield cluster
    cluster.close()


def journal_of(cluster, **more):
    return Journal(RUN, cluster.loop, cluster.kube, home="inference", context="here", **more)


def scaled(journal):
    journal.merge(r.DEPLOYMENTS, "vllm", "inference", {"spec": {"replicas": 0}}, "scaled vllm")


def remembered(journal):
    obj = journal.kube.get(r.DEPLOYMENTS, "vllm", "inference")
    back, left = {"spec": {"replicas": 2}}, {"spec": {"replicas": 0}}
    journal.remember(r.DEPLOYMENTS, obj, back, left, what="vllm was on", manual="")


def deleted(journal):
    journal.delete(r.JOBS, "train", "inference", "deleted train")


def created(journal):
    journal.create(r.CONFIGMAPS, {"metadata": {"name": "made", "namespace": "inference"}, "data": {}})


def finalizer(journal):
    journal.merge(r.JOBS, "train", "inference", {"metadata": {"finalizers": ["a/b"]}}, "held train")


CHANGES = [scaled, remembered, deleted, created, finalizer]


def kept(cluster):
    return copy(cluster.kube.get(r.CONFIGMAPS, config_map_name(RUN), "inference"))


def planted(cluster, config_map):
    for field in ("uid", "resourceVersion", "creationTimestamp", "managedFields"):
        config_map["metadata"].pop(field, None)
    cluster.kube.create(r.CONFIGMAPS, config_map)


def as_it_was_left(cluster):
    """Somebody means by now what that run had changed: every night the GPUs go off."""
    cluster.kube.patch(r.DEPLOYMENTS, "vllm", {"spec": {"replicas": 0}}, "inference")
    if cluster.kube.find(r.JOBS, "train", "inference"):
        cluster.kube.delete(r.JOBS, "train", "inference", propagation="Background")
    made = {"metadata": {"name": "made", "namespace": "inference"}, "data": {"a": "somebody's"}}
    cluster.kube.create(r.CONFIGMAPS, made)
    cluster.loop.sleep(30)


def others(cluster):
    return {key: obj for key, obj in picture(cluster).items() if key[2] != config_map_name(RUN)}


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("knows", [True, False], ids=["finished-here", "finished-elsewhere"])
def test_an_old_journal_planted_again_changes_nothing(cluster, change, knows, monkeypatch):
    journal = journal_of(cluster)
    change(journal)
    old = kept(cluster)  # from the middle of the run, signed
    assert journal.undo_all()[1] == []
    journal.close()
    as_it_was_left(cluster)
    before = others(cluster)
    planted(cluster, old)
    if not knows:  # another machine with the same key
        forget_finished()
        monkeypatch.setattr("killcheck.safety.still_open.platform.node", lambda: "another")
    for _ in range(2):
        found = orphans.find(cluster.kube, cluster.loop, context="here")
        orphans.restore(cluster.kube, cluster.loop, found, expired_only=False)
        cluster.loop.sleep(30)
    assert differences(before, others(cluster)) == []


@pytest.mark.parametrize("change", CHANGES)
def test_a_file_of_an_old_run_in_another_checkout_changes_nothing(cluster, change, tmp_path):
    path = tmp_path / "runs" / RUN / "journal-0.jsonl"
    journal = journal_of(cluster, path=path)
    change(journal)
    old = path.read_bytes()
    assert journal.undo_all()[1] == []
    journal.close()
    as_it_was_left(cluster)
    before = others(cluster)
    path.write_bytes(old)
    found = orphans.find(cluster.kube, cluster.loop, context="here", folder=tmp_path)
    assert orphans.restore(cluster.kube, cluster.loop, found).problems == []
    cluster.loop.sleep(30)
    assert differences(before, others(cluster)) == []


@pytest.mark.parametrize("change", CHANGES)
def test_where_consent_was_withdrawn_what_was_signed_is_told_and_left_unless_a_person_names_it(cluster, change):
    whole = picture(cluster, uids=False)
    journal = journal_of(cluster)
    change(journal)
    cluster.kube.patch(r.NAMESPACES, "inference", {"metadata": {"labels": {"killcheck.dev/consent": None}}})
    cluster.kube.patch(r.DEPLOYMENTS, "vllm", {"spec": {"replicas": 0}}, "inference")
    before = picture(cluster)
    found = orphans.find(cluster.kube, cluster.loop, context="here")
    outcome = orphans.restore(cluster.kube, cluster.loop, found)
    assert [one for one in outcome.unknown if "does not carry killcheck.dev/consent=true" in one]
    assert "killcheck restore --run long-ago does it all the same" in outcome.unknown[0]
    assert differences(before, picture(cluster)) == []
    found = orphans.find(cluster.kube, cluster.loop, context="here")
    named = orphans.restore(cluster.kube, cluster.loop, found, named=RUN)
    assert named.problems == []
    assert named.undone
    assert not cluster.kube.find(r.CONFIGMAPS, config_map_name(RUN), "inference")
    assert whole.keys() == picture(cluster, uids=False).keys()


def test_what_is_made_again_is_sealed_and_made_again_with_the_key_alone(cluster, tmp_path, monkeypatch):
    path = tmp_path / "runs" / RUN / "journal-0.jsonl"
    deleted(journal_of(cluster, path=path))
    for text in (path.read_text(), kept(cluster)["data"][DATA]):
        assert SECRET not in text
        assert SEALED in text
    cluster.loop.sleep(60)
    here = os.environ["XDG_STATE_HOME"]
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "elsewhere"))
    found = orphans.find(cluster.kube, cluster.loop, context="here")
    told = orphans.restore(cluster.kube, cluster.loop, found, named=RUN, believe=lambda judged: True)
    assert "sealed" in told.unknown[0]
    assert cluster.kube.find(r.JOBS, "train", "inference") is None
    monkeypatch.setenv("XDG_STATE_HOME", here)
    found = orphans.find(cluster.kube, cluster.loop, context="here")
    assert orphans.restore(cluster.kube, cluster.loop, found).problems == []
    made = cluster.kube.get(r.JOBS, "train", "inference")
    assert made["spec"]["template"]["spec"]["containers"][0]["env"] == [{"name": "FAVOURITE", "value": SECRET}]
