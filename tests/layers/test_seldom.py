"""Schedules that rest for weeks: a night in which they fire proves nothing of the others."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
import yaml

from killcheck.layers import seldom
from killcheck.spec import specfile

SPEC = """
apiVersion: killcheck/v1
name: p
targets: [{name: llm, kind: Deployment, namespace: lab, object: llm}]
layers:
- {name: nightly, type: dead-man, covers: [llm], cronJob: {namespace: lab, name: nightly}}
"""
BESIDE = "- {name: more, type: dead-man, covers: [llm], cronJob: {namespace: lab, name: more}}\n"
NOW = datetime(2026, 1, 15, 12, tzinfo=UTC)


def _entry(text: str, spec: str = SPEC, zone: str = "Asia/Kolkata") -> str | None:
    path = specfile.loads(spec)
    meta = {"name": "nightly", "namespace": "lab"}
    cron_job = {
        "kind": "CronJob",
        "metadata": meta,
        "spec": yaml.safe_load(f"{{schedule: '{text}', timeZone: {zone}}}"),
    }
    found = seldom.entry(cron_job, path, path.layers[0], NOW)
    return found.because if found is not None else None


@pytest.mark.parametrize("text", ["0 20 * * *", "0 20 * * 1-5", "0 20 * * 5", "*/5 * * * *", "@daily", "@every 24h"])
def test_what_fires_each_week_is_no_question(text: str) -> None:
    assert _entry(text) is None


@pytest.mark.parametrize(
    ("text", "rest"),
    [
        ("0 20 * 1 *", "between 2026-01-31 and 2027-01-01"),
        ("* 20 * 1 *", "between 2026-01-31 and 2027-01-01"),
        ("0 20 1,15 * *", "between 2026-01-15 and 2026-02-01"),
        ("0 8,20 2,10,18,26 * *", "between 2026-01-18 and 2026-01-26"),
        ("0 20 31 2 *", "after 2026-01-15"),
    ],
)
def test_weeks_without_a_firing_are_named(text: str, rest: str) -> None:
    assert rest in str(_entry(text))


@pytest.mark.parametrize(
    ("text", "zone", "night"),
    [
        ("0 20 1-30 * *", "Asia/Kolkata", "on Saturday, 2026-01-31"),
        ("0 20 */2 * *", "Asia/Kolkata", "on Friday, 2026-01-16"),
        ("30 2 * * *", "Europe/Berlin", "on Sunday, 2026-03-29"),
        ("0 0 * * *", "Africa/Cairo", "on Friday, 2026-04-24"),
    ],
)
def test_a_night_that_it_leaves_out_is_named(text: str, zone: str, night: str) -> None:
    assert night in str(_entry(text, zone=zone))


@pytest.mark.parametrize("text", ["0 20 * * *", "30 2 * * 1-5", "*/30 2-5 * * *"])
def test_a_change_of_clocks_that_takes_no_firing_is_no_question(text: str) -> None:
    assert _entry(text, zone="Europe/Berlin") is None


def test_beside_a_layer_that_turns_the_same_off_it_may_rest() -> None:
    assert _entry("0 20 1 * *", SPEC + BESIDE) is None


def test_what_cannot_be_read_is_told_elsewhere() -> None:
    assert _entry("0 0 20 * * *") is None
