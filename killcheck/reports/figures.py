"""Figures as a tired person reads them: durations and dollars."""

from __future__ import annotations

__all__ = ["money", "span"]


def span(seconds: float | None) -> str:
    """A duration a tired person can read: 38 s, 4 min 10 s, 7 h."""
    if seconds is None:
        return "-"
    whole = round(seconds)
    if seconds < 10 and seconds != whole:
        return f"{seconds:.1f} s"
    hours, rest = divmod(whole, 3600)
    minutes, left = divmod(rest, 60)
    parts = [f"{hours} h" if hours else "", f"{minutes} min" if minutes else "", f"{left} s" if left else ""]
    return " ".join(part for part in parts[:2] if part) if hours else " ".join(p for p in parts if p) or "0 s"


def money(usd: float | None) -> str:
    """Dollars; a question mark where a price is not known."""
    if usd is None:
        return "$ ?"
    return f"${usd:,.2f}"
