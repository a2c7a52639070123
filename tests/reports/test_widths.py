"""Everything that is printed, at 60, 80, 120 and 200 columns and in a pipe: as it looked, and by what must always hold.

No line is longer than the terminal, no label is lost, no word is broken. ``KILLCHECK_SNAPSHOTS=write`` writes what is
printed now to ``snapshots/``: look at the difference before you commit it.
"""

import io
import os
import sys
from datetime import timedelta
from pathlib import Path

import pytest
from killcheck.probes import Finding
from report_worlds import AT, record, result, story

from killcheck import events
from killcheck.commands import accept, explore, saying
from killcheck.fence.report import FenceReport, FenceResult
from killcheck.lint.asking import LintResult
from killcheck.reports import fences_terminal, findings_terminal, screen
from killcheck.reports.live import Standing
from killcheck.reports.matrix import fitted
from killcheck.reports.screen import PLAIN_WIDTH, fitting
from killcheck.reports.terminal import Terminal
from killcheck.reports.told_matrix import told as table
from killcheck.results import Cell, Matrix
from killcheck.run.accepting import Accepting
from killcheck.run.explore import Covered, Explored, Found, Scenario
from killcheck.spec.killpath import KillPath, Outcome, Rule
from killcheck.verdict import DrillResult, Verdict

HERE = Path(__file__).with_name("snapshots")
WIDTHS = [60, 80, 120, 200, None]
LAYERS = ("nightly-off", "second-switch-in-another-zone")
FAULTS = ("image-gone", "registry-unreachable", "controller-manager-down")
WHY = "ImagePullBackOff: registry.example/platform/gpu-off: the manifest is unknown, and no node has a copy of it"
REMEDY = "to survive image-gone: keep the executor's image on its node and in a registry of your own"


def drilled(layer="nightly-off", faults=(), verdict=Verdict.EXPOSED, **more):
    off = verdict in (Verdict.SURVIVED, Verdict.COVERED)
    said = {"seconds_to_zero": 2.6, "seconds_to_drained": 85.0} if off else {"cause": WHY, "remedy": REMEDY}
    return DrillResult(layer, tuple(faults), verdict, f"it is {verdict}", usd=153.7, **said | more)


def cells():
    return Matrix(
        tuple(
            Cell(layer, fault, Outcome.COVERED, drilled(layer, [fault] if fault else [], verdict))
            for layer in LAYERS
            for fault, verdict in [("", Verdict.SURVIVED), *((fault, Verdict.EXPOSED) for fault in FAULTS)]
        )
    )


# -- what is printed, each on a terminal of ``width`` columns (None: a pipe) -------------------------------
def a_drill(width, file):
    out = Terminal(width=width, file=file)
    exposed = result(
        faults=["image-gone"],
        verdict="exposed",
        cause=WHY,
        remedy=REMEDY,
        next_chance="2026-01-16T03:00:00Z",
        usd_until_next_chance=526.36,
    )
    told = record([exposed])
    midnight = events.Said(
        at=AT + timedelta(hours=22),
        drill=told[1].drill,
        object="Pod/inference/gpu-nightly-off-8x2lq",
        type="Warning",
        reason="Failed",
        message=WHY,
    )
    for event in [*told[:-2], midnight, *told[-2:]]:
        out(event)
    out.closing(story([exposed]))


def the_closing_table(width, file):
    out = Terminal(width=width, file=file)
    drills = [drilled(verdict=Verdict.SURVIVED), drilled(layer=LAYERS[1], faults=FAULTS[1:]), drilled(title="a night")]
    from killcheck.run.runner import RunResult

    out.summary(RunResult("r", "exposed", 1, tuple(drills), Path(".killcheck/runs/r/run.jsonl")))


def the_matrix(width, file):
    out = Terminal(width=width, file=file)
    out.console.grid(fitted(cells(), out.console.width))


def the_matrix_told_again(width, file):
    out = Terminal(width=width, file=file)
    drills = [
        result(layer=c.layer, faults=[c.fault] * bool(c.fault), verdict=str(c.result.verdict)) for c in cells().cells
    ]
    out.console.grid(table(story(drills), out.console.width))


def lint(width, file):
    def finding(number, severity="error", probe="image-unpinned"):
        return Finding(
            probe, severity, f"CronJob/inference/nightly-off-{number}", WHY, REMEDY, file="deploy/off.yaml", line=7
        )

    notes = [finding(n, "note", "no-team-label") for n in range(9)]
    unread = [finding(n, "warning", "tag-moves") for n in range(12)]
    found = (finding(0), *unread, *notes, Finding("floor", "note", "", "not proven: who knows", "ask", unproven=True))
    path = KillPath("inference", (), ())
    findings_terminal.show(LintResult(path, found), file=file, width=width, color=False, verbose=False)


def fence(width, file):
    pools = [
        FenceResult("NodePool/gpu-of-the-platform-team-in-two-zones", "exposed", "p5.48xlarge", 8,
                    max_usd_per_hour=55.04, door="no upper bound", remedy=REMEDY, reasons=(WHY,)),
        FenceResult("NodePool/cpu", "safe"),
    ]  # fmt: skip
    report = FenceReport(tuple(pools), FenceResult("cluster", "exposed", door="the sum"), notes=(WHY,))
    fences_terminal.show(report, width=width, file=file, color=False)


def the_live_lines(width, file):
    deadlines = {"job_created": 30.0, "pods_gone": 300.0, "node_drained": 900.0, "node_gone": 1200.0}
    started = events.DrillStarted(
        at=AT, drill="d", layer="l", layer_type="dead-man", faults=[], proof=["P1"], deadlines=deadlines
    )
    standing = Standing(started)
    standing.hear(
        events.SteadyState(at=AT, gpu_pods=["a/b"], nodes=["n"], devices=8, usd_per_hour=36.0, replicas={"b": 1})
    )
    standing.hear(events.Triggered(at=AT, how="by hand", phases=["triggered", "job_created", "pods_gone"]))
    out = Terminal(width=width, file=file)
    for line in standing.lines(AT + timedelta(seconds=100)):
        out.console.say(line, 4)


def exploring(width, file):
    found = Found(Scenario(LAYERS[1], FAULTS), "exposed", WHY, confirmed=True)
    how_far = (Covered(LAYERS[1], 1, 45, 45, 0, 0, 0), Covered(LAYERS[1], 2, 990, 13, 36, 41, 900))
    explored = Explored(59, (found,), (), {2: 900}, ("api-brownout",), 4.0, 2, covered=how_far, ran=59)
    explore._tell(explored, " --example two-switches", 2, modelled=True)


def accepting(width, file):
    rules = tuple(Rule(Outcome.KNOWN, LAYERS[1], fault, (WHY,), "ops", "wanted", AT.date()) for fault in FAULTS)
    done = Accepting(
        rules, rules[:1], rules[1:], rules[2:], (f"{LAYERS[0]}: nothing is proven, so there is nothing to accept",)
    )
    accept._tell(done, Path("killcheck.accepted.yaml"), AT.date(), dry_run=False)


PRINTED = [
    a_drill, the_closing_table, the_matrix, the_matrix_told_again, lint, fence, the_live_lines, exploring, accepting,
]  # fmt: skip


@pytest.fixture
def printed(monkeypatch, capsys):
    """printed(what, width): the text, as a terminal of so many columns shows it."""
    monkeypatch.setenv("NO_COLOR", "1")

    def print_(what, width):
        file = io.StringIO()
        monkeypatch.setattr(saying, "_columns", lambda *, err: width)
        capsys.readouterr()
        what(width, file)
        lines = (file.getvalue() + capsys.readouterr().out).splitlines()
        return "\n".join(line.rstrip() for line in lines) + "\n"

    return print_


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("what", PRINTED, ids=lambda what: what.__name__)
def test_it_looks_as_it_did_and_fits(what, width, printed):
    text = printed(what, width)
    kept = HERE / f"{what.__name__}-{width or 'pipe'}.txt"
    if os.environ.get("KILLCHECK_SNAPSHOTS") == "write":
        HERE.mkdir(exist_ok=True)
        kept.write_text(text)
    assert text == kept.read_text()
    if width:
        assert max(map(len, text.splitlines())) <= width


@pytest.mark.parametrize("width", [60, 80, 120, 200])
@pytest.mark.parametrize("what", PRINTED, ids=lambda what: what.__name__)
def test_no_word_is_broken_and_none_is_lost(what, width, printed):
    words = {word for word in printed(what, width).split() if len(word) > 2}
    whole = {word for word in printed(what, None).split() if len(word) > 2}
    headers = {"night", "under", "pool", "drill", "outcome", "(undisturbed)", *LAYERS, *FAULTS}
    headers |= {"drained", "min"}  # left out of a matrix that is too narrow for it
    headers |= {LAYERS[1][:25], LAYERS[1][25:], LAYERS[1][:14], LAYERS[1][14:]}  # a name goes on after a hyphen
    assert words - whole <= headers
    assert {word for word in whole if word != "…"} - words <= headers


@pytest.mark.parametrize("width", [60, 80, 120, None])
@pytest.mark.parametrize("err", [False, True])
def test_every_sentence_of_a_command_fits_the_terminal_and_is_one_line_in_a_pipe(monkeypatch, capsys, width, err):
    monkeypatch.setattr(saying, "_columns", lambda *, err: width)
    saying.say("killcheck: inference: " + "policy " * 30 + "\n  · a note" + " on what was read" * 9, err=err)
    captured = capsys.readouterr()
    text = captured.err if err else captured.out
    lines = text.splitlines()
    assert text.split() == [
        "killcheck:",
        "inference:",
        *["policy"] * 30,
        "·",
        "a",
        "note",
        *["on", "what", "was", "read"] * 9,
    ]
    assert len(lines) == 2 if width is None else max(map(len, lines)) <= width
    assert all(line.startswith(("killcheck:", "    ", "  · ")) for line in lines)


def test_standard_error_is_as_wide_as_its_terminal_where_a_document_goes_elsewhere(monkeypatch, capsys):
    monkeypatch.delenv("COLUMNS", raising=False)
    monkeypatch.setattr(os, "get_terminal_size", lambda number=1: os.terminal_size((40 if number == 2 else 0, 24)))
    stream = io.StringIO()
    monkeypatch.setattr(stream, "isatty", lambda: True, raising=False)
    monkeypatch.setattr(stream, "fileno", lambda: 2, raising=False)
    monkeypatch.setattr(sys, "stderr", stream)
    assert (saying._columns(err=True), saying._columns(err=False)) == (40, None)


def test_a_command_to_paste_stays_whole_and_a_long_word_too(monkeypatch, capsys):
    monkeypatch.setattr(saying, "_columns", lambda *, err: 30)
    command = "next: killcheck drill --manifests a/folder/deep/down --exec host"
    saying.say(f"{command}   (its programs run)\nrun record: .killcheck/runs/20261126-054837-3f027a/run.jsonl")
    printed = capsys.readouterr().out.splitlines()
    assert printed[:2] == [command, "      (its programs run)"]
    assert printed[-1].strip() == ".killcheck/runs/20261126-054837-3f027a/run.jsonl"


def test_times_of_another_day_stand_below_its_date(printed):
    lines = [line.strip() for line in printed(a_drill, 80).splitlines()]
    assert lines.index("Thu 2026-01-15 UTC") < lines.index("Fri 2026-01-16 UTC")
    assert lines[lines.index("Fri 2026-01-16 UTC") + 1].startswith("01:00:00")


def test_the_live_lines_count_down_what_the_drill_asks_for(printed):
    text = printed(the_live_lines, 80)
    assert "pods gone" in text
    assert "node" not in text.replace("nodes:", "")


def test_a_terminal_that_says_it_has_no_columns_has_some(monkeypatch):
    monkeypatch.setenv("COLUMNS", "0")
    assert screen.screen(file=io.StringIO()).width >= screen.NARROWEST


def test_a_name_of_65_characters_fits_everywhere():
    name = "a-rather-long-name-of-a-node-pool-that-somebody-once-generated-65"
    made = screen.screen(width=60, file=io.StringIO())
    made.grid(fitting(["pool", "verdict"], [[screen.Text(name), screen.Text("safe")]], 60))
    lines = made.file.getvalue().splitlines()
    assert max(map(len, lines)) <= 60
    assert name in "".join(line.strip() for line in lines)


def test_a_pipe_is_as_wide_as_a_log():
    out = Terminal(file=io.StringIO())
    assert (out.console.width, out.console.wraps) == (PLAIN_WIDTH, False)


def test_a_place_that_is_longer_than_a_line_stays_whole():
    out, place = io.StringIO(), f"{'deploy/' * 12}gpu.yaml:12"
    screen.screen(width=40, file=out).say(f"  it holds 8 GPUs, and no layer turns it off  {place} for now", 4)
    assert out.getvalue().splitlines() == [
        "  it holds 8 GPUs, and no layer turns it",
        "    off",
        f"    {place}",
        "    for now",
    ]
