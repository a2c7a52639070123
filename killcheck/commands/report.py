"""``killcheck report``: any report again, from the run record alone."""

from __future__ import annotations

from pathlib import Path

import click

from killcheck.commands.errors import guarded

__all__ = ["command"]

_FILE = click.Path(path_type=Path, dir_okay=False)


@click.command("report", context_settings={"help_option_names": ["-h", "--help"]})
@click.argument("record", type=click.Path(path_type=Path, exists=True, dir_okay=False), metavar="RUN.jsonl")
@click.option("--html", "html_file", type=_FILE, help="One self-contained HTML file.")
@click.option("--junit", "junit_file", type=_FILE, help="JUnit XML.")
@click.option("--prometheus", "prometheus_file", type=_FILE, help="Prometheus text format, for the textfile collector.")
@click.option("--no-color", is_flag=True, help="No colours (also: NO_COLOR).")
@guarded
def command(
    record: Path, html_file: Path | None, junit_file: Path | None, prometheus_file: Path | None, no_color: bool,
) -> None:
    """Make reports from a run record, also from one that a kill cut short. Without options: the terminal's."""
    from killcheck.record import RecordError, read
    from killcheck.reports.story import tell

    told = list(read(record))
    try:
        story = tell(told)
    except ValueError as error:
        raise RecordError(f"{record}: {error}") from error
    if html_file:
        from killcheck.reports.html import html

        html_file.write_text(html(story), encoding="utf-8")
    if junit_file:
        from killcheck.reports.junit import junit

        junit_file.write_text(junit(story), encoding="utf-8")
    if prometheus_file:
        from killcheck.reports.prometheus import prometheus

        _replace(prometheus_file, prometheus(story))
    if not (html_file or junit_file or prometheus_file):
        from killcheck.reports.terminal import Terminal

        out = Terminal(color=False if no_color else None)
        for event in told:
            out(event)


def _replace(path: Path, text: str) -> None:
    """Write whole or not at all: the textfile collector may read at any moment."""
    temporary = path.with_name(path.name + ".tmp")
    temporary.write_text(text, encoding="utf-8")
    temporary.replace(path)
