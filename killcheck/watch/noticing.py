"""What it costs until somebody notices that GPUs stayed on: who looks in working hours, and who an alert calls."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any

from killcheck.kube.objects import format_time
from killcheck.spec.working_hours import Noticed, working_hours

__all__ = ["noticed"]


def noticed(
    said: Noticed | None,
    since: datetime,
    alert_s: float | None,
    usd: Callable[[datetime], float | None],
) -> dict[str, Any] | None:
    """As the JSON document has it; None: the spec does not say who notices.

    ``since``: when the GPUs should have been off; ``alert_s``: how long after ``since`` an alert fires (None: none
    does); ``usd``: what they have cost by a moment. ``at``, ``usd``: without any alert, in working hours;
    ``alert_at``, ``alert_usd``: with it (None: there is none), and the spec's time to answer it.
    """
    if said is None:
        return None
    at = working_hours(said.hours, said.time_zone).next(since)
    called = None if alert_s is None else since + timedelta(seconds=alert_s + said.answers_s)
    return {
        "at": format_time(at),
        "usd": _round(usd(at)),
        "alert_at": None if called is None else format_time(called),
        "alert_usd": None if called is None else _round(usd(called)),
    }


def _round(value: float | None) -> float | None:
    return None if value is None else round(value, 4)
