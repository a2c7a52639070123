"""``killcheck fleet``: many kill paths on many clusters."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from killcheck.commands.errors import guarded
from killcheck.commands.files import FILE, one_on_stdout, write
from killcheck.commands.named import first_line, unsealed
from killcheck.commands.saying import say

if TYPE_CHECKING:
    from killcheck.clock import Loop
    from killcheck.fleet.drilling import Done, Place
    from killcheck.fleet.file import Fleet, Shard
    from killcheck.fleet.slots import Slots
    from killcheck.fleet.standing import Standing

__all__ = ["command"]

_SETTINGS = {"help_option_names": ["-h", "--help"]}
_fleet = click.argument("file", type=click.Path(path_type=Path, exists=True, dir_okay=False), metavar="FLEET")
_json = click.option("--json", "as_json", is_flag=True, help="One JSON document on standard output, nothing else.")
_results = click.option("--results", metavar="PLACE", help="Where the records are, instead of where FLEET says.")


@click.group("fleet", context_settings=_SETTINGS)
def command() -> None:
    """Drill many kill paths on many clusters, as a fleet.yaml names them, and show them on one page.

    \b
      killcheck fleet plan fleet.yaml
      killcheck fleet drill fleet.yaml
      killcheck fleet report fleet.yaml --html fleet.html
      killcheck fleet plan fleet.yaml --job --image IMAGE --pvc VOLUME > job.json
    """


@command.command("plan", context_settings=_SETTINGS)
@_fleet
@click.option(
    "--job", is_flag=True, help="Print what to apply instead: an Indexed Job, an index a shard, with its rights."
)
@click.option("--namespace", default="killcheck", show_default=True, help="With --job: where its pods are.")
@click.option("--image", default="", help="With --job: the image of ci/Dockerfile, in a registry of yours.")
@click.option("--pvc", default="", metavar="NAME", help="With --job: the PersistentVolumeClaim for results.")
@_json
@guarded
def plan(file: Path, job: bool, as_json: bool, **made: str) -> None:
    """Say which drills there are, or print the Job that makes them. Nothing is drilled, no cluster is asked.

    \b
    Examples:
      killcheck fleet plan fleet.yaml
      killcheck fleet plan fleet.yaml --job --image IMAGE --pvc VOLUME > job.json
    """
    from killcheck.fleet.file import load
    from killcheck.fleet.job import JobError, manifests, text

    fleet = load(file)
    if job:
        if not made["image"]:
            raise click.UsageError("--job takes --image: which image its pods run")
        try:
            write(
                Path("-"), text(manifests(fleet, namespace=made["namespace"], image=made["image"], claim=made["pvc"]))
            )
        except JobError as error:
            raise click.UsageError(str(error)) from error
        return
    if as_json:
        shards = [{"shard": one.key, "context": one.context, "command": one.words()} for one in fleet.shards]
        click.echo(
            json.dumps({"schema": "killcheck.fleet-plan/v1", "at_once": fleet.at_once, "shards": shards}, indent=2)
        )
        return
    _headline(fleet)
    for number, one in enumerate(fleet.shards):
        say(f"  {number}  {one.key}: killcheck {' '.join(one.words())}")


@command.command("drill", context_settings=_SETTINGS)
@_fleet
@click.option(
    "--index", type=click.IntRange(min=0), metavar="N", help="Only the shard of that number: a pod of the Job."
)
@click.option("--again", is_flag=True, help="Drill also what was drilled lately.")
@click.option(
    "--fresh",
    default="12h",
    show_default=True,
    metavar="DURATION",
    help="What ended so short ago is not drilled again.",
)
@click.option("--patience", default="1h", show_default=True, metavar="DURATION", help="How long a slot is waited for.")
@click.option("--work", type=click.Path(path_type=Path), help="Folder for what shards leave (default: the results').")
@click.option("--secrets", type=click.Path(path_type=Path), help="Where the Secrets with kubeconfigs are mounted.")
@click.option(
    "--slots",
    metavar="CONTEXT/NAMESPACE",
    help="Hold slots by Leases there (default: by locks of this machine): nobody else's drills make it more at once.",
)
@_results
@click.option("--yes", is_flag=True, help="Do not ask before changing real clusters.")
@_json
@guarded
def drill(file: Path, **options: Any) -> None:
    """Drill every shard, never more at once than the fleet allows; go on where an earlier one was cut short.

    Each shard is a killcheck drill in a process of its own. A shard whose last run ended lately is not drilled again.
    What a lost one left is put back before anybody takes its place.

    Exit code: the worst of the shards'.

    \b
    Examples:
      killcheck fleet drill fleet.yaml
      killcheck fleet drill fleet.yaml --fresh 1h --yes
    """
    from killcheck.clock import WallLoop
    from killcheck.fleet.drilling import Drilling
    from killcheck.fleet.drilling import Place as _Place
    from killcheck.run.gate import worst

    fleet = _loaded(file, options["results"])
    shards = _chosen(fleet, options["index"])
    told, due = _due(fleet, shards, options)
    if not options["as_json"]:
        _headline(fleet)
    _agreed(due, yes=options["yes"])
    place, loop = _Place(fleet, _work(fleet, options["work"]), options["secrets"]), WallLoop()
    heard = (lambda done: None) if options["as_json"] else _told
    slots = _slots(fleet, place, loop, options["slots"])
    done = told + Drilling(place, slots, loop, heard, _seconds(options["patience"], "--patience")).run(due)
    code = worst([one.code for one in done])
    if options["as_json"]:
        ended = [{"shard": one.shard.key, "exit_code": one.code, "why": one.why} for one in done]
        click.echo(json.dumps({"schema": "killcheck.fleet-drill/v1", "exit_code": code, "shards": ended}, indent=2))
    sys.exit(code)


@command.command("report", context_settings=_SETTINGS)
@_fleet
@_results
@click.option("--stale-after", default="30d", show_default=True, metavar="DURATION", help="How old a proof may be.")
@click.option("--html", type=FILE, help="One self-contained page.")
@unsealed
@_json
@guarded
def report(file: Path, **options: Any) -> None:
    """Show all of a fleet on one page: who is proven, exposed, inconclusive, unproven for how long, and the dollars.

    Exit code 0: everything is proven or accepted; 1: something stands exposed; 3: something is not proven.

    \b
    Examples:
      killcheck fleet report fleet.yaml
      killcheck fleet report fleet.yaml --html fleet.html --json
    """
    from killcheck.clock import wall_now
    from killcheck.commands.history import index_folder
    from killcheck.fleet.page import page, table
    from killcheck.fleet.standing import standing

    quiet = one_on_stdout(options, ("html",), document=options["as_json"])
    found: Standing = standing(
        _loaded(file, options["results"]),
        wall_now().timestamp(),
        stale_after_s=_seconds(options["stale_after"], "--stale-after"),
        index=index_folder(),
        anyway=options["unsealed"],
    )
    if options["html"]:
        write(options["html"], page(found))
    if options["as_json"]:
        click.echo(json.dumps(found.to_json(), indent=2))
    elif not quiet:
        from killcheck.reports.screen import screen

        table(found, screen())
    sys.exit(found.exit_code)


def _loaded(file: Path, results: str | None) -> Fleet:
    from killcheck.fleet.file import load
    from killcheck.text.values import replace

    fleet = load(file)
    if results is None:
        return fleet
    return replace(fleet, results=results if "://" in results else str(Path(results).resolve()))


def _headline(fleet: Fleet) -> None:
    told = f"{fleet.name}: {len(fleet.shards)} shard(s), {fleet.at_once} at once, results in {fleet.results}"
    first_line(told, aside=False)


def _chosen(fleet: Fleet, index: int | None) -> list[Shard]:
    if index is not None and index >= len(fleet.shards):
        raise click.UsageError(f"--index {index}: the fleet has {len(fleet.shards)} shard(s), from 0")
    return list(fleet.shards) if index is None else [fleet.shards[index]]


def _due(fleet: Fleet, shards: list[Shard], options: dict[str, Any]) -> tuple[list[Done], list[Shard]]:
    """What was drilled lately, as that ended; and what is to be drilled."""
    from killcheck.clock import wall_now
    from killcheck.fleet.drilling import Done
    from killcheck.fleet.standing import code_of, fresh

    within_s, now = _seconds(options["fresh"], "--fresh"), wall_now().timestamp()
    told, due = [], []
    for one in shards:
        nights = None if options["again"] else fresh(fleet, one, now, within_s)
        if nights is None:
            due.append(one)
        else:
            told.append(Done(one, code_of(nights), f"drilled already, run {nights[-1].run}"))
            if not options["as_json"]:
                _told(told[-1])
    return told, due


def _agreed(due: list[Shard], *, yes: bool) -> None:
    """Raises Declined where a person has not agreed to drills on clusters that are somebody's."""
    from killcheck.commands.drill import go_on
    from killcheck.run.runner import Declined

    real = sorted({one.context for one in due if one.real})
    if not real or yes:
        return
    say(f"killcheck: turns GPUs off on {', '.join(real)}", err=True)
    if not sys.stdin.isatty():
        raise Declined("not a terminal: say --yes to drill real clusters; nothing was changed")
    if not go_on():
        raise Declined("nothing was drilled")


def _work(fleet: Fleet, named: Path | None) -> Path:
    from killcheck.safety.journal import state_dir

    if named is not None:
        return named.resolve()
    return (state_dir() / "fleet" / fleet.name).resolve() if fleet.in_bucket else Path(fleet.results)


def _slots(fleet: Fleet, place: Place, loop: Loop, named: str | None) -> Slots:
    from killcheck.fleet.slots import FileSlots, LeaseSlots
    from killcheck.kube.config import connect

    if named is None:
        return FileSlots(fleet.name, fleet.at_once, place.settle)
    context, slash, namespace = named.rpartition("/")
    if not slash or not context or not namespace:
        raise click.UsageError(f"--slots {named}: expected CONTEXT/NAMESPACE")
    return LeaseSlots(fleet.name, fleet.at_once, place.settle, connect(context, loop=loop), loop, namespace)


def _told(done: Done) -> None:
    from killcheck.verdict import EXIT_CODES

    word = next(word for word, code in EXIT_CODES.items() if code == done.code)
    say(f"  {word:<12} {done.shard.key}: {done.why}")


def _seconds(text: str, option: str) -> float:
    from killcheck.text.durations import parse_duration

    try:
        return parse_duration(text)
    except ValueError as error:
        raise click.UsageError(f"{option}: {error}") from None
