"""Options that name a FILE to write: each takes ``-``, which is standard output, and writes whole or not at all."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import click

from killcheck.text.files import put

__all__ = ["FILE", "STDOUT", "one_on_stdout", "write"]

#: The type of such an option.
FILE = click.Path(path_type=Path, dir_okay=False, allow_dash=True)
STDOUT = Path("-")


def one_on_stdout(options: Mapping[str, Any], names: Sequence[str], *, document: bool = False) -> bool:
    """Whether one of the options goes to standard output; ``document``: ``--json`` goes there already.

    Raises UsageError where two do: nobody could read them apart.
    """
    there = [name for name in names if options.get(name) == STDOUT]
    if len(there) + document > 1:
        said = ", ".join(f"--{name.replace('_', '-')}" for name in there)
        raise click.UsageError(f"only one document can go to standard output: give {said} a file")
    return bool(there)


def write(path: Path, text: str) -> None:
    """Write a document; ``-`` is standard output. Raises OSError, as :func:`killcheck.text.files.put` does."""
    if path == STDOUT:
        click.echo(text, nl=False)
    else:
        put(path, text)
