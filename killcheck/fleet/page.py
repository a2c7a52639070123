"""A fleet on one page: for a browser, and for a terminal."""

from __future__ import annotations

from importlib import resources

from rich.text import Text

from killcheck.fleet.searches import SearchRow
from killcheck.fleet.standing import Row, Standing
from killcheck.history.words import ago
from killcheck.reports.figures import money
from killcheck.reports.screen import Screen, fitting

__all__ = ["page", "table"]

_HEADERS = ["cluster", "kill path", "stands", "last proven", "at risk"]


def page(found: Standing) -> str:
    """The document: no network, dark and light, readable on a telephone."""
    from datetime import UTC, datetime

    from jinja2 import Environment, StrictUndefined

    environment = Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    environment.filters |= {"money": money}
    text = resources.files("killcheck.fleet").joinpath("fleet.html.j2").read_text(encoding="utf-8")
    style = resources.files("killcheck.reports").joinpath("report.css").read_text(encoding="utf-8")
    made = f"{datetime.fromtimestamp(found.now, UTC):%Y-%m-%d %H:%M UTC}"
    rows = [{"row": row, "path": _path(row), "proven": _proven(row)} for row in found.rows]
    return environment.from_string(text).render(found=found, rows=rows, style=style, made=made)


def table(found: Standing, out: Screen) -> None:
    """The same for a terminal."""
    out.say(found.sentence + (f" {money(found.usd)} at risk until the next chance." if found.usd else ""))
    rows = [
        [
            Text(text)
            for text in (one.shard.cluster, _path(one), one.word, _proven(one), money(one.usd) if one.usd else "-")
        ]
        for one in found.rows
    ]
    out.grid(fitting(_HEADERS, rows, out.width, right=frozenset({"at risk"})))
    for row in found.rows:
        for line in row.lines:
            out.say(f"{row.shard.key}: {line}", hang=4)


def _path(row: Row | SearchRow) -> str:
    if isinstance(row, SearchRow):
        return f"{row.shard.kill_path}, sets of faults"
    part = f", part {row.shard.part} of {row.shard.parts}" if row.shard.parts > 1 else ""
    return row.shard.kill_path + part


def _proven(row: Row | SearchRow) -> str:
    if isinstance(row, SearchRow):
        return "-"
    return "never" if row.unproven_s is None else ago(row.unproven_s)
