"""Where a finding's file is, as code scanning and annotations want it: from the root of the checkout."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import quote

__all__ = ["relative", "uri"]


def relative(file: str) -> str:
    """A path relative to the working directory where it lies below it, with slashes; else as it is."""
    path = Path(file)
    try:
        return path.resolve().relative_to(Path.cwd()).as_posix()
    except (ValueError, RuntimeError):  # elsewhere, or links in a circle
        return path.as_posix()


def uri(file: str) -> str:
    """The same as a URI reference (RFC 3986): relative, or a ``file:`` URI for what lies elsewhere."""
    found = relative(file)
    return Path(found).as_uri() if Path(found).is_absolute() else quote(found)
