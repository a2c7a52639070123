"""``killcheck lint``."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from killcheck.commands import completing, named
from killcheck.commands.errors import guarded
from killcheck.commands.files import FILE, STDOUT, one_on_stdout, write
from killcheck.commands.next_step import after_lint
from killcheck.commands.reading_options import reading_options
from killcheck.commands.saying import say
from killcheck.text.accelerators import name_after, named_in

if TYPE_CHECKING:
    from killcheck.kube.client import Kube
    from killcheck.lint.asking import LintResult
    from killcheck.probes.base import Probe
    from killcheck.probes.world import World
    from killcheck.run.session import Session
    from killcheck.spec.killpath import KillPath

__all__ = ["command"]


@click.command("lint", context_settings={"help_option_names": ["-h", "--help"]})
@named.spec
@named.example
@named.kubernetes_version
@click.option(
    "--on",
    shell_complete=completing.contexts,
    metavar="CONTEXT",
    help="Ask about a live cluster, read-only: a kubeconfig context, by name.",
)
@click.option(
    "--manifests",
    multiple=True,
    type=click.Path(path_type=Path),
    metavar="PATH",
    help="Ask about YAML (file or folder, repeatable; - is standard input).",
)
@reading_options
@click.option("--kubeconfig", type=click.Path(path_type=Path), help="A kubeconfig file.")
@click.option("--json", "as_json", is_flag=True, help="One JSON document on standard output, nothing else.")
@click.option("--sarif", type=FILE, metavar="FILE", help="Also write SARIF 2.1.0 (- is standard output).")
@click.option("--junit", type=FILE, metavar="FILE", help="Also write JUnit XML, a case a probe (- is standard output).")
@click.option("--github", is_flag=True, help="Print GitHub Actions annotations.")
@click.option(
    "--fail-on",
    type=click.Choice(["error", "warning", "note"]),
    default="error",
    show_default=True,
    help="Exit 1 where a finding is at or above this severity.",
)
@click.option("--baseline", type=click.Path(path_type=Path), metavar="FILE", help="Findings that are known already.")
@click.option("--write-baseline", is_flag=True, help="Write what is found to the --baseline file, and exit 0.")
@click.option(
    "--dry-run/--no-dry-run",
    default=True,
    show_default=True,
    help="With --on: ask whether each layer's pod would be taken (dryRun=All: nothing is made).",
)
@click.option(
    "--pull-check",
    is_flag=True,
    help="Ask the registries whether the executors' images are there, with the pods' own pull secrets.",
)
@click.option(
    "--audit-log",
    multiple=True,
    type=click.Path(path_type=Path, exists=True, dir_okay=False),
    metavar="FILE",
    help="A kube-apiserver's audit log (JSON lines, repeatable): which switch was refused when, who lit GPUs again.",
)
@click.option(
    "--pull",
    is_flag=True,
    help="Run the executors' images on the Docker Engine, without network, credentials and rights, to see "
    "that their commands start.",
)
@click.option(
    "--exec",
    "exec_mode",
    type=click.Choice(["host", "none"]),
    default="none",
    show_default=True,
    help="host fires once whatever could turn something off, in a sandbox of this host, and judges what it saw. It "
    "acts on a throw-away cluster that holds the manifests, or with --on copies of what is there (Secrets empty; "
    "nothing runs there). none reads them.",
)
@click.option("--no-color", is_flag=True, help="No colours (also: NO_COLOR).")
@guarded
def command(**options: Any) -> None:
    """Ask every question about the kill path that can be answered by reading.

    SPEC is a killcheck.yaml; without it the kill path is found in --manifests. Without both, SPEC is the killcheck.yaml
    of this folder, or the nearest above it; with --on, where there is none, the kill path is found on the cluster.
    Nothing is changed anywhere.

    With --on the cluster is listed, without Secrets. Access reviews are asked. Each layer's pod is sent as a dry
    run, through the cluster's own webhooks. What may not be read is reported as not proven.

    What cannot be read - templates, charts, broken files - is passed over and said. A comment killcheck:ignore above a
    document leaves it out.
    With --exec host whatever could turn something off is fired once: alone, under its own account, in a throw-away
    cluster in this process. With --on it is copies that are fired. What was seen goes before what
    is read.

    Live with a finding for a while: suppress it in the spec, or annotate the object with
    killcheck.dev/ignore: "PROBE until YYYY-MM-DD: reason".

    \b
    Examples:
      killcheck lint --manifests deploy/
      killcheck lint --manifests deploy/ --sarif killcheck.sarif --fail-on warning
      killcheck lint --manifests deploy/ --exec host
      killcheck lint --on staging --exec host
      killcheck lint --on staging --audit-log audit.log
      killcheck lint --on staging --baseline .killcheck-baseline.json
    """
    from killcheck.kube.audit_log import AuditLogError
    from killcheck.lint import asking

    one_on_stdout(options, ("sarif", "junit"), document=options["as_json"] or options["github"])
    if options["write_baseline"] and not options["baseline"]:
        raise click.UsageError("--write-baseline needs --baseline FILE")
    world, notes = _world(options)
    old = options["baseline"]
    try:
        known = asking.read_baseline(old) if old and not options["write_baseline"] else None
    except asking.BaselineError as error:
        raise click.UsageError(str(error)) from None
    try:
        result = asking.lint(world, notes=notes, baseline=known, probes=_probes(options, world))
    except AuditLogError as error:
        raise click.UsageError(str(error)) from None
    if _print(result, options) and options["manifests"] and not (options["spec"] or options["example"]):
        step = after_lint(world, result, options["manifests"])
        if step:
            say(step)
    if options["write_baseline"]:
        number = asking.write_baseline(old, result)
        say(f"{old}: {number} finding(s) are the baseline now", err=True)
        return
    sys.exit(result.exit_code(options["fail_on"]))


def _world(options: dict[str, Any]) -> tuple[World, tuple[str, ...]]:
    """The probes' world: of manifests, or of a cluster."""
    from killcheck.clock import wall_now
    from killcheck.discover.shapes import sound
    from killcheck.kube import manifests
    from killcheck.kube.workloads import resources_of
    from killcheck.lint import asking
    from killcheck.run import rehearsing
    from killcheck.run.gc_tuning import uncollected

    session = named.session(options)
    kill_path = session.kill_path if session.spec or session.fixture else None
    _headline(session, options)
    if options["on"]:
        return _live_world(kill_path, options)
    session = named.beside(session)
    alone = kill_path is not None and not kill_path.in_kubernetes
    folder = session.spec.parent if alone and session.spec and not session.manifests else None
    with uncollected():
        loaded = manifests.load(
            session.folders if folder is None else [folder],
            strict=options["strict"],
            exclude=options["exclude"],
            values=options["values"],
            sets=options["sets"],
            schemas=False,
            none_needed=alone,
        )
        if not options["strict"]:
            loaded = sound(loaded)
        name_after(resources_of(loaded.objects))
    version = session.kubernetes_version or (kill_path.kubernetes_version if kill_path else "")
    folders = [] if alone else session.folders
    fire = options["exec_mode"] == "host"
    rehearsed = rehearsing.known(loaded, wall_now(), folders, fire=fire, kubernetes_version=version)
    return asking.world_of(
        loaded,
        wall_now(),
        kill_path=kill_path,
        verbose=options["verbose"],
        rehearsed=rehearsed,
        kubernetes_version=version,
    )


def _headline(session: Session, options: dict[str, Any]) -> None:
    """What is asked about; where the kill path is still to be found, where that is looked for."""
    from killcheck.kube import releases
    from killcheck.run.chosen import source

    aside = options["as_json"] or options["github"] or STDOUT in (options["sarif"], options["junit"])
    if session.spec or session.fixture:
        named.headline(session, aside=aside)
    elif session.manifests or session.real:
        release = "" if session.real else f" (Kubernetes {releases.told(session.kubernetes_version)})"
        named.first_line(f"{source(session)}, no spec{release}", aside=aside)


def _live_world(kill_path: KillPath | None, options: dict[str, Any]) -> tuple[World, tuple[str, ...]]:
    """The probes' world, of a cluster that is read."""
    from killcheck.clock import WallLoop
    from killcheck.kube.config import connect
    from killcheck.probes import live
    from killcheck.run.reading import world_of_cluster

    kube = connect(options["on"], kubeconfig=options["kubeconfig"], loop=WallLoop())
    world, notes = world_of_cluster(kube, kill_path, version=_version(kube), fire=options["exec_mode"] == "host")
    world.answers = live.ask(kube, world, dry_run=options["dry_run"], pull_secrets=options["pull_check"])
    return world, (*notes, *_written(kube, world.kill_path))


def _version(kube: Kube) -> str:
    """The Kubernetes that answers; empty where it does not say."""
    from killcheck.kube.errors import ApiError

    try:
        answer = kube.call("GET", "/version").body
    except ApiError:
        return ""
    return str(answer.get("gitVersion", "")) if isinstance(answer, dict) else ""


def _written(kube: Kube, kill_path: KillPath) -> list[str]:
    """Who last wrote each target's replicas, as the cluster's own record has it; what cannot be read is left out."""
    from killcheck.kube.errors import KubeError
    from killcheck.kube.writers import told

    found = []
    for target in kill_path.targets:
        if target.object:
            try:
                obj = kube.get(kube.resource_for(target.api_version, target.kind), target.object, target.namespace)
            except KubeError:
                continue
            found.append(told(f"{target.kind}/{target.namespace}/{target.object}", obj))
    return [one for one in found if one]


def _probes(options: dict[str, Any], world: World) -> tuple[Probe, ...]:
    from killcheck.probes import ALL, REHEARSED

    chosen = [*ALL, *(REHEARSED if world.rehearsed else ())]
    if options["pull"]:
        from killcheck.engine.connection import Engine
        from killcheck.probes.image_unusable import ImageUnusable

        chosen.append(ImageUnusable(Engine()))
    if options["pull_check"]:
        from killcheck.probes.image_missing import ImageMissing

        chosen.append(ImageMissing())
    if options["audit_log"]:
        from killcheck.probes.audit_log import AuditLog

        chosen.append(AuditLog(options["audit_log"]))
    if world.live and world.kill_path.cloud is not None:
        from killcheck.probes.cloud_bills import CloudBills

        chosen.append(CloudBills())
    return tuple(chosen)


def _write(path: Path, text: str) -> None:
    try:
        write(path, text)
    except OSError as error:
        raise click.UsageError(f"{path} cannot be written: {(error.strerror or str(error)).lower()}") from None


def _print(result: LintResult, options: dict[str, Any]) -> bool:
    """What was found, as it is wanted; whether a person reads it: a document on standard output stands there alone."""
    if options["sarif"]:
        from killcheck.reports import sarif

        _write(options["sarif"], json.dumps(sarif.document(result), indent=2) + "\n")
    if options["junit"]:
        from killcheck.reports import findings_junit

        _write(options["junit"], findings_junit.junit(result, options["fail_on"]))
    if options["as_json"]:
        click.echo(json.dumps(named_in(result.to_json(options["fail_on"])), indent=2))
        return False
    if options["github"]:
        from killcheck.reports import github

        for line in github.lines(result):
            say(line)
        return False
    if STDOUT in (options["sarif"], options["junit"]):
        return False
    from killcheck.reports import findings_terminal

    findings_terminal.show(result, color=False if options["no_color"] else None, verbose=options["verbose"])
    return True
