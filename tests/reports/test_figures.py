"""Figures as a tired person reads them."""

import pytest

from killcheck.reports.figures import still_on


def result(gone, drained, *, zero=None):
    rows = [("pods_gone", gone, 300.0), ("node_drained", drained, 900.0), ("held", None, 900.0)]
    phases = [{"phase": phase, "at_s": at, "deadline_s": limit} for phase, at, limit in rows]
    return {"phases": phases, "seconds_to_zero": zero, "watched_s": 1200.0}


@pytest.mark.parametrize(
    ("drill", "said"),
    [
        (result(None, None), "GPUs still on after 20 min"),
        (result(400.0, 500.0, zero=400.0), "GPUs off after 6 min 40 s, too late"),
        (result(2.0, 1000.0, zero=2.0), "GPU pods gone after 2 s, their nodes off too late"),
        (result(2.0, None, zero=2.0), "GPU pods gone after 2 s, their nodes still on after 20 min"),
        (result(2.0, 90.0, zero=2.0), "GPUs off after 2 s, and not for good"),
    ],
)
def test_an_exposed_drill_says_what_the_gpus_did(drill, said):
    assert still_on(drill) == said
