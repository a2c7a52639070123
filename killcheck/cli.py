"""The ``killcheck`` command: thin; a command lives in :mod:`killcheck.commands`, imported when it is called."""

from __future__ import annotations

import importlib

import click

from killcheck.garbage import collect_seldom

__all__ = ["main"]

#: Command -> (module in killcheck.commands, its line in --help).
COMMANDS = {
    "init": ("init", "Find the kill path of a cluster or of manifests, and write the spec."),
    "lint": ("lint", "Ask every question that reading can answer: what will keep the GPUs on?"),
    "drill": ("drill", "Pull a layer's trigger, watch the GPUs go, and prove it."),
    "restore": ("restore", "Put back what an interrupted run left."),
    "faults": ("faults", "List what a drill can sabotage."),
    "fence": ("fence", "What could be launched at worst, and through which door."),
    "gate": ("gate", "Lint, fences and every drill: one verdict before a release."),
    "explore": ("explore", "Search for the smallest combinations of faults that leave the GPUs on."),
    "report": ("report", "Make any report again from a run record."),
    "evidence": ("evidence", "Upload a run record and its reports to S3."),
    "cluster": ("cluster", "Run the embedded cluster by itself, for kubectl."),
    "demo": ("demo", "Four nights on the embedded cluster: one that works, three that do not."),
    "story": ("story", "The founding story with the cloud beneath it, and its two failures put back."),
}


class _Lazy(click.Group):
    """Imports a command's module only when that command is wanted, so that --help is quick."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, name: str) -> click.Command | None:
        if name not in COMMANDS:
            return None
        module = importlib.import_module(f"killcheck.commands.{COMMANDS[name][0]}")
        return module.command  # type: ignore[no-any-return]

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, text) for name, (_, text) in COMMANDS.items()])

    def resolve_command(
        self, ctx: click.Context, args: list[str],
    ) -> tuple[str | None, click.Command | None, list[str]]:
        name = args[0] if args else ""
        if name and name not in COMMANDS and not name.startswith("-"):
            from killcheck.near import did_you_mean

            ctx.fail(f"no such command {name!r}{did_you_mean(name, COMMANDS)}")
        return super().resolve_command(ctx, args)


@click.group(cls=_Lazy, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="killcheck")
def main() -> None:
    """Prove that what turns your GPUs off really does.

    killcheck pulls the switch on purpose, sabotages what it depends on, and watches the GPUs go to zero and their
    nodes drain - on a cluster you name, or on a whole Kubernetes in this process where a night takes a blink.

    \b
    Start here:
      killcheck demo                                     four nights, nothing needed
      killcheck drill                                    the reference kill path
      killcheck drill --under image-gone                 ...with its executor's image gone
      killcheck drill --manifests deploy/ --exec host    your own YAML

    \b
    Exit codes: 0 proven, 1 exposed, 2 wrong usage or a bad spec, 3 inconclusive,
                4 could not finish, 5 dirty (something could not be put back).
    """
    collect_seldom()
