"""Files and options that nobody meant: no traceback, and an exit code that is documented for it.

The default run takes a sample; ``KILLCHECK_FUZZ=2000`` takes so many inputs, spread over the surfaces.
"""

from __future__ import annotations

import json
import os
import random

import pytest
import yaml
from click.testing import CliRunner
from killcheck.fixtures import path

from killcheck import fixtures
from killcheck.cli import main

SAMPLE = 64
COUNT = int(os.environ.get("KILLCHECK_FUZZ", SAMPLE))
SPEC = fixtures.spec("dead-man").read_text()
KUBECONFIG = """apiVersion: v1
kind: Config
clusters: [{name: c, cluster: {server: 'https://127.0.0.1:1'}}]
users: [{name: u, user: {token: t}}]
contexts: [{name: staging, context: {cluster: c, user: u}}]
current-context: staging
"""
ENTRY = {
    "run": "x",
    "number": 0,
    "what": "w",
    "expires": "2020-01-01T00:00:00Z",
    "state": "applied",
    "undo": {
        "action": "merge",
        "path": "/api/v1/nodes/a",
        "body": {"spec": {"unschedulable": None}},
        "left": {"spec": {}},
    },
}
JOURNAL = json.dumps({"journal": {"run": "x", "context": "staging", "host": "h", "pid": 1}}) + "\n" + json.dumps(ENTRY)
RECORD = (
    "\n".join(
        json.dumps(line)
        for line in (
            {
                "event": "run-started",
                "at": "2026-01-15T03:00:01Z",
                "schema": "killcheck.record/v1",
                "run": "r",
                "version": "1",
                "cluster": "embedded",
                "real": False,
                "kill_path": "k",
                "drills": [],
            },
            {"event": "run-finished", "at": "2026-01-15T03:00:01Z", "verdict": "proven", "exit_code": 0},
        )
    )
    + "\n"
)
ODD = (
    None,
    True,
    False,
    0,
    -1,
    1e308,
    float("nan"),
    2**70,
    "",
    " ",
    "x",
    "\u0000",
    "\ud83d\ude00",
    "../..",
    "[]",
    "0s",
    "-1h",
    "1e9d",
    "*/0 * * * *",
    "9999-99-99T99:99:99Z",
    "Mars/Olympus",
    [],
    {},
    [None],
    [[]],
    {"": None},
    {"x": {"y": [1]}},
)
WORDS = (
    "--under",
    "--layer",
    "--watch",
    "--on",
    "--json",
    "--dry-run",
    "--run",
    "--expired",
    "--believe",
    "-n",
    "--exec",
    "--manifests",
    "--html",
    "--yes",
    "nowhere",
    "\u0000",
    "-1",
    "1h",
    "staging",
    "embedded",
    "host",
    "",
    "--",
    "@x",
    "*",
)


def odd_value(rng, value):
    """The same document with something odd in one place."""
    if isinstance(value, dict) and value and rng.random() < 0.9:
        key = rng.choice(list(value))
        fate = rng.random()
        if fate < 0.1:
            return {k: v for k, v in value.items() if k != key}
        if fate < 0.15:
            return {**value, rng.choice(["", "x", "metadata", "spec"]): rng.choice(ODD)}
        return {**value, key: odd_value(rng, value[key])}
    if isinstance(value, list) and value and rng.random() < 0.9:
        at = rng.randrange(len(value))
        return [*value[:at], odd_value(rng, value[at]), *value[at + 1 :]]
    return rng.choice(ODD)


def odd_text(rng, text):
    """The same text cut, doubled, or with something odd in it."""
    at = rng.randrange(len(text) + 1)
    return rng.choice(
        [
            text[:at],
            text[at:],
            text + text,
            "[" * 3000,
            "",
            text[:at]
            + rng.choice(
                [
                    "\t",
                    "\u0000",
                    ": ",
                    "&a [*a]",
                    "{{ x }}",
                    "\ufeff",
                    "\n---\n",
                    "'",
                    '"',
                    "%",
                    "\r",
                    "!!python/object:os.system ",
                ]
            )
            + text[at:],
        ]
    )


def odd(rng, text, parse=yaml.safe_load_all, dump=lambda docs: yaml.safe_dump_all(docs, allow_unicode=True)):
    """Odd one way or the other."""
    if rng.random() < 0.35:
        return odd_text(rng, text)
    docs = list(parse(text))
    at = rng.randrange(len(docs))
    docs[at] = odd_value(rng, docs[at])
    return dump(docs)


def odd_lines(rng, text):
    return odd(
        rng,
        text,
        lambda t: [json.loads(line) for line in t.splitlines()],
        lambda docs: "\n".join(map(json.dumps, docs)),
    )


class Folder:
    """A working folder with one odd file in it."""

    def __init__(self, folder, rng):
        self.folder, self.rng = folder, rng
        (folder / "kubeconfig").write_text(KUBECONFIG)
        (folder / "killcheck.yaml").write_text(SPEC)

    def write(self, name, text):
        file = self.folder / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(text.encode("utf-8", "surrogatepass"))
        return str(file)

    def spec(self):
        file = self.write("odd.yaml", odd(self.rng, SPEC))
        return self.rng.choice([["lint", file], ["drill", file, "--on", "staging", "--dry-run"]])

    def manifest(self):
        source = self.rng.choice(sorted(p for p in path("dead-man").glob("*.yaml") if p.name != "killcheck.yaml"))
        self.write("deploy/odd.yaml", odd(self.rng, source.read_text()))
        return ["lint", "--manifests", str(self.folder / "deploy")]

    def record(self):
        return ["report", self.write("run.jsonl", odd_lines(self.rng, RECORD)), *self.rng.choice([[], ["--json", "-"]])]

    def journal(self):
        self.write(".killcheck/runs/x/journal-0.jsonl", odd_lines(self.rng, JOURNAL))
        on = ["--on", "host"]
        return ["restore", *self.rng.choice([[], on, ["--dry-run"], ["--json"], [*on, "--json"], [*on, "--dry-run"]])]

    def kubeconfig(self):
        self.write("kubeconfig", odd(self.rng, KUBECONFIG))
        return [*self.rng.choice([["restore"], ["drill", "killcheck.yaml", "--dry-run"]]), "--on", "staging"]

    def options(self):
        command = self.rng.choice(["lint", "drill", "restore", "report", "explore", "gate", "fence", "discover"])
        return [command, *(self.rng.choice(WORDS) for _ in range(self.rng.randrange(1, 4))), "--on", "nowhere"]


#: How many of sixteen inputs each gets: what takes longest gets least.
SURFACES = {"spec": 1, "manifest": 1, "record": 4, "journal": 4, "kubeconfig": 2, "options": 4}


@pytest.mark.parametrize("surface", SURFACES)
def test_no_input_ends_in_a_traceback_or_an_exit_code_of_its_own(surface, tmp_path, monkeypatch):
    monkeypatch.setattr("killcheck.safety.undo.BACKOFF_S", (1e6,))  # nobody waits for what is not there
    for number in range(-(-COUNT * SURFACES[surface] // 16)):
        folder = tmp_path / str(number)
        folder.mkdir()
        monkeypatch.chdir(folder)
        monkeypatch.setenv("KUBECONFIG", str(folder / "kubeconfig"))
        argv = getattr(Folder(folder, random.Random(f"{surface}-{number}")), surface)()
        result = CliRunner().invoke(main, argv)
        told = (surface, number, argv, result.exit_code, result.output[-600:], repr(result.exception))
        assert result.exception is None or isinstance(result.exception, SystemExit), told
        assert "Traceback" not in result.output, told
        assert result.exit_code in range(6), told
        assert result.exit_code == 0 or result.output.strip(), told
