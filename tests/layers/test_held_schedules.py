"""A schedule that would fire by itself, while a fault is on the drill's own copy of its Job, is held for as long."""

from __future__ import annotations

import pytest

from killcheck.run.planned import PlannedDrill
from killcheck.run.runner import plan_for
from killcheck.run.session import Session
from killcheck.verdict import Verdict


@pytest.fixture(scope="module")
def monitored():
    with Session(fixture="self-terminating").cluster() as (cluster, kill_path):
        yield cluster, kill_path


@pytest.mark.parametrize(
    ("fault", "held"),
    [
        ("token-dead", True),
        ("webhook-down", True),
        ("egress-denied", True),
        ("rolebinding-gone", False),
        ("registry-unreachable", False),
    ],
)
def test_the_plan_names_the_edit_and_what_it_needs(monitored, fault, held):
    cluster, kill_path = monitored
    plan = plan_for(cluster, kill_path, [PlannedDrill("idle-monitor", (fault,))], "r-1")
    told = [change for change in plan.changes if "CronJob batch/idle-monitor is suspended" in change]
    assert bool(told) is held
    assert "batch" in plan.namespaces
    needed = {(p.verb, p.resource) for p in plan.permissions if p.resource == "cronjobs" and p.name == "idle-monitor"}
    assert (("patch", "cronjobs") in needed) is held


def test_a_nightly_switch_is_not_held_for_a_drill_by_day():
    with Session(fixture="dead-man").cluster() as (cluster, kill_path):
        plan = plan_for(cluster, kill_path, [PlannedDrill("nightly-off", ("token-dead",))], "r-1")
    assert [change for change in plan.changes if "is suspended" in change] == []


def test_nothing_but_the_copy_fires_and_the_schedule_is_back_afterwards(drilled):
    result = drilled("self-terminating", "idle-monitor", under=["token-dead"])
    assert result.verdict is Verdict.EXPOSED
    assert result.cause.startswith("401 Unauthorized")
    assert result.problems == ()
    assert any("suspended CronJob batch/idle-monitor" in said for said in result.healed)
