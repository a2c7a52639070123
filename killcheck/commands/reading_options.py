"""How manifests are read: the options that every command that reads them has."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

__all__ = ["reading_options"]

_F = TypeVar("_F", bound=Callable[..., Any])


def reading_options(function: _F) -> _F:
    """Decorate a command that has ``--manifests``: what to leave out of them, and whether all must be readable."""
    for option in (
        click.option(
            "--values",
            "-f",
            multiple=True,
            type=click.Path(path_type=Path, exists=True),
            metavar="FILE",
            help="With a Helm chart as --manifests: fill it in with this file of values (repeatable).",
        ),
        click.option(
            "--set",
            "sets",
            multiple=True,
            metavar="KEY=VALUE",
            help="With a Helm chart as --manifests: set one of its values, as helm takes it (repeatable).",
        ),
        click.option(
            "--verbose",
            "-v",
            is_flag=True,
            help="Each finding, and each file that was not read, rather than one line a class.",
        ),
        click.option(
            "--strict/--keep-going",
            default=False,
            help="Refuse manifests of which anything cannot be read; else it is passed over, and said (the default).",
        ),
        click.option(
            "--exclude",
            multiple=True,
            metavar="PATTERN",
            help="Leave these files and folders out (as "
            ".gitignore has them, repeatable; also: a file .killcheckignore in the folder).",
        ),
    ):
        function = option(function)
    return function
