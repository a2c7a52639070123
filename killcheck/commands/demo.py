"""``killcheck demo``: the four nights that the README promises."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import click

from killcheck.commands.errors import guarded
from killcheck.commands.files import FILE, STDOUT, write
from killcheck.commands.saying import say
from killcheck.text.accelerators import named_in
from killcheck.verdict import EXIT_CODES

__all__ = ["command"]

#: The reference night is watched for a whole day.
DAY_S = 24 * 3600.0


@click.command("demo", context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--json", "as_json", is_flag=True, help="One JSON document on standard output, nothing else.")
@click.option(
    "--html",
    "html_file",
    type=FILE,
    metavar="FILE",
    help="Where to leave the HTML report (default: beside the run record; - is standard output).",
)
@click.option(
    "--copy-to",
    "folder",
    type=click.Path(path_type=Path, file_okay=False),
    help="Only write the reference kill path, manifests and spec, into a new folder to play with.",
)
@click.option("--no-color", is_flag=True, help="No colours (also: NO_COLOR).")
@guarded
def command(as_json: bool, html_file: Path | None, folder: Path | None, no_color: bool) -> None:
    """Four nights on the embedded cluster: one on which the GPUs go off, and three on which they bill until morning.

    Exit code 0 if all four end as they must.
    """
    from killcheck.drill.sequence import Options
    from killcheck.fixtures.nights import NIGHTS
    from killcheck.reports.terminal import Terminal
    from killcheck.run.planned import PlannedDrill
    from killcheck.run.runner import Run
    from killcheck.run.session import Session

    if folder is not None:
        _copy(folder)
        return
    if as_json and html_file == STDOUT:
        raise click.UsageError("only one document can go to standard output: give --html a file")
    out = Terminal(quiet=as_json or html_file == STDOUT, color=False if no_color else None)
    session = Session(fixture=NIGHTS[0].path)
    layer = session.kill_path.layers[0].name
    planned = [
        PlannedDrill(
            layer,
            expect=night.verdict,
            fixture=night.path,
            options=Options(title=night.title, run_out_s=DAY_S if night.verdict == "survived" else 0.0),
        )
        for night in NIGHTS
    ]
    result = Run(session, planned, sinks=[out]).execute()
    good = result.exit_code == 0 and all(
        drill.stuck_at == night.stuck_at for drill, night in zip(result.drills, NIGHTS, strict=True)
    )
    report = _report(result.record, html_file)
    if as_json:
        click.echo(json.dumps(named_in(result.to_json()), indent=2))
    elif html_file != STDOUT:
        out.summary(result)
        say(f"HTML report: {report}")
        say(
            "All four nights ended as they must: one proven, three exposed and explained."
            if good
            else "NOT as expected: see above."
        )
        if good:
            say("next: killcheck drill --manifests FOLDER --exec host   (killcheck demo --copy-to FOLDER: take these)")
    sys.exit(EXIT_CODES["proven" if good else "exposed"])


def _copy(folder: Path) -> None:
    """The reference kill path as files of the user's own; editors find the spec's schema where killcheck lies."""
    import killcheck
    from killcheck import fixtures

    name = "killcheck.schema.json"
    schema = f"$schema={Path(killcheck.__file__).with_name(name)}"
    if folder.exists() and any(folder.iterdir()):
        raise click.UsageError(f"{folder} is not empty: name a new folder, nothing of yours is overwritten")
    folder.mkdir(parents=True, exist_ok=True)
    for file in sorted(fixtures.path("dead-man").glob("*.yaml")):
        text = file.read_text(encoding="utf-8").replace(f"$schema=../../../killcheck/{name}", schema)
        (folder / file.name).write_text(text, encoding="utf-8")
        say(folder / file.name)


def _report(record: Path | None, wanted: Path | None) -> Path:
    from killcheck.reports.html import html
    from killcheck.reports.story import tell
    from killcheck.run.record import read

    assert record is not None
    path = wanted or record.with_name("report.html")
    write(path, html(tell(read(record))))
    return path
