"""``killcheck drill``."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from killcheck.commands import completing, named, next_step
from killcheck.commands.errors import guarded
from killcheck.commands.reading_options import reading_options
from killcheck.commands.saying import say
from killcheck.text.accelerators import named_in

if TYPE_CHECKING:
    from collections.abc import Callable

    from killcheck.reports.terminal import Terminal
    from killcheck.run.planned import PlannedDrill
    from killcheck.run.session import Session
    from killcheck.safety.consent import Plan

__all__ = ["approval", "command", "drills_for", "go_on"]


@click.command("drill", context_settings={"help_option_names": ["-h", "--help"]})
@named.spec
@named.example
@named.kubernetes_version
@click.option(
    "--on",
    shell_complete=completing.places,
    default="embedded",
    show_default=True,
    metavar="embedded|kind|docker|CONTEXT",
    help="Where: the embedded cluster, a kind cluster (kind:NAME), a Docker Engine without Kubernetes "
    "(docker:HOST), or a kubeconfig context (never a default one). envtest: etcd and kube-* programs of this machine.",
)
@named.layers("Only this layer (repeatable; default: all).")
@named.under("Sabotage first (repeatable, or A+B: all at once). See killcheck faults.")
@click.option(
    "--matrix",
    is_flag=True,
    help="Every layer undisturbed and under every fault that applies (--under A: that one; A+B: both).",
)
@click.option(
    "--oldest",
    type=click.IntRange(min=1),
    metavar="N",
    help="With --matrix: only the N cells whose last night is longest ago. A few a night prove all in turn.",
)
@click.option("--shard", metavar="K/N", help="With --matrix: only the K-th of N parts of its cells, each as large.")
@click.option(
    "--history",
    metavar="PLACE",
    help="Where --oldest finds the nights: a folder or s3://BUCKET/PREFIX (default: --evidence, else .killcheck).",
)
@click.option(
    "--manifests",
    multiple=True,
    type=click.Path(path_type=Path, exists=True),
    metavar="PATH",
    help="YAML to load into the embedded cluster (file or folder, repeatable).",
)
@reading_options
@click.option(
    "--exec",
    "exec_mode",
    type=click.Choice(["auto", "host", "docker", "none", "unisolated"]),
    help="How executors' commands run on the embedded cluster: in a sandbox of this machine (host), in "
    "containers (docker), in the strongest of these (auto), or with all that you may do yourself "
    "(unisolated). Your own manifests run only if you say so.",
)
@click.option(
    "--kubeconfig", type=click.Path(path_type=Path), help="A kubeconfig file (default: KUBECONFIG, ~/.kube/config)."
)
@click.option(
    "--watch",
    "horizon",
    metavar="DURATION",
    help="Watch this long while GPUs stay on (embedded: 7h; a real cluster: until the last deadline).",
)
@click.option(
    "--night",
    "night",
    metavar="DURATION",
    help="Go on watching this long also after everything is proven: it must stay off as long.",
)
@click.option(
    "--allow-commands",
    is_flag=True,
    help="Run the spec's programs on this machine, also those that consent.commands does not name.",
)
@click.option(
    "--evidence",
    metavar="s3://BUCKET/PREFIX",
    help="Upload the run record and its report there at the end; no verdict depends on it.",
)
@click.option(
    "--preflight",
    is_flag=True,
    help="First run the layers' own images once on the Docker Engine, without network, credentials and "
    "rights: a command that is not there or does not start ends it before anything is changed (exit 1).",
)
@click.option("--dry-run", is_flag=True, help="Show what would be changed, and stop (with --json: as a document).")
@click.option("--yes", is_flag=True, help="Do not ask before changing a real cluster.")
@click.option("--json", "as_json", is_flag=True, help="One JSON document on standard output, nothing else.")
@click.option("--quiet", "-q", is_flag=True, help="Only the verdicts.")
@click.option("--no-color", is_flag=True, help="No colours (also: NO_COLOR).")
@guarded
def command(**options: Any) -> None:
    """Pull each layer's trigger, watch the GPUs go to zero, and prove it.

    SPEC is a killcheck.yaml. Without it the kill path is found in --manifests; without either, SPEC is the
    killcheck.yaml of this folder, or the nearest above it.

    \b
    Examples:
      killcheck drill
      killcheck drill --exec host --under image-gone
      killcheck drill --matrix --under image-gone --under pool-floor --exec host
      killcheck drill --example two-switches --under image-gone
      killcheck drill --manifests deploy/ --exec host --json
      killcheck drill killcheck.yaml --on staging --layer nightly-off
    """
    from killcheck.run.runner import Run, plan_for
    from killcheck.safety import consent

    session = named.session(options)
    if session.real:
        consent.check_context(session.on, session.kill_path)
    planned = drills_for(session, options)
    if options["evidence"]:
        from killcheck.commands.evidence import where

        where(options["evidence"])
    out = _terminal(options)
    named.headline(session, aside=options["quiet"] or options["as_json"])
    if not (options["quiet"] or options["as_json"]):
        _told(session)
    findings: list[dict[str, Any]] = []
    if options["preflight"]:
        from killcheck.commands.preflight import preflight

        findings = preflight(session, [drill.layer for drill in planned], options)
    if options["dry_run"]:
        with session.cluster(planned[0]) as (cluster, kill_path):
            plan = plan_for(cluster, kill_path, planned, "dry-run")
            if options["as_json"]:
                click.echo(json.dumps(named_in(_document(plan)), indent=2))
            else:
                out.plan(plan)
            # What would refuse it is a part of what it would do.
            consent.check(cluster, kill_path, plan, any_command=session.allow_commands)
        return
    approve = approval(out, options["yes"])
    if options["matrix"]:
        from killcheck.commands.matrix import run

        sys.exit(run(session, planned, options, out, approve, findings=findings))
    result = Run(session, planned, sinks=[out], approve=approve, findings=findings).execute()
    if options["as_json"]:
        click.echo(json.dumps(named_in({**result.to_json(), "findings": findings}), indent=2))
    else:
        out.summary(result)
        sabotaged = all(one.faults for one in result.drills)
        step = None if options["quiet"] else next_step.after_drill(session, result.exit_code, sabotaged=sabotaged)
        if step:
            say(step)
    if options["evidence"]:
        from killcheck.commands.evidence import leave_after

        leave_after(session, result, options["evidence"])
    sys.exit(result.exit_code)


def _document(plan: Plan) -> dict[str, Any]:
    """What ``--dry-run --json`` prints."""
    return {
        "schema": "killcheck.plan/v1",
        "cluster": plan.cluster,
        "changes": plan.changes,
        "commands": [str(command) for command in plan.commands],
        "impossible": plan.impossible,
        "namespaces": plan.namespaces,
        "permissions": [str(right) for right in plan.permissions],
        "gpu_nodes": plan.gpu_nodes,
        "usd_per_hour": plan.usd_per_hour,
        "hours": plan.hours,
    }


def _told(session: Session) -> None:
    """What a reader should know of the manifests and of the kill path that was found in them."""
    if not session.real:
        session.objects  # noqa: B018 - read now: what they hold is said before anything runs
    for note in dict.fromkeys(session.notes):
        say(f"killcheck: note: {note}", err=True)


def drills_for(session: Session, options: dict[str, Any]) -> list[PlannedDrill]:
    """The drills that ``--layer``, ``--under``, ``--matrix``, ``--watch`` and ``--night`` name.

    Raises UsageError, and NothingToDrill where there is no layer.
    """
    from killcheck import faults
    from killcheck.drill.sequence import Options
    from killcheck.run.planned import PlannedDrill
    from killcheck.text.durations import parse_duration
    from killcheck.text.suggestions import did_you_mean

    names = session.layer_names
    for wanted in options["layer_names"]:
        if wanted not in names:
            raise click.UsageError(f"the spec has no layer {wanted!r}{did_you_mean(wanted, names)}")
    try:
        words = [[word] for word in options["fault_names"]] if options["matrix"] else [options["fault_names"]]
        together = [faults.resolved(group, names) for group in words]
    except (KeyError, ValueError) as error:
        raise click.UsageError(str(error.args[0])) from None
    try:
        horizon = parse_duration(options["horizon"]) if options["horizon"] else None
        night = parse_duration(options["night"]) if options["night"] else 0.0
    except ValueError as error:
        raise click.UsageError(str(error)) from None
    how = Options(horizon_s=horizon, run_out_s=night)
    if options.get("oldest") and not options["matrix"]:
        raise click.UsageError("--oldest takes cells of a matrix: give --matrix too")
    if options.get("shard") and (options.get("oldest") or not options["matrix"]):
        raise click.UsageError("--shard takes cells of a matrix: give --matrix too, and not --oldest")
    if options["matrix"]:
        from killcheck.commands.matrix import drills

        return drills(session, options, how)
    return [
        PlannedDrill(name, together[0], how)
        for name in names
        if not options["layer_names"] or name in options["layer_names"]
    ]


def approval(out: Terminal, yes: bool) -> Callable[[Plan], bool]:
    """Who approves a plan: the person at the terminal, or nobody is asked."""
    return _yes if yes else _asking(out)


def go_on() -> bool:
    """Whether the person at the terminal says so, asked on standard error; an interrupt or the end of input is a no."""
    try:
        return click.confirm("Go on?", default=False, err=True)
    except click.Abort:
        say(err=True)
        return False


def _yes(plan: Plan) -> bool:  # noqa: ARG001 - what approves takes the plan
    return True


def _terminal(options: dict[str, Any]) -> Terminal:
    from killcheck.reports.terminal import Terminal

    return Terminal(quiet=options["quiet"] or options["as_json"], color=False if options["no_color"] else None)


def _asking(out: Terminal) -> Callable[[Plan], bool]:
    def approve(plan: Plan) -> bool:
        """Show the plan and ask; without a person at a terminal the answer is no."""
        from killcheck.reports.terminal import Terminal

        # Standard output is the document's where one is asked for.
        Terminal(color=False if out.console.no_color else None, file=sys.stderr).plan(plan)
        if not sys.stdin.isatty():
            say("killcheck: not a terminal: say --yes to change a real cluster", err=True)
            return False
        return go_on()

    return approve
