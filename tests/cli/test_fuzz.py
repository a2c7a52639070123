"""Files and options that nobody meant: no traceback, and the one exit code that is documented for their class.

Which class an input is in is asked of the part that reads it, and of what the command printed; ``exit-codes.md`` says
how each ends. What is changed works before it is changed, and is said to. The default run takes a sample;
``KILLCHECK_FUZZ=2000`` takes so many inputs, spread over the surfaces.
"""

from __future__ import annotations

import json
import os
import random
from contextlib import suppress

import pytest
import yaml
from click.testing import CliRunner
from killcheck.fixtures import path

from killcheck import fixtures
from killcheck.cli import main
from killcheck.clock import WallLoop
from killcheck.embedded import Cluster
from killcheck.fleet import file as fleets
from killcheck.instances import catalogue
from killcheck.instances.catalogue import CatalogueError
from killcheck.kube import resources as r
from killcheck.kube.config import connect
from killcheck.kube.errors import KubeConfigError, KubeError
from killcheck.reports.story import tell
from killcheck.run import record
from killcheck.run.record import RecordError
from killcheck.safety import written
from killcheck.safety.journal import Journal
from killcheck.safety.keys import known_keys
from killcheck.spec import specfile
from killcheck.spec.specfile import SpecError, accepted

SAMPLE = 64
COUNT = int(os.environ.get("KILLCHECK_FUZZ", SAMPLE))
SPEC = fixtures.spec("dead-man").read_text()
FLEET = """apiVersion: killcheck/v1
kind: Fleet
name: platform
atOnce: 2
results: results
clusters:
  - {name: desk, context: embedded, labels: {env: desk}}
  - {name: eu, context: staging, secret: eu-kubeconfig, labels: {env: staging}}
paths:
  - {spec: killcheck.yaml, clusters: {env: desk}, exec: none, matrix: true, under: [suspended], shards: 2}
  - {spec: killcheck.yaml, clusters: {env: desk}, layers: [dead-man]}
"""
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
    """A working folder with one odd file in it; each surface answers the command, and the exit code of the class that
    the input turned out to be in: a number, or what tells it from what was printed.

    ``rng``: None leaves the file as it is.
    """

    def __init__(self, folder, rng, made):
        self.folder, self.rng, self.made = folder, rng, made
        (folder / "kubeconfig").write_text(KUBECONFIG)
        (folder / "killcheck.yaml").write_text(SPEC)

    def write(self, name, text, make=odd):
        file = self.folder / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes((make(self.rng, text) if self.rng else text).encode("utf-8", "surrogatepass"))
        return file

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
        argv = self.choice(["lint", "--json"], ["fence", "--json"], ["drill", "--on", "staging", "--dry-run"])
        argv = [argv[0], str(file), *argv[1:]]
        found = read(specfile.load, file)
        if found is None:
            return argv, 2
        if argv[0] != "drill":
            return argv, judged
        return argv, 4 if found.consent.allows_context("staging") else 2

    def policy(self):
        self.deploy()
        file = self.write("killcheck.accepted.yaml", ACCEPTED)
        return ["drill", "killcheck.yaml", "--dry-run", "--exec", "none"], 2 if read(accepted.read, file) is None else 0

    def fleet(self):
        self.deploy()
        file = self.write("fleet.yaml", FLEET)
        argv = ["fleet", *self.choice(["plan"], ["plan", "--json"], ["report"], ["plan", "--job", "--image", "x"])]
        found = read(fleets.load, file)
        refused = found is None or ("--job" in argv and not found.in_bucket)
        return [*argv, str(file)], 2 if refused else 3 if "report" in argv else 0

    def catalogue(self):
        self.deploy()
        file = self.write("catalogue.yaml", CATALOGUE)
        argv = ["fence", "killcheck.yaml", "--json", "--catalogue", str(file)]
        return argv, 2 if read(catalogue.load, file) is None else judged

    def manifest(self):
        everything = sorted(p for p in path("dead-man").glob("*.yaml") if p.name != "killcheck.yaml")
        changed = self.choice(*everything)
        for source in everything:
            self.write(f"deploy/{source.name}", source.read_text(), odd if source == changed else lambda _, text: text)
        # What is left of the path is enough to ask about, whichever file of it is odd: its target or its pool.
        return ["lint", "--json", "--manifests", str(self.folder / "deploy")], judged

    def record(self):
        file = self.write("run.jsonl", self.made["record"], odd_lines)
        argv = ["report", str(file), *self.choice([], ["--json", "-"], ["--html", "x.html"], ["--junit", "x.xml"])]
        return argv, 2 if read(lambda file: tell(list(record.read(file))), file) is None else told

    def journal(self):
        """Nobody's: what it asks for is told where its cluster is not named (5), and else is no business of host's."""
        file = self.write(".killcheck/runs/x/journal-0.jsonl", JOURNAL, odd_lines)
        on = ["--on", "host"]
        argv = self.choice([], ["--dry-run"], ["--json"], on, [*on, "--json"], [*on, "--dry-run"])
        said = journal_in(file)
        known = said.header is not None and said.header.context != "host"
        quiet = said.over or ("host" in argv and (known or "--dry-run" in argv))
        return ["restore", *argv], 0 if quiet else 5

    def signed(self):
        """This machine's own: its cluster does not answer (4); a line that is not as it was signed is hearsay (5)."""
        said = journal_in(self.write(".killcheck/runs/x/journal-0.jsonl", self.made["journal"], odd_lines))
        wanted = 0 if said.over else 4 if said.signed else 5
        return ["restore", *self.choice([], ["--dry-run"], ["--json"])], wanted

    def kubeconfig(self):
        self.write("kubeconfig", KUBECONFIG)
        argv = [*self.choice(["restore"], ["drill", "killcheck.yaml", "--dry-run"]), "--on", "staging"]
        with suppress(KubeError):  # credentials that are none are asked for, and are not had (4)
            return argv, 2 if read(lambda _: connect("staging", loop=WallLoop()), None) is None else 4
        return argv, 4

    def options(self):
        if self.rng is None:
            return ["faults"], 0
        command = self.choice("lint", "drill", "restore", "report", "explore", "gate", "fence", "discover")
        return [command, *(self.choice(*WORDS) for _ in range(self.rng.randrange(1, 4))), "--on", "nowhere"], 2


def read(reader, file):
    """What a reader makes of a file; None where it refuses it."""
    try:
        return reader(file)
    except (SpecError, CatalogueError, RecordError, KubeConfigError, ValueError, TypeError):
        return None


def journal_in(file):
    return written.read(file.read_text(encoding="utf-8", errors="replace"), known_keys())


def told(result):
    """Of a record that can be read: its results may still be none of killcheck's, and then one is named."""
    return 2 if "no result of killcheck's" in result.output else 0


def judged(result):
    """The code of what a document says: findings and fences that fail, what is not proven, or neither.

    Without a document what was given could not be used, and the message says which file, or that no GPU is in it.
    """
    if not result.stdout.startswith("{"):
        assert "odd.yaml" in result.output or "deploy" in result.output or "GPU" in result.output, result.output
        return 2
    document = json.loads(result.stdout)
    errors = [f for f in document["findings"] if f["severity"] == "error" and not f["unproven"]]
    verdicts = {fence["verdict"] for fence in document["fences"]}
    if errors or "exposed" in verdicts:
        return 1
    return 3 if "inconclusive" in verdicts else 0


#: How many of twenty inputs each gets: what takes longest gets least.
SURFACES = {
    "spec": 1,
    "manifest": 1,
    "policy": 2,
    "catalogue": 1,
    "fleet": 1,
    "record": 3,
    "journal": 3,
    "signed": 2,
    "kubeconfig": 2,
    "options": 4,
}


#: How each ends as it is, before anything is odd.
UNCHANGED = {
    "spec": 0,
    "manifest": 0,
    "policy": 0,
    "catalogue": 0,
    "fleet": 0,
    "record": 0,
    "journal": 5,
    "signed": 4,
    "kubeconfig": 4,
    "options": 0,
}


def ended(folder, surface, rng, made, monkeypatch):
    """How a killcheck in a folder of its own ended, and the code of its class."""
    folder.mkdir()
    monkeypatch.chdir(folder)
    monkeypatch.setenv("KUBECONFIG", str(folder / "kubeconfig"))
    argv, wanted = getattr(Folder(folder, rng, made), surface)()
    result = CliRunner().invoke(main, argv)
    about = (surface, folder.name, argv, result.exit_code, result.output[-600:], repr(result.exception))
    assert result.exception is None or isinstance(result.exception, SystemExit), about
    return result, wanted if isinstance(wanted, int) else wanted(result), about


@pytest.mark.parametrize("surface", SURFACES)
def test_no_input_ends_in_a_traceback_or_with_the_exit_code_of_another_class(surface, tmp_path, monkeypatch, made):
    monkeypatch.setattr("killcheck.safety.undo.BACKOFF_S", (1e6,))  # nobody waits for what is not there
    result, wanted, about = ended(tmp_path / "as-it-is", surface, None, made, monkeypatch)
    assert (result.exit_code, wanted) == (UNCHANGED[surface],) * 2, about
    for number in range(-(-COUNT * SURFACES[surface] // 20)):
        rng = random.Random(f"{surface}-{number}")
        result, wanted, about = ended(tmp_path / str(number), surface, rng, made, monkeypatch)
        assert "Traceback" not in result.output, about
        assert result.exit_code == wanted, about
        assert result.exit_code == 0 or result.output.strip(), about
