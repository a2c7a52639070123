"""When time moves on: over a process that never pauses, and over one that only sleeps."""

from __future__ import annotations

import math
import subprocess
import time
from datetime import UTC, datetime
from itertools import pairwise

import pytest
from host_world import LINUX

from killcheck.clock import VirtualLoop
from killcheck.embedded.nodes import proctree, quiescence
from killcheck.embedded.nodes.quiescence import LIMIT_S, Patience


def looks(patience, *, until, every=0.05, since=0.0):
    """The seconds at which time moves on."""
    count = round((until - since) / every)
    return [since + i * every for i in range(count + 1) if patience.spent(since + i * every)]


def test_time_moves_on_after_uninterrupted_work_and_not_before():
    found = looks(Patience(), until=LIMIT_S + 1.0)
    assert abs(found[0] - LIMIT_S) < 0.1
    assert len(found) > 5


def test_a_pause_begins_it_anew():
    patience = Patience()
    assert looks(patience, until=LIMIT_S - 1.0) == []
    patience.renew()
    assert looks(patience, since=LIMIT_S, until=2 * LIMIT_S - 1.0) == []


def test_a_host_that_stood_still_has_let_nobody_work():
    patience = Patience()
    assert not patience.spent(0.0)
    assert not patience.spent(10 * LIMIT_S)
    assert looks(patience, since=10 * LIMIT_S, until=11 * LIMIT_S - 1.0) == []


def test_between_two_moves_of_time_others_have_a_turn():
    patience = Patience()
    found = looks(patience, until=LIMIT_S + 0.02, every=0.0005)
    assert all(later - earlier >= 0.0015 for earlier, later in pairwise(found))


class Tree:
    """A tree of processes that does what it is told, looked at once a wall millisecond."""

    def __init__(self, monkeypatch):
        self.loop = VirtualLoop(datetime(2026, 1, 15, tzinfo=UTC))
        self.wall = 0.0
        self.found = (False, "asleep", 1)
        monkeypatch.setattr(quiescence, "wall_seconds", lambda: self.wall)
        monkeypatch.setattr(quiescence.proctree, "activity", lambda pid: self.found)
        self.settled = True
        monkeypatch.setattr(quiescence.proctree, "settled", lambda pid: self.settled)
        self.rest = quiescence.Rest(self.loop)

    def stirs(self, mark):
        """It has run, and is asleep again."""
        self.found = (False, mark, 1)

    def passes(self, wall_s, *, known=0, timer_s=math.inf):
        """The cluster's seconds that pass in so many of the wall's, while no timer is due before ``timer_s``."""
        begun, until = self.loop.monotonic(), self.wall + wall_s
        while self.wall < until:
            ahead = self.rest.ahead_s(1, busy=False, known=known)
            if ahead:
                self.loop.sleep(min(ahead, timer_s - (self.loop.monotonic() - begun)))
            self.wall += 0.001
        return self.loop.monotonic() - begun


def test_who_is_known_to_wait_waits_to_the_next_timer(monkeypatch):
    assert Tree(monkeypatch).passes(0.005, known=1, timer_s=3600.0) == 3600.0


def test_a_host_that_is_slow_for_a_moment_costs_a_moment(monkeypatch):
    """Twenty milliseconds in which nobody stirs, and something is on its way all the same."""
    assert Tree(monkeypatch).passes(0.02, timer_s=3600.0) < 3.0


def test_who_waits_for_hours_gets_them_all_the_same(monkeypatch):
    assert Tree(monkeypatch).passes(0.2, timer_s=7 * 3600.0) == 7 * 3600.0


def test_a_server_between_two_requests_is_trusted_to_wait_as_before(monkeypatch):
    tree = Tree(monkeypatch)
    assert tree.passes(0.2, timer_s=600.0) == 600.0
    tree.stirs("a request")
    assert tree.passes(0.03, timer_s=600.0) == 600.0


def test_a_pause_of_one_who_works_is_no_reason_to_trust_it(monkeypatch):
    tree = Tree(monkeypatch)
    for turn in range(100):
        tree.stirs(turn)
        assert tree.passes(0.004) == 0.0
    assert tree.passes(0.015, timer_s=3600.0) < 3.0


def test_a_loop_that_starts_one_process_after_the_other_is_at_work_between_them_too(monkeypatch):
    """A look now and then finds nobody running: a program that makes files without end held the night up for ever."""
    tree = Tree(monkeypatch)
    tree.rest.limit_s = 0.2
    for turn in range(30):
        tree.found = (True, turn, 1)
        tree.passes(0.01, timer_s=900.0)
        tree.stirs(-turn)
        tree.passes(0.001, timer_s=900.0)
    assert tree.loop.monotonic() >= 900.0


def test_a_second_process_of_which_nothing_is_known_is_waited_for(monkeypatch):
    tree = Tree(monkeypatch)
    tree.found = (False, "asleep", 2)
    assert tree.passes(0.02, known=1, timer_s=3600.0) < 3.0


def test_who_has_lost_its_processor_on_the_way_to_sleep_is_waited_for(monkeypatch):
    tree = Tree(monkeypatch)
    tree.settled = False
    assert tree.passes(0.5, known=1, timer_s=3600.0) == 0.0
    tree.settled = True
    assert tree.passes(0.01, known=1, timer_s=3600.0) == 3600.0


@pytest.mark.skipif(not LINUX, reason="only Linux tells by which system call a process sleeps")
def test_asleep_and_at_work_are_told_apart():
    """Both have begun: one that is still being loaded sleeps until its pages are there."""

    def begun(program: str) -> subprocess.Popen[str]:
        process = subprocess.Popen(["sh", "-c", f"echo; {program}"], stdout=subprocess.PIPE, text=True)
        assert process.stdout is not None
        assert process.stdout.readline() == "\n"
        return process

    with begun("exec sleep 1000") as asleep, begun("while :; do :; done") as busy:
        until = time.monotonic() + 60
        while not quiescence.proctree.settled(asleep.pid) and time.monotonic() < until:
            time.sleep(0.01)  # it is starting
        found = quiescence.proctree.settled(asleep.pid), quiescence.proctree.settled(busy.pid)
        asleep.kill()
        busy.kill()
    assert found == (True, False)


@pytest.mark.parametrize(
    ("flags", "state"), [("4194560", "S"), ("4194564", "leaving"), ("4228364", "leaving"), ("1077936128", "S")]
)
def test_a_task_on_its_way_out_waits_for_no_hour(flags, state):
    """A container's first process, asleep in ``zap_pid_ns_processes`` while the kernel ends the others."""
    line = f"27154 (a) b) S 27100 27154 27154 0 -1 {flags} 160 0 0 0 1 1 0 0 20 0 1 0 7865432 0 0"
    assert proctree._state_of(line.encode()) == state
    assert proctree._state_of(line.replace(") S", ") Z").encode()) == "Z"
