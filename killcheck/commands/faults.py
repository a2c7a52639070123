"""``killcheck faults``."""

from __future__ import annotations

import json

import click

from killcheck.commands.errors import guarded

__all__ = ["command"]


@click.command("faults", context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--json", "as_json", is_flag=True, help="As JSON.")
@guarded
def command(as_json: bool) -> None:
    """List the faults that a drill can put a layer under: what each simulates, what it needs, what it reproduces."""
    from killcheck.faults import ALL

    rows = [
        {"name": kind.name, "family": kind.family, "simulates": kind.simulates, "needs": list(kind.needs),
         "failures": list(kind.failures)}
        for kind in ALL
    ]
    if as_json:
        click.echo(json.dumps(rows, indent=2))
        return
    width = max(len(str(row["name"])) for row in rows)
    for row in rows:
        needs = f" (needs: {', '.join(map(str, row['needs']))})" if row["needs"] else ""
        click.echo(f"{row['name']:<{width}}  {row['simulates']}{needs}")
