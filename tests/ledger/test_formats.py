"""An assumption, an open entry and a note reach everybody: each report says what its verdict rests on."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml
from beside import UNKNOWN, Aim
from click.testing import CliRunner, Result
from composed import Composition

from killcheck.cli import main
from killcheck.entries import Entry, Ledger, Status
from killcheck.text.values import replace

REASON = "it scales web shops only"
OPEN = "Deployment/platform/night-owl"
NOTE = "nothing is known of image registry.example.net/serving/engine:7"


def _path(folder: Path, *, assumed: bool) -> Path:
    aim = Aim("apps/v1", "Deployment", "serving", "llama", {"app": "llama"})
    one = Composition(rivals=tuple(UNKNOWN["an operator that may patch the scale"](aim)))
    said = {"kind": "Deployment", "name": "night-owl", "reason": REASON, "until": "2999-12-31"}
    (folder / "killcheck.yaml").write_text(yaml.safe_dump(one.spec | ({"assume": [said]} if assumed else {})))
    (folder / "all.yaml").write_text(yaml.safe_dump_all(one.objects))
    return folder / "killcheck.yaml"


def _drill(spec: Path, *options: str) -> Result:
    return CliRunner().invoke(main, ["drill", str(spec), "--exec", "host", *options])


@pytest.mark.parametrize("options", [(), ("--quiet",), ("--json",)], ids=["terminal", "quiet", "json"])
@pytest.mark.one_in(3)
def test_command_says_what_is_assumed(
    options: tuple[str, ...],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    done = _drill(_path(tmp_path, assumed=True), *options)
    flat = " ".join(done.stdout.split())
    assert done.exit_code == 0, done.output
    assert REASON in flat
    assert "2999-12-31" in flat
    assert NOTE in flat


def test_command_names_what_is_open_and_what_settles_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    done = _drill(_path(tmp_path, assumed=False), "--json")
    (drill,) = json.loads(done.stdout)["drills"]
    assert (done.exit_code, drill["verdict"]) == (3, "inconclusive")
    (entry,) = [one for one in drill["ledger"] if one["status"] == "not modelled"]
    assert entry["object"] == OPEN
    assert "assume:" in entry["settles"]
    assert drill["ledger_counts"]["not modelled"] == 1


def test_every_report_says_what_is_assumed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """From the record alone."""
    monkeypatch.chdir(tmp_path)
    assert _drill(_path(tmp_path, assumed=True), "--quiet").exit_code == 0
    (record,) = (tmp_path / ".killcheck/runs").glob("*/run.jsonl")
    kinds = [json.loads(line)["event"] for line in record.read_text().splitlines()]
    assert kinds.count("LedgerKept") == 1
    from killcheck.reports import allure, html, junit, prometheus, sarif_drills, summary
    from killcheck.reports.document import document
    from killcheck.reports.story import tell
    from killcheck.run.record import read

    story = tell(read(record))
    folder = tmp_path / "allure"
    allure.write(story, folder)
    made = {
        "html": html.html(story),
        "junit": junit.junit(story),
        "prometheus": prometheus.prometheus(story),
        "sarif": json.dumps(sarif_drills.document(story)),
        "github": summary.markdown(story),
        "slack": json.dumps(summary.slack(story)),
        "json": json.dumps(document(story)),
        "allure": "".join(json.loads(file.read_text())["description"] for file in folder.glob("*-result.json")),
    }
    for name, text in made.items():
        for wanted in (REASON, "2999-12-31", NOTE.replace("_", "\\_")):
            assert wanted in text, f"{name} does not say {wanted}"


def test_open_entry_is_never_without_what_settles_it() -> None:
    known = Entry("Deployment/x", Status.ASSUMED, "b")
    for one in (Entry("Deployment/x", Status.NOT_MODELLED, "b"), replace(known, status=Status.NOT_MODELLED)):
        assert "assume:" in str(one.to_json()["settles"])
        assert one.settles in str(Ledger((one,)).verdict())
