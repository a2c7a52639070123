"""What a spot notice leaves at each stage of a reclaim: in the timeline, the document, the terminal, the report."""

import io
from datetime import UTC, datetime, timedelta

import pytest

from killcheck import events, fixtures
from killcheck.drill.sequence import Options
from killcheck.reports.html import html
from killcheck.reports.story import tell
from killcheck.reports.terminal import Terminal, margin
from killcheck.run.planned import PlannedDrill
from killcheck.run.record import read
from killcheck.run.runner import Run
from killcheck.run.session import Session
from killcheck.spec import specfile
from killcheck.spec.phases import PHASES
from killcheck.text.values import replace
from killcheck.watch.timeline import Timeline

NOW = datetime(2026, 11, 21, tzinfo=UTC)


def test_stages_are_held_against_the_notice():
    timeline = Timeline(NOW, PHASES, {}, notice_s=30.0)
    for phase, at in (("triggered", 0), ("node_cordoned", 2), ("pods_gone", 31.5)):
        moment = NOW + timedelta(seconds=at)
        timeline.reach(phase, moment, moment, "")
    rows = {row["phase"]: row for row in timeline.rows()}
    assert [rows[p]["margin_s"] for p in ("triggered", "node_cordoned", "pods_gone", "node_gone")] == [
        30,
        28,
        -1.5,
        None,
    ]
    assert "margin_s" not in rows["held"]
    assert not any("margin_s" in row for row in Timeline(NOW, PHASES, {}).rows())


def test_a_faults_notice_is_told_stage_by_stage():
    timeline = Timeline(NOW, PHASES, {})
    for phase, at in (("node_cordoned", 5), ("pods_gone", 20), ("instance_gone", 90)):
        moment = NOW + timedelta(seconds=at)
        timeline.reach(phase, moment, moment, "")
    assert timeline.reclaim(NOW - timedelta(seconds=4), 30.0) == (
        "node cordoned after 9 s (21 s left), pods gone after 24 s (6 s left), "
        "instance gone after 94 s (64 s after the reclaim)"
    )


@pytest.mark.parametrize(
    ("seconds", "said"), [(28.0, ", 28 s of the notice left"), (-1.5, ", 1.5 s after the reclaim"), (None, "")]
)
def test_in_words(seconds, said):
    assert margin(seconds) == said


def test_thirty_seconds_of_a_cloud_that_leaves_no_more(tmp_path):
    path = specfile.load(fixtures.spec("spot-training"))
    layers = tuple(replace(layer, notice_s=30.0, checkpoint=None) for layer in path.layers)
    session = Session(fixture="spot-training", _kill_path=replace(path, layers=layers))
    # Its grace of 60 s is longer than the notice: that it ends sooner has to be said.
    (job,) = [obj for obj in session.objects if obj["kind"] == "Job"]
    job["spec"]["template"]["metadata"]["annotations"]["killcheck.dev/stops-after-s"] = "5"
    screen, told = io.StringIO(), []
    planned = [PlannedDrill("spot-reclaim", (), Options())]
    run = Run(session, planned, sinks=[Terminal(file=screen, color=False), told.append], folder=tmp_path).execute()
    (drill,) = run.drills
    assert str(drill.verdict) == "survived", drill.why
    stages = {row["phase"]: row.get("margin_s") for row in drill.to_json()["phases"]}
    assert stages["triggered"] == 30
    order = [stages[p] for p in ("node_cordoned", "pods_gone", "node_drained", "node_gone", "instance_gone")]
    assert None not in order
    assert order == sorted(order, reverse=True)
    assert order[2] > 0
    for row in drill.phases:
        if row["at_s"] is not None and "margin_s" in row:
            assert row["margin_s"] == pytest.approx(30 - row["at_s"])
    shown = {e.phase: e.margin_s for e in told if isinstance(e, events.PhaseReached)}
    assert shown["node_drained"] == stages["node_drained"]
    assert "s of the notice left" in screen.getvalue()
    assert "left of the notice" in html(tell(list(read(run.record))))
