"""A node that joins after the trigger has a phase's whole deadline from when it joined; no other has more for it."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from hypothesis import example, given
from hypothesis import strategies as st

from killcheck.kube.objects import Obj, format_time
from killcheck.watch.joined import Joined
from killcheck.watch.timeline import Timeline

START = datetime(2026, 1, 15, 20, tzinfo=UTC)
DEADLINE_S = 600.0


def _at(seconds: float) -> datetime:
    return START + timedelta(seconds=seconds)


def _node(name: str, joined_s: float) -> Obj:
    return {"kind": "Node", "metadata": {"name": name, "creationTimestamp": format_time(_at(joined_s))}}


def _played(stays: list[tuple[int, int]]) -> Timeline:
    """Watched from event to event: each stay is when a node joined and how long it was there, in seconds."""
    timeline = Timeline(START, ("node_gone",), {"node_gone": DEADLINE_S})
    joined, woken = Joined(timeline), []
    nodes = {f"n{i}": (start_s, start_s + stay_s) for i, (start_s, stay_s) in enumerate(stays)}
    for now_s in sorted({moment for span in nodes.values() for moment in span if moment >= 0}):
        on = {name for name, (from_s, to_s) in nodes.items() if from_s <= now_s < to_s}
        joined.notice([_node(name, nodes[name][0]) for name in on], woken.append)
        known = {name for name, (from_s, _) in nodes.items() if from_s <= 0} | set(joined.names)
        gone = known - on
        joined.put_off("node_gone", dict.fromkeys(known), gone, _at(now_s))
        if on:
            timeline.lose("node_gone")
        else:
            timeline.reach("node_gone", _at(now_s), _at(now_s), "gone")
    assert len(woken) == sum(start_s > 0 for start_s, _ in stays)
    return timeline


NODES = st.lists(st.tuples(st.integers(-300, 900), st.integers(1, 900)), max_size=4)


@given(st.integers(1, 900), NODES)
@example(500, [(300, 600)])  # ten minutes of its own, from when it joined
@example(500, [(300, 601)])
@example(601, [(300, 400)])  # the first had no more time for that
@example(500, [(601, 1)])  # on again when the deadline was over
def test_each_node_has_its_own_deadline(first_s: int, others: list[tuple[int, int]]) -> None:
    stays = [(-60, 60 + first_s), *((start, max(stay, 1 - start)) for start, stay in others)]
    timeline = _played(stays)
    # The last time that everything was gone is what is proven; whoever joined before has been judged by then.
    in_time = all(
        start_s + stay_s - (start_s if 0 < start_s <= DEADLINE_S else 0) <= DEADLINE_S for start_s, stay_s in stays
    )
    assert timeline.in_time("node_gone") == in_time, (timeline.rows(), stays)
    assert (timeline.deadline_s("node_gone") or 0.0) <= 2 * DEADLINE_S
