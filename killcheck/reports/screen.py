"""The console that every report for a terminal prints to.

What may *not* live here: what is printed.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from typing import Any

from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment
from rich.table import Table
from rich.text import Text

from killcheck.text.shown import shown

__all__ = ["PLAIN_WIDTH", "STYLES", "Screen", "fitting", "screen"]

#: A terminal that says it has less has not said how wide it is.
NARROWEST = 20
#: Columns where the output goes to a file or a CI log.
PLAIN_WIDTH = 160
#: How verdicts look.
STYLES = {
    "survived": "bold green",
    "covered": "bold yellow",
    "accepted": "yellow",
    "exposed": "bold red",
    "inconclusive": "bold magenta",
}


class Screen(Console):
    """A console whose reader may go away: that is an error like any other, not an exit with a code that means another.

    rich itself ends the process with exit code 1 there, which here would say *exposed*.
    ``wraps``: long lines are broken at words alone; a pipe and a log get them as they are, to be searched.
    """

    wraps: bool = False

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterator[Segment]:
        """As rich does; what is printed obeys no text in it."""
        for segment in super().render(renderable, options):
            bare = segment.text if segment.control else shown(segment.text)
            yield segment if bare == segment.text else Segment(bare, segment.style)

    def say(self, text: Text | str, hang: int = 0) -> None:
        """Print text; a line that is too long goes on in the next, ``hang`` columns in."""
        made = text if isinstance(text, Text) else Text(text)
        for line in made.split("\n", allow_blank=True):
            for part in self._parts(line, hang):
                self.print(part, soft_wrap=True)

    def grid(self, table: RenderableType) -> None:
        """Print a table: its cells are broken at words, whatever is done with lines."""
        self.print(table, soft_wrap=False)

    def _parts(self, line: Text, hang: int) -> list[Text]:
        if not self.wraps or line.cell_len <= self.width:
            return [line]
        hang = min(hang, self.width // 2)
        first, *rest = _at_words(line, self.width, hang)
        return [first, *(Text(" " * hang).append_text(part) for part in rest)]

    def on_broken_pipe(self) -> None:
        """Print no more, so that what is changed can be put back. Raises BrokenPipeError."""
        self.quiet = True
        raise BrokenPipeError


def _at_words(line: Text, width: int, hang: int) -> Iterator[Text]:
    """A line broken at its spaces: a word that is longer than a line stays whole, to be copied."""
    starts, used, end = [], 0, 0
    for word in re.finditer(r"\S+", line.plain):
        long, space = cell_len(word[0]), word.start() - end
        if end and used + space + long > width:
            starts.append(word.start())
            used = hang + long
        else:
            used += space + long
        end = word.end()
    for part in line.divide(starts):
        part.rstrip()
        yield part


def screen(
    *,
    color: bool | None = None,
    width: int | None = None,
    file: Any = None,
    soft_wrap: bool = True,
) -> Screen:
    """A console; ``color``: None asks the terminal and NO_COLOR, ``soft_wrap``: lines are left as long as they are."""
    no_color = color is False or bool(os.environ.get("NO_COLOR"))
    narrow = os.environ.get("COLUMNS", "").isdigit() and int(os.environ["COLUMNS"]) < NARROWEST
    made = Screen(
        _environ={key: value for key, value in os.environ.items() if not (narrow and key == "COLUMNS")},
        no_color=no_color,
        width=width,
        file=file,
        highlight=False,
        soft_wrap=soft_wrap,
        force_terminal=True if color else None,
    )
    made.wraps = width is not None or made.is_terminal
    return made


def fitting(headers: list[str], rows: list[list[Text]], width: int, *, right: frozenset[str] = frozenset()) -> Table:
    """A table where its rows fit ``width`` columns; else each row as a block: its name, and below it a line a cell."""
    cells = [[Text(name) for name in headers], *rows]
    needed = sum(max(row[i].cell_len for row in cells) + 2 for i in range(len(headers))) - 2
    table = Table(box=None, pad_edge=False, show_edge=False, header_style="dim", show_header=needed <= width)
    if needed <= width:
        for name in headers:
            table.add_column(name, no_wrap=True, justify="right" if name in right else "left")
        for row in rows:
            table.add_row(*row)
        return table
    table.add_column("cell", overflow="fold")
    for row in rows:
        table.add_row(row[0])
        told = Table(box=None, pad_edge=False, show_edge=False, show_header=False, padding=(0, 2, 0, 0))
        told.add_column("name", no_wrap=True, style="dim")
        told.add_column("value", overflow="fold")
        for name, cell in zip(headers[1:], row[1:], strict=True):
            if cell.plain not in ("", "-"):
                told.add_row(f"  {name}", cell)
        table.add_row(told)
    return table
