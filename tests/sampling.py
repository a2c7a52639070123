"""Long tables of drills, of which an ordinary run takes a part: always the same one, spread over the whole table.

``KILLCHECK_WHOLE=yes`` takes every row.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import TypeVar

Row = TypeVar("Row")


def one_in(number: int, rows: Iterable[Row]) -> list[Row]:
    """Every ``number``-th row, from the first one on."""
    every = list(rows)
    return every if os.environ.get("KILLCHECK_WHOLE") else every[::number]
