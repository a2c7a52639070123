"""``killcheck faults``."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import click

from killcheck.commands.errors import guarded
from killcheck.commands.saying import say

if TYPE_CHECKING:
    from killcheck.faults import Fault

__all__ = ["command"]


@click.command("faults", context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--json", "as_json", is_flag=True, help="As JSON.")
@guarded
def command(as_json: bool) -> None:
    """List the faults that a drill can put a layer under: what each simulates, where it can, what it costs.

    What one would change on your cluster, and the rights that it takes: killcheck drill --under FAULT --dry-run.
    """
    from killcheck.faults import every

    rows = [_row(kind) for kind in every()]
    if as_json:
        click.echo(json.dumps(rows, indent=2))
        return
    width = max(len(row["name"]) for row in rows)
    for family in dict.fromkeys(row["family"] for row in rows):
        say(f"{family}:")
        for row in rows:
            if row["family"] == family:
                where = f" ({row['where']})" if row["needs"] else ""
                say(f"  {row['name']:<{width}}  {row['simulates']}{where}", hang=width + 4)
                if row["costs"]:
                    say(f"  {'':<{width}}  costs: {row['costs']}", hang=width + 4)
    say(
        "\nSeveral at once: --under A --under B, or --under A+B. Two that set the same field are refused.\n"
        "Of a layer that is not the drilled one, or of all its firings: --under FAULT@LAYER.\n"
        "For a part of the night, times after the trigger, on the embedded cluster: --under FAULT=2s..10m."
    )


def _row(kind: type[Fault]) -> dict[str, Any]:
    return {
        "name": kind.name,
        "family": kind.family,
        "simulates": kind.simulates,
        "needs": list(kind.needs),
        "where": _where(kind),
        "failures": list(kind.failures),
        "costs": kind.costs,
        "settings": kind.settings(),
        "shows": str(kind.shows),
        "how": (kind.__doc__ or "").strip().splitlines()[0],
    }


def _where(kind: type[Fault]) -> str:
    if not kind.needs:
        return "any cluster"
    if kind.outside:
        return "programs of a machine" if "programs" in kind.needs else "programs of a machine, embedded cluster only"
    if "stand-in" in kind.needs:
        return "embedded cluster, with cloud: in the spec"
    if {"aws", "hands"} & set(kind.needs):
        return "with cloud: in the spec"
    if "engine" in kind.needs:
        return "--on docker"
    if "node-containers" in kind.needs:
        return "--on kind"
    return "embedded cluster only"
