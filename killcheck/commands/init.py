"""``killcheck init``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from killcheck.commands.errors import guarded

if TYPE_CHECKING:
    from killcheck.discover import Discovery

__all__ = ["command"]


@click.command("init", context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--on", metavar="CONTEXT", help="Find it on a live cluster, read-only: a kubeconfig context, by name.")
@click.option(
    "--manifests",
    multiple=True,
    type=click.Path(path_type=Path),
    metavar="PATH",
    help="Find it in YAML (file or folder, repeatable; - is standard input).",
)
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
    help="With --manifests: host fires every CronJob once in a sandbox of this host and writes down what it "
    "saw. none reads them.",
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
) -> None:
    """Find the kill path - what holds GPUs, what turns it off, where, by when - and write it as a commented spec.

    Nothing is changed, and without --exec host nothing is run: with it every CronJob is fired once, alone, in a
    throw-away cluster in this process. What could not be understood is said; read the spec before you trust it.

    \b
    Examples:
      killcheck init --manifests deploy/
      killcheck init --manifests deploy/ --exec host
      killcheck init --on staging -o killcheck.yaml
    """
    if bool(on) == bool(manifests):
        raise click.UsageError("say where to look: --on CONTEXT or --manifests PATH")
    if str(output) != "-" and output.exists() and not force:
        raise click.UsageError(f"{output} exists; --force writes over it")
    if on and exec_mode == "host":
        raise click.UsageError("--exec host rehearses manifests: leave --on out, or --exec")
    found = _discover(on, manifests, kubeconfig, name, exec_mode)
    if str(output) == "-":
        click.echo(found.spec, nl=False)
    else:
        output.write_text(found.spec, "utf-8")
    _say(found, output)


def _discover(
    on: str | None,
    paths: tuple[Path, ...],
    kubeconfig: Path | None,
    name: str,
    exec_mode: str,
) -> Discovery:
    from killcheck import discover

    if on:
        from killcheck.clock import WallLoop
        from killcheck.kube.config import connect

        return discover.from_cluster(connect(on, kubeconfig=kubeconfig, loop=WallLoop()), name)
    from killcheck.discover.shapes import misshapen
    from killcheck.kube import manifests

    loaded = manifests.load(list(paths))
    problems = misshapen(loaded)  # what cannot be read would be left out of the spec
    if problems:
        raise manifests.ManifestError(problems)
    if exec_mode == "none":
        return discover.from_objects(loaded, name)
    from killcheck.clock import wall_now
    from killcheck.run.reading import rehearsed

    return discover.from_objects(loaded, name, rehearsed(loaded, wall_now()))


def _say(found: Discovery, output: Path) -> None:
    """What was found, on standard error: the spec may be on standard output."""
    path = found.kill_path
    counts = f"{len(path.targets)} target(s), {len(path.layers)} layer(s), {len(path.nodes)} node pool(s)"
    click.echo(f"{output}: {counts}", err=True)
    for layer in path.layers:
        click.echo(f"  {layer.type.value:<16} {layer.name} turns off {', '.join(layer.covers)}", err=True)
    for target in found.uncovered:
        click.echo(f"  ! nothing turns {target} off", err=True)
    for note in (*found.notes, *(f"not understood: {what}" for what in found.not_understood)):
        click.echo(f"  · {note}", err=True)
