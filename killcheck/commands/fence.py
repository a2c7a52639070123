"""``killcheck fence``."""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import click

from killcheck.commands.errors import guarded

__all__ = ["command"]

_PATH = click.Path(path_type=Path, exists=True)


@click.command("fence", context_settings={"help_option_names": ["-h", "--help"]})
@click.argument("spec", required=False, type=click.Path(path_type=Path))
@click.option("--on", metavar="CONTEXT", help="A live cluster by its kubeconfig context; it is only read.")
@click.option("--manifests", multiple=True, type=_PATH, metavar="PATH", help="YAML with the pools (repeatable).")
@click.option("--account", multiple=True, type=_PATH, metavar="PATH",
              help="Exported cloud API output: node groups, Auto Scaling groups, IAM policies (repeatable).")
@click.option("--max-devices", type=int, metavar="N", help="Most devices a node (default: the spec's fences:).")
@click.option("--max-usd", type=float, metavar="USD", help="Most dollars an hour (default: the spec's fences:).")
@click.option("--kubeconfig", type=click.Path(path_type=Path), help="A kubeconfig file.")
@click.option("--json", "as_json", is_flag=True, help="One JSON document on standard output, nothing else.")
@click.option("--no-color", is_flag=True, help="No colours (also: NO_COLOR).")
@guarded
def command(**options: Any) -> None:
    """What could be launched at worst: which instance, through which door, for how much an hour.

    \b
    Exit code 0: within the ceiling; 1: more can be launched; 3: it cannot be proven.
    """
    from killcheck import fence
    from killcheck.reports.fences_terminal import show

    kill_path, objects = _subject(options)
    ceiling = fence.Ceiling.of(kill_path.fences) if kill_path else fence.Ceiling()
    if options["max_devices"] is not None:
        ceiling = replace(ceiling, max_devices_per_node=options["max_devices"])
    if options["max_usd"] is not None:
        ceiling = replace(ceiling, max_usd_per_hour=options["max_usd"])
    account = fence.Account.load(list(options["account"])) if options["account"] else None
    report = fence.evaluate(objects, ceiling, account=account)
    if options["as_json"]:
        document: dict[str, Any] = {
            "schema": "killcheck.result/v1", "verdict": report.verdict, "drills": [], "findings": [],
            "fences": report.to_json(),
        }
        click.echo(json.dumps(document, indent=2))
    else:
        show(report, color=False if options["no_color"] else None)
    sys.exit(report.exit_code)


def _subject(options: dict[str, Any]) -> tuple[Any, list[Any]]:
    """The spec, if there is one, and the objects to judge."""
    from killcheck.session import Session

    if options["on"]:
        from killcheck import specfile
        from killcheck.cluster.kubeconfig import KubeconfigCluster
        from killcheck.fence.live import gather

        cluster = KubeconfigCluster(options["on"], kubeconfig=options["kubeconfig"])
        try:
            return specfile.load(options["spec"]) if options["spec"] else None, gather(cluster.kube)
        finally:
            cluster.close()
    session = Session(spec=options["spec"], manifests=options["manifests"])
    wanted = options["spec"] or not options["manifests"]
    return session.kill_path if wanted else None, session.objects
