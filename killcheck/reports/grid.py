"""A matrix as text, at any width: faults down, layers across. A cell that is too wide goes on in the line below.

What may *not* live here: what a cell says.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

__all__ = ["Row", "grid", "pieces"]

#: What a fault leads to, by layer: pieces that stay whole where a column holds them; what parts two ends the first.
Row = Mapping[str, Sequence[Text]]
#: A row's or a layer's cells, from the top.
Column = Sequence[Sequence[Text]]
#: Columns between two columns.
GAP = 3
#: Where a name may go on in the next line.
_PARTS = re.compile(r"[^\s-]*(?:-+|\s+|$)")


def grid(layers: Sequence[str], width: int, rows: Mapping[str, Row], *shorter: Mapping[str, Row]) -> RenderableType:
    """``rows``, by fault, in ``width`` columns; where these do not hold it, the first of ``shorter`` that they hold.

    Layers that no form of it brings beside each other stand in a matrix of their own, below.
    """
    for form in (rows, *shorter):
        labels = [_named("under"), *map(_named, form)]
        dot = [Text("·", style="dim")]
        columns = {layer: [_named(layer), *(row.get(layer, dot) for row in form.values())] for layer in layers}
        first = _whole(labels)
        if first + sum(GAP + _whole(cells) for cells in columns.values()) > width:
            first = max(min(first, width * 2 // 5), 1)
        groups = list(_side_by_side({layer: _least(cells) for layer, cells in columns.items()}, width - first))
        if len(groups) == 1:
            break
    tables = [_table(labels, [columns[layer] for layer in those], first, width) for those in groups]
    return Group(*(part for table in tables for part in (Text(), table)[table is tables[0] :]))


def _table(labels: Column, columns: Sequence[Column], first: int, width: int) -> Table:
    table = Table(box=None, pad_edge=False, show_edge=False, show_header=False, padding=(0, GAP, 0, 0))
    widths = [first, *_widths(columns, width - first - GAP * len(columns))]
    for one in widths:
        table.add_column(width=one, no_wrap=True)
    for number, cells in enumerate(zip(labels, *columns, strict=True)):
        broken = [_broken(those, one) for those, one in zip(cells, widths, strict=True)]
        table.add_row(*broken, style="dim" if number == 0 else "")
    return table


def pieces(word: str, style: str, figures: Sequence[str]) -> list[Text]:
    """A cell: what it is, in a style, and its figures."""
    said = [Text(part, style=style) for part in _PARTS.findall(f"{word}  " if figures else word) if part]
    ends = [", "] * (len(figures) - 1) + [""]
    return said + [Text(f"{figure}{end}", style="dim") for figure, end in zip(figures, ends, strict=False)]


def _named(name: str) -> list[Text]:
    return [Text(part) for part in _PARTS.findall(name) if part]


def _whole(cells: Column) -> int:
    """The columns that the widest takes on one line."""
    return max(Text().join(pieces).cell_len for pieces in cells)


def _least(cells: Column) -> int:
    """The columns in which every piece stays whole."""
    return max(len(piece.plain.rstrip()) for pieces in cells for piece in pieces)


def _side_by_side(least: Mapping[str, int], room: int) -> Iterator[list[str]]:
    """The layers, as many at a time as have room; one at least."""
    those: list[str] = []
    for layer in least:
        if those and sum(least[one] + GAP for one in (*those, layer)) > room:
            yield those
            those = []
        those.append(layer)
    yield those


def _widths(columns: Sequence[Column], room: int) -> list[int]:
    """What each column gets: what it takes whole, the widest less until all have room."""
    widths = [_whole(cells) for cells in columns]
    least = [_least(cells) for cells in columns]
    while sum(widths) > room:
        free = [number for number, one in enumerate(widths) if one > least[number]] or list(range(len(widths)))
        widest = max(free, key=lambda number: widths[number])
        widths[widest] -= 1
    return [max(one, 1) for one in widths]


def _broken(pieces: Sequence[Text], width: int) -> Text:
    """The pieces in lines of ``width`` columns."""
    lines = [Text()]
    for piece in pieces:
        bare = piece.copy()
        bare.rstrip()
        if lines[-1].cell_len and lines[-1].cell_len + bare.cell_len > width:
            lines[-1].rstrip()
            lines.append(Text())
        while bare.cell_len > width and piece.cell_len > width:
            head, piece = piece.divide([width])
            lines[-1].append_text(head)
            lines.append(Text())
            bare = piece.copy()
            bare.rstrip()
        lines[-1].append_text(piece)
    return Text("\n").join(lines)
