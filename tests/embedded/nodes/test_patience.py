"""When time moves on over a process that never pauses."""

from __future__ import annotations

from itertools import pairwise

from killcheck.embedded.nodes.patience import LIMIT_S, Patience


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
