"""What a program of a machine said of what it met, as evidence. What may *not* live here: faults."""

from __future__ import annotations

import re

from killcheck.capabilities.programs import Ran

__all__ = ["said_by"]

#: Longest piece of a line that is shown.
SHOWN = 300


def said_by(ran: Ran, words: re.Pattern[str]) -> str | None:
    """The first line of a program's errors, then of its output, that has these words; None: it said nothing of it."""
    lines = (*ran.errors.splitlines(), *ran.output.splitlines())
    return next((line.strip()[:SHOWN] for line in lines if words.search(line)), None)
