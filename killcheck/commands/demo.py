"""``killcheck demo``: the four nights that the README promises."""

from __future__ import annotations

import json
import sys
from typing import Any

import click

from killcheck.commands.errors import guarded

__all__ = ["command"]

#: The reference night is watched for a whole day.
DAY_S = 24 * 3600.0


@click.command("demo", context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--json", "as_json", is_flag=True, help="One JSON document on standard output, nothing else.")
@click.option("--no-color", is_flag=True, help="No colours (also: NO_COLOR).")
@guarded
def command(as_json: bool, no_color: bool) -> None:
    """Four nights on the embedded cluster: one on which the GPUs go off, and three on which they bill until morning.

    Exit code 0 if all four end as they must.
    """
    from killcheck.drill import Options
    from killcheck.fixtures.nights import NIGHTS
    from killcheck.reports.terminal import Terminal
    from killcheck.run import PlannedDrill, Run, RunResult
    from killcheck.session import Session
    from killcheck.verdict import DrillResult

    out = Terminal(quiet=as_json, color=False if no_color else None)
    drills: list[DrillResult] = []
    documents: list[dict[str, Any]] = []
    good = True
    for night in NIGHTS:
        session = Session(fixture=night.path)
        layer = session.kill_path.layers[0].name
        options = Options(title=night.title, run_out_s=DAY_S if night.verdict == "survived" else 0.0)
        last = Run(session, [PlannedDrill(layer, options=options, expect=night.verdict)], sinks=[out]).execute()
        drills += last.drills
        documents += last.to_json()["drills"]
        good = good and last.exit_code == 0 and last.drills[0].stuck_at == night.stuck_at
    code = 0 if good else 1
    combined = RunResult("demo", "as expected" if good else "not as expected", code, tuple(drills), None)
    if as_json:
        click.echo(json.dumps(combined.to_json() | {"drills": documents}, indent=2))
    else:
        out.summary(combined)
        click.echo("All four nights ended as they must: one proven, three exposed and explained." if good else
                   "NOT as expected: see above.")
    sys.exit(code)
