"""One lint: its command, the gate, the plugin's fixture and SARIF say the same of a kill path."""

from __future__ import annotations

import json

import pytest
from click.testing import CliRunner
from killcheck.fixtures.zoo import Case, cases

from killcheck.cli import main
from killcheck.run import reading
from killcheck.run.session import Session


def _said(found):
    return sorted((f["probe"], f["severity"], f["object"], f["message"], f["line"] or 0) for f in found)


def _document(*argv):
    return json.loads(CliRunner().invoke(main, [*argv, "--json"]).stdout)["findings"]


@pytest.mark.parametrize("case", cases(), ids=lambda case: case.name)
@pytest.mark.one_in(60)
def test_whoever_asks_is_told_the_same(case: Case, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    files = case.files("broken")
    named = [word for file in files for word in ("--manifests", str(file))]
    found = _document("lint", *named, "--sarif", "lint.sarif")
    (run,) = json.loads((tmp_path / "lint.sarif").read_text())["runs"]
    assert len(run["results"]) == len(found)
    assert _said(_document("gate", *named, "--skip", "drills", "--skip", "fences")) == _said(found)
    asked = reading.findings(Session(manifests=files, exec_mode="none"))
    assert _said(one.to_json() for one in asked.findings) == _said(found)
