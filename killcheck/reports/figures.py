"""Figures as a tired person reads them: durations and dollars."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Any

__all__ = ["Ending", "ending", "money", "short", "span", "still_on", "who_notices"]


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


def short(text: str, most: int = 160) -> str:
    """Text on one line, cut after a whole word where it is longer than ``most``."""
    text = " ".join(text.split())
    if len(text) <= most:
        return text
    whole = text[: most - 1].rpartition(" ")[0]
    return f"{whole or text[: most - 2]} …"


class Ending(StrEnum):
    """What the GPUs did in a drill that left them exposed."""

    ON = "left GPUs on"
    LATE = "turned the GPUs off too late"
    NOT_FOR_GOOD = "turned the GPUs off, and not for good"
    UNPROVEN = "turned the GPUs off, and not all that must be proven is so"


def ending(result: Mapping[str, Any]) -> Ending:
    """How a drill that left a path exposed ended, from its result as JSON."""
    return _told(result)[0]


def still_on(result: Mapping[str, Any]) -> str:
    """What the GPUs did in a drill that left them exposed, from its result as JSON."""
    return _told(result)[1]


def _told(result: Mapping[str, Any]) -> tuple[Ending, str]:
    zero, watched = result["seconds_to_zero"], span(result["watched_s"])
    if zero is None:
        return Ending.ON, f"GPUs still on after {watched}"
    bound = [row for row in result["phases"] if row["deadline_s"] is not None and row["phase"] != "held"]
    late = [row["phase"] for row in bound if row["at_s"] is not None and row["at_s"] > row["deadline_s"]]
    if late and set(late) <= {"node_drained", "node_gone"}:
        return Ending.LATE, f"GPU pods gone after {span(zero)}, their nodes off too late"
    if late:
        return Ending.LATE, f"GPUs off after {span(zero)}, too late"
    if any(row["phase"] == "node_drained" and row["at_s"] is None for row in bound):
        return Ending.ON, f"GPU pods gone after {span(zero)}, their nodes still on after {watched}"
    if result.get("stuck_at") in ("alarm", "results"):
        return Ending.UNPROVEN, f"GPUs off after {span(zero)}, and what else must be proven is not so"
    return Ending.NOT_FOR_GOOD, f"GPUs off after {span(zero)}, and not for good"


def who_notices(result: Mapping[str, Any]) -> list[str]:
    """When somebody notices that the GPUs stayed on, and the dollars by then; nothing where no spec says who does."""
    found = result.get("noticed")
    if not found:
        return []
    said = [f"somebody notices at {_minute(found['at'])} UTC: {money(found['usd'])} by then"]
    if found["alert_at"] is None:
        return [*said, "no alert calls anybody before"]
    return [
        *said,
        f"an alert has called somebody by {_minute(found['alert_at'])} UTC: {money(found['alert_usd'])} by then",
    ]


def _minute(at: str) -> str:
    return at[:16].replace("T", " ")
