"""Two runs side by side: what broke, what was mended, what got slower."""

from __future__ import annotations

import json

import pytest
from click.testing import CliRunner
from report_worlds import FINDING, record, result, story

from killcheck.cli import main
from killcheck.reports.compare import compare
from killcheck.reports.html import html
from killcheck.reports.mend import HANDFUL, first, rest


@pytest.mark.parametrize(
    ("before", "after", "kind", "bad"),
    [
        ("survived", "exposed", "broke", True),
        ("covered", "inconclusive", "broke", True),
        ("survived", "covered", "worse", True),
        ("inconclusive", "exposed", "worse", True),
        ("exposed", "survived", "mended", False),
        ("exposed", "inconclusive", "better", False),
        ("covered", "survived", "better", False),
    ],
)
def test_a_verdict_that_changed(before, after, kind, bad):
    [change] = compare(story([result(verdict=before)]), story([result(verdict=after)])).changes
    assert (change.kind, change.bad, change.before, change.after) == (kind, bad, before, after)


@pytest.mark.parametrize(
    ("before", "after", "kinds"),
    [
        (10.0, 19.0, []),
        (10.0, 21.0, ["slower"]),
        (100.0, 120.0, []),
        (100.0, 126.0, ["slower"]),
        (60.0, 40.0, ["faster"]),
    ],
)
def test_slower_is_more_than_what_periods_explain(before, after, kinds):
    found = compare(story([result(seconds_to_zero=before)]), story([result(seconds_to_zero=after)]))
    assert [change.kind for change in found.changes] == kinds
    assert found.same == 1 - len(kinds)


def test_drills_and_findings_that_come_and_go():
    earlier = story([result(), result(layer="idle")], findings=[FINDING])
    later = story([result(), result(faults=["image-gone"])], findings=[{**FINDING, "message": "gone"}])
    found = compare(earlier, later)
    assert [(c.kind, c.drill) for c in found.changes] == [("gone", "idle"), ("new", "nightly-off under image-gone")]
    assert found.new_findings == ("CronJob/inference/nightly-off: gone [image-unpinned]",)
    assert found.gone_findings == ("CronJob/inference/nightly-off: no digest [image-unpinned]",)


def test_one_cause_of_many_drills_is_mended_once_and_the_dearest_first():
    causes = first(
        [
            result(verdict="exposed", usd=5.0, cause="pod off-killcheck-ab1-0 Pending"),
            result(verdict="exposed", usd=7.0, faults=["quota"], cause="pod off-killcheck-cd2-1 Pending"),
            result(verdict="exposed", usd=100.0, cause="401 Unauthorized"),
            result(),
        ]
    )
    assert [(one.usd, len(one.drills)) for one in causes] == [(100.0, 1), (12.0, 2)]


def test_what_one_change_mends_is_told_once_and_beyond_a_handful_counted():
    def exposed(fault, usd, remedy):
        return result(verdict="exposed", faults=[fault], usd=usd, cause=fault, remedy=remedy)

    second = "add another layer that covers the same targets"
    causes = first(
        [
            exposed("token-dead", 9.0, f"to survive token-dead: {second} with an identity of its own, and alert"),
            exposed("egress-denied", 9.0, f"to survive egress-denied: try again, or {second} and acts from elsewhere"),
            exposed("pdb-blocks", 2.0, "to survive pdb-blocks: expireAfter, or add a layer that ends the machines"),
            *(exposed(f"f{number}", 1.0, f"to survive f{number}: mend {number}") for number in range(HANDFUL)),
        ]
    )
    assert [(one.usd, len(one.drills)) for one in causes[:3]] == [(18.0, 2), (2.0, 1), (1.0, 1)]
    assert causes[0].cause == "2 causes, such as token-dead"
    assert (
        causes[0].remedy
        == f"{second}. One that helps with all of these has an identity of its own and acts from elsewhere"
    )
    assert rest(causes) == "and 2 more, $2.00, 2 drill(s): each says its remedy"


def test_a_price_nobody_knows_is_no_zero():
    causes = first([result(verdict="exposed", usd=None), result(verdict="exposed", usd=9.0, cause="other")])
    assert [one.usd for one in causes] == [None, 9.0]


def test_the_page_and_the_terminal_say_what_changed(tmp_path):
    runs = {"old.jsonl": [result()], "new.jsonl": [result(verdict="exposed")]}
    for name, results in runs.items():
        told = record(results, run=name[:3])
        (tmp_path / name).write_text("".join(json.dumps(event.to_json()) + "\n" for event in told))
    words = ["report", str(tmp_path / "new.jsonl"), "--compare", str(tmp_path / "old.jsonl")]
    done = CliRunner().invoke(main, words)
    assert "broke    nightly-off: survived -> exposed" in done.output
    page = html(story(runs["new.jsonl"]), compare(story(runs["old.jsonl"]), story(runs["new.jsonl"])))
    assert "What changed since 2026-01-15" in page
    assert ">broke</td>" in page
