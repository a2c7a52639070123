"""``killcheck accept``: from a red run to exposures that somebody answers for, and back."""

import contextlib
import json
import re
import shutil
from datetime import date, timedelta

import pytest
from click.testing import CliRunner

from killcheck import fixtures
from killcheck.cli import main
from killcheck.clock import wall_now
from killcheck.run.accepting import lasting
from killcheck.spec import specfile
from killcheck.spec.killpath import Outcome
from killcheck.spec.specfile import SpecError, accepted

LATER = (wall_now() + timedelta(days=30)).date()
SAID = ("--owner", "platform", "--reason", "one switch so far", "--until", LATER.isoformat())
MATRIX = ("drill", "--matrix", "--exec", "host", "-q")
#: The worst and a usual night of a team with one switch.
UNDER = ("--under", "image-gone", "--under", "suspended")


def ran(*argv):
    return CliRunner().invoke(main, list(argv))


@pytest.fixture
def team(tmp_path, monkeypatch):
    """A folder with a kill path of one's own and no policy."""
    monkeypatch.chdir(tmp_path)
    without_policy(tmp_path)
    return ran


def without_policy(folder):
    for file in fixtures.path("dead-man").glob("*.yaml"):
        text = file.read_text()
        (folder / file.name).write_text(re.sub(r"^policy:\n(?: .*\n|\n)*", "", text, flags=re.MULTILINE))


@pytest.fixture(scope="module")
def red(tmp_path_factory):
    """Such a folder, and its matrix drilled once for all: red."""
    folder = tmp_path_factory.mktemp("red")
    without_policy(folder)
    with contextlib.chdir(folder):
        assert ran(*MATRIX, *UNDER).exit_code == 1
    return folder


@pytest.fixture
def drilled(red, tmp_path, monkeypatch):
    """A team whose newest run is the red one."""
    shutil.copytree(red, tmp_path, dirs_exist_ok=True)
    monkeypatch.chdir(tmp_path)
    return ran


def test_what_is_accepted_passes_and_is_told_apart_from_exposed(drilled, tmp_path):
    done = drilled("accept", *SAID)
    assert done.exit_code == 0, done.output
    assert "2 exposure(s) are accepted: 2 new" in done.stdout
    told = drilled("history", "--json")
    stands = {tuple(one["faults"]): one["stand"] for one in json.loads(told.stdout)["series"]}
    assert stands == {(): "proven", ("image-gone",): "accepted", ("suspended",): "accepted"}
    assert told.exit_code == 0
    again = drilled(*MATRIX, *UNDER, "--json")
    document = json.loads(again.stdout)
    assert (again.exit_code, document["verdict"], document["matrix"]["accepted"]) == (0, "accepted", 2)
    assert "2 accept an exposure" in again.stderr.splitlines()[0]
    junit, sarif = tmp_path / "j.xml", tmp_path / "s.json"
    assert drilled("report", document["record"], "--junit", str(junit), "--sarif", str(sarif)).exit_code == 0
    assert 'failures="0" errors="0" skipped="2"' in junit.read_text()
    told = json.loads(sarif.read_text())["runs"][0]["results"]
    assert {one["ruleId"] for one in told} == {"drill/accepted"}
    for one in told:
        assert one["suppressions"][0]["justification"].endswith(f"by platform until {LATER}: one switch so far")
        place = one["locations"][0]["physicalLocation"]
        line = (tmp_path / place["artifactLocation"]["uri"]).read_text().splitlines()[place["region"]["startLine"] - 1]
        assert "nightly-off" in line


@pytest.mark.weekly
def test_a_day_after_the_last_it_fails_again(drilled, tmp_path):
    assert drilled("accept", *SAID).exit_code == 0
    file = tmp_path / "killcheck.accepted.yaml"
    file.write_text(file.read_text().replace(LATER.isoformat(), "2026-01-01"))
    assert drilled("history").exit_code == 1
    again = drilled(*MATRIX, "--under", "suspended")
    assert again.exit_code == 1
    assert "2 expired" in again.stderr.splitlines()[0]


@pytest.mark.weekly
def test_another_cause_than_the_accepted_one_is_exposed(drilled, tmp_path):
    assert drilled("accept", *SAID).exit_code == 0
    file = tmp_path / "killcheck.accepted.yaml"
    file.write_text(file.read_text().replace("ErrImagePull", "CrashLoopBackOff"))
    again = drilled(*MATRIX, "--under", "image-gone")
    assert (again.exit_code, "another cause than the known one" in again.stdout) == (1, True)


def test_what_is_proven_now_is_said_and_taken_out(drilled, tmp_path):
    file = tmp_path / "killcheck.accepted.yaml"
    short = drilled("accept", *SAID, "--reason", "x")
    assert (short.exit_code, file.exists()) == (2, False), "every command would refuse such a file"
    assert "'--reason': expected at least 3 characters, found 'x'" in short.output
    drilled("accept", *SAID, "--under", "suspended")
    file.write_text(file.read_text().replace("fault: suspended", "fault: registry-quota"))
    now = drilled(*MATRIX, "--under", "registry-quota")
    assert "better: nightly-off under registry-quota: accepted by platform, and proven now" in now.stdout
    done = drilled("accept", *SAID)
    assert "better    nightly-off under registry-quota: proven now" in done.stdout
    assert accepted.read(file) == ()


def test_a_switch_that_does_not_work_at_all_is_not_accepted(team, tmp_path):
    switch = tmp_path / "gpu-nightly-off.yaml"
    switch.write_text(switch.read_text().replace("replicas", "replics"))
    drilled = team("drill", "--exec", "host", "-q")
    done = team("accept", *SAID)
    assert (drilled.exit_code, done.exit_code) == (1, 1), drilled.output
    assert "exposed without any fault: the switch does not work; mend it" in done.stdout
    assert not (tmp_path / "killcheck.accepted.yaml").exists()


@pytest.mark.parametrize(
    ("argv", "says"),
    [
        ((*SAID[:-1], "2020-01-01"), "is past: it would accept nothing"),
        (SAID[2:], "--owner"),
        (SAID, "there is no run under .killcheck/runs"),
    ],
)
def test_bad_input_is_one_sentence(team, argv, says):
    done = team("accept", *argv)
    assert (done.exit_code, says in done.stderr) == (2, True), done.output


def test_a_misspelt_field_is_said_with_its_line(team, tmp_path):
    (tmp_path / "killcheck.accepted.yaml").write_text(
        "apiVersion: killcheck/v1\nkind: Accepted\nexposures:\n  - {layer: nightly-off, fault: image-gone}\n"
    )
    with pytest.raises(SpecError, match=r"killcheck\.accepted\.yaml:4: exposures\[0\]\.owner"):
        specfile.load(tmp_path / "killcheck.yaml")


@pytest.mark.parametrize(
    ("cause", "kept"),
    [
        ("ErrImagePull: reg.io/a/b:killcheck-gone-fa49-1: not found", "ErrImagePull: * not found"),
        ("node ip-10-0-54-70.ec2.internal is not empty: inference/web-75b789d858-m8f8b", "node * is not empty: *"),
        ("fired at 03:01:42 and took 31 s", "fired at * and took * s"),
        ("NodePool gpu never consolidates", "NodePool gpu never consolidates"),
    ],
)
def test_what_another_night_says_differently_is_not_kept(cause, kept):
    assert lasting(cause) == kept


def test_the_file_reads_back(team, tmp_path):
    rule = accepted.Rule(Outcome.KNOWN, "off", "image-gone", ("a: b", "c*"), "ops", "why: 'so'", date(2027, 1, 2))
    file = tmp_path / "killcheck.accepted.yaml"
    file.write_text(accepted.dump([rule, rule]))
    assert accepted.read(file) == (rule, rule)


def test_the_folder_of_a_spec_names_it(drilled, tmp_path):
    assert drilled("accept", "--spec", str(tmp_path), *SAID).exit_code == 0
    assert {rule.fault for rule in accepted.read(tmp_path / "killcheck.accepted.yaml")} == {"image-gone", "suspended"}
