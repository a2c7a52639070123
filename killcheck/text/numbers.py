"""Whole numbers in texts that others wrote."""

from __future__ import annotations

from killcheck.text import lazy_re

__all__ = ["whole"]

#: As many digits as 64 bits hold. ``str.isdigit`` also takes ``²``, and ``int`` raises on that and on 5,000 digits.
_WHOLE = lazy_re.compile(r"[0-9]{1,18}")


def whole(said: object) -> int | None:
    """The number that ASCII digits say; None: it is none, or longer than any that is meant."""
    text = str(said)
    return int(text) if _WHOLE.fullmatch(text) else None
