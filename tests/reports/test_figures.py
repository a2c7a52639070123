"""Figures as a tired person reads them."""

import pytest
import report_worlds

from killcheck.reports.figures import still_on
from killcheck.reports.outcome import sentence


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


def test_the_headline_says_what_the_gpus_did_the_worst_first():
    late = report_worlds.result(verdict="exposed", **result(400.0, 500.0, zero=400.0))
    on = report_worlds.result(layer="other", verdict="exposed", **result(None, None))
    again = report_worlds.result(layer="third", verdict="exposed", **result(2.0, 90.0, zero=2.0))
    for drills, said in {
        (0,): "1 of 1 drill(s) turned the GPUs off too late: $",
        (0, 1): "1 of 2 drill(s) left GPUs on, 1 turned them off too late: $",
        (2,): "1 of 1 drill(s) turned the GPUs off, and not for good: $",
        (2, 1, 1): "2 of 3 drill(s) left GPUs on, 1 turned them off, and not for good: $",
    }.items():
        assert sentence(report_worlds.story([(late, on, again)[one] for one in drills])).startswith(said)
