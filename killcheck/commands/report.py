"""``killcheck report``: any report again, from the run record alone."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from killcheck import __version__
from killcheck.commands.errors import guarded
from killcheck.commands.files import FILE, STDOUT, one_on_stdout, write

if TYPE_CHECKING:
    from killcheck.events import Event
    from killcheck.reports.compare import Comparison
    from killcheck.reports.story import RunStory

__all__ = ["command"]

_FOLDER = click.Path(path_type=Path, file_okay=False)
_RECORD = click.Path(path_type=Path, exists=True)


@click.command("report", context_settings={"help_option_names": ["-h", "--help"]})
@click.argument("record", required=False, type=_RECORD, metavar="[RUN]")
@click.option("--compare", "earlier", type=_RECORD, metavar="EARLIER", help="What changed since that run.")
@click.option("--html", type=FILE, help="One self-contained HTML file.")
@click.option(
    "--json",
    "document",
    type=FILE,
    help="The JSON document, schema killcheck.result/v1.",
)
@click.option("--junit", type=FILE, help="JUnit XML.")
@click.option("--sarif", type=FILE, help="SARIF 2.1.0.")
@click.option("--allure", type=_FOLDER, help="Allure results, into a folder.")
@click.option("--prometheus", type=FILE, help="Prometheus text format, for the textfile collector.")
@click.option("--pushgateway", metavar="URL", help="Push the metrics to a Prometheus Pushgateway.")
@click.option("--github-summary", type=FILE, help="Append Markdown: the file that $GITHUB_STEP_SUMMARY names.")
@click.option("--slack", type=FILE, help="The body of a Slack-compatible webhook message.")
@click.option("--webhook", is_flag=True, help="Post that message to the URL in $KILLCHECK_WEBHOOK, a secret.")
@click.option("--no-color", is_flag=True, help="No colours (also: NO_COLOR).")
@guarded
def command(record: Path | None, earlier: Path | None, no_color: bool, **wanted: Any) -> None:
    """Make reports from a run record, also from one that a kill cut short. Without options: the terminal's.

    RUN is a run record or its folder (default: the newest of killcheck runs). A FILE that is - is standard output.

    \b
    Examples:
      killcheck report --html report.html
      killcheck report .killcheck/runs/ID/run.jsonl --html report.html --junit junit.xml
      killcheck report tonight.jsonl --compare last-night.jsonl
      killcheck report run.jsonl --prometheus /var/lib/node_exporter/killcheck.prom --webhook
    """
    from killcheck.reports.compare import compare
    from killcheck.run.kept import record_of
    from killcheck.safety.journal import state_dir

    one_on_stdout(wanted, list(_MAKERS))
    events, story = _read(record_of(record, state_dir()))
    told = _Told(story, compare(_read(record_of(earlier, state_dir()))[1], story) if earlier else None)
    made = [make(told, wanted[name]) for name, make in _MAKERS.items() if wanted[name]]
    if not made:
        from killcheck.reports.terminal import Terminal

        out = Terminal(color=False if no_color else None)
        if any(drill.started.faults for drill in story.drills) and len(story.drills) > 2:
            from killcheck.reports.told_matrix import grid

            out.console.grid(grid(story, out.console.width))
        else:
            for event in events:
                out(event)
        out.closing(story, told.comparison)


class _Told(NamedTuple):
    """What every report is made from."""

    story: RunStory
    comparison: Comparison | None


def _read(path: Path) -> tuple[list[Event], RunStory]:
    from killcheck.reports.story import tell
    from killcheck.run.record import RecordError, read

    told = list(read(path))
    try:
        story = tell(told)
    except (ValueError, TypeError) as error:
        raise RecordError(f"{path}: {error}") from error
    _check(path, story)
    lines = sum(1 for line in path.read_text(encoding="utf-8", errors="replace").splitlines() if line.strip())
    if story.started.version != __version__ and lines > len(told):
        click.echo(
            f"killcheck: {path} was written by killcheck {story.started.version}, this is {__version__}: "
            f"{lines - len(told)} line(s) that it does not know are left out",
            err=True,
        )
    return told, story


def _check(path: Path, story: RunStory) -> None:
    """Raise RecordError where a result is none: reports are made of what a drill said, not of what somebody wrote.

    What is missing is not looked for: an older version did not write it.
    """
    from jsonschema import Draft202012Validator

    from killcheck.reports.document import document, schema
    from killcheck.run.record import RecordError

    for error in Draft202012Validator(schema("result")).iter_errors(document(story)):
        if error.validator != "required":
            where = error.json_path.removeprefix("$.")
            raise RecordError(f"{path}: no result of killcheck's: {where}: {error.message}")


def _html(told: _Told, path: Path) -> None:
    from killcheck.reports.html import html

    write(path, html(told.story, told.comparison))


def _document(told: _Told, path: Path) -> None:
    from killcheck.reports.document import document

    write(path, json.dumps(document(told.story), indent=2) + "\n")


def _junit(told: _Told, path: Path) -> None:
    from killcheck.reports.junit import junit

    write(path, junit(told.story))


def _sarif(told: _Told, path: Path) -> None:
    from killcheck.reports.sarif_drills import document

    write(path, json.dumps(document(told.story), indent=2) + "\n")


def _allure(told: _Told, folder: Path) -> None:
    from killcheck.reports.allure import write

    write(told.story, folder)


def _prometheus(told: _Told, path: Path) -> None:
    from killcheck.reports.prometheus import carry_over, prometheus

    earlier = path.read_text(encoding="utf-8", errors="replace") if path.is_file() else ""
    write(path, carry_over(prometheus(told.story), earlier))


def _pushgateway(told: _Told, url: str) -> None:
    from killcheck.reports.post import push
    from killcheck.reports.prometheus import grouping, prometheus

    push(url, grouping(told.story), prometheus(told.story))


def _summary(told: _Told, path: Path) -> None:
    from killcheck.reports.summary import markdown

    text = markdown(told.story, told.comparison)
    if path == STDOUT:
        write(path, text)
        return
    with path.open("a", encoding="utf-8") as file:  # a step may have written to its summary already
        file.write(text)


def _slack(told: _Told, path: Path) -> None:
    from killcheck.reports.summary import slack

    write(path, json.dumps(slack(told.story), indent=2) + "\n")


def _webhook(told: _Told, _wanted: bool) -> None:
    from killcheck.reports.post import post
    from killcheck.reports.summary import slack

    url = os.environ.get("KILLCHECK_WEBHOOK", "")
    if not url:
        raise click.UsageError("--webhook posts to the URL in the environment variable KILLCHECK_WEBHOOK, not set here")
    post(url, slack(told.story))


_MAKERS: dict[str, Callable[[_Told, Any], None]] = {
    "html": _html,
    "document": _document,
    "junit": _junit,
    "sarif": _sarif,
    "allure": _allure,
    "prometheus": _prometheus,
    "pushgateway": _pushgateway,
    "github_summary": _summary,
    "slack": _slack,
    "webhook": _webhook,
}
