"""Fences in the terminal: each pool with its worst instance, and what closes the hole."""

from __future__ import annotations

import json
import sys

from rich.console import Console
from rich.table import Table
from rich.text import Text

from killcheck.fence.report import FenceReport, FenceResult
from killcheck.reports.figures import money
from killcheck.reports.screen import screen
from killcheck.reports.terminal import PLAIN_WIDTH

__all__ = ["show"]

_STYLES = {"safe": "bold green", "exposed": "bold red", "unproven": "bold magenta"}


def show(report: FenceReport, *, color: bool | None = None, width: int | None = None) -> None:
    """Print a report."""
    width = width or (None if sys.stdout.isatty() else PLAIN_WIDTH)
    console = screen(color=color, width=width, soft_wrap=False)
    table = Table(box=None, pad_edge=False, header_style="dim")
    for name in ("pool", "verdict", "worst instance", "devices a node", "$/h at most"):
        table.add_column(name, justify="right" if name[0] in "d$" else "left")
    for one in (*report.results, report.cluster):
        table.add_row(
            one.pool,
            Text(str(one.verdict), style=_STYLES[str(one.verdict)]),
            one.worst_instance or "-",
            "?" if one.max_devices_per_node is None else str(one.max_devices_per_node),
            _rate(one),
        )
    console.print(table)
    for one in (*report.results, report.cluster):
        _explain(console, one)
    for found in report.findings:
        console.print(f"\n{found.severity}: {found.object}: {found.message}", markup=False)
        console.print(f"  remedy  {found.remedy}", markup=False)
    for note in dict.fromkeys(note for one in report.results for note in one.notes):
        console.print(f"  {note}", style="dim", markup=False)
    for note in report.notes:
        console.print(f"  {note}", style="dim", markup=False)


def _rate(one: FenceResult) -> str:
    if one.max_usd_per_hour is not None:
        return money(one.max_usd_per_hour)
    return "unbounded" if not one.bounded else "?"


def _explain(console: Console, one: FenceResult) -> None:
    if str(one.verdict) == "safe":
        return
    console.print(f"\n{one.pool}: {'; '.join(one.reasons) or one.door}", markup=False)
    if one.door:
        console.print(f"  door    {one.door}", markup=False)
    if one.remedy:
        console.print(f"  remedy  {one.remedy}", markup=False)
    if one.patch:
        console.print(f"  patch   {json.dumps(one.patch)}", markup=False)
