"""The matrix as a table: faults down, layers across; each cell a verdict, the time to zero and drained, and dollars."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.text import Text

from killcheck.reports.figures import money, span
from killcheck.reports.grid import grid, pieces
from killcheck.reports.screen import STYLES

if TYPE_CHECKING:
    from rich.console import RenderableType

    from killcheck.results import Cell, Matrix

__all__ = ["fitted", "lines"]


def fitted(matrix: Matrix, width: int) -> RenderableType:
    """The table, in ``width`` columns: where they are too few, without what a node took to be drained."""
    return grid(matrix.layers, width, _rows(matrix), _rows(matrix, drained=False))


def lines(matrix: Matrix) -> list[str]:
    """The same for a log: one line a cell."""
    return [
        f"{'ok  ' if cell.passes else 'FAIL'} {cell.layer}{' under ' + cell.fault if cell.fault else ''}: "
        f"{'  '.join([cell.word, *filter(None, [', '.join(_figures(cell))])])}"
        for cell in matrix.cells
    ]


def _rows(matrix: Matrix, *, drained: bool = True) -> dict[str, dict[str, list[Text]]]:
    rows: dict[str, dict[str, list[Text]]] = {}
    for cell in matrix.cells:
        word = ("" if cell.passes else "✗ ") + cell.word
        style = STYLES["accepted" if cell.accepted else str(cell.result.verdict)]
        figures = _figures(cell) if drained else [one for one in _figures(cell) if not one.startswith("drained")]
        rows.setdefault(cell.fault or "(undisturbed)", {})[cell.layer] = pieces(word, style, figures)
    return rows


def _figures(cell: Cell) -> list[str]:
    result = cell.result
    if result.proven:
        drained = [f"drained {span(result.seconds_to_drained)}"] if result.seconds_to_drained is not None else []
        return [f"zero {span(result.seconds_to_zero)}", *drained, money(result.usd)]
    if str(result.verdict) == "exposed":
        return [money(result.usd_until_next_chance if result.usd_until_next_chance is not None else result.usd)]
    return []
