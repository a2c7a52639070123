"""Schedules that fire when they should not, or not when they should: zones, both changes of clocks, missed slots."""

from __future__ import annotations

from contextlib import contextmanager
from datetime import UTC, datetime, timedelta

import pytest
from faults_world import World

from killcheck import faults
from killcheck.kube import schedule
from killcheck.layers import slots


@contextmanager
def night_of(kind, **spec):
    """The reference path with another schedule, on the night that the fault asks for."""

    def change(objects):
        for obj in objects:
            if obj["kind"] == "CronJob":
                obj["spec"] |= spec
                for key in [key for key, value in spec.items() if value is None]:
                    del obj["spec"][key]

    world = World(change, under=[kind])
    try:
        world.settle()
        yield world
    finally:
        world.close()


def test_two_thirty_does_not_exist_on_the_spring_night_and_the_gpus_stay_on():
    with night_of(faults.ClocksForward, schedule="30 2 * * *", timeZone="America/New_York") as world:
        result = world.drill(faults.ClocksForward)
        assert world.cluster.loop.now().date() == datetime(2026, 3, 8, tzinfo=UTC).date()
    assert (str(result.verdict), result.stuck_at, result.failures) == ("exposed", "triggered", (10,))
    assert "there is no such time on the night on which clocks go forward" in result.cause
    assert "2026-03-08 07:00 UTC" in result.bites["clocks-forward"]
    assert result.next_chance == "2026-03-09T06:30:00Z"


def test_three_oclock_exists_on_the_spring_night():
    with night_of(faults.ClocksForward, schedule="0 3 * * *", timeZone="America/New_York") as world:
        result = world.drill(faults.ClocksForward)
    assert str(result.verdict) == "survived", result.cause
    assert "its executor ran" in result.why


def test_on_the_autumn_night_the_first_of_two_slots_does_it():
    with night_of(faults.ClocksBack, schedule="30 1 * * *", timeZone="America/New_York") as world:
        result = world.drill(faults.ClocksBack)
    zero = next(event.at for event in world.seen if getattr(event, "phase", "") == "pods_gone")
    first = datetime(2026, 11, 1, 5, 30, tzinfo=UTC)  # the second 01:30 in New York is an hour later
    assert first < zero < first + timedelta(minutes=5)
    assert str(result.verdict) == "survived", result.cause


def test_on_any_other_night_it_says_so_and_proves_nothing():
    world = World()
    try:
        world.settle()
        result = world.drill(faults.ClocksForward)
    finally:
        world.close()
    assert str(result.verdict) == "inconclusive"
    assert "not tonight" in result.why


@pytest.mark.parametrize(
    ("zone", "told"),
    [("America/Sao_Paulo", "timeZone is none"), (None, "timeZone is Etc/GMT+8"), ("UTC", "timeZone is Etc/GMT+8")],
)
@pytest.mark.one_in(3)
def test_a_zone_is_dropped_or_has_the_wrong_sign(zone, told):
    with night_of(faults.ZoneChanged, timeZone=zone) as world:
        result = world.drill(faults.ZoneChanged)
    assert (str(result.verdict), result.stuck_at) == ("exposed", "triggered"), result.why
    assert told in result.cause


def test_a_schedule_that_fires_every_hour_is_the_same_in_every_zone():
    with night_of(faults.ZoneChanged, schedule="0 * * * *") as world:
        result = world.drill(faults.ZoneChanged)
    assert str(result.verdict) == "inconclusive"
    assert "fires at the same moments" in result.why


def test_a_missed_slot_without_a_deadline_fires_late():
    with night_of(faults.MissedFirings, startingDeadlineSeconds=None) as world:
        result = world.drill(faults.MissedFirings)
    assert str(result.verdict) == "exposed"
    at = {row["phase"]: row["at_s"] for row in result.phases}
    assert 3600 <= at["job_created"] < 3660
    assert "pods_gone came after" in result.why


def test_more_than_a_hundred_missed_slots_are_a_warning_and_the_last_one_runs():
    with night_of(faults.MissedFirings, startingDeadlineSeconds=None, schedule="*/10 3-23 * * *") as world:
        result = world.drill(faults.MissedFirings, horizon_s=24 * 3600.0)
        reasons = [
            event["reason"]
            for event in world.cluster.embedded.kube.list(
                world.cluster.embedded.kube.resource_for("v1", "Event"), "inference"
            ).items
        ]
    assert str(result.verdict) == "exposed"
    assert "missed-firings" in result.bites
    assert "TooManyMissedTimes" in reasons


def test_the_slots_that_people_mean():
    new_york = schedule.parse("30 2 * * *", "America/New_York")
    noon = datetime(2026, 3, 7, 12, tzinfo=UTC)
    slot = slots.next_slot(new_york, noon)
    assert slot == datetime(2026, 3, 8, 7, 30, tzinfo=UTC)  # 02:30 EST, had the clocks not been changed
    assert slots.missing_hour(new_york, slot)
    following = slots.next_slot(new_york, slot)
    assert following == datetime(2026, 3, 9, 6, 30, tzinfo=UTC)
    assert not slots.missing_hour(new_york, following)
    for after in (noon + timedelta(hours=h) for h in range(0, 24 * 370, 37)):
        there = slots.next_slot(schedule.parse("0 4 * * *", "America/New_York"), after)
        assert there == schedule.parse("0 4 * * *", "America/New_York").next(after)


def test_the_hours_until_the_slot_are_not_billed_to_the_drill():
    with night_of(faults.ClocksBack, schedule="30 1 * * *", timeZone="Europe/London") as world:
        result = world.drill(faults.ClocksBack)
    assert result.usd is not None
    assert 0 < result.usd < 10.0 / 2  # an hour of waiting would be ten
