"""The journal: written before the change, readable by another machine, never undone over somebody else's change."""

from __future__ import annotations

import contextlib
from types import SimpleNamespace

import pytest
from safety_world import Dead, Lossy, Mortal, differences, forget_finished, picture, through

from killcheck.kube import resources as r
from killcheck.kube.client import Transport
from killcheck.kube.errors import Conflict, ServerFault
from killcheck.safety import orphans, owners
from killcheck.safety.changes import MARK, Entry, Undo
from killcheck.safety.journal import Journal, JournalError, config_map_name
from killcheck.safety.keys import known_keys
from killcheck.safety.marks import SHOWN
from killcheck.safety.undo import take_back
from killcheck.safety.written import read

RUN = "20260115-030001-abc123-0"
JOB = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "made", "namespace": "inference"}}


def journal_of(cluster, tmp_path, kube=None):
    return Journal(
        RUN,
        cluster.loop,
        kube or cluster.kube,
        path=tmp_path / "runs" / "r" / "journal-0.jsonl",
        home="inference",
        context="here",
    )


def sabotage(journal):
    """One change of every kind."""
    journal.merge(r.DEPLOYMENTS, "vllm", "inference", {"spec": {"replicas": 5, "minReadySeconds": 7}}, "scaled vllm")
    journal.create(r.CONFIGMAPS, JOB, "made a ConfigMap")
    journal.delete(r.CONFIGMAPS, "settings", "inference", "deleted settings")


def test_every_kind_of_change_is_taken_back(cluster, tmp_path):
    before = picture(cluster, uids=False)
    journal = journal_of(cluster, tmp_path)
    sabotage(journal)
    assert len(differences(before, picture(cluster, uids=False))) == 4  # the journal itself is there too
    undone, problems = journal.undo_all()
    assert problems == []
    assert [words.partition(":")[0] for words in undone] == ["re-created", "deleted", "undone"]
    assert differences(before, picture(cluster, uids=False)) == []
    assert journal.undo_all() == ([], [])


def test_the_intent_is_on_disk_and_in_the_cluster_before_the_change(cluster, tmp_path):
    journal = journal_of(cluster, tmp_path)
    undo = Undo("merge", r.DEPLOYMENTS.path("inference", "vllm"), {"spec": {"replicas": 2}})
    with journal.change("about to", undo):
        local = read(journal.path.read_text(), known_keys()).own
        there = cluster.kube.get(r.CONFIGMAPS, config_map_name(RUN), "inference")
        remote = read(there["data"]["journal.jsonl"], known_keys()).own
        assert [e.state for e in local] == [e.state for e in remote] == ["intent"]
        assert local[0].undo == remote[0].undo == undo
    assert read(journal.path.read_text(), known_keys()).own[0].state == "applied"
    assert journal.path.stat().st_mode & 0o077 == 0


def test_what_cannot_be_written_down_is_not_done(cluster, tmp_path):
    journal = journal_of(cluster, tmp_path)
    journal.home = "no-such-namespace"
    with pytest.raises(JournalError, match="nothing was changed"):
        journal.merge(r.DEPLOYMENTS, "vllm", "inference", {"spec": {"replicas": 5}}, "scaled vllm")
    assert cluster.kube.get(r.DEPLOYMENTS, "vllm", "inference")["spec"]["replicas"] == 2
    assert journal.open == []


def test_somebody_elses_change_is_reported_and_not_overwritten(cluster, tmp_path):
    journal = journal_of(cluster, tmp_path)
    sabotage(journal)
    cluster.kube.patch(r.DEPLOYMENTS, "vllm", {"spec": {"replicas": 3}}, "inference")
    _, problems = journal.undo_all()
    (problem,) = problems
    assert "spec.replicas was left at 5 and is 3 now" in problem
    assert "kubectl patch deployments.apps vllm -n inference --type=merge" in problem
    found = cluster.kube.get(r.DEPLOYMENTS, "vllm", "inference")
    assert found["spec"]["replicas"] == 3
    assert not found["spec"].get("minReadySeconds")  # what was still ours went back
    assert cluster.kube.find(r.CONFIGMAPS, config_map_name(RUN), "inference") is not None  # it is still owed


def test_another_object_of_the_same_name_is_left_alone(cluster, tmp_path):
    journal = journal_of(cluster, tmp_path)
    journal.create(r.CONFIGMAPS, JOB)
    cluster.kube.delete(r.CONFIGMAPS, "made", "inference")
    cluster.kube.create(r.CONFIGMAPS, JOB)
    assert journal.undo_all()[1] == []
    assert cluster.kube.find(r.CONFIGMAPS, "made", "inference") is not None


def test_one_failure_does_not_keep_the_rest_from_being_put_back(cluster, tmp_path):
    before = picture(cluster, uids=False)
    journal = journal_of(cluster, tmp_path)
    sabotage(journal)
    cluster.kube.delete(r.DEPLOYMENTS, "vllm", "inference")
    undone, problems = journal.undo_all()
    assert len(undone) == 2
    assert "the object has gone meanwhile" in problems[0]
    left = differences(before, picture(cluster, uids=False))
    assert [words for words in left if "settings" in words or "made" in words] == []


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
@pytest.mark.one_in(2)
def test_killed_at_any_write_it_is_restored_from_elsewhere(cluster, tmp_path, after):
    before = picture(cluster, uids=False)
    tried = 0
    for at in range(1, 100):
        mortal = []

        def wrap(inner, at=at, mortal=mortal):
            mortal.append(Mortal(inner, at=at, after=after))
            return mortal[0]

        folder = tmp_path / str(at)
        forget_finished()  # the same run again
        journal = journal_of(cluster, folder, through(cluster, wrap))
        try:
            sabotage(journal)
            journal.undo_all()
        except Dead:
            pass
        else:
            break
        tried += 1
        # Half of them from another machine, which has only what is in the cluster.
        found = orphans.find(cluster.kube, cluster.loop, context="here", folder=folder if at % 2 else None)
        outcome = orphans.restore(cluster.kube, cluster.loop, found)
        assert outcome.problems == []
        cluster.loop.sleep(5)
        assert differences(before, picture(cluster, uids=False)) == [], at
    assert tried >= 16


@pytest.mark.parametrize("seed", range(20))
def test_over_a_lossy_network_it_is_all_put_back(cluster, tmp_path, seed):
    before = picture(cluster, uids=False)
    journal = journal_of(cluster, tmp_path, through(cluster, lambda inner: Lossy(inner, cluster.loop, seed, rate=30)))
    with contextlib.suppress(JournalError, ServerFault):
        sabotage(journal)
    assert journal.undo_all()[1] == []
    cluster.loop.sleep(5)
    assert differences(before, picture(cluster, uids=False)) == []


def test_a_file_that_is_no_journal_says_nothing():
    for text in ("", "{}\n", "[1]", '{"journal": {"run": 5}}'):
        said = read(text)
        assert (said.header, said.entries, len(said.problems), said.over) == (None, [], 1, False)


def test_a_change_that_was_refused_leaves_nothing(cluster, tmp_path):
    before = picture(cluster, uids=False)

    class Racing(Transport):
        """Somebody else is always faster."""

        def __init__(self, inner):
            self.inner = inner

        def request(self, method, path, query, body, headers):
            if method == "PATCH" and path.endswith("/vllm") and "resourceVersion" in body.get("metadata", {}):
                cluster.kube.patch(
                    r.DEPLOYMENTS,
                    "vllm",
                    {"metadata": {"annotations": {"n": str(cluster.loop.monotonic())}}},
                    "inference",
                )
            return self.inner.request(method, path, query, body, headers)

    journal = journal_of(cluster, tmp_path, through(cluster, Racing))
    with pytest.raises(Conflict):
        journal.merge(r.DEPLOYMENTS, "vllm", "inference", {"spec": {"replicas": 5}}, "scaled vllm")
    assert journal.open == []
    assert journal.undo_all() == ([], [])
    cluster.kube.patch(r.DEPLOYMENTS, "vllm", {"metadata": {"annotations": {"n": None}}}, "inference")
    left = differences(before, picture(cluster, uids=False))
    assert [words for words in left if "replicasets" not in words] == []


def test_a_disk_that_fills_up_refuses_changes_and_no_end(tmp_path, monkeypatch, cluster):
    """What cannot be written down does not happen; what is back stays back, and nothing half-written is left."""
    journal = Journal("full", cluster.loop, cluster.kube, path=tmp_path / "journal-0.jsonl")
    journal.open_locally()

    def full(_descriptor):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("killcheck.safety.journal.os.fsync", full)
    with (
        pytest.raises(JournalError, match=r"No space left on device; nothing was changed by it: scale"),
        journal.change("scale", Undo("merge", r.NODES.path(None, "x"), {})),
    ):
        pytest.fail("the change must not happen")
    assert not journal.entries
    journal.close()
    assert [path.name for path in tmp_path.iterdir()] == ["journal-0.jsonl"]


def entry(manager, *fields, operation="Update", **more):
    spec = {f"f:{name}": {} for name in fields}
    return {"manager": manager, "operation": operation, "apiVersion": "apps/v1", "fieldsV1": {"f:spec": spec}, **more}


HELM = entry("helm", "replicas", "paused", operation="Apply")
STATUS = entry("kube-controller-manager", "x", subresource="status", time="2026-01-15T03:00:09Z")


@pytest.mark.parametrize(
    ("now", "wanted"),
    [
        ([entry("helm", "paused", operation="Apply"), entry("killcheck", "replicas"), STATUS], [HELM, STATUS]),
        (
            [entry("killcheck", "paused"), entry("killcheck-operator", "replicas")],
            [HELM],
        ),  # an entry that has lost everything is gone
        ([HELM, STATUS], None),
        ([HELM | {"fieldsV1": {"f:spec": 3}}], None),  # what no API server writes
        # Somebody has taken a field meanwhile, or given one up: what they hold is theirs.
        ([entry("helm", "paused", operation="Apply"), entry("edit", "replicas"), entry("killcheck", "x")], None),
        ([entry("helm", "replicas", operation="Apply"), entry("killcheck", "x")], None),
    ],
)
def test_fields_go_back_to_whoever_had_them(now, wanted):
    found = {"metadata": {"name": "vllm", "uid": "u", "resourceVersion": "7", "managedFields": now}, "spec": {}}
    assert owners.as_before(found, [HELM], "killcheck") == wanted
    sent = []
    kube = SimpleNamespace(field_manager="killcheck")
    kube.call = lambda verb, path, body=None, **_: sent.append(body) or SimpleNamespace(body=found)
    undo = Undo("merge", r.DEPLOYMENTS.path("a", "vllm"), {"spec": {}}, "u", {"spec": {}}, owners=[HELM])
    take_back(
        kube,
        SimpleNamespace(monotonic=lambda: 0.0),
        Entry(RUN, 0, "scaled", undo, "2026-01-16T03:00:00Z"),
        patience_s=0,
    )
    given = [one["metadata"] for one in sent if one]
    assert given == ([{"managedFields": wanted, "resourceVersion": "7"}] if wanted else [])


def test_a_map_goes_back_to_whoever_had_it():
    """An API server writes a field that is had alone otherwise than one of which something is had, too."""

    def of(manager, limits):
        return entry(manager) | {"fieldsV1": {"f:spec": {"f:limits": limits}}}

    before = [of("kubectl", {".": {}, "f:gpu": {}})]
    found = {"metadata": {"managedFields": [of("kubectl", {}), of("killcheck", {"f:gpu": {}})]}}
    assert owners.as_before(found, before, "killcheck") == before


def test_a_strangers_journal_gives_no_field_to_anybody():
    undo = Undo("merge", r.DEPLOYMENTS.path("a", "vllm"), {"spec": {}}, owners=[HELM])
    assert orphans._heard(Entry(RUN, 0, "scaled", undo, "2026-01-16T03:00:00Z")).undo.owners is None


def test_no_controller_copies_a_mark(cluster, tmp_path):
    """KEDA copies a ScaledObject's labels to its HPA, and takes none away; KServe copies them into pods' templates."""
    never = {"timezone": "Etc/UTC", "start": "0 0 1 1 *", "end": "1 0 1 1 *", "desiredReplicas": "1"}
    spec = {"scaleTargetRef": {"name": "vllm"}, "triggers": [{"type": "cron", "metadata": never}]}
    scaled = {"apiVersion": "keda.sh/v1alpha1", "kind": "ScaledObject", "spec": spec}
    cluster.load([scaled | {"metadata": {"name": "idle", "namespace": "inference", "labels": {"team": "a"}}}])

    def told():
        """What is copied of it, and who marked it."""
        cluster.loop.sleep(30)
        meta = cluster.kube.call("GET", r.SCALEDOBJECTS.path("inference", "idle"), query=SHOWN).body["metadata"]
        marks = [one["manager"] for one in meta.get("managedFields", []) if one["manager"].startswith(MARK)]
        return meta.get("labels"), meta.get("annotations"), marks

    before, journal = told(), journal_of(cluster, tmp_path)
    journal.merge(r.SCALEDOBJECTS, "idle", "inference", {"spec": {"pollingInterval": 10}}, "it polls more often")
    cluster.kube.patch(r.SCALEDOBJECTS, "idle", {"spec": {"cooldownPeriod": 9}}, "inference")  # somebody else's
    assert told()[:2] == before[:2]
    assert len(told()[2]) == 1
    assert journal.undo_all()[1] == []
    assert told() == before
    assert before[2] == []
