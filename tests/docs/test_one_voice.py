"""One voice: sentences that are read in one breath, and one name for one thing, in README and on every page."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from killcheck.cli import main

ROOT = Path(__file__).resolve().parents[2]
NAMED = ("README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "ci/README.md", "tests/README.md")
PAGES = [*(ROOT / name for name in NAMED), *sorted(ROOT.glob("docs/**/*.md"))]
#: Words in the longest sentence.
MOST = 25
#: Words that are not ours, and the one that is: the glossary's.
OTHER_NAMES = {
    r"\bkill[- ]chain\b": "kill path",
    r"\bkill[- ]switch\b": "layer",
    r"\bimage there\b": "image pulled",
    r"\bhealth ?checks?\b": "probe",
    r"\bblast radius\b": "fence",
    r"\broll(?:ed|s)? back\b": "put back",
    r"\bsandbox(?:ed)? cluster\b": "embedded cluster",
    r"\bfake (?:cluster|kubelet|cloud)s?\b": "embedded cluster, hollow node, stand-in",
    r"\btest run\b": "drill",
}


def prose(text):
    """The page's text in pieces that end by themselves: paragraphs, headings, items of lists, cells of tables."""
    text = re.sub(r"<!--.*?-->", "", text, flags=re.DOTALL)
    text = re.sub(r"^```.*?^```", "", text, flags=re.DOTALL | re.MULTILINE)
    text = re.sub(r"(?<=\n\n)(?: {4,}.*\n|\n)+", "\n", text)
    text = re.sub(r"`[^`]*`", "code", text)
    text = re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", text)
    for piece in re.split(r"\n\s*\n|\n(?=#|\s*(?:[-*]|\d+\.) )|\||(?<=\|)\n", text):
        yield " ".join(piece.split())


def sentences(text):
    for piece in prose(text):
        yield from re.split(r"(?<=[.!?])[\"')*_]*\s+(?!\.)", re.sub(r"^[-*] |^\d+\. ", "", piece))


def words(sentence):
    return [word for word in sentence.split() if re.search(r"\w", word)]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_no_sentence_is_longer_than_a_breath(page):
    long = [f"{len(words(one))}: {one}" for one in sentences(page.read_text("utf-8")) if len(words(one)) > MOST]
    assert long == []


def said(tree):
    """(line, text) of what a program says: its texts, the values in them left out, but for docstrings."""
    skipped = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Expr):
            skipped.add(node.value)
        elif isinstance(node, ast.JoinedStr):
            yield node.lineno, "".join(part.value if isinstance(part, ast.Constant) else "X" for part in node.values)
            skipped |= set(node.values)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and node not in skipped:
            yield node.lineno, node.value


@pytest.mark.weekly
def test_no_message_is_longer_than_a_breath():
    """But for Kubernetes' own words, lists of names, patterns and documents."""
    long = []
    for file in (one for room in ("killcheck", "probes", "suites") for one in (ROOT / room).rglob("*.py")):
        for line, text in said(ast.parse(file.read_text("utf-8"))) if "embedded" not in file.parts else ():
            for one in re.split(r"(?<=[.;:!?])\s+", text) if "\n" not in text and "(?:" not in text else ():
                if len(words(one)) > MOST and "," in one:
                    long.append(f"{file.relative_to(ROOT)}:{line}: {len(words(one))}: {one}")
    assert long == []


def commands(command=main, *names):
    """Every command with its words, groups' own included."""
    yield names, command
    if isinstance(command, click.Group):
        for name in command.list_commands(click.Context(command)):
            yield from commands(command.get_command(click.Context(command), name), *names, name)


COMMANDS = [pytest.param(names, command, id=" ".join(("killcheck", *names))) for names, command in commands()]


@pytest.mark.parametrize(("names", "command"), COMMANDS)
def test_help_is_read_in_one_breath_on_a_narrow_terminal(names, command):
    shown = CliRunner().invoke(main, [*names, "--help"], env={"COLUMNS": "80"}).output
    assert [line for line in shown.splitlines() if len(line) > 80] == []
    texts = [re.sub(r"\x08\n(?:.+\n?)*", "", command.help or ""), *(getattr(one, "help", "") for one in command.params)]
    parts = [part for text in texts for one in sentences(text or "") for part in re.split(r"[;:] ", one)]
    assert [f"{len(words(one))}: {one}" for one in parts if len(words(one)) > MOST] == []
    for other in OTHER_NAMES:
        assert not re.search(other, shown, re.IGNORECASE), other


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_one_thing_has_one_name(page):
    found = [
        f"{said[0]!r}: say {ours!r}"
        for other, ours in OTHER_NAMES.items()
        for piece in prose(page.read_text("utf-8"))
        for said in re.finditer(other, piece, re.IGNORECASE)
    ]
    assert found == []


def test_the_glossary_has_every_verdict_and_phase_and_none_twice():
    from killcheck.spec.phases import PHASES
    from killcheck.verdict import Verdict

    text = (ROOT / "docs/glossary.md").read_text("utf-8")
    terms = re.findall(r"^\| ([^|]+?) \|", text, re.MULTILINE)[1:]
    assert len(terms) == len(set(terms))
    for word in (*map(str, Verdict), *(phase.words for phase in PHASES)):
        assert word in text, word


def test_a_long_sentence_is_noticed():
    text = f"Short one. {'word ' * 26}ends here.\n\n    code {'x ' * 40}\n\n| a | {'cell ' * 20}|\n"
    assert [len(words(one)) for one in sentences(text) if len(words(one)) > MOST] == [28]
