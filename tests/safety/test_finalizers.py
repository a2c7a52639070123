"""Finalizers have several owners: what is taken back is the mark that was set, whatever the others did meanwhile."""

from __future__ import annotations

import pytest

from killcheck.safety.undo import compare

OURS, TRACKING, THEIRS = "killcheck.dev/hold", "batch.kubernetes.io/job-tracking", "example.com/mark"


def pod(*finalizers):
    return {"metadata": {"finalizers": list(finalizers)}}


@pytest.mark.parametrize(
    ("was", "now", "kept"),
    [
        ([TRACKING], [TRACKING, OURS], [TRACKING]),  # nobody did anything
        ([TRACKING], [OURS], []),  # the Job controller took its own away
        ([], [OURS, THEIRS], [THEIRS]),  # somebody else set one
        ([TRACKING], [TRACKING], None),
        ([TRACKING], [], None),
        ([TRACKING], [THEIRS], None),  # ours is gone already
    ],
)
def test_only_our_own_is_taken_away(was, now, kept):
    mine, theirs = compare(pod(*now), pod(*was, OURS), pod(*was))
    assert theirs == []
    assert mine == ({} if kept is None else pod(*kept))


def test_one_that_we_took_away_is_set_again():
    mine, theirs = compare(pod(THEIRS), pod(), pod(TRACKING))
    assert (mine, theirs) == (pod(THEIRS, TRACKING), [])


def test_what_is_as_it_was_is_not_written_again():
    """Where all that is there may stay: a write would say nothing, and whoever is asked about it could refuse."""
    there = {"spec": {"replicas": 1, "paused": False}}
    assert compare(there, {"spec": {}}, {"spec": {"replicas": 1}}) == ({}, [])
    assert compare({"spec": {"replicas": 0}}, {"spec": {}}, {"spec": {"replicas": 1}}) == (
        {"spec": {"replicas": 1}},
        [],
    )
