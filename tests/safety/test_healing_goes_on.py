"""Healing goes on: past what no lever foresaw, past a person who loses patience, past what is only half gone."""

from __future__ import annotations

import json
import platform

import pytest
from safety_world import differences, picture, through

from killcheck.capabilities.offered import Capabilities, Capability
from killcheck.cluster.host import HostCluster
from killcheck.commands.errors import Interrupted
from killcheck.kube import resources as r
from killcheck.kube.client import Answer, Transport
from killcheck.safety import lease, local_locks, local_programs, orphans
from killcheck.safety.changes import Entry, Undo
from killcheck.safety.journal import Journal, config_map_name
from killcheck.safety.undo import FINALIZERS, adding
from killcheck.safety.written import read
from killcheck.spec.killpath import KillPath, Layer, LayerType, Target

RUN = "20260115-030001-abc123-0"
MADE = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "made", "namespace": "inference"}}


def journal_of(cluster, tmp_path, **more):
    return Journal(
        RUN,
        cluster.loop,
        more.pop("kube", cluster.kube),
        path=tmp_path / "runs" / "r" / "journal-0.jsonl",
        home="inference",
        context="here",
        **more,
    )


class Stubborn:
    """A capability that cannot be put back, in a way that nobody foresaw."""

    def back(self):
        raise PermissionError(13, "Permission denied")


def test_a_capability_that_fails_in_its_own_way_does_not_keep_the_rest_from_being_put_back(cluster, tmp_path):
    before = picture(cluster, uids=False)
    journal = journal_of(cluster, tmp_path, capabilities=Capabilities(registry=Stubborn()))
    journal.create(r.CONFIGMAPS, MADE)
    with journal.acting_on(Capability.REGISTRY, "pulled it", ("back",)):
        pass
    journal.entries.append(
        Entry(  # as a killcheck of another version may have
            "run", 2, "did what nobody knows", Undo("unheard-of", "/x"), "2026-01-15T00:00:00Z"
        )
    )
    undone, problems = journal.undo_all()
    assert len(undone) == 1
    assert ["unheard-of" in problems[0], "pulled it" in problems[1], "Permission denied" in problems[1]] == [True] * 3
    assert [words for words in differences(before, picture(cluster, uids=False)) if "made" in words] == []


class Impatient(Transport):
    """Somebody presses Ctrl-C while the n-th change is being put back."""

    def __init__(self, inner, stop):
        self.inner, self.stop = inner, stop

    def request(self, method, path, query, body, headers):
        if method == "DELETE" and path.endswith("/made") and self.stop is not None:
            stop, self.stop = self.stop, None
            raise stop
        return self.inner.request(method, path, query, body, headers)


def test_a_first_interruption_does_not_cut_the_healing_short(cluster, tmp_path):
    before = picture(cluster, uids=False)
    journal = journal_of(cluster, tmp_path, kube=through(cluster, lambda inner: Impatient(inner, Interrupted())))
    journal.merge(r.DEPLOYMENTS, "vllm", "inference", {"spec": {"replicas": 5}}, "scaled vllm")
    journal.create(r.CONFIGMAPS, MADE)
    with pytest.raises(KeyboardInterrupt):
        journal.undo_all()
    cluster.loop.sleep(5)
    assert journal.open == []
    assert differences(before, picture(cluster, uids=False)) == []


def test_whoever_insists_is_obeyed_and_the_journal_knows_what_is_left(cluster, tmp_path):
    stop = Interrupted(insists=True)
    journal = journal_of(cluster, tmp_path, kube=through(cluster, lambda inner: Impatient(inner, stop)))
    journal.create(r.CONFIGMAPS, MADE)
    with pytest.raises(KeyboardInterrupt):
        journal.undo_all()
    assert [entry.what for entry in journal.open] == ["created ConfigMap made"]
    assert cluster.kube.find(r.CONFIGMAPS, "made", "inference") is not None


def test_what_is_still_going_is_not_there_again(cluster, tmp_path):
    """Deleted, and held by a finalizer for a while: it is created anew when that has let it go."""
    cluster.kube.patch(r.CONFIGMAPS, "settings", {"metadata": {"finalizers": ["example.com/slow"]}}, "inference")
    journal = journal_of(cluster, tmp_path)
    journal.delete(r.CONFIGMAPS, "settings", "inference", "deleted settings")
    cluster.loop.call_later(
        8.0, cluster.kube.patch, r.CONFIGMAPS, "settings", {"metadata": {"finalizers": None}}, "inference"
    )
    assert journal.undo_all()[1] == []
    cluster.loop.sleep(60)
    found = cluster.kube.get(r.CONFIGMAPS, "settings", "inference")
    assert (found["data"], found["metadata"].get("deletionTimestamp")) == ({"a": "1"}, None)


def test_what_does_not_go_is_a_problem_and_not_there_again(cluster, tmp_path):
    cluster.kube.patch(r.CONFIGMAPS, "settings", {"metadata": {"finalizers": ["example.com/dead"]}}, "inference")
    journal = journal_of(cluster, tmp_path)
    journal.delete(r.CONFIGMAPS, "settings", "inference", "deleted settings")
    (problem,) = journal.undo_all()[1]
    assert "it is still going, held by example.com/dead" in problem


def test_taints_are_put_back_each_its_own(cluster, tmp_path):
    """A node that was away comes back with the node lifecycle controller's taints beside ours."""
    ours = {"key": "aws-node-termination-handler/spot-itn", "value": "true", "effect": "NoSchedule"}
    theirs = {"key": "node.kubernetes.io/unreachable", "effect": "NoSchedule"}
    was = {"key": "nvidia.com/gpu", "value": "true", "effect": "NoSchedule"}
    cluster.kube.create(r.NODES, {"metadata": {"name": "gpu-1"}, "spec": {"taints": [was]}})
    journal = journal_of(cluster, tmp_path)
    journal.merge(r.NODES, "gpu-1", None, {"spec": {"taints": [was, ours]}}, "notice for gpu-1", transient=True)
    cluster.kube.patch(r.NODES, "gpu-1", {"spec": {"taints": [was, ours, theirs]}})
    assert journal.undo_all()[1] == []
    taints = cluster.kube.get(r.NODES, "gpu-1")["spec"]["taints"]
    assert ours not in taints
    assert was in taints
    assert any(taint["key"] == theirs["key"] for taint in taints)


def planted(cluster, undo):
    """A journal in the cluster, by whoever may write a ConfigMap, that claims to be this machine's."""
    header = {"journal": {"run": RUN, "context": "here", "home": "inference", "host": platform.node(), "pid": 0}}
    entry = {
        "run": RUN,
        "number": 0,
        "what": "box was on (1)",
        "undo": undo,
        "expires": "2026-01-15T09:00:00Z",
        "state": "applied",
        "lever": "programs",
    }
    cluster.kube.create(
        r.CONFIGMAPS,
        {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {
                "name": config_map_name(RUN),
                "namespace": "inference",
                "labels": {"killcheck.dev/run": RUN, "killcheck.dev/journal": "true"},
            },
            "data": {"journal.jsonl": json.dumps(header) + "\n" + json.dumps(entry) + "\n"},
        },
    )


def start_of(marker):
    count, start = [["cat", str(marker)], 5.0, {}, []], [["sh", "-c", f"echo 1 > {marker}"], 5.0, {}, []]
    return {"action": "call", "path": "put_back", "body": [count, 1, start, ""]}


def test_no_program_is_run_on_the_word_of_a_config_map(cluster, tmp_path):
    marker = tmp_path / "owned"
    marker.write_text("0\n")
    planted(cluster, start_of(marker))
    found = orphans.find(cluster.kube, cluster.loop, context="here", folder=tmp_path)
    outcome = orphans.restore(cluster.kube, cluster.loop, found)
    assert marker.read_text() == "0\n"
    assert "nothing is done to the programs of a machine on anybody's word" in outcome.unknown[0]


def test_what_this_machine_wrote_down_itself_is_not_replaced_by_a_config_map(cluster, tmp_path, monkeypatch):
    marker = tmp_path / "owned"
    marker.write_text("0\n")
    called = []

    class Programs:
        def __init__(self, *args):
            pass

        def put_back(self, *body):
            called.append(body)

    monkeypatch.setattr(local_programs, "LocalPrograms", Programs)
    mine = Journal(RUN, cluster.loop, cluster.kube, path=tmp_path / "runs" / "r" / "journal-0.jsonl", context="here")
    args = [[["mine"], 5.0, {}, []], 1, [["mine"], 5.0, {}, []], ""]
    with mine.change("box was on (1)", Undo("call", "put_back", args), lever="programs"):
        pass
    planted(cluster, start_of(marker))
    monkeypatch.setattr(orphans, "runs", lambda pid, began="": False)
    found = orphans.find(cluster.kube, cluster.loop, context="here", folder=tmp_path)
    (told,) = orphans.restore(cluster.kube, cluster.loop, found).unknown
    assert f"only the ConfigMap inference/{config_map_name(RUN)} asks for it" in told
    assert called == [tuple(args)]


def test_a_process_that_has_only_its_number_is_another(tmp_path, monkeypatch):
    """After a reboot a dead run's number is soon somebody else's."""
    monkeypatch.setattr("killcheck.safety.journal.process_began", lambda pid: "another-boot")
    host = HostCluster()
    (tmp_path / "flag").write_text("x\n")
    journal = Journal(
        RUN,
        host.loop,
        host.kube,
        path=tmp_path / "runs" / "r" / "journal-0.jsonl",
        context="host",
        capabilities=local_programs.capabilities(host.loop),
    )
    undo = Undo("call", "take_away", [str(tmp_path / "flag"), "x\n"])
    with journal.change("set the sentinel", undo, lever="files"):
        pass
    outcome = local_locks.restore_here(host.loop, host.kube, local_locks.orphans_here(tmp_path, "host"))
    assert (outcome.skipped, outcome.problems) == ([], [])
    assert not (tmp_path / "flag").exists()


def test_a_journal_that_cannot_be_read_is_told_and_kept(cluster):
    """Of a newer killcheck, say: what it owes is not known here, and so not forgotten."""
    planted(cluster, {**start_of("x"), "hitherto-unheard-of": True})
    outcome = orphans.restore(
        cluster.kube, cluster.loop, orphans.find(cluster.kube, cluster.loop, context="here", folder=None)
    )
    (problem,) = outcome.unknown
    assert f"the ConfigMap inference/{config_map_name(RUN)}: line 2 is passed over" in problem
    assert f"whether more is left of run {RUN} is not known" in problem
    assert cluster.kube.find(r.CONFIGMAPS, config_map_name(RUN), "inference") is not None


def test_a_header_may_say_more_than_is_understood():
    said = read(json.dumps({"journal": {"run": RUN, "of-tomorrow": 1}}) + "\n")
    assert (said.header.run, said.entries, said.problems) == (RUN, [], [])


def test_a_run_whose_lease_is_in_another_namespace_is_not_dead(cluster, tmp_path):
    """Two layers in one namespace, their targets in two: the journals are neighbours, the Leases are not."""
    cluster.kube.create(r.NAMESPACES, {"metadata": {"name": "team-a"}})
    target = Target("a", "apps/v1", "Deployment", "team-a", "a")
    layer = Layer("off", LayerType.DEAD_MAN, covers=("a",))
    leases = lease.wanted(KillPath("test", (target,), (layer,)), layer, "inference")
    alive = lease.Claim(cluster.kube, cluster.loop, RUN, leases)
    alive.acquire()
    journal = Journal(
        RUN,
        cluster.loop,
        cluster.kube,
        home="inference",
        context="here",
        places=sorted({place for place, _, _ in leases}),
    )
    journal.merge(r.DEPLOYMENTS, "vllm", "inference", {"spec": {"replicas": 5}}, "scaled vllm")
    settled = orphans.settle(
        cluster.kube, cluster.loop, context="here", namespaces=["inference", "team-b"], folder=None
    )
    assert (settled.skipped, settled.undone) == ([RUN], [])
    alive.abandon()
    cluster.loop.sleep(lease.DURATION_S + 1)
    settled = orphans.settle(
        cluster.kube, cluster.loop, context="here", namespaces=["inference", "team-b"], folder=None
    )
    assert settled.undone == ["undone: scaled vllm"]


def test_a_run_whose_leases_may_not_be_looked_at_is_left_alone(cluster):
    class Closed(Transport):
        """Nobody here may list Leases in another team's namespace."""

        def __init__(self, inner):
            self.inner = inner

        def request(self, method, path, query, body, headers):
            if "/namespaces/team-a/leases" in path:
                status = {"kind": "Status", "code": 403, "reason": "Forbidden", "message": "leases is forbidden"}
                return Answer(403, status)
            return self.inner.request(method, path, query, body, headers)

    journal = Journal(RUN, cluster.loop, cluster.kube, home="inference", context="here", places=["team-a"])
    journal.merge(r.DEPLOYMENTS, "vllm", "inference", {"spec": {"replicas": 5}}, "scaled vllm")
    settled = orphans.settle(
        through(cluster, Closed), cluster.loop, context="here", namespaces=["inference"], folder=None
    )
    assert (settled.skipped, settled.undone) == ([RUN], [])


def test_what_somebody_adds_to_a_shared_list_just_then_is_kept(cluster, tmp_path):
    class Racing(Transport):
        """Somebody else adds a mark just before ours."""

        def __init__(self, inner):
            self.inner, self.done = inner, False

        def request(self, method, path, query, body, headers):
            if method == "PATCH" and path.endswith("/settings") and not self.done:
                self.done = True
                theirs = {"metadata": {"finalizers": ["example.com/theirs"]}}
                cluster.kube.patch(r.CONFIGMAPS, "settings", theirs, "inference")
            return self.inner.request(method, path, query, body, headers)

    journal = journal_of(cluster, tmp_path, kube=through(cluster, Racing))
    journal.merge(r.CONFIGMAPS, "settings", "inference", adding("killcheck.dev/hold", *FINALIZERS), "held settings")
    held = cluster.kube.get(r.CONFIGMAPS, "settings", "inference")["metadata"]["finalizers"]
    assert sorted(held) == ["example.com/theirs", "killcheck.dev/hold"]
    assert journal.undo_all()[1] == []
    held = cluster.kube.get(r.CONFIGMAPS, "settings", "inference")["metadata"]["finalizers"]
    assert held == ["example.com/theirs"]
