"""``killcheck runs``: what is kept under ``.killcheck``, how much of it, and how it is named again."""

from __future__ import annotations

import json
import os
import shutil

import pytest
from click.testing import CliRunner
from report_worlds import record, result

from killcheck.cli import main
from killcheck.run import kept
from killcheck.run.record import RecordWriter
from killcheck.run.session import SessionError
from killcheck.safety import orphans

NIGHT = ("drill", "--example", "dead-man", "--exec", "none", "-q")


@pytest.fixture
def killcheck(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return lambda *argv, **more: CliRunner().invoke(main, list(argv), **more)


@pytest.fixture
def many(tmp_path):
    """Runs r0 (the oldest) to r5 of one drill each; r1 was cut short, r2 may have left something."""
    for number in range(6):
        folder = tmp_path / ".killcheck/runs" / f"r{number}"
        with RecordWriter(folder / "run.jsonl") as writer:
            for event in record([result()], run=folder.name, finished=number != 1):
                writer(event)
        (folder / "report.html").write_text("x")
        os.utime(folder / "run.jsonl", (number, number))
    (tmp_path / ".killcheck/runs/r2/journal-0.jsonl").write_text('{"half": ')
    return lambda: {path.name for path in (tmp_path / ".killcheck/runs").iterdir()}


def test_it_lists_the_newest_first_with_its_verdict(killcheck, many):
    listed = json.loads(killcheck("runs", "--json").stdout)
    assert [one["run"] for one in listed] == ["r5", "r4", "r3", "r2", "r1", "r0"]
    assert [one["verdict"] for one in listed] == ["survived"] * 4 + ["unfinished", "survived"]
    assert listed[0] | {"size": 0} == {
        "run": "r5",
        "at": "2026-01-15T03:00:00.000000Z",
        "kill_path": "inference",
        "cluster": "staging",
        "drills": 0,
        "verdict": "survived",
        "size": 0,
        "record": ".killcheck/runs/r5/run.jsonl",
        "sealed": True,
    }
    assert [one["sealed"] for one in listed] == [True] * 4 + [False, True]
    told = killcheck("runs").stdout.splitlines()
    assert told[0].startswith("2026-01-15 03:00  survived")
    assert told[1].strip() == ".killcheck/runs/r5/run.jsonl"


def test_the_last_n_stay_and_what_is_not_over_or_not_put_back(killcheck, many):
    assert killcheck("runs", "--keep", "2").exit_code == 0
    assert many() == {"r5", "r4", "r1", "r2"}


def test_no_runs_are_no_error(killcheck):
    done = killcheck("runs")
    assert (done.exit_code, done.stdout) == (0, "there are no runs under .killcheck/runs: killcheck drill makes one\n")
    assert killcheck("report").exit_code == 2


def test_a_drill_keeps_the_number_that_is_set_and_stays_out_of_the_repository(killcheck, many, tmp_path, monkeypatch):
    monkeypatch.setenv(kept.SETTING, "3")
    assert killcheck(*NIGHT).exit_code == 3
    assert len(many()) == 5
    assert {"r5", "r4", "r1", "r2"} < many()
    assert (tmp_path / ".killcheck/.gitignore").read_text().endswith("\n*\n")
    newest = json.loads(killcheck("runs", "--json").stdout)[0]
    assert (newest["kill_path"], newest["verdict"], newest["drills"]) == ("dead-man", "inconclusive", 1)


@pytest.mark.parametrize("said", ["many", "-1", "1.5"])
def test_a_setting_that_is_no_number_is_an_error_before_anything_runs(said, monkeypatch, killcheck, tmp_path):
    monkeypatch.setenv(kept.SETTING, said)
    with pytest.raises(SessionError, match="expected a whole number"):
        kept.limit()
    assert killcheck(*NIGHT).exit_code == 2
    assert not (tmp_path / ".killcheck").exists()


def test_all_are_kept_with_zero(many, monkeypatch, tmp_path):
    monkeypatch.setenv(kept.SETTING, "0")
    assert kept.tidy(tmp_path / ".killcheck", kept.limit()) == []
    assert len(many()) == 6


# -- standard output as a FILE -----------------------------------------------------------------------------
FORMATS = ("--html", "--json", "--junit", "--sarif", "--prometheus", "--github-summary", "--slack")


@pytest.mark.parametrize("option", FORMATS)
def test_a_dash_is_standard_output_and_nothing_else_stands_there(option, killcheck, many, tmp_path):
    file = tmp_path / "written"
    assert killcheck("report", ".killcheck/runs/r5", option, str(file)).exit_code == 0
    done = killcheck("report", option, "-")
    assert (done.exit_code, done.stdout) == (0, file.read_text())
    assert not (tmp_path / "-").exists()


def test_another_killcheck_that_tidies_the_same_folder_meanwhile_ends_nobody(tmp_path, many, monkeypatch):
    folder = tmp_path / ".killcheck"
    shutil.rmtree(folder / "runs/r2")

    def under_way(found):
        shutil.rmtree(folder / "runs/r3", ignore_errors=True)
        return found

    monkeypatch.setattr(kept, "runs", lambda _folder, real=kept.runs: under_way(real(_folder)))
    assert [one.run for one in kept.described(folder)] == ["r5", "r4", "r1", "r0"]
    (folder / "runs/r3").mkdir()
    (folder / "runs/r3/run.jsonl").write_text("{}")
    assert kept.tidy(folder, 1) == [folder / "runs/r5", folder / "runs/r4", folder / "runs/r0"]
    (folder / "runs/r3").symlink_to(tmp_path / "nowhere")
    assert [path.parent.name for path in kept.runs(folder)] == ["r1"]
    assert orphans.local(folder) == []


def test_two_documents_cannot_both_go_there(killcheck, many):
    done = killcheck("report", "--json", "-", "--prometheus", "-")
    assert done.exit_code == 2
    assert "only one document can go to standard output" in done.stderr


@pytest.mark.parametrize("option", ["--sarif", "--junit"])
def test_lint_writes_documents_there_too(option, killcheck, tmp_path):
    file = tmp_path / "written"
    told = killcheck("lint", "--example", "dead-man", option, str(file))
    done = killcheck("lint", "--example", "dead-man", option, "-")
    assert (done.exit_code, done.stdout) == (told.exit_code, file.read_text())
    assert done.stderr.startswith("killcheck: dead-man: ")
    assert killcheck("lint", "--example", "dead-man", option, "-", "--json").exit_code == 2
