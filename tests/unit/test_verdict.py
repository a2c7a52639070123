"""The verdict of a run: the worst of its drills; nothing passes that was not proven."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from killcheck.verdict import DrillResult, Verdict, overall


def result(verdict, **more):
    return DrillResult(layer="l", faults=(), verdict=Verdict(verdict), why="", **more)


@pytest.mark.parametrize(
    ("verdicts", "expected"),
    [
        ([], ("inconclusive", 3)),
        (["survived"], ("survived", 0)),
        (["survived", "covered"], ("covered", 0)),
        (["survived", "inconclusive"], ("inconclusive", 3)),
        (["inconclusive", "exposed"], ("exposed", 1)),
    ],
)
def test_the_worst_counts(verdicts, expected):
    assert overall([result(v) for v in verdicts]) == expected


@given(st.lists(st.sampled_from(list(Verdict)), max_size=6), st.booleans())
def test_exit_code_0_only_where_everything_is_proven(verdicts, dirty):
    results = [result(v, problems=("left",) if dirty else ()) for v in verdicts]
    _, code = overall(results)
    assert (code == 0) == (bool(results) and not dirty and all(r.proven for r in results))
    assert (code == 5) == (dirty and bool(results))


@pytest.mark.parametrize("verdict", ["exposed", "inconclusive"])
def test_a_time_proves_nothing_without_the_verdict(verdict):
    assert not result(verdict, seconds_to_zero=1.0).replicas_zero_within("5m")


def test_times_are_held_against_a_limit():
    seen = result("survived", seconds_to_zero=38.0, seconds_to_drained=None)
    assert seen.replicas_zero_within("38s")
    assert not seen.replicas_zero_within(37.9)
    assert not seen.nodes_drained_within("1h")
