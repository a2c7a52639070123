"""The four nights of the founding story: verdict, stuck phase, cause in Kubernetes' own words, dollars, healing."""

from __future__ import annotations

import pytest
from killcheck.fixtures.nights import NIGHTS

from killcheck import events
from killcheck.drill.sequence import Options
from killcheck.run.record import read
from killcheck.spec.phases import PHASES

CAUSES = {
    "image-gone": ("bitnami/kubectl", "not found"),
    "no-curl": ("127", "curl"),
    "false-green": ("Complete", "forbidden"),
}


@pytest.mark.parametrize("night", NIGHTS, ids=lambda night: night.name)
def test_each_night_ends_as_it_must(drill, night):
    done = drill(fixture=night.path)
    result = done.only
    assert (str(result.verdict), result.stuck_at) == (night.verdict, night.stuck_at)
    assert result.problems == ()
    if night.verdict == "survived":
        assert done.result.exit_code == 0
        assert result.off_by == "nightly-off"
        return
    assert done.result.exit_code == 1
    assert all(word.lower() in result.cause.lower() for word in CAUSES[night.name]), result.cause
    assert result.remedy
    assert result.watched_s >= 7 * 3600 - 1
    # Eight A100s for seven hours, and until the next three o'clock.
    assert result.usd == pytest.approx(result.usd_per_hour * result.watched_s / 3600, rel=0.01)
    assert result.usd_until_next_chance > result.usd
    assert result.next_chance.endswith("T03:00:00Z")


def test_the_reference_night_goes_through_every_phase_in_order_and_in_time(drill):
    result = drill().only
    phases = [row["phase"] for row in result.phases]
    assert phases == [phase for phase in PHASES if phase in phases]
    assert {"job_created", "image_pulled", "executor_finished", "pods_gone", "node_drained", "node_gone"} <= set(phases)
    at = [row["at_s"] for row in result.phases if row["phase"] != "held"]
    assert None not in at
    for row in result.phases:
        assert row["phase"] == "held" or row["deadline_s"] is None or row["at_s"] <= row["deadline_s"], row
    assert result.replicas_zero_within("5m")
    assert result.nodes_drained_within("15m")
    assert not result.replicas_zero_within("1s")


def test_after_a_drill_everything_is_as_before(drill):
    done = drill()
    (healed,) = done.of(events.Healed)
    assert healed.steady_again
    assert any("gpu-nightly-off-killcheck" in said for said in healed.undone)
    (started,) = done.of(events.SteadyState)
    assert started.replicas == {"vllm": 1}


def test_the_record_alone_tells_the_same(drill):
    done = drill(fixture="dead-man-no-curl")
    told = list(read(done.result.record))
    assert told == done.events
    (finished,) = [event for event in told if isinstance(event, events.DrillFinished)]
    assert finished.result == done.only.to_json()


def test_the_executors_log_is_kept_without_its_token(drill):
    done = drill(fixture="dead-man-false-green")
    (log,) = done.of(events.LogTaken)
    assert "cannot patch resource" in log.text
    assert "eyJ" not in done.result.record.read_text()


def test_a_whole_day_is_watched_when_asked(drill):
    result = drill(options=Options(run_out_s=24 * 3600.0)).only
    assert result.watched_s >= 24 * 3600
    assert str(result.verdict) == "survived"


def test_two_runs_of_a_night_say_the_same(drill):
    first, second = drill().only, drill().only
    assert [row["at_s"] for row in first.phases] == [row["at_s"] for row in second.phases]


@pytest.mark.parametrize(("hours", "verdict"), [(4.9, "survived"), (5.1, "exposed")])
def test_what_comes_on_again_in_the_night_that_is_watched_is_exposed(drill, hours, verdict):
    """The hold was proven at 03:18; at eight the morning's Job lights it, and from then on it bills."""
    done = drill(fixture="held-mornings", options=Options(run_out_s=hours * 3600.0))
    lost = [event.phase for event in done.of(events.PhaseLost)]
    assert str(done.only.verdict) == verdict
    assert done.result.exit_code == (0 if verdict == "survived" else 1)
    if verdict == "survived":
        assert lost == []
        return
    assert lost[0] == "held"
    assert lost.count("held") == 1
    assert done.only.cause.startswith("scaled back:")
    (held,) = [row for row in done.only.phases if row["phase"] == "held"]
    assert held["at_s"] is None
