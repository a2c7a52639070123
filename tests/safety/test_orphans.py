"""Runs that are no more: one run at a time per target, what the dead have left, the janitor, people who interrupt."""

from __future__ import annotations

import errno
import json
import os
import signal
import subprocess
import sys
from datetime import timedelta

import pytest
from safety_world import differences, forget_finished, picture

from killcheck.clock import VirtualLoop
from killcheck.kube import resources as r
from killcheck.safety import lease, orphans
from killcheck.safety.journal import Dirty, Journal, JournalError
from killcheck.spec.killpath import KillPath, Layer, LayerType, Target

TARGET = Target("vllm", "apps/v1", "Deployment", "inference", "vllm")
LAYER = Layer("off", LayerType.DEAD_MAN, covers=("vllm",))
PATH = KillPath("test", (TARGET,), (LAYER,))
LEASES = lease.wanted(PATH, LAYER, "inference")


def claim_of(cluster, run):
    return lease.Claim(cluster.kube, cluster.loop, run, LEASES)


def journal_of(cluster, run="run-a", **more):
    return Journal(run, cluster.loop, cluster.kube, home="inference", context="here", **more)


def suspend(journal):
    journal.merge(r.DEPLOYMENTS, "vllm", "inference", {"spec": {"replicas": 7}}, "scaled vllm")


def everything_of(cluster, **more):
    found = orphans.find(cluster.kube, cluster.loop, context="here")
    return orphans.restore(cluster.kube, cluster.loop, found, **more)


def test_an_interrupt_just_after_a_lease_was_made_leaves_none(cluster, monkeypatch):
    create = cluster.kube.create

    def interrupted(*args):
        create(*args)
        raise KeyboardInterrupt

    monkeypatch.setattr(cluster.kube, "create", interrupted)
    with pytest.raises(KeyboardInterrupt):
        claim_of(cluster, "run-a").acquire()
    assert cluster.kube.list(r.LEASES).items == []


def test_one_run_at_a_time_per_target(cluster):
    first = claim_of(cluster, "run-a")
    first.acquire()
    cluster.loop.sleep(600)  # renewed all the while
    with pytest.raises(lease.Busy, match=r"run run-a is drilling Deployment inference/vllm .* restore --run run-a"):
        claim_of(cluster, "run-b").acquire()
    first.release()
    second = claim_of(cluster, "run-b")
    second.acquire()
    second.release()
    assert cluster.kube.list(r.LEASES, "inference").items == []


@pytest.mark.parametrize("seen", [False, True])
def test_a_holder_that_goes_while_its_lease_is_looked_at_leaves_it_to_the_next(cluster, monkeypatch, seen):
    first, second = claim_of(cluster, "run-a"), claim_of(cluster, "run-b")
    first.acquire()
    first.abandon()
    cluster.loop.sleep(lease.DURATION_S + 1)
    met = "replace" if seen else "get"
    then = getattr(cluster.kube, met)

    def gone(*args, **more):
        monkeypatch.undo()
        first.release()
        return then(*args, **more)

    monkeypatch.setattr(cluster.kube, met, gone)
    second.acquire()
    assert [lease.holder_of(one) for one in cluster.kube.list(r.LEASES).items] == ["run-b"]
    second.release()


def test_a_lease_that_nobody_renews_lapses(cluster):
    dead = claim_of(cluster, "run-a")
    dead.acquire()
    dead.abandon()
    with pytest.raises(lease.Busy):
        claim_of(cluster, "run-b").acquire()
    cluster.loop.sleep(lease.DURATION_S + 1)
    heir = claim_of(cluster, "run-b")
    heir.acquire()
    heir.check()
    heir.release()


def test_the_dead_are_put_back_before_anything_new_is_changed(cluster):
    before = picture(cluster)
    dead = claim_of(cluster, "run-a")
    dead.acquire()
    suspend(journal_of(cluster))
    dead.abandon()
    alive = everything_of(cluster)
    assert (alive.skipped, alive.undone) == (["run-a"], [])
    cluster.loop.sleep(lease.DURATION_S + 1)
    settled = orphans.settle(cluster.kube, cluster.loop, context="here", namespaces=["inference"], folder=None)
    assert settled.undone == ["undone: scaled vllm"]
    cluster.loop.sleep(5)
    assert differences(before, picture(cluster)) == []


def test_nothing_new_is_begun_over_something_that_cannot_be_put_back(cluster):
    suspend(journal_of(cluster))
    cluster.kube.patch(r.DEPLOYMENTS, "vllm", {"spec": {"replicas": 3}}, "inference")
    with pytest.raises(Dirty, match=r"was left at 7 and is 3 now.*by hand: kubectl patch deployments\.apps vllm"):
        orphans.settle(cluster.kube, cluster.loop, context="here", namespaces=["inference"], folder=None)


def test_a_run_that_was_taken_for_dead_stops_changing_things(cluster):
    slow = claim_of(cluster, "run-a")
    slow.acquire()
    journal = journal_of(cluster)
    journal.guard = slow.check
    suspend(journal)
    outcome = everything_of(cluster, named="run-a")
    assert outcome.undone == ["undone: scaled vllm"]
    cluster.loop.sleep(lease.RENEW_S + 1)
    with pytest.raises(JournalError, match="was taken away"):
        suspend(journal)
    assert cluster.kube.get(r.DEPLOYMENTS, "vllm", "inference")["spec"]["replicas"] == 2


def test_the_janitor_heals_what_has_outlived_its_expiry_and_nothing_else(cluster):
    held = claim_of(cluster, "run-a")
    held.acquire()
    suspend(journal_of(cluster, lifetime_s=3600.0))
    early = everything_of(cluster, expired_only=True)
    assert (early.undone, early.skipped) == ([], [])
    cluster.loop.sleep(3601)  # its process is alive still, and has forgotten
    late = everything_of(cluster, expired_only=True)
    assert late.undone == ["undone: scaled vllm"]
    cluster.loop.sleep(lease.RENEW_S + 1)
    with pytest.raises(JournalError):
        held.check()


def test_on_the_same_machine_a_dead_process_is_known_to_be_dead(cluster, tmp_path, monkeypatch):
    path = tmp_path / "runs" / "run-a" / "journal-0.jsonl"
    claim_of(cluster, "run-a").acquire()
    suspend(journal_of(cluster, path=path))
    assert everything_of(cluster).skipped == ["run-a"]
    monkeypatch.setattr(orphans, "runs", lambda pid, began="": pid != os.getpid())
    found = orphans.find(cluster.kube, cluster.loop, context="here", folder=tmp_path)
    assert [orphan.alive(cluster.loop.now()) for orphan in found] == [False]
    monkeypatch.setattr(orphans.platform, "node", lambda: "another-machine")
    assert [orphan.alive(cluster.loop.now()) for orphan in found] == [True]
    monkeypatch.undo()
    monkeypatch.setattr(orphans, "runs", lambda pid, began="": pid != os.getpid())
    assert orphans.restore(cluster.kube, cluster.loop, found).undone == ["undone: scaled vllm"]
    assert json.loads(path.read_text().splitlines()[0])["journal"]["closed"]


def test_what_another_machine_has_put_back_is_not_put_back_again(cluster, tmp_path):
    path = tmp_path / "runs" / "run-a" / "journal-0.jsonl"
    suspend(journal_of(cluster, path=path))
    assert everything_of(cluster).undone == ["undone: scaled vllm"]  # elsewhere: with the cluster's copy alone
    forget_finished()  # that machine knows, and not this one
    cluster.kube.patch(r.DEPLOYMENTS, "vllm", {"spec": {"replicas": 7}}, "inference")  # somebody means it
    found = orphans.find(cluster.kube, cluster.loop, context="here", folder=tmp_path)
    (said,) = orphans.restore(cluster.kube, cluster.loop, found, named="run-a").undone
    assert said.startswith("left alone: scaled vllm")
    assert cluster.kube.get(r.DEPLOYMENTS, "vllm", "inference")["spec"]["replicas"] == 7
    assert json.loads(path.read_text().splitlines()[0])["journal"]["closed"]


def test_a_journal_that_may_not_be_read_is_not_nothing(tmp_path, monkeypatch):
    (tmp_path / "runs/another-users").mkdir(parents=True)
    (tmp_path / "runs/another-users/journal-0.jsonl").touch()

    def denied(path):  # no mode bit stops root from reading a file
        raise PermissionError(errno.EACCES, "Permission denied", str(path))

    monkeypatch.setattr(orphans, "opened", denied)
    with pytest.raises(OSError, match=r"journal-0\.jsonl"):
        orphans.local(tmp_path)


def test_expiry_is_counted_from_the_change(cluster):
    journal = journal_of(cluster, lifetime_s=60.0)
    suspend(journal)
    orphan = orphans.Orphan("run-a")
    orphan.entries = {entry.number: entry for entry in journal.entries}
    assert isinstance(cluster.loop, VirtualLoop)
    assert not orphan.expired(cluster.loop.now())
    assert orphan.expired(cluster.loop.now() + timedelta(seconds=61))


INTERRUPTED = """
import signal, sys, time
from killcheck.commands.errors import guarded

@guarded
def work():
    try:
        print("working", flush=True)
        while True:  # a signal that comes just before a sleep is heard after it
            time.sleep(0.1)
    finally:
        print("healing", flush=True)
        sys.stdin.readline()
        print("healed", flush=True)

work()
"""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP], ids=lambda n: n.name)
def test_a_signal_unwinds_and_a_second_one_does_not_cut_the_healing_short(number):
    process = subprocess.Popen(
        [sys.executable, "-c", INTERRUPTED],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONUNBUFFERED": "1"},
    )
    try:
        assert process.stdout.readline() == "working\n"
        process.send_signal(number)
        assert process.stdout.readline() == "healing\n"
        process.send_signal(number)
        out, err = process.communicate("healing goes on\n", timeout=120)
    finally:
        process.kill()
    assert out == "healed\n"
    assert process.returncode == 4
    assert "putting back what was changed" in err
