"""Commands that are shown and not run in a test - for a cluster or a cloud that is none here - are commands all the same."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import click
import pytest

from killcheck.cli import main

ROOT = Path(__file__).resolve().parents[2]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted(ROOT.glob("docs/**/*.md")), *ROOT.glob("ci/**/*.md")]
SHOWN = re.compile(r"^(?: {4}|\$ )(?:[A-Z_]+=\S+ )*(killcheck .*)$", re.MULTILINE)
ENDS = {"|", "&", "&&", ">", "<", ";", "||", ">>", ")"}


def words(line):
    """The words of a command line up to what the shell does with it; what is said beside it is none."""
    said = re.sub(r"\$\([^)]*\)", "FILE", re.split(r" {2,}", line)[0].rstrip("\\"))
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
