"""``killcheck init``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from killcheck.commands import completing
from killcheck.commands.errors import guarded
from killcheck.commands.reading_options import reading_options
from killcheck.commands.saying import say
from killcheck.text.files import put
from killcheck.text.values import replace

if TYPE_CHECKING:
    from killcheck.discover import Discovery
    from killcheck.kube.manifests import Loaded
    from killcheck.kube.objects import Obj
    from killcheck.rehearsal.record import Rehearsed

__all__ = ["command"]


@click.command("init", context_settings={"help_option_names": ["-h", "--help"]})
@click.option(
    "--on",
    shell_complete=completing.contexts,
    metavar="CONTEXT",
    help="Find it on a live cluster, read-only: a kubeconfig context, by name.",
)
@click.option(
    "--manifests",
    multiple=True,
    type=click.Path(path_type=Path),
    metavar="PATH",
    help="Find it in YAML (file or folder, repeatable; - is standard input).",
)
@reading_options
@click.option("--kubeconfig", type=click.Path(path_type=Path), help="A kubeconfig file.")
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path),
    default=Path("killcheck.yaml"),
    show_default=True,
    help="Where to write the spec; - is standard output.",
)
@click.option("--name", default="", help="What to call the kill path.")
@click.option(
    "--exec",
    "exec_mode",
    type=click.Choice(["host", "none"]),
    default="none",
    show_default=True,
    help="host fires once whatever could turn something off, in a sandbox of this host, and writes down what it saw. "
    "With --on it fires copies: nothing runs there. none reads them.",
)
@click.option("--force", is_flag=True, help="Write over a file that exists.")
@guarded
def command(
    *,
    on: str | None,
    manifests: tuple[Path, ...],
    kubeconfig: Path | None,
    output: Path,
    name: str,
    exec_mode: str,
    force: bool,
    exclude: tuple[str, ...],
    strict: bool,
    verbose: bool,
    values: tuple[Path, ...],
    sets: tuple[str, ...],
) -> None:
    """Find the kill path - what holds GPUs, what turns it off, where, by when - and write it as a commented spec.

    Nothing is changed, and without --exec host nothing is run. With it, whatever could turn something off is fired
    once, alone, in a throw-away cluster in this process. What could not be understood is said. Read the spec before
    you trust it.

    \b
    Examples:
      killcheck init --manifests deploy/
      killcheck init --manifests deploy/ --exec host
      killcheck init --on staging -o killcheck.yaml
      killcheck init --on staging --exec host
    """
    if bool(on) == bool(manifests):
        raise click.UsageError("say where to look: --on CONTEXT or --manifests PATH")
    if str(output) != "-" and output.exists() and not force:
        raise click.UsageError(f"{output} exists; --force writes over it")
    loaded = None if on else _loaded(manifests, strict=strict, exclude=exclude, values=values, sets=sets)
    found = _with_starts(_discover(on, loaded, name, folders=manifests, kubeconfig=kubeconfig, exec_mode=exec_mode))
    found = _at_home(found, None if str(output) == "-" else output.parent)
    if str(output) == "-":
        click.echo(found.spec, nl=False)
    else:
        put(output, found.spec)
    _say(found, output, loaded, verbose)
    if str(output) != "-":
        say(_next(output, found.written, on, manifests), err=True)


def _loaded(paths: tuple[Path, ...], **reading: Any) -> Loaded:
    from killcheck.discover.shapes import misshapen, sound
    from killcheck.kube import manifests
    from killcheck.run.gc_tuning import uncollected

    strict = reading["strict"]
    with uncollected():
        loaded = manifests.load(list(paths), schemas=False, **reading)
    if loaded.overlays:
        raise click.UsageError(
            "these are overlays of the same objects: name one of them\n  "
            + "\n  ".join(f"killcheck init --manifests {folder}" for folder in loaded.overlays)
        )
    problems = misshapen(loaded) if strict else []
    if problems:
        raise manifests.ManifestError(problems)
    return loaded if strict else sound(loaded)


def _discover(
    on: str | None,
    loaded: Loaded | None,
    name: str,
    *,
    folders: tuple[Path, ...],
    kubeconfig: Path | None,
    exec_mode: str,
) -> Discovery:
    from killcheck import discover

    if on:
        from killcheck.clock import WallLoop
        from killcheck.kube.config import connect

        kube = connect(on, kubeconfig=kubeconfig, loop=WallLoop())
        return discover.from_cluster(kube, name, _rehearse_copies if exec_mode == "host" else None)
    from killcheck.discover.shapes import read_as_typed

    assert loaded is not None
    with read_as_typed(lambda: loaded):
        from killcheck.clock import wall_now
        from killcheck.run.rehearsing import known

        seen = known(loaded, wall_now(), folders, fire=exec_mode == "host")
        return discover.from_objects(loaded, name, seen, complete=False)


def _rehearse_copies(objects: list[Obj]) -> Mapping[str, Rehearsed]:
    from killcheck.clock import wall_now
    from killcheck.run.rehearsing import rehearsed

    return rehearsed(objects, wall_now(), live=True)


def _at_home(found: Discovery, folder: Path | None) -> Discovery:
    """With the folders of its programs as a spec in ``folder`` names them; None: where they lie.

    Raises UsageError where none leads there.
    """
    from killcheck.discover import machines

    home = found.kill_path.folder
    if not any(layer.command and machines.in_a_folder(layer.command) for layer in found.kill_path.layers):
        return found
    if folder is None:
        return replace(found, notes=(*found.notes, f"its programs lie in {home}: put the spec there"))
    path = machines.placed(found.kill_path, str(folder))
    if path is None:
        raise click.UsageError(
            f"the programs lie in {home}, and a spec runs what lies in its folder or below: write it there, "
            f"with -o {Path(home) / 'killcheck.yaml'}"
        )
    return replace(found, kill_path=path)


def _with_starts(found: Discovery) -> Discovery:
    """With what starts targets again by the clock: mornings are declared, of any other a drill says *exposed*."""
    from killcheck.clock import wall_now
    from killcheck.watch import starts

    mornings, others = starts.proposed(found.objects, found.kill_path, wall_now())
    notes = tuple(
        f"{one.who} starts a target at {one.text} ({one.zone or 'UTC'}), which is no morning, or no stop ends its day: "
        "no drill passes beside it, unless it is declared under starts:"
        for one in others
    )
    comments = {**found.comments}
    if mornings:
        comments["starts"] = "Found by reading: each comes in the morning on its own clock. Strike what is not meant."
    refs = tuple(dict.fromkeys(one.ref for one in mornings))
    path = replace(found.kill_path, starts=refs)
    return replace(found, kill_path=path, notes=(*found.notes, *notes), comments=comments)


def _say(found: Discovery, output: Path, loaded: Loaded | None, verbose: bool) -> None:
    """What was found, on standard error: the spec may be on standard output."""
    path = found.kill_path
    counts = f"{len(path.targets)} target(s), {len(found.written)} layer(s), {len(path.nodes)} node pool(s)"
    say(f"{output}: {counts}", err=True)
    for layer in found.written:
        say(f"  {layer.type.value:<16} {layer.name} turns off {', '.join(layer.covers)}", err=True)
    if not path.layers:
        say("  ! no layer was found", err=True)
    for target in found.uncovered if path.layers else ():
        say(f"  ! nothing turns {target} off", err=True)
    if loaded:
        loaded = replace(loaded, skipped=tuple(one for one in loaded.skipped if one.file not in found.taken))
    unread = loaded.passed_over(spec=False, verbose=verbose) if loaded else []
    said = (*(f"not understood: {what}" for what in found.not_understood), *(f"! {one}" for one in found.unknown))
    for note in (*found.notes, *said, *unread):
        say(f"  · {note}", err=True)


def _next(output: Path, layers: Sequence[object], on: str | None, manifests: Sequence[Path]) -> str:
    """The one thing to do with the spec."""
    import shlex

    beside = [one for one in manifests if one.resolve() != output.parent.resolve()]
    words = ["--on", on] if on else [word for one in beside for word in ("--manifests", str(one))]
    where = shlex.join([str(output), *words])
    if not layers:
        return (
            f"next: say in {output}, under layers:, what turns these off (docs/layers.md); then killcheck lint {where}"
        )
    how = "" if on else " --exec host   (its programs run, in a sandbox of this host)"
    return f"next: killcheck drill {where}{how}"
