"""``killcheck explore``."""

from __future__ import annotations

import json
import shlex
import sys
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from killcheck.commands import named
from killcheck.commands.errors import guarded
from killcheck.commands.parts import part_of
from killcheck.commands.reading_options import reading_options
from killcheck.commands.saying import say
from killcheck.text.accelerators import named_in
from killcheck.text.values import replace

if TYPE_CHECKING:
    from killcheck.run.explore import Explored, Found
    from killcheck.run.session import Session

__all__ = ["command"]


@click.command("explore", context_settings={"help_option_names": ["-h", "--help"]})
@named.spec
@named.example
@named.kubernetes_version
@click.option(
    "--manifests",
    multiple=True,
    type=click.Path(path_type=Path, exists=True),
    metavar="PATH",
    help="YAML to load into the embedded cluster (default: the folder of SPEC; repeatable).",
)
@named.layers("Only this layer (repeatable).")
@named.under("Only these faults (repeatable).")
@click.option(
    "--max-faults",
    type=click.IntRange(min=1, max=5),
    default=3,
    show_default=True,
    metavar="N",
    help="Most faults at once.",
)
@click.option(
    "--budget",
    type=click.IntRange(min=0),
    default=500,
    show_default=True,
    metavar="N",
    help="Most scenarios that are run; the likeliest come first. 0: only what is known already is told.",
)
@click.option(
    "--times",
    is_flag=True,
    help="Also find from when to when in the night the faults of each set have to be there, with what is left of the "
    "budget.",
)
@click.option(
    "--tree",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="FILE",
    help="Keep there what each scenario ended with, and go on from what is there: the next --budget goes further.",
)
@click.option(
    "--known",
    multiple=True,
    type=click.Path(path_type=Path, exists=True),
    metavar="PATH",
    help="What other searches kept, a file or a folder with some below it: not tried again (repeatable).",
)
@click.option("--shard", metavar="K/N", help="Of sets of two faults and more only the K-th of N parts; with --tree.")
@click.option(
    "--exec",
    "exec_mode",
    type=click.Choice(["auto", "host", "none", "unisolated"]),
    help="Confirm what is found with executors that really run (shipped paths: host; your own: none). "
    "Outside Kubernetes nothing is modelled: your own need host.",
)
@click.option("--json", "as_json", is_flag=True, help="One JSON document on standard output, nothing else.")
@click.option("--quiet", "-q", is_flag=True, help="No progress.")
@reading_options
@guarded
def command(**options: Any) -> None:
    """Search for the smallest combinations of faults that leave the GPUs on.

    Faults alone, then pairs, then triples of those that did no harm, of all layers in turn, on the embedded cluster.
    Executors are modelled by what reading their commands finds. What exposes is drilled again with executors that
    really run. The same search finds the same, on any number of processors.

    \b
    Examples:
      killcheck explore --budget 5
      killcheck explore killcheck.yaml --under rolebinding-gone --exec host

    Exit code 0: everything was tried and nothing exposes; 1: something does; 3: not everything could be tried. With
    --shard, of that part; what waits for other parts was not.
    """
    from killcheck.clock import wall_seconds
    from killcheck.run import explore as searching
    from killcheck.run.explored import Kept, kept_elsewhere

    session = _session(options)
    if not session.kill_path.in_kubernetes and not session.may_run:
        raise click.UsageError(
            "outside Kubernetes nothing is modelled: the machine's own programs run on this host while sets of faults "
            "are tried; --exec host allows it"
        )
    _known(session, options)
    part = _part(options)

    def heard(count: int, text: str) -> None:
        if not options["quiet"] and count % 50 == 0:
            say(f"killcheck: {count} scenarios, the last {text}", err=True)

    with Kept.of(options["tree"], session) if options["tree"] else nullcontext() as kept:
        found = searching.explore(
            session,
            only_layers=options["layer_names"],
            only_faults=options["fault_names"],
            max_faults=options["max_faults"],
            budget=options["budget"],
            seconds=wall_seconds,
            heard=heard,
            known=kept_elsewhere(options["known"], session) | (kept.known if kept is not None else {}),
            keep=kept if kept is not None else lambda found: None,
            times=options["times"],
            part=part,
        )
    found = _confirmed(session, found, options)
    code = _code(found, options["max_faults"])
    named_again = "".join(f" {shlex.quote(word)}" for word in _named(session))
    if options["as_json"]:
        verdict = {0: "proven", 1: "exposed", 3: "inconclusive"}[code]
        click.echo(
            json.dumps(
                named_in(
                    {
                        "schema": "killcheck.explore/v1",
                        "verdict": verdict,
                        "exit_code": code,
                        "kill_path": session.kill_path.name,
                        **found.to_json(named_again),
                    }
                ),
                indent=2,
            )
        )
    else:
        _tell(found, named_again, options["max_faults"], modelled=session.kill_path.in_kubernetes)
    sys.exit(code)


def _named(session: Session) -> list[str]:
    """What a replay adds to layer and faults, so that it works as it is printed: executors have to run in it."""
    from killcheck.run.chosen import arguments

    words = arguments(session)
    if session.may_run or not session.kill_path.in_kubernetes:
        return words
    return [*arguments(replace(session, exec_mode=None)), "--exec", "host"]


def _known(session: Session, options: dict[str, Any]) -> None:
    """Raise UsageError for a layer that the spec has not and a fault that there is not, NothingToDrill without any."""
    from killcheck import faults
    from killcheck.text.suggestions import did_you_mean

    layers = session.layer_names
    for wanted in options["layer_names"]:
        if wanted not in layers:
            raise click.UsageError(f"the spec has no layer {wanted!r}{did_you_mean(wanted, layers)}")
    try:
        for name in options["fault_names"]:
            if len(faults.resolved([name], layers)) > 1:
                raise click.UsageError(f"{name}: a search combines faults by itself: --under for each")
    except (KeyError, ValueError) as error:
        raise click.UsageError(str(error.args[0])) from None


def _part(options: dict[str, Any]) -> tuple[int, int]:
    """Which part of the search, of how many. Raises UsageError."""
    if options["shard"] is None:
        return 1, 1
    if options["tree"] is None:
        raise click.UsageError("--shard needs --tree FILE: what a part found is told by all parts together")
    if options["times"]:
        raise click.UsageError("--shard and --times: ask for times once all parts have ended, with --known")
    return part_of(options["shard"])


def _session(options: dict[str, Any]) -> Session:
    session = named.session(options)
    named.headline(session, aside=options["as_json"])
    return named.beside(session) if session.kill_path.in_kubernetes else session


def _confirmed(session: Session, found: Explored, options: dict[str, Any]) -> Explored:
    """What was found, drilled again with executors that really run, where they may."""
    from killcheck.run import explore as searching
    from killcheck.run import parallel
    from killcheck.run.runner import Run

    planned = searching.again(found)
    if not session.may_run or not planned:
        return found
    if not session.kill_path.in_kubernetes:  # they did already
        return replace(found, minimal=tuple(replace(one, confirmed=True) for one in found.minimal))
    if not options["quiet"]:
        say(f"killcheck: {len(planned)} sets are drilled again with executors that really run", err=True)
    result = Run(session, planned, workers=parallel.drilling()).execute()
    return searching.confirm(found, result.drills)


def _code(found: Explored, most: int) -> int:
    """What a real drill refuted does not count as exposed; it shows that the model is wrong, so nothing is proven.

    Sets of fewer than ``most`` faults that are other parts' keep the larger ones of this part waiting.
    """
    if any(one.confirmed is not False for one in found.minimal):
        return 1
    waits = any(count and size < most for size, count in found.elsewhere.items())
    left = waits or any(found.left.values())
    return 3 if found.minimal or found.inconclusive or left or found.unmodelled else 0


def _tell(found: Explored, named: str, most: int, *, modelled: bool) -> None:
    def put(text: str, hang: int = 2, *, more: str = "") -> None:
        say(text, hang=hang, more=more)

    how = {True: "confirmed", False: "REFUTED by a real drill: the model is wrong", None: "not confirmed"}
    for one in sorted(found.minimal, key=lambda one: (len(one.scenario.faults), str(one.scenario))):
        put(f"exposed  {one.scenario}  ({how[one.confirmed]})", 9)
        put(f"         {one.why}", 9)
        for line in _when(one):
            put(f"         {line}", 11)
        put(f"         {one.replayed.replay}{named}", 11, more=" \\")
    for one in found.inconclusive:
        put(f"unknown  {one.scenario}: {one.why}", 9)
    put(
        f"\n{found.tried + found.timed} scenarios in {found.seconds:.1f} s: {found.rate:.1f} a second on each of "
        f"{found.workers} processor(s); {len(found.minimal)} minimal set(s) that expose, {found.refused} that cannot "
        "be together"
    )
    for size, count in found.left.items():
        if count:
            put(f"not tried: {count} sets of {size} fault(s) (--budget)")
    which, parts = found.part
    if parts > 1:
        put(f"part {which} of {parts}: what exposes may be told by another (--budget 0 --known tells all)")
    for size, count in found.elsewhere.items():
        more = "; larger sets wait until they are known" if size < most else ""
        put(f"not tried here: {count} sets of {size} faults, by other parts{more}")
    if found.timeless:
        put(f"not asked when their faults have to be there: {found.timeless} set(s) (--budget)")
    for line in _coverage(found):
        put(line)
    if found.unmodelled:
        put(
            f"not tried: {', '.join(found.unmodelled)} (no modelled executor meets the like, or this cluster "
            "has no means for it: killcheck drill --matrix)"
        )
    if modelled:
        put("Sets that did no harm did none with modelled executors; killcheck drill proves one for real.")


def _when(found: Found) -> list[str]:
    """When its faults have to be there, and that a real drill saw otherwise."""
    if found.when is None:
        return []
    if found.when_confirmed is False:
        return ["when its faults have to be there is not known: at the times of the model a real drill did not expose"]
    return list(map(str, found.when))


def _coverage(found: Explored) -> list[str]:
    """How far each layer's sets were tried, and up to how many faults that is all of them."""
    lines = [
        f"{one.layer}: {one.tried} of {one.sets} set(s) of {one.size} fault(s) tried"
        + (f", {one.hidden} not: of two faults that stop its executor one hides the other" if one.hidden else "")
        + (f", {one.hopeless} not: a part of them proves nothing alone" if one.hopeless else "")
        for one in found.covered
        if one.size and one.sets
    ]
    most = found.complete_up_to
    if most:
        lines.append(
            f"Complete up to {most} of a layer's own faults at once, of those that were to be tried: a set that "
            "exposes holds one of the above."
        )
    return lines
