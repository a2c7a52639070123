"""What a command says to a person: the one way by which its sentences reach a terminal.

Documents (JSON, a spec, a report) are written as they are; sentences have others' words in them, which hide nothing
and fill no screen (:mod:`killcheck.text.shown`).
"""

from __future__ import annotations

import click

from killcheck.text.shown import shown

__all__ = ["say"]


def say(text: object = "", *, err: bool = False) -> None:
    """Print a sentence, to standard error with ``err``."""
    click.echo(shown(str(text)), err=err)
