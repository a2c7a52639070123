"""The nearest name to one that does not exist: the end of every 'unknown ...' message."""

from __future__ import annotations

from collections.abc import Iterable

__all__ = ["did_you_mean", "nearest"]


def nearest(name: str, known: Iterable[str], count: int = 3) -> list[str]:
    """At most ``count`` of ``known`` that look like ``name``, the likeliest first; capitals do not matter."""
    from difflib import get_close_matches

    by_fold = {candidate.casefold(): candidate for candidate in known}
    return [by_fold[match] for match in get_close_matches(name.casefold(), by_fold, count, 0.6)]


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """``; did you mean x?``, or what there is where nothing is near and the list is short; else empty."""
    known = list(dict.fromkeys(known))
    near = nearest(name, known, 1)
    if near:
        return f"; did you mean {near[0]}?"
    return f" (there is {', '.join(known)})" if 0 < len(known) <= 10 else ""
