"""What stands below the lines while a drill on a real cluster runs."""

from __future__ import annotations

import io
from datetime import timedelta

from report_worlds import AT, record, result
from rich.console import Console

from killcheck import events
from killcheck.reports.live import Standing
from killcheck.reports.terminal import Terminal


def standing(*more):
    """A drill that was triggered at AT, with the GPUs on at $36 an hour."""
    started = events.DrillStarted(
        at=AT,
        drill="d",
        layer="l",
        layer_type="dead-man",
        faults=[],
        proof=["P1"],
        deadlines={"job_created": 30.0, "pods_gone": 300.0, "node_drained": 900.0},
    )
    made = Standing(started)
    for event in (
        events.SteadyState(at=AT, gpu_pods=["a/b"], nodes=["n"], devices=8, usd_per_hour=36.0, replicas={"b": 1}),
        events.Triggered(at=AT, how="by hand"),
        *more,
    ):
        made.hear(event)
    return made


def said(made, seconds):
    return "\n".join(line.plain for line in made.lines(AT + timedelta(seconds=seconds)))


def test_dollars_run_while_nodes_are_on_and_stop_when_they_are_gone():
    on = events.Sampled(at=AT, gpu_pods=1, nodes=1, replicas=1, usd=0.0)
    assert "GPU pods on: 1" in said(standing(on), 100)
    assert "$1.00 so far" in said(standing(on), 100)
    off = events.Sampled(at=AT + timedelta(seconds=50), gpu_pods=0, nodes=0, replicas=0, usd=0.5)
    assert "$0.50 so far" in said(standing(on, off), 100)


def test_deadlines_count_down_and_a_phase_that_is_reached_goes():
    reached = events.PhaseReached(at=AT, phase="job_created", at_s=1.0, observed_s=1.0, deadline_s=30.0, evidence="")
    text = said(standing(reached), 310)
    assert "Job created" not in text
    assert "late by 10 s" in text
    assert "9 min 50 s left" in text


def test_an_unknown_price_is_a_question_mark():
    unknown = events.Sampled(at=AT, gpu_pods=1, nodes=1, replicas=1, usd=None)
    assert "$ ? so far" in said(standing(unknown), 10)


def test_a_terminal_is_given_back_when_the_drill_is_judged(monkeypatch):
    monkeypatch.delenv("CI", raising=False)
    out = Terminal(color=True, file=io.StringIO())
    for event in record([result()])[:2]:
        out(event)
    assert out._live is not None
    out(events.Judged(at=AT, verdict="survived", off_by="l", why=""))
    assert out._live is None


def test_a_log_gets_plain_lines_only():
    file = io.StringIO()
    out = Terminal(file=file, width=100)
    assert isinstance(out.console, Console)
    for event in record([result()]):
        out(event)
    assert out._live is None
    assert "\x1b" not in file.getvalue()
    assert "SURVIVED" in file.getvalue()
