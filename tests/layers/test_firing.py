"""The schedule itself: will it fire, when next, through both changes of the clocks, would it be skipped."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from killcheck.layers import firing
from killcheck.verdict import Verdict

NOW = datetime(2026, 1, 15, 12, tzinfo=UTC)


def forecast(text: str, zone: str = "Etc/UTC"):
    return firing.of_schedule(text, zone, NOW, what="the schedule")


def cron_job(last: str = "2026-01-15T03:00:00Z", **spec):
    return {
        "metadata": {"name": "off", "creationTimestamp": "2026-01-01T00:00:00Z"},
        "spec": {"schedule": "0 3 * * *", **spec},
        "status": {"lastScheduleTime": last},
    }


def test_half_past_two_is_skipped_once_and_comes_twice_once_in_berlin():
    spring, autumn = forecast("30 2 * * *", "Europe/Berlin").clocks
    assert "on 2026-03-29" in spring
    assert "1 firing(s) are skipped: the next comes at 2026-03-30 00:30 UTC" in spring
    assert "on 2026-10-25" in autumn
    assert "come twice" in autumn


@pytest.mark.parametrize(
    ("text", "zone"),
    [
        ("0 4 * * *", "Europe/Berlin"),
        ("30 2 * * *", "Etc/UTC"),
        ("30 2 * * *", ""),
        ("*/5 * * * *", "Europe/Berlin"),
        ("30 2 * * *", "Asia/Tokyo"),
    ],
)
def test_a_schedule_out_of_the_way_of_the_clocks_is_not_warned_of(text, zone):
    assert forecast(text, zone).clocks == ()


def test_the_next_firing_and_the_longest_stretch_without_one():
    weekdays = forecast("30 19 * * 1-5", "Europe/Berlin")
    assert weekdays.next == datetime(2026, 1, 15, 18, 30, tzinfo=UTC)
    assert weekdays.longest_gap_s == 73 * 3600  # a weekend, and the hour that autumn gives back
    assert not weekdays.nightly
    assert forecast("30 19 * * *", "Europe/Berlin").nightly
    assert not forecast("0 0 31 2 *", "").nightly


@pytest.mark.parametrize(
    ("made", "why"),
    [
        (cron_job(schedule="0 0 31 2 *"), "never comes"),
        (cron_job(timeZone="Mars/Phobos"), "unknown time zone Mars/Phobos"),
        (cron_job(startingDeadlineSeconds=0), "every firing is too late"),
        (cron_job(suspend=True), "is suspended"),
        (cron_job(schedule="every night"), "cannot be read"),
        (cron_job(last="2026-01-13T03:00:00Z"), "its slot of 2026-01-15 03:00 UTC came and CronJob off made no Job"),
    ],
)
def test_what_never_fires_says_why_and_what_to_do(made, why):
    found = firing.of_cron_job(made, NOW)
    assert why in found.never
    assert found.remedy


def test_what_may_keep_a_firing_from_happening_is_a_warning():
    assert firing.of_cron_job(cron_job(), NOW).warnings == ()
    short, forbid = firing.of_cron_job(cron_job(startingDeadlineSeconds=30, concurrencyPolicy="Forbid"), NOW).warnings
    assert "startingDeadlineSeconds 30" in short
    assert "24 h later" in short
    assert "Forbid" in forbid


def test_a_schedule_that_never_comes_exposes_a_switch_whose_job_works(drilled):
    def never(obj):
        if obj["kind"] == "CronJob":
            obj["spec"]["schedule"] = "0 3 31 2 *"

    result = drilled("dead-man", "nightly-off", never)
    assert result.verdict is Verdict.EXPOSED
    assert "never comes: there is no such date: pulled by hand it turned the GPUs off" in result.cause
    assert result.to_json()["schedule"]["never"]


def test_a_night_that_the_clocks_leave_out_is_not_survived_and_the_result_tells_of_it(drilled):
    def at_night(obj):
        if obj["kind"] == "CronJob":
            obj["spec"] |= {"schedule": "30 2 * * *", "timeZone": "Europe/Berlin"}

    result = drilled("dead-man", "nightly-off", at_night)
    assert result.verdict is Verdict.INCONCLUSIVE
    assert "does not fire on Sunday, 2026-03-29" in result.why
    assert result.schedule["next"] == "2026-01-17T01:30:00Z"
    assert any("are skipped" in note for note in result.notes)
