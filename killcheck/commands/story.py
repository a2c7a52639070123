"""``killcheck story``: the founding story end to end, with AWS on loopback beneath the embedded cluster."""

from __future__ import annotations

import json
import sys

import click

from killcheck.commands.errors import guarded
from killcheck.commands.saying import say
from killcheck.text.accelerators import named_in
from killcheck.verdict import EXIT_CODES

__all__ = ["command"]

#: How long GPUs that nobody turns off are watched, in seconds.
WATCH_S = 2 * 3600.0


@click.command("story", context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--json", "as_json", is_flag=True, help="One JSON document on standard output, nothing else.")
@click.option("--no-color", is_flag=True, help="No colours (also: NO_COLOR).")
@guarded
def command(as_json: bool, no_color: bool) -> None:
    """A run is submitted from a laptop whose SSO session ends half-way: do the GPUs go off all the same?

    Three drills: the mended path, and each of the story's two failures put back. EC2, S3, STS and SSO are a stand-in
    on loopback (pip install 'killcheck[aws-stand-in]'); nothing leaves this machine. Exit code 0 if all end as they
    must.
    """
    from killcheck.drill.sequence import Options
    from killcheck.fixtures.story import CHAPTERS
    from killcheck.reports.terminal import Terminal
    from killcheck.run.planned import PlannedDrill
    from killcheck.run.runner import Run
    from killcheck.run.session import Session

    out = Terminal(quiet=as_json, color=False if no_color else None)
    planned = [
        PlannedDrill(
            one.layer,
            one.faults,
            expect=one.verdict,
            fixture=one.path,
            options=Options(title=one.title, horizon_s=WATCH_S),
        )
        for one in CHAPTERS
    ]
    result = Run(Session(fixture=CHAPTERS[0].path), planned, sinks=[out]).execute()
    good = result.exit_code == 0 and all(
        one.cause in drill.cause for drill, one in zip(result.drills, CHAPTERS, strict=True)
    )
    if as_json:
        click.echo(json.dumps(named_in(result.to_json()), indent=2))
    else:
        out.summary(result)
        say(
            "The story ended as it must: mended it is proven; each failure put back is exposed, and explained."
            if good
            else "NOT as expected: see above."
        )
    sys.exit(EXIT_CODES["proven" if good else "exposed"])
