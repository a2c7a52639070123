"""Each layer type on the embedded cluster: its original failure is found for what it is.

That its reference path passes is the first thing that ``tests/matrix/test_reference_suites.py`` asks.
"""

from __future__ import annotations

from datetime import UTC, datetime
from types import SimpleNamespace

import pytest
from layers_world import setting

from killcheck.drill.attribution import Bystanders
from killcheck.kube.objects import dig
from killcheck.layers.dead_man import DeadMan
from killcheck.verdict import Verdict


def test_a_minimum_keeps_the_cards_on(drilled):
    result = drilled("scale-to-zero", "video-idle", setting("ScaledObject", 1, "spec", "minReplicaCount"))
    assert result.verdict is Verdict.EXPOSED
    assert "minReplicaCount 1" in result.cause


@pytest.mark.weekly
def test_a_worker_that_ends_too_early_dies_in_every_gap(drilled):
    def hasty(obj):
        if obj["kind"] == "Job":
            dig(obj, "spec", "template", "spec", "containers")[0]["env"] = [{"name": "MAX_IDLE_MINUTES", "value": "2"}]

    result = drilled("self-terminating", "worker-idle-exit", hasty)
    assert result.verdict is Verdict.EXPOSED
    assert "before the 600 it must wait" in result.cause


def test_a_monitor_that_kills_busy_workers_is_found(drilled):
    def hasty(obj):
        if obj["kind"] == "CronJob":
            spec = dig(obj, "spec", "jobTemplate", "spec", "template", "spec")
            spec["containers"][0]["env"][1]["value"] = "0"
            obj["spec"]["schedule"] = "0 0 1 1 *"

    result = drilled("self-terminating", "idle-monitor", hasty)
    assert result.verdict is Verdict.EXPOSED
    assert "acts on a busy target" in result.cause


def test_a_monitor_whose_look_at_busy_workers_was_not_seen_to_its_end_is_not_proven(drilled):
    def slow_while_busy(obj):
        if "monitor.py" in obj.get("data", {}):
            obj["data"]["monitor.py"] += "else:\n    import time\n    time.sleep(400)\n"
        if obj["kind"] == "CronJob":
            dig(obj, "spec", "jobTemplate", "spec")["activeDeadlineSeconds"] = 900
            obj["spec"]["schedule"] = "0 0 1 1 *"

    result = drilled("self-terminating", "idle-monitor", slow_while_busy)
    assert result.verdict is Verdict.INCONCLUSIVE, result.why
    assert "whether idle-monitor leaves busy targets on was not seen" in result.why


def test_the_other_switch_covers_and_is_named(drilled):
    result = drilled("two-switches", "nightly-off", under=["image-gone"])
    assert (result.verdict, result.off_by) == (Verdict.COVERED, "second-switch")
    assert "fired by itself" in result.why


def test_a_firing_that_began_before_the_faults_says_nothing_about_them():
    """A real schedule's Job was there a second before its CronJob was suspended: the drill had *survived* that."""
    made, pulled, off = (datetime(2026, 1, 15, 3, 4, second, tzinfo=UTC) for second in (0, 2, 12))
    run = object.__new__(DeadMan)
    run.ref = SimpleNamespace(name="second-switch")
    run._own_firings = {"uid": (off, off, made)}
    run.signs = lambda writer: True
    run.acted = lambda zero_at: None
    stage = SimpleNamespace(sabotaged=True, timeline=SimpleNamespace(start=pulled), cluster=None)
    judging = object.__new__(Bystanders)
    judging.drilled, judging.runs, judging.stage, judging.off_at = SimpleNamespace(name="off"), {}, stage, {}
    judging._by_author = lambda runs, zero_at: None
    found = judging.judge(run, off, None, altered=False)
    assert found.layer == ""
    assert "fired by itself" in found.evidence
    assert found.evidence.endswith("which had begun before the faults were there")
    stage.sabotaged = False
    assert judging.judge(run, off, None, altered=False).layer == "off"


def test_an_exposed_drill_says_the_dollars_until_somebody_notices(drilled):
    """It fires at 03:00 UTC: nine in Berlin is five hours later."""

    def says(path):
        spec = path / "killcheck.yaml"
        spec.write_text(spec.read_text() + "noticed: {hours: Mon-Fri 09:00-17:30, timeZone: Europe/Berlin}\n")

    result = drilled("dead-man", "nightly-off", under=["image-gone"], folder=says, exec_mode="host")
    assert result.verdict is Verdict.EXPOSED
    assert result.noticed["at"].endswith("T08:00:00Z")
    assert 4.9 < result.noticed["usd"] / result.usd_per_hour < 5
    assert result.noticed["alert_at"] is None
    assert result.to_json()["noticed"] == result.noticed
