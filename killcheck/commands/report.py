"""``killcheck report``: any report again, from the run record alone."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from killcheck.commands.errors import guarded
from killcheck.commands.files import FILE, STDOUT, write
from killcheck.commands.named import unsealed
from killcheck.commands.saying import say
from killcheck.reports import Delivery, Place, Report, Told, Written, every
from killcheck.text.accelerators import name_after, named
from killcheck.text.files import add_to, text_of
from killcheck.verdict import EXIT_CODES
from killcheck.version import __version__

if TYPE_CHECKING:
    from killcheck.events import Event
    from killcheck.reports.story import RunStory

__all__ = ["command"]

_FOLDER = click.Path(path_type=Path, file_okay=False)
_RECORD = click.Path(path_type=Path, exists=True)
_PLACES: dict[Place, dict[str, Any]] = {
    Place.FILE: {"type": FILE},
    Place.FOLDER: {"type": _FOLDER},
    Place.ADDRESS: {"metavar": "URL"},
    Place.ASKED: {"is_flag": True},
}


def _parameter(report: Report) -> str:
    """An option's value under a name that no other parameter has."""
    return f"to_{report.option.replace('-', '_')}"


def _each_report(command: Callable[..., None]) -> Callable[..., None]:
    """An option for every report that there is."""
    for report in reversed(every()):
        option = click.option(f"--{report.option}", _parameter(report), help=report.help, **_PLACES[report.place])
        command = option(command)
    return command


@click.command("report", context_settings={"help_option_names": ["-h", "--help"]})
@click.argument("record", required=False, type=_RECORD, metavar="[RUN]")
@click.option("--compare", "earlier", type=_RECORD, metavar="EARLIER", help="What changed since that run.")
@_each_report
@unsealed
@click.option("--no-color", is_flag=True, help="No colours (also: NO_COLOR).")
@guarded
def command(record: Path | None, earlier: Path | None, no_color: bool, unsealed: bool, **wanted: Any) -> None:
    """Make reports from a run record, also from one that a kill cut short. Without options: the terminal's.

    RUN is a run record or its folder (default: the newest of killcheck runs). A FILE that is - is standard output.
    Every report says where its record is not sealed by this machine, or one with its KILLCHECK_KEY. Where such a record
    says that all is well, the exit code is 3: anybody can write one.

    \b
    Examples:
      killcheck report --html report.html
      killcheck report .killcheck/runs/ID --html report.html --junit junit.xml
      killcheck report tonight.jsonl --compare last-night.jsonl
      killcheck report run.jsonl --prometheus killcheck.prom --webhook
    """
    from killcheck.reports.compare import compare
    from killcheck.run.kept import record_of
    from killcheck.safety.journal import state_dir

    events, story, ours = _read(record_of(record, state_dir()), anyway=unsealed)
    told = Told(story, compare(_read(record_of(earlier, state_dir()), anyway=True)[1], story) if earlier else None)
    name_after(story.resources)
    asked = [(report, where) for report in every() if (where := wanted[_parameter(report)])]
    _one_on_stdout(asked)
    for report, where in asked:
        _make(report, told, where)
    if not asked:
        from killcheck.reports.terminal import Terminal

        out = Terminal(color=False if no_color else None)
        if any(drill.started.faults for drill in story.drills) and len(story.drills) > 2:
            from killcheck.reports.told_matrix import told as table

            out.console.grid(table(story, out.console.width))
        else:
            for event in events:
                out(event)
        out.closing(story, told.comparison)
    if not ours and story.finished is not None and not story.finished.exit_code:
        sys.exit(EXIT_CODES["inconclusive"])


def _read(path: Path, *, anyway: bool) -> tuple[list[Event], RunStory, bool]:
    """The events of a record, their story, and whether it is this machine's or somebody's word is given for it."""
    from killcheck.reports.story import tell
    from killcheck.run.chain import Chain
    from killcheck.run.record import NOT_OURS, RecordError, read

    chain = Chain()
    told = list(read(path, chain))
    try:
        story = tell(told)
    except (ValueError, TypeError) as error:
        raise RecordError(f"{path}: {error}") from error
    _check(path, story)
    if chain.whose in NOT_OURS:
        story.notes.append(f"this record proves nothing here: {NOT_OURS[chain.whose]}")  # so that every report says it
        say(f"killcheck: {path}: {NOT_OURS[chain.whose]}. What it says proves nothing", err=True)
    if chain.cut:
        said = f"line {chain.cut}, the last one, is cut short and left out"
        story.notes.append(said)
        say(f"killcheck: {path}:{chain.cut}: {said}", err=True)
    lines = chain.lines
    if story.started.version != __version__ and lines > len(told):
        say(
            f"killcheck: {path} was written by killcheck {story.started.version}, this is {__version__}: "
            f"{lines - len(told)} line(s) that it does not know are left out",
            err=True,
        )
    return told, story, anyway or chain.whose not in NOT_OURS


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


def _one_on_stdout(asked: list[tuple[Report, Any]]) -> None:
    """Raise UsageError where two reports go to standard output: nobody could read them apart."""
    there = [f"--{report.option}" for report, where in asked if where == STDOUT]
    if len(there) > 1:
        raise click.UsageError(f"only one document can go to standard output: give {', '.join(there)} a file")


def _make(report: Report, told: Told, where: Any) -> None:
    if isinstance(report, Written):
        _write(report, named(report.text(told)), where)
    elif isinstance(report, Delivery) and report.into is not None:
        report.into(told, where)
    elif isinstance(report, Delivery) and report.to is not None:
        report.to(told, _address(report) if report.variable else where)


def _write(report: Written, text: str, path: Path) -> None:
    if path == STDOUT:
        write(path, text)
    elif report.appended:
        add_to(path, text)
    else:
        earlier = text_of(path, errors="replace") if path.is_file() else ""
        write(path, report.joined(text, earlier))


def _address(report: Delivery) -> str:
    """Raises UsageError where the variable that holds it is not set."""
    url = os.environ.get(report.variable, "")
    if not url:
        raise click.UsageError(
            f"--{report.option} posts to the URL in the environment variable {report.variable}, not set here"
        )
    return url
