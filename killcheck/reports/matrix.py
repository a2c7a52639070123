"""The matrix as a table: faults down, layers across; each cell a verdict, the time to zero and drained, and dollars."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.table import Table
from rich.text import Text

from killcheck.reports.figures import money, span
from killcheck.reports.screen import STYLES, fitting

if TYPE_CHECKING:
    from killcheck.results import Cell, Matrix

__all__ = ["fitted", "lines", "table"]


def fitted(matrix: Matrix, width: int) -> Table:
    """The table where it fits into ``width`` columns; else a row a cell, layer and fault first."""
    if _width(matrix) <= width:
        return table(matrix)
    rows = [
        [Text(f"{cell.layer} under {cell.fault}" if cell.fault else f"{cell.layer} (undisturbed)"), _cell(cell)]
        for cell in matrix.cells
    ]
    return fitting(["drill", "outcome"], rows, width)


def table(matrix: Matrix) -> Table:
    """For a wide terminal."""
    made = Table(box=None, pad_edge=False, show_edge=False, header_style="dim", padding=(0, 3, 0, 0))
    made.add_column("under", no_wrap=True)
    for layer in matrix.layers:
        made.add_column(layer, no_wrap=True)
    for fault in matrix.faults:
        cells = [matrix.cell(layer, fault) for layer in matrix.layers]
        made.add_row(fault or "(undisturbed)", *(_cell(cell) for cell in cells))
    return made


def lines(matrix: Matrix) -> list[str]:
    """The same for a log: one line a cell."""
    return [
        f"{'ok  ' if cell.passes else 'FAIL'} {cell.layer}{' under ' + cell.fault if cell.fault else ''}: "
        f"{cell.word}{_figures(cell)}"
        for cell in matrix.cells
    ]


def _width(matrix: Matrix) -> int:
    """How many columns the whole table takes; 3 of padding after each column."""
    first = max((len(fault or "(undisturbed)") for fault in matrix.faults), default=0)
    columns = [
        max(len(layer), *(len(_cell(matrix.cell(layer, fault)).plain) for fault in matrix.faults))
        for layer in matrix.layers
    ]
    return first + sum(width + 3 for width in columns)


def _cell(cell: Cell | None) -> Text:
    if cell is None:
        return Text("·", style="dim")
    text = Text("" if cell.passes else "✗ ", style="bold red")
    text.append(cell.word, style=STYLES["accepted" if cell.accepted else str(cell.result.verdict)])
    text.append(_figures(cell), style="dim")
    return text


def _figures(cell: Cell) -> str:
    result = cell.result
    if result.proven:
        drained = f", drained {span(result.seconds_to_drained)}" if result.seconds_to_drained is not None else ""
        return f"  zero {span(result.seconds_to_zero)}{drained}, {money(result.usd)}"
    if str(result.verdict) == "exposed":
        cost = result.usd_until_next_chance if result.usd_until_next_chance is not None else result.usd
        return f"  {money(cost)}"
    return ""
