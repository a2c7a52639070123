"""How many drills are under way at once: never more than the fleet says, also when one of them dies."""

from __future__ import annotations

import os
from contextlib import suppress
from datetime import UTC, datetime

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from killcheck.clock import VirtualLoop
from killcheck.embedded.cluster import Cluster
from killcheck.fleet.drilling import Drilling
from killcheck.fleet.file import Fleet, Shard
from killcheck.fleet.slots import FileSlots, LeaseSlots
from killcheck.kube import resources as r

KEYS = [f"eu.{name}" for name in "abcd"]


@pytest.fixture(scope="module")
def cluster():
    made = Cluster(exec_mode="none")
    yield made
    made.close()


class Files:
    """Locked files, as one process and another see them."""

    def __init__(self, folder, count, settle):
        os.environ["XDG_STATE_HOME"], self.slots = str(folder), FileSlots("f", count, settle)

    def take(self, key):
        return self.slots.take(key)

    def die(self, slot):
        """Its process ends: the lock goes, what the file says stays."""
        os.close(slot.descriptor)

    def close(self):
        pass


class Leases:
    """Leases of an API server."""

    def __init__(self, cluster, count, settle):
        self.cluster = cluster
        for lease in cluster.kube.list(r.LEASES, "default").items:
            with suppress(Exception):
                cluster.kube.delete(r.LEASES, lease["metadata"]["name"], "default")
        self.slots = LeaseSlots("f", count, settle, cluster.kube, cluster.loop, "default")

    def take(self, key):
        return self.slots.take(key)

    def die(self, slot):
        """Nobody renews it, and it lapses."""
        slot.claim.abandon()
        self.cluster.loop.sleep(61.0)

    def close(self):
        pass


@pytest.fixture(params=["files", "leases"])
def world(request, tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    cluster = request.getfixturevalue("cluster") if request.param == "leases" else None
    return lambda count, settle: Leases(cluster, count, settle) if cluster else Files(tmp_path, count, settle)


def test_no_more_than_there_are(world):
    made = world(2, lambda key: True)
    one, other = made.take(KEYS[0]), made.take(KEYS[1])
    assert None not in (one, other)
    assert made.take(KEYS[2]) is None
    one.release(settled=True)
    third = made.take(KEYS[2])
    assert third is not None
    assert made.take(KEYS[0]) is None
    for slot in (other, third):
        slot.release(settled=True)


def test_the_slot_of_a_dead_drill_is_taken_only_when_what_it_left_is_put_back(world):
    asked, back = [], set()
    made = world(1, lambda key: asked.append(key) or key in back)
    made.die(made.take(KEYS[0]))
    assert made.take(KEYS[1]) is None
    assert (asked, made.slots.stuck) == ([KEYS[0]], {KEYS[0]})
    again = made.take(KEYS[0])  # its own drill puts it back first
    assert again is not None
    assert asked == [KEYS[0]]
    made.die(again)
    back.add(KEYS[0])
    slot = made.take(KEYS[1])
    assert slot is not None
    assert made.slots.stuck == set()
    slot.release(settled=True)


def test_a_drill_that_left_something_keeps_its_slot(world):
    made = world(1, lambda key: False)
    slot = made.take(KEYS[0])
    slot.release(settled=False)
    if isinstance(made, Leases):
        made.cluster.loop.sleep(61.0)
    assert made.take(KEYS[1]) is None
    assert made.slots.stuck == {KEYS[0]}


def test_an_earlier_attempt_of_the_same_shard_may_not_be_dead(cluster):
    made = Leases(cluster, 1, lambda key: True)
    slot = made.take(KEYS[0])
    assert made.take(KEYS[0]) is None
    cluster.loop.sleep(300.0)  # it is renewed
    assert made.take(KEYS[0]) is None
    slot.release(settled=True)


@settings(max_examples=15, deadline=None)
@given(steps=st.lists(st.tuples(st.sampled_from(["take", "end", "die"]), st.sampled_from(KEYS)), max_size=25))
def test_whatever_happens_what_is_off_stays_within_the_limit(tmp_path_factory, steps):
    """Off is what is drilled, and what a dead drill left; nothing is ever put back by anybody else here."""
    here = os.environ["XDG_STATE_HOME"]
    held, left = {}, set()
    try:
        made = Files(tmp_path_factory.mktemp("state"), 2, lambda key: False)
        for step, key in steps:
            if step == "take" and key not in held:
                slot = made.take(key)
                if slot is not None:
                    held[key] = slot
                    left.discard(key)
            elif step != "take" and key in held:
                slot = held.pop(key)
                if step == "end":
                    slot.release(settled=True)
                else:
                    made.die(slot)
                    left.add(key)
            assert len(held.keys() | left) <= 2
    finally:
        for slot in held.values():
            slot.release(settled=True)
        os.environ["XDG_STATE_HOME"] = here


class Process:
    """A drill that takes some looks, and ends with a code."""

    def __init__(self, looks, code):
        self.looks, self.code, self.returncode, self.signals = looks, code, None, []

    def poll(self):
        self.looks -= 1
        self.returncode = self.code if self.looks <= 0 else None
        return self.returncode

    def send_signal(self, number):
        self.signals.append(number)
        self.looks = 3


class Desk:
    """A place whose drills are not processes; ``most``: how many were under way at once."""

    def __init__(self, codes, settles=True):
        self.codes, self.settles, self.running, self.most, self.settled = codes, settles, [], 0, []

    def start(self, shard, inherited):
        self.running = [one for one in self.running if one.returncode is None]
        self.running.append(Process(4, self.codes.get(shard.key, 0)))
        self.most = max(self.most, len(self.running))
        return self.running[-1]

    def said(self, shard):
        return "said"

    def settle(self, key):
        self.settled.append(key)
        return self.settles


def drilling(desk, count=2, **more):
    return Drilling(desk, FileSlots("f", count, desk.settle), VirtualLoop(datetime(2026, 1, 15, tzinfo=UTC)), **more)


def shards(*keys):
    return [Shard(key, "eu", "staging", "p", None) for key in keys]


@pytest.fixture
def state(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))


@pytest.mark.usefixtures("state")
def test_as_many_as_there_are_slots_and_each_with_its_code():
    desk = Desk({KEYS[1]: 1, KEYS[2]: 3})
    done = drilling(desk).run(shards(*KEYS))
    assert {one.shard.key: one.code for one in done} == {KEYS[0]: 0, KEYS[1]: 1, KEYS[2]: 3, KEYS[3]: 0}
    assert (desk.most, desk.settled) == (2, [])


@pytest.mark.usefixtures("state")
@pytest.mark.parametrize("code", [4, 5, -9])
def test_what_a_drill_may_have_left_is_put_back_before_the_next(code):
    desk = Desk({KEYS[0]: code})
    done = drilling(desk, 1).run(shards(*KEYS[:2]))
    assert desk.settled == [KEYS[0]]
    assert [one.code for one in done] == [4 if code < 0 else code, 0]


@pytest.mark.usefixtures("state")
def test_where_it_cannot_be_put_back_the_others_wait_and_it_is_said():
    desk = Desk({KEYS[0]: -9}, settles=False)
    done = drilling(desk, 1, patience_s=60.0).run(shards(*KEYS[:3]))
    assert [one.code for one in done] == [4, 4, 4]
    assert f"{KEYS[0]} died in a drill" in done[1].why


@pytest.mark.usefixtures("state")
def test_an_interrupt_is_handed_on_and_waited_for():
    desk, seen = Desk({}), []

    def heard(done):
        seen.append(done)
        if len(seen) == 1:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        drilling(desk, heard=heard).run(shards(*KEYS))
    assert all(one.returncode is not None for one in desk.running)
    assert len(seen) < len(KEYS)


def test_a_fleet_says_where_a_shards_records_are():
    fleet = Fleet(None, "f", 1, "s3://b/p/", ())
    assert fleet.place(shards("eu.a")[0]) == "s3://b/p/eu.a"
