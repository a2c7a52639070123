"""Counts that may be percentages: of rollouts and disruption budgets.

Source: ``ValidatePositiveIntOrPercent`` in pkg/apis/apps/validation/validation.go.
"""

from __future__ import annotations

import re
from typing import Any

from killcheck.embedded.api.validation.fields import Causes, invalid, nonnegative

__all__ = ["amount", "at_most_all", "int_or_percent"]

_WORDS = (
    "a valid percent string must be a numeric string followed by an ending '%' (e.g. '1%',  or '93%', regex used for "
    "validation is '[0-9]+%')"
)


def int_or_percent(value: Any, path: str) -> Causes:
    """A number that is not negative, or a percentage."""
    if isinstance(value, int):
        return nonnegative(path, value)
    return [] if re.fullmatch("[0-9]+%", value) else [invalid(path, value, _WORDS)]


def amount(value: Any) -> int:
    """The number, or that of the percentage."""
    if isinstance(value, int):
        return value
    return int(value[:-1]) if re.fullmatch("[0-9]+%", value) else 0


def at_most_all(value: Any, path: str) -> Causes:
    """No more than 100%."""
    if isinstance(value, str) and amount(value) > 100:
        return [invalid(path, value, "must not be greater than 100%")]
    return []
