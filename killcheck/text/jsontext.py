"""JSON of a stranger's: a program's answer, a file of a pull request, the body of a request."""

from __future__ import annotations

import json
from typing import Any

__all__ = ["from_text"]


def from_text(text: str | bytes) -> Any:
    """Parse JSON. Raises ValueError for anything that cannot be read, and so for what is nested too deep."""
    try:
        return json.loads(text)
    except RecursionError:
        raise ValueError("nested too deep") from None
