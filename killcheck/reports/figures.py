"""Figures as a tired person reads them: durations and dollars."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

__all__ = ["is_late", "money", "short", "span", "still_on", "who_notices"]


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


def still_on(result: Mapping[str, Any]) -> str:
    """What the GPUs did in a drill that left them exposed, from its result as JSON."""
    zero, watched = result["seconds_to_zero"], span(result["watched_s"])
    if zero is None:
        return f"GPUs still on after {watched}"
    bound = [row for row in result["phases"] if row["deadline_s"] is not None and row["phase"] != "held"]
    late = [row["phase"] for row in bound if row["at_s"] is not None and row["at_s"] > row["deadline_s"]]
    if late and set(late) <= {"node_drained", "node_gone"}:
        return f"GPU pods gone after {span(zero)}, their nodes off too late"
    if late:
        return f"GPUs off after {span(zero)}, too late"
    if any(row["phase"] == "node_drained" and row["at_s"] is None for row in bound):
        return f"GPU pods gone after {span(zero)}, their nodes still on after {watched}"
    if result.get("stuck_at") in ("alarm", "results"):
        return f"GPUs off after {span(zero)}, and what else must be proven is not so"
    return f"GPUs off after {span(zero)}, and not for good"


def is_late(result: Mapping[str, Any]) -> bool:
    """Whether a drill that left a path exposed saw its GPUs go off, and only too late."""
    return result["verdict"] == "exposed" and still_on(result).endswith("too late")


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
