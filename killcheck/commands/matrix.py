"""``killcheck drill --matrix``: what it drills, what it says before, while and after."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import click

from killcheck.commands.next_step import after_matrix
from killcheck.commands.parts import part_of
from killcheck.commands.saying import say
from killcheck.text.accelerators import named_in

if TYPE_CHECKING:
    from killcheck.discover.independence import Shared
    from killcheck.drill.sequence import Options
    from killcheck.reports.terminal import Terminal
    from killcheck.results import Cell, Matrix, RunResult
    from killcheck.run.planned import PlannedDrill
    from killcheck.run.session import Session
    from killcheck.safety.consent import Plan

__all__ = ["cells", "drills", "execute", "failing", "left_out", "run", "show", "undrillable"]


def drills(session: Session, options: dict[str, Any], how: Options) -> list[PlannedDrill]:
    """The cells that options name. Raises click.UsageError where there is nothing to drill."""
    planned = cells(session, options["layer_names"], options["fault_names"], how)
    if options.get("shard"):
        return _part(planned, options["shard"])
    return planned if options.get("oldest") is None else _in_turn(session, planned, options)


#: Nights after which a proof is stale, where nothing else is said.
MONTH = 30


def _part(planned: list[PlannedDrill], named: str) -> list[PlannedDrill]:
    """The K-th of N parts; all of them together are the whole."""
    part, parts = part_of(named)
    chosen = planned[part - 1 :: parts]
    if not chosen:
        raise click.UsageError(f"--shard {named}: the matrix has {len(planned)} cell(s), so this part is empty")
    return chosen


def _in_turn(session: Session, planned: list[PlannedDrill], options: dict[str, Any]) -> list[PlannedDrill]:
    """The cells whose last night is longest ago. Raises PlaceError where the records cannot be read."""
    from killcheck.clock import wall_now
    from killcheck.cloud.instances import access_of
    from killcheck.commands.history import index_folder
    from killcheck.history.index import gather
    from killcheck.history.nights import path_told
    from killcheck.history.places import place_of
    from killcheck.history.turns import oldest
    from killcheck.safety.journal import state_dir

    where = options["history"] or options["evidence"] or ""
    if not where and not (state_dir() / "runs").is_dir():
        nights = []
    else:
        cloud = session.kill_path.cloud  # as --evidence writes there
        place = place_of(where or str(state_dir()), access_of(cloud) if cloud else None)
        found = gather([place], index_folder())
        here = (path_told(session.kill_path.name, example=session.example), session.on)
        nights = [night for night in found.nights if (night.kill_path, night.cluster) == here]
    keys = [(drill.layer, drill.faults) for drill in planned]
    chosen = oldest(keys, nights, now=wall_now().timestamp(), count=options["oldest"])
    runs = -(-len(planned) // len(chosen))
    late = f"; within a month of nights: --oldest {-(-len(planned) // MONTH)}" if runs > MONTH else ""
    say(
        f"killcheck: {len(chosen)} of {len(planned)} cells, those whose last night is longest ago: all have their turn "
        f"in {runs} runs, and what is not proven sooner again{late}",
        err=True,
    )
    return [planned[number] for number in chosen]


def cells(
    session: Session,
    only_layers: Collection[str],
    only_faults: Collection[str],
    how: Options,
    *,
    undisturbed: bool = False,
) -> list[PlannedDrill]:
    """The cells of a matrix on the session's cluster, what cannot be done there said and left out.

    ``undisturbed``: those without a fault alone.

    Raises click.UsageError where there is nothing to drill.
    """
    from killcheck import faults
    from killcheck.run import matrix
    from killcheck.run.standing import standing_on

    combined = [word for word in only_faults if {"+", "@"} & set(word)]
    alone = [word for word in only_faults if word not in combined]
    together = [faults.apart([word]) for word in combined]
    standing = standing_on(session) if session.real and not only_faults else matrix.Standing()
    planned = matrix.plan(
        session.kill_path,
        only_layers=only_layers,
        only_faults=alone,
        capabilities=session.capabilities,
        options=how,
        together=together,
        objects=() if session.real else session.objects,
        standing=standing,
    )
    if not planned:
        raise click.UsageError("no layer of the spec can be drilled by this version: the matrix has no cell")
    if undisturbed:
        return [drill for drill in planned if not drill.faults]
    if without := left_out(session, only_layers, only_faults):
        say(
            f"killcheck: left out on {session.on}, they need capabilities that it has not: {', '.join(without)}",
            err=True,
        )
    if not only_faults:
        known = standing.objects if session.real else session.objects
        if said := matrix.unneeded(session.kill_path, session.capabilities, known, standing.absent):
            say(f"killcheck: left out, they take away what is not there: {'; '.join(said)}", err=True)
    return planned


def left_out(session: Session, only_layers: Collection[str] = (), only_faults: Collection[str] = ()) -> list[str]:
    """Faults that the session's cluster has no lever for; what was named is drilled all the same, and says so."""
    from killcheck.run import matrix

    return [] if only_faults else matrix.left_out(session.kill_path, session.capabilities, only_layers=only_layers)


def execute(
    session: Session,
    planned: Sequence[PlannedDrill],
    out: Terminal,
    approve: Callable[[Plan], bool],
    *,
    quiet: bool = False,
    findings: Sequence[dict[str, Any]] = (),
    fences: Sequence[dict[str, Any]] = (),
    without: Sequence[str] = (),
) -> tuple[RunResult, Matrix]:
    """Drill every cell; says before how long it may take, and how far it is. What else was found goes on record too.

    ``without``: faults that were left out of it.
    """
    from killcheck.reports.figures import span
    from killcheck.run import parallel
    from killcheck.run.matrix import estimate, judged
    from killcheck.run.runner import Run

    if session.real:
        most = estimate(session.kill_path, planned)
        turns = ", one after the other" if most.drills > 1 else ""
        longest = f" ({span(most.longest_s)} the longest)" if most.drills > 1 else ""
        say(
            f"killcheck: {most.drills} drill(s) on {session.on}{turns}: {span(most.seconds)} of watching at most"
            f"{longest}, and after each until the GPUs are on again",
            err=True,
        )
    finished = _counting(len(planned), real=session.real, quiet=quiet)
    # On a real cluster each drill is told as it happens; a matrix of embedded nights is read in its table.
    sinks = [out] if session.real else []
    result = Run(
        session,
        planned,
        sinks=sinks,
        approve=approve,
        workers=parallel.drilling(),
        finished=finished,
        findings=findings,
        fences=fences,
    ).execute()
    return result, judged(session.kill_path, planned, result.drills, left_out=without)


def run(
    session: Session,
    planned: Sequence[PlannedDrill],
    options: dict[str, Any],
    out: Terminal,
    approve: Callable[[Plan], bool],
    *,
    findings: Sequence[dict[str, Any]] = (),
) -> int:
    """Drill every cell and show the matrix; returns the exit code. ``findings``: what was found before."""
    from killcheck.run.matrix import leaning
    from killcheck.run.reading import executors

    result, found = execute(
        session,
        planned,
        out,
        approve,
        quiet=options["quiet"],
        findings=findings,
        without=left_out(session, options["layer_names"], options["fault_names"]),
    )
    shared = leaning(session.kill_path, executors(session), found)
    names = undrillable(session, options["layer_names"])
    if options["as_json"]:
        every = [*findings, *(one.to_json() for one in shared)]
        click.echo(
            json.dumps(
                named_in({**result.to_json(), "findings": every, "matrix": found.to_json(), "not_drilled": names}),
                indent=2,
            )
        )
    else:
        show(found, shared, out)
        out.summary_of_record(result)
        if not options["quiet"] and (step := after_matrix(found)):
            say(step)
    if options["evidence"]:
        from killcheck.commands.evidence import leave_after

        leave_after(session, result, options["evidence"])
    if names:
        say(f"killcheck: this version cannot drill {', '.join(names)}: nothing is proven of them", err=True)
    from killcheck.verdict import EXIT_CODES

    return result.exit_code or (EXIT_CODES["inconclusive"] if names else 0)


def show(found: Matrix, shared: Sequence[Shared], out: Terminal) -> None:
    """The table, what the policy does not let pass, and what all layers lean on."""
    from killcheck.reports.matrix import fitted
    from killcheck.reports.rests import shown_apart

    out.console.grid(fitted(found, out.console.width))
    for line in failing(found.failures()):
        out.console.say(f"  {line}", 8 if line.startswith(" ") else 4)
    for cell in found.cells:
        if cell.better:
            out.console.say(f"  better: {cell.layer} under {cell.fault}: {cell.better}", 4)
    for line in dict.fromkeys(line for cell in found.cells for line in shown_apart(cell.result.to_json())):
        out.console.say(f"  rests on {line}", 4)
    for one in shared:
        said = "; ".join(one.evidence) or "not drilled: nothing here takes just that away"
        out.console.say(f"  {one.to_json()['severity']}: {one.message}", 4)
        out.console.say(f"    {said}. {one.remedy[:1].upper()}{one.remedy[1:]}.", 4)
    out.mend_first([cell.result.to_json() for cell in found.failures()])


def failing(cells: Sequence[Cell]) -> Iterator[str]:
    """What the policy does not let pass, a line each; what is inconclusive for the same reason shares one.

    Cells that fail alike stand below what they share: a fault and its cause.
    """
    exposed: dict[tuple[str, str, str], list[Cell]] = {}
    alike: dict[tuple[str, tuple[str, ...]], list[Cell]] = {}
    for cell in cells:
        result = cell.result
        if result.verdict != "inconclusive" and cell.fault and not result.dirty:
            exposed.setdefault((cell.layer, cell.wanted, cell.word), []).append(cell)
            continue
        why: tuple[str, ...] = (result.why,)
        # What was not run may be beside the point: only a verdict that says so is for want of it.
        if result.verdict != "inconclusive":
            why = (cell.fault,)
        elif result.not_run and all(one in result.why for one in result.not_run):
            why = result.not_run
        alike.setdefault((cell.layer, why), []).append(cell)
    for (layer, why), those in alike.items():
        under = [one.fault for one in those if one.fault]
        undisturbed = "undisturbed and " if len(under) < len(those) else ""
        several = f"{layer}, {undisturbed}under {len(under)} fault(s), is inconclusive: {'; '.join(why)}"
        yield several if len(those) > 1 else _fails(those[0])
    for (layer, wanted, word), those in exposed.items():
        if len(those) == 1:
            yield _fails(those[0])
            continue
        yield f"{layer} must be {wanted}, is {word} under {len(those)} faults:"
        longest = max(len(one.fault) for one in those)
        for one in those:
            yield f"  {one.fault:<{longest}}  {_because(one)}"


def _fails(cell: Cell) -> str:
    left = ", and not all is as it was" if cell.result.dirty else ""
    under = f" under {cell.fault}" if cell.fault else ""
    return f"{cell.layer}{under} must be {cell.wanted}, is {cell.word}{left}: {_because(cell)}"


def _because(cell: Cell) -> str:
    from killcheck.reports.figures import short

    result = cell.result
    return short(result.problems[0] if result.dirty else result.cause or result.why, 200)


def undrillable(session: Session, only_layers: Collection[str] = ()) -> list[str]:
    """Layers that could not be drilled: nothing is proven of them, whatever the others are."""
    from killcheck import layers

    return [
        layer.name
        for layer in session.kill_path.layers
        if not layers.drillable(layer) and (not only_layers or layer.name in only_layers)
    ]


def _counting(planned: int, *, real: bool, quiet: bool) -> Callable[[int], None]:
    """Says how many are done; on a real cluster also how long that took, and what the rest would take at that pace.

    Drills on a real cluster are counted one by one; of embedded ones each tenth has a line.
    """
    from killcheck.clock import wall_now
    from killcheck.reports.figures import span

    steps = 1 if real else max(1, planned // 10)
    began = wall_now()

    def finished(count: int) -> None:
        if quiet or planned == 1 or (count % steps and count != planned):
            return
        spent = (wall_now() - began).total_seconds()
        pace = f", {span(spent)} so far" if real else ""
        if real and count < planned:
            pace += f", about {span(spent / count * (planned - count))} to go at this pace"
        say(f"killcheck: {count} of {planned} drills{pace}", err=True)

    return finished
