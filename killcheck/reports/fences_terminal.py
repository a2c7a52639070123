"""Fences in the terminal: each pool with its worst instance, and what closes the hole."""

from __future__ import annotations

import json
import sys
from typing import Any

from rich.text import Text

from killcheck.fence.absent import NO_POOL
from killcheck.fence.report import FenceReport, FenceResult
from killcheck.fence.verdict import UNSTATED
from killcheck.reports.figures import money
from killcheck.reports.screen import PLAIN_WIDTH, Screen, fitting, screen

__all__ = ["show"]

_HEADERS = ("pool", "verdict", "worst instance", "devices a node", "$/h at most")
_STYLES = {"safe": "bold green", "exposed": "bold red", "unproven": "bold magenta"}


def show(report: FenceReport, *, color: bool | None = None, width: int | None = None, file: Any = None) -> None:
    """Print a report."""
    plain = width is None and not sys.stdout.isatty()
    console = screen(color=color, width=PLAIN_WIDTH if plain else width, file=file)
    console.wraps = console.wraps and not plain
    rows = [
        [
            Text(one.pool),
            Text(str(one.verdict), style=_STYLES[str(one.verdict)]),
            Text(one.worst_instance or "-"),
            Text("?" if one.max_devices_per_node is None else str(one.max_devices_per_node)),
            Text(_rate(one)),
        ]
        for one in (*report.results, report.cluster)
    ]
    if report.results:
        console.grid(fitting(list(_HEADERS), rows, console.width, right=frozenset(_HEADERS[3:])))
    else:
        no_pool = NO_POOL if NO_POOL in report.cluster.reasons else "no node pool was read"
        console.say(f"{report.cluster.verdict}: {no_pool}", 2)
    for one in (*report.results, report.cluster):
        _explain(console, one)
    for found in report.findings:
        console.say(f"\n{found.severity}: {found.object}: {found.message}", 2)
        console.say(f"  remedy  {found.remedy}", 10)
    for note in dict.fromkeys(note for one in report.results for note in one.notes):
        console.say(Text(f"  {note}", style="dim"), 4)
    for note in report.notes:
        console.say(Text(f"  {note}", style="dim"), 4)
    if UNSTATED in report.cluster.reasons:
        console.say(f"\n{UNSTATED}", 2)


def _rate(one: FenceResult) -> str:
    if one.max_usd_per_hour is not None:
        return money(one.max_usd_per_hour)
    return "unbounded" if not one.bounded else "?"


def _explain(console: Screen, one: FenceResult) -> None:
    if str(one.verdict) == "safe":
        return
    reasons = [reason for reason in one.reasons if reason not in (NO_POOL, UNSTATED)]  # said once
    if reasons or one.door:
        console.say(f"\n{one.pool}: {'; '.join(reasons) or one.door}", 2)
    if one.door:
        console.say(f"  door    {one.door}", 10)
    if one.remedy:
        console.say(f"  remedy  {one.remedy}", 10)
    if one.patch:
        console.say(f"  patch   {json.dumps(one.patch)}", 10)
