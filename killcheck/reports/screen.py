"""The console that every report for a terminal prints to.

What may *not* live here: what is printed.
"""

from __future__ import annotations

import os
from typing import Any

from rich.console import Console

__all__ = ["Screen", "screen"]


class Screen(Console):
    """A console whose reader may go away: that is an error like any other, not an exit with a code that means another.

    rich itself ends the process with exit code 1 there, which here would say *exposed*.
    """

    def on_broken_pipe(self) -> None:
        """Print no more, so that what is changed can be put back. Raises BrokenPipeError."""
        self.quiet = True
        raise BrokenPipeError


def screen(
    *,
    color: bool | None = None,
    width: int | None = None,
    file: Any = None,
    soft_wrap: bool = True,
) -> Screen:
    """A console; ``color``: None asks the terminal and NO_COLOR, ``soft_wrap``: lines are left as long as they are."""
    no_color = color is False or bool(os.environ.get("NO_COLOR"))
    return Screen(
        no_color=no_color,
        width=width,
        file=file,
        highlight=False,
        soft_wrap=soft_wrap,
        force_terminal=True if color else None,
    )
