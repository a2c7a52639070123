"""The loop: order, virtual jumps, holds, other threads."""

from __future__ import annotations

import math
import threading
from datetime import UTC, datetime

from hypothesis import given
from hypothesis import strategies as st

from killcheck.clock import VirtualLoop, WallLoop

START = datetime(2026, 1, 15, 3, 0, tzinfo=UTC)


@given(st.lists(st.floats(0, 1e6), max_size=40))
def test_timers_run_in_order_of_time_and_then_of_scheduling(delays):
    loop = VirtualLoop(START)
    ran = []
    for number, delay in enumerate(delays):
        loop.call_later(delay, lambda n=number: ran.append((loop.monotonic(), n)))
    loop.run_until(lambda: False)
    assert ran == sorted((delay, number) for number, delay in enumerate(delays))


def test_a_night_costs_no_wall_time_and_ends_at_the_deadline():
    loop = VirtualLoop(START)
    assert loop.run_until(lambda: False, 24 * 3600.0) is False
    assert (loop.now() - START).total_seconds() == 24 * 3600


def test_run_until_stops_at_the_callback_that_makes_it_true():
    loop = VirtualLoop(START)
    seen = []
    for delay in (1, 2, 3):
        loop.call_later(delay, seen.append, delay)
    assert loop.run_until(lambda: 2 in seen, 10)
    assert seen == [1, 2]
    assert loop.monotonic() == 2


def test_time_stands_still_while_somebody_outside_is_at_work():
    loop = VirtualLoop(START)
    hold = loop.hold()
    fired = []
    loop.call_later(60, fired.append, "timer")
    moved = []

    def work() -> None:
        with loop.entered():
            moved.append(loop.monotonic())
        hold.release()

    worker = threading.Thread(target=work)
    worker.start()
    assert loop.run_until(lambda: bool(fired), 120)
    worker.join()
    assert moved == [0.0]
    assert loop.monotonic() == 60


def test_time_moves_while_every_hold_only_waits():
    loop = VirtualLoop(START)
    loop.hold(lambda: math.inf)
    assert loop.run_until(lambda: loop.monotonic() >= 30, 30) is True


def test_time_moves_no_further_at_a_time_than_every_hold_lets_it():
    loop = VirtualLoop(START)
    seen = []

    def ahead() -> float:
        seen.append(loop.monotonic())
        return 4.0

    loop.hold(ahead)
    loop.hold(lambda: math.inf)
    loop.sleep(10)
    assert seen == [0.0, 4.0, 8.0]
    assert loop.monotonic() == 10.0


def test_a_cancelled_timer_never_runs():
    loop = VirtualLoop(START)
    ran = []
    loop.call_later(1, ran.append, 1).cancel()
    loop.sleep(5)
    assert ran == []


def test_the_wall_loop_runs_what_another_thread_posts():
    loop = WallLoop()
    got = []
    worker = threading.Thread(target=lambda: loop.post(got.append, 1))
    worker.start()
    assert loop.run_until(lambda: bool(got), 5)
    worker.join()
