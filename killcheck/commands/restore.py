"""``killcheck restore``."""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from killcheck.commands import completing
from killcheck.commands.errors import guarded
from killcheck.commands.saying import say
from killcheck.verdict import EXIT_CODES

if TYPE_CHECKING:
    from killcheck.clock import WallLoop
    from killcheck.kube.client import Kube
    from killcheck.safety.orphans import Orphan, Outcome
    from killcheck.safety.untrusted_journal import Judged
    from killcheck.safety.written import Read

__all__ = ["command"]

#: The name by which a pod names the cluster that it runs in.
IN_CLUSTER = "in-cluster"
#: The same for this machine (killcheck.cluster.host.NAME), whose drills have no cluster.
HOST = "host"


@click.command("restore", context_settings={"help_option_names": ["-h", "--help"]})
@click.option(
    "--on",
    shell_complete=completing.places,
    metavar="CONTEXT",
    help="The cluster: a kubeconfig context, in-cluster, host, kind[:NAME], docker[:HOST] "
    "(default: those of the journals in .killcheck/).",
)
@click.option(
    "--kubeconfig", type=click.Path(path_type=Path), help="A kubeconfig file (default: KUBECONFIG, ~/.kube/config)."
)
@click.option(
    "--namespace",
    "-n",
    "namespaces",
    multiple=True,
    metavar="NAME",
    help="Look for journals and Leases here only (repeatable; default: everywhere).",
)
@click.option(
    "--run", "named", metavar="ID", help="This run, dead or alive. One that is alive loses its Leases and stops."
)
@click.option("--expired", is_flag=True, help="Only what has outlived its expiry: what the janitor runs.")
@click.option("--dry-run", is_flag=True, help="Show what would be put back, and stop.")
@click.option(
    "--believe",
    is_flag=True,
    help="With --run: ask, for each, whether to do what only an unsigned journal asks for (a terminal).",
)
@click.option("--json", "as_json", is_flag=True, help="One JSON document on standard output, nothing else.")
@guarded
def command(**options: Any) -> None:
    """Put back what an interrupted run left: from any machine, any number of times.

    What a run changes is written down before it happens, here in .killcheck/ and in the cluster. A run that is
    still alive is left alone unless it is named.

    \b
    Examples:
      killcheck restore                       what this machine left
      killcheck restore --on staging          what any machine left there
      killcheck restore --on staging --dry-run
      killcheck restore --on staging --run 20260115-030001-a1b2c3-0

    A journal is believed that this machine has signed, or another with the same KILLCHECK_KEY. On the word of any
    other only that is done which the changed objects say themselves, by the mark that the change left on them; the
    rest is told.

    Exit code 5 says that something could not be put back, and how to do it by hand.
    """
    from killcheck.clock import WallLoop
    from killcheck.safety.local_locks import restore_here
    from killcheck.safety.orphans import Outcome, restore

    whole = Outcome()
    shown: list[dict[str, Any]] = []
    believe = _asking(options)
    places, whole.unknown = _places(options)
    for context, kubeconfig in places:
        loop = WallLoop()
        kube = _connect(context, kubeconfig, loop)
        found = _find(kube, loop, context, options)
        if options["dry_run"]:
            shown += [_left(kube, loop, orphan) for orphan in found]
            _show(kube, loop, found, options)
            continue
        if context == HOST:
            outcome = restore_here(loop, kube, found, named=options["named"] or "")
        else:
            outcome = restore(
                kube, loop, found, named=options["named"] or "", expired_only=options["expired"], believe=believe
            )
        for name in ("undone", "problems", "skipped", "runs", "unknown"):
            getattr(whole, name).extend(getattr(outcome, name))
        whole.lapses_s |= outcome.lapses_s
    if options["as_json"]:
        click.echo(json.dumps(_document(whole, shown), indent=2))
    else:
        _tell(whole, options)
    sys.exit(EXIT_CODES["dirty" if whole.problems or whole.unknown else "proven"])


def _asking(options: dict[str, Any]) -> Callable[[Judged], bool]:
    """Who says yes to what nobody known asks for: a person at a terminal, to each, or nobody."""
    if not options["believe"]:
        return lambda judged: False
    if not options["named"] or options["expired"] or options["as_json"] or options["dry_run"]:
        raise click.UsageError("--believe goes with --run ID, and not with --expired, --json or --dry-run")
    if not sys.stdin.isatty():
        raise click.UsageError("--believe asks a person, and standard input is no terminal")

    def ask(judged: Judged) -> bool:
        undo = judged.entry.undo
        if judged.entry.lever:
            return False
        say(f"{judged.entry.what[:200]}: {judged.why}. It asks for: {undo.action} {undo.path}")
        click.echo(json.dumps(undo.body, indent=2))
        return click.confirm("do it?", default=False)

    return ask


def _places(options: dict[str, Any]) -> tuple[list[tuple[str, Path | None]], list[str]]:
    """(context, kubeconfig) of every cluster to look at, and what names one that nobody here has written."""
    from killcheck.safety.journal import state_dir
    from killcheck.safety.orphans import local

    if options["on"]:
        return [(options["on"], options["kubeconfig"])], []
    found, strange = set(), []
    for path, said in local(state_dir()):
        header = said.header
        if header is not None and said.signed and header.context:
            found.add(
                (header.context, options["kubeconfig"] or (Path(header.kubeconfig) if header.kubeconfig else None))
            )
        elif not said.signed and not (options["named"] and header is not None and header.run != options["named"]):
            strange.append(_strange(path, said))
    return sorted(found, key=str), strange


def _strange(path: Path, said: Read) -> str:
    """A file that nobody knows the author of names no cluster: it may as well have come with the checkout."""
    why = said.problems[0] if said.header is None else "it is not signed by this machine"
    return (
        f"{path}: {why}: whether anything is left of that run is not known, and nothing is done on its word (name "
        "the cluster with --on to look there; delete the file if it is none of yours)"
    )


def _connect(context: str, kubeconfig: Path | None, loop: WallLoop) -> Kube:
    from killcheck.cluster.host import HostCluster
    from killcheck.cluster.kubeconfig import on_its_clock
    from killcheck.cluster.naming import KIND_FOLDER, is_kind
    from killcheck.engine.connection import is_docker
    from killcheck.kube.config import connect, in_cluster

    if context == HOST:
        return HostCluster().kube
    if is_docker(context):
        from killcheck.cluster import docker

        return docker.connect(context, loop)
    if is_kind(context):
        from killcheck.cluster import kind

        return kind.restoring(context, KIND_FOLDER, loop)
    kube = in_cluster(loop) if context == IN_CLUSTER else connect(context, kubeconfig=kubeconfig, loop=loop)
    on_its_clock(kube, loop)
    return kube


def _find(kube: Kube, loop: WallLoop, context: str, options: dict[str, Any]) -> list[Orphan]:
    from killcheck.safety.journal import state_dir
    from killcheck.safety.local_locks import orphans_here
    from killcheck.safety.orphans import find

    if context == HOST:
        found = orphans_here(state_dir(), HOST)
    else:
        _there(kube, options["namespaces"])
        found = find(kube, loop, context=context, namespaces=options["namespaces"], folder=state_dir())
    return [orphan for orphan in found if not options["named"] or orphan.run == options["named"]]


def _there(kube: Kube, namespaces: Iterable[str]) -> None:
    """A namespace that was mistyped holds nothing, which is not to say that nothing is left."""
    from killcheck.kube import resources as r
    from killcheck.kube.errors import Forbidden

    for name in namespaces:
        try:
            found = kube.find(r.NAMESPACES, name)
        except Forbidden:
            continue  # who may not ask may still look in it
        if found is None:
            raise click.UsageError(f"there is no namespace {name} here: look in one that is there, or in all (no -n)")


def _show(kube: Kube, loop: WallLoop, found: list[Orphan], options: dict[str, Any]) -> None:
    from killcheck.safety.journal import Journal

    if options["as_json"]:
        return
    if not found:
        say("nothing is left to put back")
    for orphan in found:
        state = "alive" if orphan.alive(loop.now()) else "dead"
        expired = ", expired" if orphan.expired(loop.now()) else ""
        say(f"run {orphan.run} ({state}{expired})")
        journal = Journal(orphan.run, loop, kube)
        journal.entries = orphan.open()
        for line in [
            *(journal.check() if orphan.believed else _would(kube, loop, orphan)),
            *orphan.refused(kube, loop),
        ]:
            say(f"  {line}")


def _would(kube: Kube, loop: WallLoop, orphan: Orphan) -> list[str]:
    """What would be done on somebody's word, in words."""
    from killcheck.safety.untrusted_journal import Answer

    judged = orphan.untrusted(kube, loop).judged(orphan.open())
    return [f"{one.entry.what[:200]} - its object says so too: put back" for one in judged if one.answer is Answer.DO]


def _tell(outcome: Outcome, options: dict[str, Any]) -> None:
    named = options["named"] or ""
    for said in outcome.undone:
        say(said)
    for run in outcome.skipped:
        wait_s = math.ceil(outcome.lapses_s.get(run, 0.0))
        again = f"; if it died, ask again in {wait_s} s, when its Lease has lapsed" if wait_s > 0 else ""
        say(f"run {run} is alive, and left alone{again} (killcheck restore --run {run} ends it)")
    for problem in outcome.problems:
        say(f"could not be put back: {problem}", err=True)
    for said in outcome.unknown:
        say(f"left alone: {said}", err=True)
    if not options["dry_run"] and not (outcome.undone or outcome.problems or outcome.skipped or outcome.unknown):
        say(f"nothing is left of a run {named}" if named else "nothing is left to put back")


def _left(kube: Kube, loop: WallLoop, orphan: Orphan) -> dict[str, Any]:
    """What a dry run says of one; ``refused``: what would not be put back, and why."""
    return {
        "run": orphan.run,
        "entries": [entry.to_json() for entry in orphan.open()],
        "refused": orphan.refused(kube, loop),
    }


def _document(outcome: Outcome, shown: list[dict[str, Any]]) -> dict[str, Any]:
    return {
        "schema": "killcheck.restore/v1",
        "runs": outcome.runs,
        "undone": outcome.undone,
        "problems": outcome.problems,
        "skipped": outcome.skipped,
        "unknown": outcome.unknown,
        "left": shown,
    }
