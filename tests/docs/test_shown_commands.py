"""Every command that a page shows has these options, and is run by a test.

What a page shows with its output is run by ``test_commands.py``, and so are the examples of ``--help``: they are in
``docs/examples.md``. ``BY_ANOTHER`` says which test runs the others, ``NOT_HERE`` of the rest why nobody does.
"""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import click
import pytest
from test_commands import BLOCK

from killcheck.cli import main

ROOT = Path(__file__).resolve().parents[2]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted(ROOT.glob("docs/**/*.md")), *ROOT.glob("ci/**/*.md")]
#: A command on a line of its own: of killcheck, and of any other program that a reader is told to run.
LINE = r"^(?: {{4,}}|\$ )(?:[A-Z_]+=\S+ )*({}(?:.*\\\n)*.*)$"
SHOWN = re.compile(LINE.format("killcheck "), re.MULTILINE)
COMMANDS = re.compile(
    LINE.format(
        r"(?:killcheck|pytest|kubectl|make|python3?|pip|git|gcloud|az|aws|openssl|helm|docker|export|eval) (?!=)"
    ),
    re.MULTILINE,
)
ENDS = {"|", "&", "&&", ">", "<", ">&", ">>&", ";", "||", ">>", ")"}


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


#: What another test runs as it is shown, and compares.
BY_ANOTHER = {
    "killcheck demo": "docs/test_first_hour.py",
    "make drill": "docs/test_first_hour.py",
    "killcheck certify --key awskms:alias/killcheck -o proof.intoto.json": "cloud/test_certificates_by_kms.py",
    "pip install 'killcheck[aws-stand-in]'": "wheel/try_wheel.py",
    "killcheck": "cli/test_completion.py",
    "killcheck fence killcheck.yaml --on staging --live": "fence/test_live.py",
    "killcheck drill --on envtest --yes": "conformance/test_binaries.py",
    "killcheck drill killcheck.yaml --on envtest --exec host --yes": "conformance/test_binaries.py",
    "killcheck drill --manifests deploy/ --exec docker --json": "docker/test_exec_docker.py",
    "killcheck drill killcheck.yaml --on docker:ssh://me@gpu-box": "docker/test_over_ssh.py",
    "python tests/conformance/fresh.py ...": "conformance/test_shown.py",
    "python tests/conformance/kubectl_course.py ...": "conformance/test_shown.py",
    "killcheck drill killcheck.yaml --on staging --preflight": "docker/test_docker_pulls.py",
    "pytest --pyargs killcheck.suites --killcheck-spec deploy/killcheck.yaml --killcheck-on staging": "plugin/test_plugin_live.py",
}
#: What is run by nobody here, and why: all of them.
NOT_HERE = {
    "make test": "it runs this test",
    "export KUBEBUILDER_ASSETS=FILE": "a download; conformance/test_binaries.py runs what follows where it was made",
    "git clone ...": "a network; tests/docs/test_first_hour.py makes the folder of what git tracks",
    "gcloud container node-pools list ...": "an account; cloud/test_provider_pools.py reads what it prints",
    "az aks nodepool list ...": "an account; cloud/test_provider_pools.py reads what it prints",
    "python tests/conformance/client_suites.py ...": "a real API server, and clones of two clients",
    "python tests/conformance/operators.py ...": "a cluster on which KEDA or Kueue itself runs",
    "pytest tests/conformance/test_side_by_side.py ...": "a real API server",
}


def _is(known, line):
    return line.startswith(known[:-3]) if known.endswith("...") else line == known


def test_every_shown_command_is_in_a_session_or_in_one_of_two_lists():
    sessions = [block["text"] for page in PAGES for block in BLOCK.finditer(page.read_text(encoding="utf-8"))]
    run = {shlex.join(words(line)) for text in sessions for line in COMMANDS.findall(text)}
    shown = {shlex.join(words(line)) for page in PAGES for line in COMMANDS.findall(page.read_text(encoding="utf-8"))}
    lists = {**BY_ANOTHER, **NOT_HERE}
    rest = {next((known for known in lists if _is(known, line)), line) for line in shown - run}
    assert rest == lists.keys()
    assert [test for test in BY_ANOTHER.values() if not (ROOT / "tests" / test).is_file()] == []
