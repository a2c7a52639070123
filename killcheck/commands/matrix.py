"""``killcheck drill --matrix``: what it drills, what it says before, while and after."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from killcheck.consent import Plan
    from killcheck.drill import Options
    from killcheck.reports.terminal import Terminal
    from killcheck.run import PlannedDrill
    from killcheck.session import Session

__all__ = ["drills", "run"]


def drills(session: Session, options: dict[str, Any], how: Options) -> list[PlannedDrill]:
    """The cells. Raises click.UsageError where there is nothing to drill."""
    from killcheck import faults, matrix

    levers = None
    if session.real:
        with session.cluster() as (cluster, _):
            levers = set(cluster.levers)
    alone = [word for word in options["fault_names"] if "+" not in word]
    together = [faults.apart([word]) for word in options["fault_names"] if "+" in word]
    planned = matrix.plan(
        session.kill_path, only_layers=options["layer_names"], only_faults=alone, levers=levers, options=how,
        together=together)
    if not planned:
        raise click.UsageError("no layer of the spec can be drilled by this version: the matrix has no cell")
    if levers is not None:
        without = matrix.left_out(
            session.kill_path, levers, only_layers=options["layer_names"], only_faults=options["fault_names"])
        if without:
            click.echo(f"killcheck: left out on {session.on}, they need levers that it has not: {', '.join(without)}",
                       err=True)
    return planned


def run(
    session: Session, planned: Sequence[PlannedDrill], options: dict[str, Any], out: Terminal,
    approve: Callable[[Plan], bool],
) -> int:
    """Drill every cell and show the matrix; returns the exit code."""
    from killcheck import parallel
    from killcheck.matrix import Matrix, estimate
    from killcheck.reports.matrix import table
    from killcheck.reports.terminal import span
    from killcheck.run import Run

    if session.real:
        most = estimate(session.kill_path, planned)
        click.echo(
            f"killcheck: {most.drills} drills on {session.on}, one after the other: {span(most.seconds)} at most, "
            f"{span(most.longest_s)} the longest", err=True)

    def finished(count: int) -> None:
        if not options["quiet"]:
            click.echo(f"killcheck: {count} of {len(planned)} drills", err=True)

    # On a real cluster each drill is told as it happens; a matrix of embedded nights is read in its table.
    sinks = [out] if session.real else []
    result = Run(
        session, planned, sinks=sinks, approve=_once(approve), workers=parallel.processors(),
        finished=finished if session.real else lambda count: None).execute()
    found = Matrix.of(session.kill_path, planned, result.drills)
    if options["as_json"]:
        click.echo(json.dumps({**result.to_json(), "matrix": found.to_json()}, indent=2))
        return _with_left_out(session, options, result.exit_code)
    out.console.print(table(found))
    for cell in found.failures():
        under = f" under {cell.fault}" if cell.fault else ""
        out.console.print(
            f"  {cell.layer}{under} must be {cell.required}, is {cell.word}: {cell.result.cause or cell.result.why}",
            markup=False, highlight=False)
    out.summary_of_record(result)
    return _with_left_out(session, options, result.exit_code)


def _with_left_out(session: Session, options: dict[str, Any], code: int) -> int:
    """The exit code; a layer that could not be drilled is not proven, whatever the others are."""
    from killcheck import layers
    from killcheck.verdict import EXIT_CODES

    names = [layer.name for layer in session.kill_path.layers if not layers.drillable(layer) and (
        not options["layer_names"] or layer.name in options["layer_names"])]
    if names:
        click.echo(f"killcheck: this version cannot drill {', '.join(names)}: nothing is proven of them", err=True)
    return code or (EXIT_CODES["inconclusive"] if names else 0)


def _once(approve: Callable[[Plan], bool]) -> Callable[[Plan], bool]:
    """Asked for each drill, answered as the first time where the plan touches nothing new."""
    known: set[str] = set()

    def asked(plan: Plan) -> bool:
        if set(plan.changes) <= known:
            return True
        if not approve(plan):
            return False
        known.update(plan.changes)
        return True

    return asked
