"""The ``killcheck`` command: thin; a command lives in :mod:`killcheck.commands`, imported when it is called."""

from __future__ import annotations

import codecs
import contextlib
import errno
import importlib
import os
import sys
from collections.abc import Iterator
from io import TextIOWrapper
from typing import Any, TextIO

import click

from killcheck.run.gc_tuning import collect_seldom
from killcheck.run.lost_stops import raise_again
from killcheck.run.process_end import ended_at_once
from killcheck.text import accelerators

__all__ = ["main", "run"]

#: Command -> (module in killcheck.commands, its line in --help).
COMMANDS = {
    "init": ("init", "Find the kill path of a cluster or of manifests, and write the spec."),
    "lint": ("lint", "Ask every question that reading can answer: what will keep the GPUs on?"),
    "drill": ("drill", "Pull a layer's trigger, watch the GPUs go, and prove it."),
    "restore": ("restore", "Put back what an interrupted run left."),
    "rights": ("rights", "Print the RBAC rules that drills on a real cluster take, and no more."),
    "faults": ("faults", "List what a drill can sabotage."),
    "fence": ("fence", "What could be launched at worst, and through which door."),
    "gate": ("gate", "Lint, fences and every drill: one verdict before a release."),
    "accept": ("accept", "Accept what a run left exposed, with an owner, a reason and a last day."),
    "explore": ("explore", "Search for the smallest combinations of faults that leave the GPUs on."),
    "report": ("report", "Make any report again from a run record."),
    "runs": ("runs", "List the runs that are kept here."),
    "history": ("history", "Tell many runs as one story: what is proven, since when, and what changed."),
    "fleet": ("fleet", "Drill many kill paths on many clusters, and show them on one page."),
    "certify": ("certify", "Sign what a run proved: an in-toto statement that others can check."),
    "verify": ("verify", "Check a certificate, without a network: who signed it, of what, when, what it says."),
    "evidence": ("evidence", "Upload a run record and its reports to S3."),
    "cluster": ("cluster", "Run the embedded cluster by itself, for kubectl."),
    "nodes": ("nodes", "Put hollow GPU nodes on a real cluster, and take them away again."),
    "demo": ("demo", "Four nights on the embedded cluster: one that works, three that do not."),
    "story": ("story", "The founding story with the cloud beneath it, and its two failures put back."),
}


#: The exit code of what could not finish (killcheck.verdict says them all, and is not loaded for --help).
UNFINISHED = 4
#: What a stream says that takes no more; a file's name is in the error where it was a file.
_UNWRITTEN = {errno.EPIPE, errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO, errno.EBADF}
#: What stands for our marks where the terminal's encoding has none of them.
_PLAIN = {"●": "*", "✓": "+", "✗": "x", "▶": ">", "⚡": "!", "↺": "<", "·": "-", "…": "..."}


class _Lazy(click.Group):
    """Imports a command's module only when that command is wanted, so that --help is quick."""

    def main(self, *args: Any, **extra: Any) -> Any:
        """Run, with streams that can be written to; what nobody foresaw is not to end as an exit code that means more.

        Python's own exit code for an exception is 1, which here says *exposed*.
        """
        _writable()
        accelerators.name_after(())
        try:
            try:
                return super().main(*args, **extra)
            except SystemExit as ended:
                try:
                    sys.stdout.flush()  # what cannot be written is told now: when Python ends, the exit code is its own
                except OSError:
                    if ended.code != UNFINISHED:
                        raise
                    _give_up(sys.stdout)  # and it has been told
                raise
        except Exception as error:  # noqa: BLE001 - the outermost: a defect must not end with the exit code of *exposed*
            if isinstance(error, OSError) and error.errno in _UNWRITTEN and error.filename is None:
                _give_up(sys.stdout)
                if error.errno != errno.EPIPE:
                    why = (error.strerror or str(error)).lower()
                    click.echo(f"killcheck: cannot write the output: {why}", err=True)
                sys.exit(UNFINISHED)
            import traceback

            traceback.print_exc()
            click.echo(
                f"killcheck: a defect of killcheck itself ({type(error).__name__}): nothing is proven; what was "
                "changed is in the journal (killcheck restore)",
                err=True,
            )
        sys.exit(UNFINISHED)

    def make_context(self, *args: Any, **extra: Any) -> click.Context:
        """What stands before the command, read; see :func:`_ending` for how it may end."""
        with _ending():
            return super().make_context(*args, **extra)

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """The words of a command. One that is empty is refused: a variable that is not set has named nothing.

        ``--on "$CONTEXT"`` would drill the embedded cluster and pass; ``--evidence ""`` would upload nothing.
        """
        for before, word in zip(["", *args], args, strict=False):
            said = word[:-1] if word.startswith("--") and word.endswith("=") and word.count("=") == 1 else before
            if not word or said != before:
                beside = f" of {said}" if said.startswith("-") else ""
                raise click.UsageError(
                    f"an argument{beside} is empty: set the variable that it comes from, or leave it out"
                )
        return super().parse_args(ctx, args)

    def invoke(self, ctx: click.Context) -> Any:
        """The command; see :func:`_ending` for how it may end while it is looked up and its arguments are read."""
        with _ending():
            return super().invoke(ctx)

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Every command, in the order of --help."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, name: str) -> click.Command | None:
        """The command, imported now; None where there is none of that name."""
        if name not in COMMANDS:
            return None
        module = importlib.import_module(f"killcheck.commands.{COMMANDS[name][0]}")
        return module.command  # type: ignore[no-any-return]

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """The commands' lines in --help, without importing any of them."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, text) for name, (_, text) in COMMANDS.items()])

    def resolve_command(
        self,
        ctx: click.Context,
        args: list[str],
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """The command that the arguments name. Raises UsageError, with the nearest name, where there is none such."""
        name = args[0] if args else ""
        if name and name not in COMMANDS and not name.startswith("-"):
            from killcheck.text.suggestions import did_you_mean

            ctx.fail(f"no such command {name!r}{did_you_mean(name, COMMANDS)}")
        return super().resolve_command(ctx, args)


@contextlib.contextmanager
def _ending() -> Iterator[None]:
    """An interrupt before a command is at work, and a reader of its --help that went away: click would exit with 1."""
    try:
        yield
    except KeyboardInterrupt:
        click.echo("killcheck: interrupted", err=True)
        sys.exit(UNFINISHED)
    except BrokenPipeError:
        _give_up(sys.stdout)
        sys.exit(UNFINISHED)


def _writable() -> None:
    """Streams that are closed lead nowhere; a mark that an encoding lacks is written as a plainer one."""
    codecs.register_error("killcheck.plain", _plainer)
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is None:  # closed by whoever started us: its number must not go to the next file that is opened
            setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))  # noqa: SIM115, PTH123 - for the process' life
        elif isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="killcheck.plain")


def _give_up(stream: TextIO) -> None:
    """What a stream still holds goes nowhere, whoever flushes it."""
    with contextlib.suppress(OSError, ValueError):
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, stream.fileno())
        os.close(nowhere)


def _plainer(error: UnicodeError) -> tuple[str, int]:
    if not isinstance(error, UnicodeEncodeError):
        raise error
    return "".join(_PLAIN.get(mark, "?") for mark in error.object[error.start : error.end]), error.end


@click.group(cls=_Lazy, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="killcheck")
def main() -> None:
    """Prove that what turns your GPUs off really does.

    killcheck pulls the switch on purpose, sabotages what it depends on, and watches the GPUs go and their nodes
    drain. It does so on a cluster that you name, or on a Kubernetes in this process, where a night takes seconds.

    \b
    Start here:
      killcheck demo                                   four nights, as they are
      killcheck drill --manifests deploy --exec host   your own YAML, no spec
      killcheck init --manifests deploy/               write killcheck.yaml
      killcheck drill --exec host                      pull its triggers
      killcheck drill --exec host --under image-gone   the executor's image gone

    \b
    Exit codes: 0 proven, 1 exposed, 2 wrong usage or a bad spec, 3 inconclusive,
                4 could not finish, 5 dirty (something could not be put back).
    """


def run() -> None:
    """``killcheck`` as a process of its own."""
    collect_seldom()
    raise_again()
    with ended_at_once(), _ending():
        main()
