"""What every command prints with --json fits the published schema."""

from __future__ import annotations

import json

import jsonschema
import pytest
from click.testing import CliRunner

from killcheck.cli import main
from killcheck.reports.document import schema

COMMANDS = {
    "drill": ["drill", "--example", "dead-man", "--json"],
    "exposed": ["drill", "--example", "dead-man", "--under", "suspended", "--json"],
    "inconclusive": ["drill", "--manifests", "{path}", "--json"],
    "matrix": ["drill", "--example", "dead-man", "--matrix", "--under", "rolebinding-gone", "--json"],
    "lint": ["lint", "--manifests", "{path}", "--json"],
    "fence": ["fence", "--manifests", "{path}", "--json"],
    "gate": ["gate", "--example", "dead-man", "--quick", "--json"],
}


@pytest.mark.parametrize("words", COMMANDS.values(), ids=COMMANDS)
@pytest.mark.one_in(2)
def test_it_fits_the_schema(words, tmp_path, monkeypatch):
    from killcheck import fixtures

    monkeypatch.chdir(tmp_path)
    done = CliRunner().invoke(main, [word.format(path=fixtures.path("dead-man")) for word in words])
    made = json.loads(done.stdout)
    jsonschema.Draft202012Validator(schema("result")).validate(made)
    assert bool(made["drills"]) == (words[0] in ("drill", "gate"))
    assert bool(made["fences"]) == (words[0] in ("fence", "gate"))
