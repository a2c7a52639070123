"""What a command says to a person: the one way by which its sentences reach a terminal.

Documents (JSON, a spec, a report) are written as they are; sentences have others' words in them, which hide nothing
and fill no screen (:mod:`killcheck.text.shown`). On a terminal that is narrower than one it goes on in the next line.
"""

from __future__ import annotations

import os
import shutil
import sys
import textwrap

import click

from killcheck.text.shown import shown

__all__ = ["NEXT", "say"]

#: What a line begins with that has the command to type next: that stays whole, so that it can be pasted.
NEXT = "next: "
#: Between that command and what it is for.
WHY = "   ("


def say(text: object = "", *, err: bool = False, hang: int | None = None, more: str = "") -> None:
    """Print sentences, a line each, to standard error with ``err``; a pipe and a log get each line whole.

    ``hang``: columns from the left where a broken line goes on; None: four more than it begins with.
    ``more``: what ends a line that goes on (`` \\`` for a command that is to be pasted).
    """
    said, width = shown(str(text)), _columns(err=err)
    if width is not None:
        said = "\n".join(_broken(line, hang, width, more) for line in said.split("\n"))
    click.echo(said, err=err)


def _broken(line: str, hang: int | None, width: int, more: str) -> str:
    if len(line) <= width:
        return line
    if line.startswith(NEXT):
        return line.replace(WHY, f"\n{' ' * len(NEXT)}(")
    begins = len(line) - len(line.lstrip())
    first, indent = " " * begins, " " * min(begins + 4 if hang is None else hang, width // 2)
    parts = textwrap.wrap(
        line.strip(),
        width - len(more),
        initial_indent=first,  # also before a path that is longer than the line
        subsequent_indent=indent,
        break_on_hyphens=False,
        break_long_words=False,
    )
    return f"{more}\n".join(parts)


def _columns(*, err: bool) -> int | None:
    """Columns of the terminal on which a line is said; None: it is a pipe or a file."""
    stream = sys.stderr if err else sys.stdout
    if not stream.isatty():
        return None
    # Of standard error where that alone is a terminal; the variable COLUMNS goes before both.
    asked = 0 if os.environ.get("COLUMNS", "").isdigit() else os.get_terminal_size(stream.fileno()).columns
    return asked or shutil.get_terminal_size().columns
