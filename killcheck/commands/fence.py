"""``killcheck fence``."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import click

from killcheck.commands import completing, named
from killcheck.commands.errors import guarded
from killcheck.commands.fence_subject import chosen, report_on
from killcheck.commands.files import FILE, STDOUT
from killcheck.commands.reading_options import reading_options
from killcheck.commands.saying import say
from killcheck.text.accelerators import named_in
from killcheck.verdict import EXIT_CODES

__all__ = ["command"]

_PATH = click.Path(path_type=Path, exists=True)


@click.command("fence", context_settings={"help_option_names": ["-h", "--help"]})
@named.spec
@named.example
@click.option(
    "--on",
    shell_complete=completing.contexts,
    metavar="CONTEXT",
    help="A live cluster by its kubeconfig context; only read, without --live.",
)
@click.option("--manifests", multiple=True, type=_PATH, metavar="PATH", help="YAML with the pools (repeatable).")
@click.option(
    "--account",
    multiple=True,
    type=_PATH,
    metavar="PATH",
    help="Exported cloud API output: node groups, Auto Scaling groups, IAM policies (repeatable).",
)
@click.option(
    "--aws", is_flag=True, help="Ask the AWS account itself (boto3), and IAM's simulator where policies are undecided."
)
@click.option("--profile", metavar="NAME", help="With --aws: the profile (default: the spec's cloud:).")
@click.option("--region", metavar="REGION", help="With --aws: the region.")
@click.option("--eks", metavar="CLUSTER", help="With --aws: the EKS cluster whose node groups count.")
@click.option(
    "--dry-run-launch",
    nargs=2,
    metavar="AMI SUBNET",
    help="With --aws: try RunInstances with DryRun for every type above the ceiling; launches nothing.",
)
@click.option(
    "--catalogue",
    "catalogues",
    multiple=True,
    type=_PATH,
    metavar="FILE",
    help="Types and prices of your own, CSV or YAML (repeatable).",
)
@click.option(
    "--refresh-catalogue",
    type=FILE,
    metavar="FILE",
    help="Ask EC2 and AWS' price list, write FILE for --catalogue, and stop.",
)
@click.option(
    "--max-devices", type=click.IntRange(min=0), metavar="N", help="Most devices a node (default: the spec's fences:)."
)
@click.option("--max-devices-in-all", type=click.IntRange(min=0), metavar="N", help="Most devices together.")
@click.option("--max-usd", type=click.FloatRange(min=0), metavar="USD", help="Most dollars an hour together.")
@click.option("--forbid", multiple=True, metavar="PATTERN", help="A type that must never launch, p5* (repeatable).")
@click.option("--live", is_flag=True, help="Send a canary pod that must stay Pending (with SPEC and --on).")
@click.option(
    "--ask",
    type=click.IntRange(min=1),
    metavar="N",
    help="With --live: devices that it asks for (default: one more than a node may have).",
)
@click.option("--namespace", "-n", metavar="NAME", help="With --live: where (default: the spec's first).")
@click.option("--deadline", default="2m", show_default=True, metavar="DURATION", help="With --live: how long it waits.")
@click.option("--yes", is_flag=True, help="With --live: do not ask before the pod is made.")
@click.option("--kubeconfig", type=click.Path(path_type=Path), help="A kubeconfig file.")
@click.option("--json", "as_json", is_flag=True, help="One JSON document on standard output, nothing else.")
@click.option("--no-color", is_flag=True, help="No colours (also: NO_COLOR).")
@reading_options
@guarded
def command(**options: Any) -> None:
    """What could be launched at worst: which instance, through which door, for how much an hour.

    \b
    Examples:
      killcheck fence --manifests deploy/ --max-devices 1 --max-usd 10
      killcheck fence killcheck.yaml --on staging
      killcheck fence killcheck.yaml --on staging --live
      killcheck fence killcheck.yaml --on staging --aws

    Exit code 0: within the ceiling; 1: more can be launched; 3: it cannot be proven; 5: a canary that was sent
    out could not be taken back.
    """
    if options["refresh_catalogue"]:
        _refresh(options)
        return
    _refuse_nonsense(options)
    with chosen(options) as subject:
        report = report_on(subject, options)
        if options["live"]:
            from killcheck.commands.fence_live import run

            sys.exit(run(subject, report, options))
    if options["as_json"]:
        click.echo(json.dumps(named_in(report.document()), indent=2))
    else:
        from killcheck.reports.fences_terminal import show

        show(report, color=False if options["no_color"] else None)
    sys.exit(report.exit_code)


def _refresh(options: dict[str, Any]) -> None:
    """Write the catalogue anew. Raises SystemExit where it could not be read."""
    import tempfile

    from killcheck.cloud.refresh import refresh
    from killcheck.instances.catalogue import CatalogueError

    wanted: Path = options["refresh_catalogue"]
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "catalogue" if wanted == STDOUT else wanted
        try:
            count = refresh(file, options["region"] or "us-east-1", options["profile"])
        except CatalogueError as error:
            say(f"killcheck: {error}", err=True)
            sys.exit(EXIT_CODES["unfinished"])
        if wanted == STDOUT:
            click.echo(file.read_text(encoding="utf-8"), nl=False)
    say(f"{wanted}: {count} instance types", err=wanted == STDOUT)


def _refuse_nonsense(options: dict[str, Any]) -> None:
    if options["live"] and not options["on"]:
        raise click.UsageError(
            "--live makes a pod: name the cluster (--on CONTEXT), with a spec whose consent: names it and the namespace"
        )
    for name in ("ask", "namespace"):
        if options[name] and not options["live"]:
            raise click.UsageError(f"--{name} is for --live")
    if (options["eks"] or options["dry_run_launch"]) and not options["aws"]:
        raise click.UsageError(f"{'--eks' if options['eks'] else '--dry-run-launch'} is for --aws")
