"""``killcheck drill`` as a user runs it."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from types import SimpleNamespace

import click
import pytest
from click.testing import CliRunner

from killcheck import fixtures
from killcheck.cli import main
from killcheck.commands import drill
from killcheck.reports.terminal import Terminal
from killcheck.safety.consent import Plan


@pytest.fixture
def killcheck(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return lambda *argv: CliRunner().invoke(main, list(argv))


def test_a_teams_own_yaml_is_drilled_without_a_spec(killcheck, tmp_path):
    folder = tmp_path / "deploy"
    shutil.copytree(fixtures.path("dead-man"), folder)
    (folder / "killcheck.yaml").unlink()
    result = killcheck("drill", "--manifests", str(folder), "--exec", "host", "--json")
    document = json.loads(result.stdout)
    assert result.exit_code == 0, result.output
    assert document["schema"] == "killcheck.result/v1"
    assert [drill["verdict"] for drill in document["drills"]] == ["survived"]
    assert {
        "layer",
        "faults",
        "verdict",
        "off_by",
        "stuck_at",
        "cause",
        "seconds_to_zero",
        "seconds_to_drained",
        "usd",
        "phases",
    } <= set(document["drills"][0])


@pytest.mark.parametrize(
    ("night", "words"),
    [
        ("dead-man-image-gone", ["bitnami/kubectl", "not found"]),
        ("dead-man-no-curl", ["curl", "127"]),
        ("dead-man-false-green", ["Complete", "GPUs are on"]),
    ],
)
def test_a_sabotaged_night_alone_exits_1_and_says_why(killcheck, night, words):
    result = killcheck("drill", "--manifests", str(fixtures.path(night)), "--exec", "host", "--no-color")
    assert result.exit_code == 1, result.output
    text = " ".join(result.output.split())
    assert "EXPOSED" in text
    assert all(word in text for word in words), text
    assert "remedy" in text


def test_the_demonstration_ends_as_it_must(killcheck):
    result = killcheck("demo", "--no-color")
    assert result.exit_code == 0, result.output
    assert "SURVIVED" in result.output
    assert result.output.count("EXPOSED") == 3


def test_a_copied_spec_leads_editors_to_its_schema(killcheck, tmp_path):
    assert killcheck("demo", "--copy-to", "deploy").exit_code == 0
    first = (tmp_path / "deploy/killcheck.yaml").read_text().splitlines()[0]
    assert json.loads(Path(first.partition("$schema=")[2]).read_text())["title"]


def test_help_teaches(killcheck):
    result = killcheck("--help")
    assert "Exit codes" in result.output
    assert "killcheck drill --manifests deploy --exec host" in result.output


def test_quiet_json_is_one_document(killcheck):
    json.loads(killcheck("drill", "--example", "dead-man", "--under", "image-gone", "--json").stdout)


def test_a_plan_is_one_document_too(killcheck):
    plan = json.loads(killcheck("drill", "--example", "dead-man", "--under", "suspended", "--dry-run", "--json").stdout)
    assert plan["schema"] == "killcheck.plan/v1"
    assert "CronJob inference/gpu-nightly-off is suspended for the length of the drill" in " ".join(plan["changes"])
    assert "patch cronjobs.batch gpu-nightly-off in namespace inference" in plan["permissions"]


def test_who_is_asked_is_asked_beside_the_document_and_an_interrupt_is_a_no(monkeypatch, capsys):
    def interrupted(*_args: object, **_how: object) -> bool:
        raise click.Abort

    monkeypatch.setattr(click, "confirm", interrupted)
    monkeypatch.setattr("sys.stdin", SimpleNamespace(isatty=lambda: True))
    asked = drill.approval(Terminal(color=False), False)
    assert asked(Plan("staging", ("the CronJob is suspended",), (), ())) is False
    printed = capsys.readouterr()
    assert printed.out == ""
    assert "the CronJob is suspended" in printed.err


def test_a_few_cells_a_night_take_their_turns(killcheck):
    chosen = []
    for _ in range(3):
        result = killcheck(
            "drill",
            "--example",
            "dead-man",
            "--matrix",
            "--under",
            "suspended",
            "--oldest",
            "1",
            "--exec",
            "none",
            "--json",
        )
        assert "1 of 2 cells" in result.stderr, result.output
        chosen += [tuple(drill["faults"]) for drill in json.loads(result.stdout)["drills"]]
    assert (sorted(set(chosen)), len(chosen)) == ([(), ("suspended",)], 3)


def test_turns_are_taken_by_a_matrix_alone(killcheck):
    result = killcheck("drill", "--example", "dead-man", "--oldest", "1")
    assert (result.exit_code, "give --matrix too" in result.output) == (2, True)
