"""Commands that are shown without what they print: all have these options, and what can be run here is run.

What a page shows with its output is run by ``test_commands.py``. The others are run in this process, in one folder that
has what they name: manifests in ``deploy``, a run, a fleet, a key. ``NOT_HERE`` says of the rest why not.
"""

from __future__ import annotations

import re
import shlex
import shutil
from pathlib import Path

import click
import pytest
from click.testing import CliRunner
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ed25519
from test_commands import BLOCK, FILE, SHORTER

from killcheck.cli import main
from killcheck.run.gc_tuning import uncollected

ROOT = Path(__file__).resolve().parents[2]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted(ROOT.glob("docs/**/*.md")), *ROOT.glob("ci/**/*.md")]
SHOWN = re.compile(r"^(?: {4,}|\$ )(?:[A-Z_]+=\S+ )*(killcheck (?:.*\\\n)*.*)$", re.MULTILINE)
ENDS = {"|", "&", "&&", ">", "<", ";", "||", ">>", ")"}


def words(line):
    """The words of a command line up to what the shell does with it; what is said beside it is none."""
    whole = re.sub(r"\s*\\\n\s*", " ", line)
    said = re.sub(r"\$\([^)]*\)", "FILE", re.split(r" {2,}", whole)[0])
    split = shlex.shlex(said, posix=True, punctuation_chars=True)
    split.wordchars += "@:=,{}[]+$"
    found = []
    for word in split:
        if word in ENDS:
            break
        found.append(word)
    return found


def told(page):
    found = {tuple(words(line)) for line in SHOWN.findall(page.read_text(encoding="utf-8"))}
    return sorted(line for line in found if line[1:])


def parsed(argv):
    """Walk down to the command, and let it parse its words. Raises click.UsageError.

    In contexts as the command makes them: the first one that is used decides what its help is called.
    """
    command, context = main, click.Context(main, info_name="killcheck", **main.context_settings)
    while isinstance(command, click.Group):
        name, command, argv = command.resolve_command(context, command.make_parser(context).parse_args(argv)[1])
        context = click.Context(command, info_name=name, parent=context, **command.context_settings)
    rest = command.make_parser(context).parse_args(list(argv))[1]
    if rest:
        raise click.UsageError(f"too many words: {shlex.join(rest)}")


@pytest.mark.parametrize("page", [page for page in PAGES if told(page)], ids=lambda page: str(page.relative_to(ROOT)))
def test_every_command_that_is_shown_has_these_options(page):
    for line in told(page):
        try:
            parsed(list(line[1:]))
        except click.UsageError as error:
            pytest.fail(f"{shlex.join(line)}: {error.format_message()}")


def test_a_wrong_one_is_noticed():
    for line in ("killcheck dril x", "killcheck drill --undr x", "killcheck lint a b"):
        with pytest.raises(click.UsageError):
            parsed(words(line)[1:])


#: What of a command line says that it is not run here, and why.
NOT_HERE = {
    "--on": "a cluster or a Docker host of somebody's: docs/staging.md, docs/safety.md, docs/kind-and-docker.md",
    "--live": "a cluster",
    "s3://": "an account: docs/cloud.md runs it on a stand-in",
    "awskms:": "an account",
    "--webhook": "a chat",
    "--audit-log": "an API server's log",
    "--exec docker": "a Docker Engine",
    "cluster up": "it stays until it is told to go: README.md, docs/tutorial.md",
    "cluster advance": "the same",
    "nodes ": "a cluster",
    "explore": "minutes: README.md searches under one fault",
    "drill --matrix": "minutes: README.md and docs/tutorial.md have some faults",
    "demo": "tests/docs/test_first_hour.py runs it by make drill",
    "fleet drill": "docs/fleet.md runs it",
    "gate": "minutes, as the whole matrix: README.md runs it with --quick",
}
#: Exit codes of a command that did what it is for.
DONE = {0, 1, 3}


def _run_elsewhere():
    """The commands of console blocks."""
    blocks = [block["text"] for page in PAGES for block in BLOCK.finditer(page.read_text(encoding="utf-8"))]
    return {tuple(words(line)) for text in blocks for line in SHOWN.findall(text)}


def _is_about(what, line):
    return f" {what}" in f" {shlex.join(line)} "


def _key_pair():
    key = ed25519.Ed25519PrivateKey.generate()
    pem, pkcs8 = serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8
    public = serialization.PublicFormat.SubjectPublicKeyInfo
    Path("signing.pem").write_bytes(key.private_bytes(pem, pkcs8, serialization.NoEncryption()))
    Path("signing.pub").write_bytes(key.public_key().public_bytes(pem, public))


@pytest.fixture
def furnished(tmp_path, monkeypatch):
    """A folder with what shown commands name; and the id of a run in it."""
    monkeypatch.setenv("KILLCHECK_KEEP_RUNS", "100")
    monkeypatch.chdir(tmp_path)
    _key_pair()
    prove = ["certify", "--key", "signing.pem", "-o", "proof.intoto.json"]
    for argv in (["demo", "--copy-to", "deploy"], ["drill", "deploy", "--exec", "host", "-q"], prove):
        ended = CliRunner().invoke(main, argv)
        assert ended.exit_code == 0, ended.output
    [run] = Path(".killcheck/runs").iterdir()
    for copy in ("run.jsonl", "tonight.jsonl", "last-night.jsonl"):
        shutil.copy(run / "run.jsonl", copy)
    [(fleet, _, text)] = FILE.findall((ROOT / "docs/fleet.md").read_text(encoding="utf-8"))
    Path(fleet).write_text(SHORTER.sub("held: 1s", text))
    for name in ("killcheck.yaml", "gpu-nightly-off.yaml"):
        shutil.copy(Path("deploy", name), name)
    return run.name


def test_every_command_that_can_be_run_here_does_what_it_is_for(furnished):
    elsewhere = _run_elsewhere()
    shown = {line: page for page in PAGES for line in told(page)}
    rest = [line for line in shown if line not in elsewhere]
    assert NOT_HERE.keys() == {what for line in rest for what in NOT_HERE if _is_about(what, line)}
    run = [line for line in rest if not any(_is_about(what, line) for what in NOT_HERE)]
    spec = Path("killcheck.yaml").read_text(encoding="utf-8")
    for line in sorted(run, key=lambda line: line[1] == "restore"):
        argv = [word.replace("ID", furnished).replace("20260115-030001-a1b2c3-0", furnished) for word in line[1:]]
        if argv[0] == "init":
            Path("killcheck.yaml").unlink()
        with uncollected():
            ended = CliRunner().invoke(main, argv)
        assert ended.exit_code in DONE, f"{shown[line].name}: {shlex.join(line)}: {ended.exit_code}\n{ended.output}"
        Path("killcheck.yaml").write_text(spec, encoding="utf-8")
