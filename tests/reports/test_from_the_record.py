"""Every report is made from the run record alone, also from one that a kill cut short; no secret is in any."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from html.parser import HTMLParser
from xml.etree import ElementTree

import pytest
from click.testing import CliRunner
from report_worlds import record as night
from report_worlds import result

from killcheck import events, fixtures
from killcheck.cli import main
from killcheck.reports import allure, rests, sarif_drills
from killcheck.reports.document import document
from killcheck.reports.html import html
from killcheck.reports.junit import junit
from killcheck.reports.outcome import sentence
from killcheck.reports.prometheus import prometheus
from killcheck.reports.story import tell
from killcheck.reports.summary import markdown, slack
from killcheck.run.planned import PlannedDrill
from killcheck.run.record import read
from killcheck.run.runner import Run
from killcheck.run.session import Session

AT = datetime(2026, 1, 15, 3, 0, tzinfo=UTC)


@pytest.fixture(scope="module")
def record(tmp_path_factory):
    """A night that survived and one that did not, in one record."""
    planned = [PlannedDrill("nightly-off"), PlannedDrill("nightly-off", fixture="dead-man-false-green")]
    return Run(Session(fixture="dead-man"), planned, folder=tmp_path_factory.mktemp("run")).execute().record


def made(**texts):
    """A record of one drill with these words in it."""
    began = events.RunStarted(at=AT, run="r", version="0", cluster="c", real=False, kill_path="p")
    drill = events.DrillStarted(
        at=AT, drill="d", layer="l", layer_type="dead-man", faults=[], deadlines={}, proof=["P1"]
    )
    result = {
        "layer": "l",
        "faults": [],
        "title": "",
        "verdict": "exposed",
        "why": "",
        "cause": texts.get("cause", ""),
        "remedy": "",
        "evidence": [],
        "stuck_at": "x",
        "watched_s": 60.0,
        "usd": None,
        "seconds_to_zero": None,
        "next_chance": None,
        "phases": [],
        "bites": {},
        "notes": [],
        "usd_until_next_chance": None,
        "usd_per_hour": None,
        "off_by": None,
    }
    end = AT + timedelta(minutes=1)
    return [
        began,
        drill,
        events.DrillFinished(at=end, drill="d", result=result),
        events.RunFinished(at=end, verdict="exposed", exit_code=1),
    ]


class Page(HTMLParser):
    def __init__(self, text):
        super().__init__()
        self.ids, self.links, self.outside = set(), set(), []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        for name, value in attrs:
            if name == "id":
                self.ids.add(value)
            if name == "href":
                self.links.add(value)
            if name in ("src", "href") and value and not value.startswith("#"):
                self.outside.append(value)


def test_the_page_stands_alone_and_its_links_lead_somewhere(record):
    page = Page(html(tell(read(record))))
    assert page.outside == []
    assert {link.removeprefix("#") for link in page.links} <= page.ids
    assert {"drill-0", "drill-1", "matrix", "mend"} <= page.ids


def test_the_page_tells_verdict_cause_and_phases(record):
    text = html(tell(read(record)))
    for word in ("survived", "exposed", "false green", "executor finished", "cannot patch resource", "Put back"):
        assert word in text


def test_markup_in_what_a_cluster_says_is_text():
    assert "<script>alert" not in html(tell(made(cause="<script>alert(1)</script>")))


def test_junit_counts_what_is_not_proven(record):
    suite = ElementTree.fromstring(junit(tell(read(record))).encode()).find("testsuite")
    assert (suite.get("tests"), suite.get("failures"), suite.get("errors")) == ("2", "1", "0")
    assert "false green" in suite.find("testcase/failure").get("message")


def test_junit_survives_control_characters():
    suite = ElementTree.fromstring(junit(tell(made(cause="bad \x00 \x1b[31m byte"))).encode()).find("testsuite")
    assert "byte" in suite.find("testcase/failure").get("message")


def test_prometheus_lines_parse_and_nothing_unseen_is_a_zero(record):
    text = prometheus(tell(read(record)))
    for line in text.splitlines():
        assert re.fullmatch(r"# (HELP|TYPE) .+|[a-z_]+\{[^}]*\} -?[0-9.e+]+", line), line
    assert text.count("killcheck_seconds_to_zero{") == 1  # the exposed one has none
    assert 'verdict="exposed"} 1' in text


def test_a_record_cut_short_proves_nothing(record, tmp_path):
    lines = record.read_text().splitlines()
    cut = tmp_path / "cut.jsonl"
    cut.write_text("\n".join(lines[: len(lines) // 3]) + "\n" + lines[len(lines) // 3][:20])
    story = tell(read(cut))
    assert story.verdict == "unfinished"
    assert "proves nothing" in sentence(story)
    assert "<html" in html(story)
    (suite,) = ElementTree.fromstring(junit(story).encode())
    assert suite.get("errors") == "2"  # the drill that it ends in, and the one that never began


def test_the_command_makes_them_all(record, tmp_path):
    names = ("page.html", "junit.xml", "killcheck.prom")
    options = [
        word
        for option, name in zip(("--html", "--junit", "--prometheus"), names, strict=True)
        for word in (option, str(tmp_path / name))
    ]
    done = CliRunner().invoke(main, ["report", str(record), *options])
    assert done.exit_code == 0, done.output
    assert sorted(p.name for p in tmp_path.iterdir()) == sorted(names)


def test_another_file_is_not_a_record(tmp_path):
    (tmp_path / "x.jsonl").write_text("{}\n")
    done = CliRunner().invoke(main, ["report", str(tmp_path / "x.jsonl")])
    assert done.exit_code == 2
    assert "x.jsonl:1" in done.output


def test_a_planted_secret_is_in_no_report(tmp_path, monkeypatch):
    """An executor that prints its token: nothing of it reaches record or reports."""
    folder = tmp_path / "deploy"
    folder.mkdir()
    for file in fixtures.path("dead-man").glob("*.yaml"):
        text = file.read_text().replace(
            "set -eu\n",
            "set -eu\n                  cat /var/run/secrets/kubernetes.io/"
            "serviceaccount/token; echo; echo password=hunter22\n",
        )
        (folder / file.name).write_text(text)
    monkeypatch.chdir(tmp_path)
    session = Session(spec=folder / "killcheck.yaml", manifests=[folder], exec_mode="host")
    result = Run(session, [PlannedDrill("nightly-off")], folder=tmp_path).execute()
    story = tell(read(result.record))
    logs = [event.text for event in story.drills[0].of(events.LogTaken)]
    assert any("<token>" in text for text in logs)
    allure.write(story, tmp_path / "allure")
    texts = [
        result.record.read_text(),
        html(story),
        junit(story),
        prometheus(story),
        str(result.to_json()),
        str(document(story)),
        str(sarif_drills.document(story)),
        markdown(story),
        str(slack(story)),
        *(file.read_text() for file in (tmp_path / "allure").iterdir()),
    ]
    for text in texts:
        assert "eyJ" not in text
        assert "hunter22" not in text


# -- records that are not what a run wrote -------------------------------------------------------------------
def lines_of(record):
    """Its lines without their hashes, as an older version wrote them: those of a chain cannot be changed unseen."""
    return [line.partition(',"chain"')[0] + "}" for line in record.read_text().splitlines()]


def report(record, tmp_path, *argv):
    return CliRunner().invoke(main, ["report", str(record), "--junit", str(tmp_path / "j.xml"), *argv])


@pytest.mark.parametrize("kept", [1, 2])
def test_drills_that_a_kill_kept_from_beginning_are_no_passes(record, tmp_path, kept):
    """A run of two drills that was killed before the first one, and in it: two errors, never an empty green suite."""
    cut = tmp_path / "cut.jsonl"
    cut.write_text("\n".join(lines_of(record)[:kept]) + "\n")
    assert report(cut, tmp_path).exit_code == 0
    (suite,) = ElementTree.parse(tmp_path / "j.xml").getroot()
    assert (suite.get("tests"), suite.get("errors")) == ("2", "2")
    assert [drill["verdict"] for drill in document(tell(read(cut)))["drills"]] == ["inconclusive", "inconclusive"]


@pytest.mark.parametrize(
    ("damage", "said"),
    [
        (lambda lines: [*lines, *lines], "a second run begins here: a record is one run"),
        (
            lambda lines: [line.replace('"verdict":"exposed"', '"verdict":"great"') for line in lines],
            "'great' is not one",
        ),
        (
            lambda lines: [re.sub(r'"seconds_to_zero":[\d.]+', '"seconds_to_zero":"x"', line) for line in lines],
            "drills[0].seconds_to_zero: 'x' is not of type",
        ),
        (
            lambda lines: [line[: len(line) // 2] if i == 3 else line for i, line in enumerate(lines)],
            "not a line of a killcheck run record",
        ),
        (lambda lines: ["hello", *lines], ":1: not a line of a killcheck run record"),
    ],
)
def test_a_record_that_was_changed_is_refused(record, tmp_path, damage, said):
    broken = tmp_path / "broken.jsonl"
    broken.write_text("\n".join(damage(lines_of(record))) + "\n")
    result = report(broken, tmp_path)
    assert result.exit_code == 2
    assert said in result.output
    assert not (tmp_path / "j.xml").exists()


def test_half_a_line_after_the_end_is_said(record, tmp_path):
    longer = tmp_path / "longer.jsonl"
    longer.write_text(record.read_text() + '{"event":"Not')
    result = report(longer, tmp_path)
    said = f"line {len(lines_of(longer))}, the last one, is cut short and left out"
    assert said in result.output
    assert said in (tmp_path / "j.xml").read_text()


def test_a_record_of_a_newer_killcheck_is_read_and_what_is_left_out_is_said(record, tmp_path):
    newer = tmp_path / "newer.jsonl"
    first, *rest = lines_of(record)
    first = re.sub(r'"version":"[^"]*"', '"version":"9.0"', first)
    newer.write_text("\ufeff" + "\n".join([first, '{"event":"FromTheFuture","at":"x"}', *rest]) + "\r\n", "utf-8")
    result = report(newer, tmp_path)
    assert result.exit_code == 0
    assert "was written by killcheck 9.0, this is" in result.output
    assert "1 line(s) that it does not know are left out" in result.output


@pytest.mark.parametrize(
    ("level", "said"),
    [
        ("namespaces", ["programs ran in the sandbox: namespaces"]),
        ("unisolated", ["programs ran unisolated"]),
        ("", []),
    ],
)
def test_how_well_programs_were_kept_in_is_said_with_what_a_verdict_rests_on(level, said):
    assert rests.of_drill(result(sandbox=level)) == said


def test_the_html_says_the_level_of_the_sandbox():
    assert "programs ran in the sandbox: bubblewrap" in html(tell(night([result(sandbox="bubblewrap")])))
