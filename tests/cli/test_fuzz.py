"""Files and options that nobody meant: no traceback, and the exit code that is documented for their class.

What is changed works before it is changed, and is said to. The default run takes a sample; ``KILLCHECK_FUZZ=2000`` takes so many inputs, spread over the surfaces.
"""

from __future__ import annotations

import json
import os
import random
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner
from killcheck.fixtures import path

from killcheck import fixtures
from killcheck.cli import main
from killcheck.embedded import Cluster
from killcheck.kube import resources as r
from killcheck.safety.journal import Journal
from killcheck.spec import specfile
from killcheck.spec.specfile import SpecError

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
DEPLOYMENT = {
    "metadata": {"name": "web", "namespace": "default"},
    "spec": {
        "replicas": 2,
        "selector": {"matchLabels": {"app": "web"}},
        "template": {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}},
    },
}
ACCEPTED = """apiVersion: killcheck/v1
kind: Accepted
exposures:
  - layer: nightly-off
    fault: image-gone
    cause: [ErrImagePull]
    owner: ops
    reason: one switch so far
    until: 2027-03-31
"""
CATALOGUE = """- {instance_type: p5.48xlarge, usd_per_hour: 60.0, vcpu: 192}
"""
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
    "\u0001",
    "\udcff",
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


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """What there is before anything is odd: a run record, and a journal that this machine has signed."""
    folder = tmp_path_factory.mktemp("made")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        done = CliRunner().invoke(main, ["drill", "--example", "dead-man", "--exec", "none", "-q"])
        assert done.exit_code == 3, done.output
        with Cluster(exec_mode="none") as cluster:
            cluster.kube.create(r.DEPLOYMENTS, DEPLOYMENT)
            journal = Journal("x", cluster.loop, cluster.kube, path=folder / "journal-0.jsonl", context="staging")
            journal.merge(r.DEPLOYMENTS, "web", "default", {"spec": {"replicas": 7}}, "scaled web")
    (record,) = folder.glob(".killcheck/runs/*/run.jsonl")
    return {"record": record.read_text(), "journal": (folder / "journal-0.jsonl").read_text()}


class Folder:
    """A working folder with one odd file in it; each surface answers the command and the exit codes of its class.

    ``rng``: None leaves the file as it is, and then only the first of the codes is right.
    """

    def __init__(self, folder, rng, made):
        self.folder, self.rng, self.made = folder, rng, made
        (folder / "kubeconfig").write_text(KUBECONFIG)
        (folder / "killcheck.yaml").write_text(SPEC)

    def write(self, name, text, make=odd):
        file = self.folder / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes((make(self.rng, text) if self.rng else text).encode("utf-8", "surrogatepass"))
        return str(file)

    def choice(self, *ways):
        return self.rng.choice(ways) if self.rng else ways[0]

    def deploy(self):
        """The manifests of the path, whole."""
        for source in path("dead-man").glob("*.yaml"):
            if source.name != "killcheck.yaml":
                (self.folder / source.name).write_text(source.read_text())

    def spec(self):
        self.deploy()
        file = self.write("odd.yaml", SPEC)
        wanted = (2,)
        if sound(file):  # without a ceiling a fence proves nothing (3)
            wanted = (0, 1, 3)
        aims = ["lint", file], ["fence", file], ["drill", file, "--on", "staging", "--dry-run"]
        argv = self.choice(*aims)
        # A spec that can be read may forbid the context (2); one that allows it meets nobody there (4).
        return argv, (4, 2) if argv[0] == "drill" and sound(file) else wanted

    def policy(self):
        self.deploy()
        beside = self.write("killcheck.accepted.yaml", ACCEPTED)
        assert beside
        return ["drill", "killcheck.yaml", "--dry-run", "--exec", "none"], (0, 2)

    def catalogue(self):
        self.deploy()
        file = self.write("catalogue.yaml", CATALOGUE)
        return ["fence", "killcheck.yaml", "--catalogue", file], (0, 1, 2, 3)

    def manifest(self):
        everything = sorted(p for p in path("dead-man").glob("*.yaml") if p.name != "killcheck.yaml")
        changed = self.choice(*everything)
        for source in everything:
            self.write(f"deploy/{source.name}", source.read_text(), odd if source == changed else lambda _, text: text)
        return ["lint", "--manifests", str(self.folder / "deploy")], (0, 1, 2)

    def record(self):
        file = self.write("run.jsonl", self.made["record"], odd_lines)
        return ["report", file, *self.choice([], ["--json", "-"], ["--html", "x.html"], ["--junit", "x.xml"])], (0, 2)

    def journal(self):
        """Nobody's; what it asks for is told where its cluster is not named (5), and else is no business of host's."""
        self.write(".killcheck/runs/x/journal-0.jsonl", JOURNAL, odd_lines)
        on = ["--on", "host"]
        argv = self.choice([], ["--dry-run"], ["--json"], on, [*on, "--json"], [*on, "--dry-run"])
        return ["restore", *argv], (5, 0)

    def signed(self):
        """This machine's own: its cluster does not answer (4); a line that is not as it was signed is hearsay (5)."""
        self.write(".killcheck/runs/x/journal-0.jsonl", self.made["journal"], odd_lines)
        return ["restore", *self.choice([], ["--dry-run"], ["--json"])], (4, 5, 0)

    def kubeconfig(self):
        self.write("kubeconfig", KUBECONFIG)
        return [*self.choice(["restore"], ["drill", "killcheck.yaml", "--dry-run"]), "--on", "staging"], (4, 2)

    def options(self):
        if self.rng is None:
            return ["faults"], (0,)
        command = self.choice("lint", "drill", "restore", "report", "explore", "gate", "fence", "discover")
        return [command, *(self.choice(*WORDS) for _ in range(self.rng.randrange(1, 4))), "--on", "nowhere"], (2,)


def sound(file):
    """Whether a spec is one."""
    try:
        specfile.load(Path(file))
    except SpecError:
        return False
    return True


#: How many of twenty inputs each gets: what takes longest gets least.
SURFACES = {
    "spec": 1,
    "manifest": 1,
    "policy": 2,
    "catalogue": 1,
    "record": 4,
    "journal": 3,
    "signed": 2,
    "kubeconfig": 2,
    "options": 4,
}


def ended(folder, surface, rng, made, monkeypatch):
    """How a killcheck in a folder of its own ended, and the codes of its class."""
    folder.mkdir()
    monkeypatch.chdir(folder)
    monkeypatch.setenv("KUBECONFIG", str(folder / "kubeconfig"))
    argv, codes = getattr(Folder(folder, rng, made), surface)()
    result = CliRunner().invoke(main, argv)
    told = (surface, folder.name, argv, result.exit_code, codes, result.output[-600:], repr(result.exception))
    return result, codes, told


@pytest.mark.parametrize("surface", SURFACES)
def test_no_input_ends_in_a_traceback_or_with_the_exit_code_of_another_class(surface, tmp_path, monkeypatch, made):
    monkeypatch.setattr("killcheck.safety.undo.BACKOFF_S", (1e6,))  # nobody waits for what is not there
    result, codes, told = ended(tmp_path / "as-it-is", surface, None, made, monkeypatch)
    assert result.exit_code == codes[0], told
    for number in range(-(-COUNT * SURFACES[surface] // 20)):
        rng = random.Random(f"{surface}-{number}")
        result, codes, told = ended(tmp_path / str(number), surface, rng, made, monkeypatch)
        assert result.exception is None or isinstance(result.exception, SystemExit), told
        assert "Traceback" not in result.output, told
        assert result.exit_code in codes, told
        assert result.exit_code == 0 or result.output.strip(), told
