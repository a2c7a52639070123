"""Finalizers have several owners: what is taken back is the mark that was set, whatever the others did meanwhile."""

from __future__ import annotations

import pytest

from killcheck.safety.undo import ANY_TEXT, compare

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


@pytest.mark.parametrize(("now", "back"), [("2026-03-01", True), ("", True), (None, False)])
def test_mark_of_any_text_is_taken_away(now, back):
    """Kubeflow's culler writes the time: whatever it is, it is not what was there."""
    there = {"metadata": {"annotations": {} if now is None else {"stopped": now}}}
    without = {"metadata": {"annotations": {"stopped": None}}}
    mine, theirs = compare(there, {"metadata": {"annotations": {"stopped": ANY_TEXT}}}, without)
    assert (bool(mine), theirs) == (back, [])
