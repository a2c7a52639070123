"""``killcheck gate``."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from killcheck.commands import completing, named
from killcheck.commands.errors import guarded
from killcheck.commands.next_step import after_matrix
from killcheck.commands.reading_options import reading_options
from killcheck.commands.saying import NEXT, say
from killcheck.text.accelerators import named_in

if TYPE_CHECKING:
    from killcheck.fence import FenceReport
    from killcheck.lint.asking import LintResult
    from killcheck.proof.certificate import Certificate
    from killcheck.reports.terminal import Terminal
    from killcheck.run.gate import Gate
    from killcheck.run.planned import PlannedDrill
    from killcheck.run.session import Session

__all__ = ["command"]


@click.command("gate", context_settings={"help_option_names": ["-h", "--help"]})
@named.spec
@named.example
@named.kubernetes_version
@click.option(
    "--on",
    shell_complete=completing.places,
    default="embedded",
    show_default=True,
    metavar="embedded|CONTEXT",
    help="Where: the embedded cluster, or a kubeconfig context (never a default one).",
)
@click.option(
    "--manifests",
    multiple=True,
    type=click.Path(path_type=Path, exists=True),
    metavar="PATH",
    help="YAML to judge, and to load into the embedded cluster (default: the folder of SPEC; repeatable).",
)
@click.option(
    "--exec",
    "exec_mode",
    type=click.Choice(["auto", "host", "docker", "none", "unisolated"]),
    help="How executors' commands run on the embedded cluster: in a sandbox of this machine (host), in "
    "containers (docker), in the strongest of these (auto), or with all that you may do yourself "
    "(unisolated). Your own manifests run only if you say so.",
)
@click.option(
    "--skip",
    multiple=True,
    type=click.Choice(["lint", "fences", "drills"]),
    help="Leave a part out (repeatable); the verdict says so.",
)
@click.option(
    "--preflight",
    is_flag=True,
    help="Before the drills run the layers' own images once on the Docker Engine, without network, "
    "credentials and rights: where a command does not start, nothing is drilled (exit 1).",
)
@click.option(
    "--certificate",
    type=click.Path(path_type=Path, exists=True, dir_okay=False),
    metavar="FILE",
    help="Instead of drilling: what killcheck certify signed, of the very spec and manifests that are judged here.",
)
@click.option(
    "--key",
    type=click.Path(path_type=Path, exists=True, dir_okay=False),
    metavar="PUB",
    help="With --certificate: the public key of who may sign, in PEM.",
)
@click.option("--max-age", metavar="DAYS", help="With --certificate: its drills must have begun later than this.")
@click.option("--quick", is_flag=True, help="Each layer undisturbed only, instead of the whole matrix.")
@click.option(
    "--fail-on",
    type=click.Choice(["error", "warning", "note"]),
    default="error",
    show_default=True,
    help="Exit 1 where a finding is at or above this severity.",
)
@click.option("--kubeconfig", type=click.Path(path_type=Path), help="A kubeconfig file.")
@click.option("--yes", is_flag=True, help="Do not ask before changing a real cluster.")
@click.option("--json", "as_json", is_flag=True, help="One JSON document on standard output, nothing else.")
@click.option("--quiet", "-q", is_flag=True, help="No progress.")
@click.option("--no-color", is_flag=True, help="No colours (also: NO_COLOR).")
@reading_options
@guarded
def command(**options: Any) -> None:
    """Lint, fences and every drill, as one verdict before a release.

    SPEC is a killcheck.yaml; without it the kill path is found in --manifests, and without either SPEC is the
    killcheck.yaml of this folder, or the nearest above it. The exit code is the worst of the parts'.

    \b
    Examples:
      killcheck gate --quick
      killcheck gate deploy/killcheck.yaml --exec host --quick --json
      killcheck gate killcheck.yaml --on staging --quick
    """
    from killcheck.reports.terminal import Terminal
    from killcheck.run.gate import PARTS, Gate
    from killcheck.run.matrix import leaning
    from killcheck.safety import consent

    session = named.session(options)
    certificate = _certificate(session, options)
    out = Terminal(quiet=options["as_json"], color=False if options["no_color"] else None)
    wanted = [name for name in PARTS if name not in options["skip"]]
    if not wanted:
        raise click.UsageError("every part is left out: nothing would be proven")
    if options["preflight"] and "drills" not in wanted:
        raise click.UsageError("--preflight tries what the drills would start: it means nothing with --skip drills")
    if session.real and "drills" in wanted and certificate is None:
        consent.check_context(session.on, session.kill_path)
    named.headline(session, aside=options["as_json"])
    named.beside(session)
    found: dict[str, Any] = {}
    for number, name in enumerate(wanted, 1):
        _say(options, f"{number}/{len(wanted)} {name}")
        if name == "drills" and options["preflight"]:
            found |= _preflight(session, options)
            if found["undrillable"]:
                _say(options, f"{name}: an executor cannot start, so nothing is drilled or changed")
                break
        if name == "drills" and certificate is not None:
            found |= _certified(session, certificate, options)
        else:
            found |= _part(name, session, options, out, found)
        _say(options, f"{number}/{len(wanted)} {name}: {_summary(name, found)}")
    if found.get("matrix") is not None:
        from killcheck.run.reading import executors

        found["shared"] = leaning(session.kill_path, executors(session), found["matrix"])
    gate = Gate(options["fail_on"], **found)
    if options["as_json"]:
        click.echo(json.dumps(named_in(gate.to_json()), indent=2))
    else:
        _show(gate, out, options)
    sys.exit(gate.exit_code)


def _certificate(session: Session, options: dict[str, Any]) -> Certificate | None:
    """The certificate that stands for the drills, checked. Raises UsageError, Refused, ProofError."""
    from killcheck.commands.verify import checked
    from killcheck.proof.certificate import check_subjects
    from killcheck.proof.errors import Refused
    from killcheck.run.subjects import of_session

    given = [name for name in ("certificate", "key", "max_age") if options[name]]
    if not given:
        return None
    if len(given) < 3:
        raise click.UsageError("--certificate FILE, --key PUB and --max-age DAYS go together")
    if "drills" in options["skip"] or options["preflight"]:
        raise click.UsageError(
            "--certificate stands for the drills: it goes with neither --skip drills nor --preflight"
        )
    found = checked(options["certificate"], options["key"], options["max_age"])
    if found.cluster != session.on:
        raise Refused(f"{found.file}: refused: it was drilled on {found.cluster}, and --on is {session.on}")
    check_subjects(found, of_session(session))
    return found


def _certified(session: Session, certificate: Certificate, options: dict[str, Any]) -> dict[str, Any]:
    """What a certificate says of every drill that would be drilled here."""
    from killcheck.commands.matrix import left_out, undrillable
    from killcheck.proof.standing import standing

    planned = _planned(session, options)
    run, matrix = standing(certificate, session.kill_path, planned, left_out(session))
    return {
        "run": run,
        "matrix": matrix,
        "undrillable": undrillable(session),
        "certificate": certificate.to_json(),
    }


def _planned(session: Session, options: dict[str, Any]) -> list[PlannedDrill]:
    from killcheck.commands.matrix import cells
    from killcheck.drill.sequence import Options

    return cells(session, (), (), Options(), undisturbed=options["quick"])


def _say(options: dict[str, Any], text: str) -> None:
    if not options["quiet"]:
        say(f"killcheck: gate {text}", err=True)


def _part(
    name: str,
    session: Session,
    options: dict[str, Any],
    out: Terminal,
    so_far: dict[str, Any],
) -> dict[str, Any]:
    from killcheck.run import reading
    from killcheck.run.session import NothingToDrill

    if name == "lint":
        return {"lint": reading.findings(session)}
    if name == "fences":
        return {"fences": reading.fences(session)}
    try:
        session.layer_names  # noqa: B018 - whether there is one
    except NothingToDrill as error:
        return {"nothing_to_drill": str(error)}
    return _drills(session, options, out, so_far)


def _preflight(session: Session, options: dict[str, Any]) -> dict[str, Any]:
    """What trying the images found; where one cannot start, all layers that are therefore not drilled."""
    from killcheck.commands.preflight import tell, tried

    layers = [layer.name for layer in session.kill_path.layers]
    result, without, host = tried(session, layers)
    failed = bool(result.at_or_above("error"))
    tell(result, without, host, quiet=options["quiet"] or len(without) == len(layers))
    return {"preflight": result, "undrillable": layers if failed else []}


def _drills(session: Session, options: dict[str, Any], out: Terminal, so_far: dict[str, Any]) -> dict[str, Any]:
    from killcheck.commands.drill import approval
    from killcheck.commands.matrix import execute, left_out, undrillable

    planned = _planned(session, options)
    lint, fences = so_far.get("lint"), so_far.get("fences")
    result, matrix = execute(
        session,
        planned,
        out,
        approval(out, options["yes"]),
        quiet=options["quiet"],
        findings=[finding.to_json() for part in (lint, so_far.get("preflight")) if part for finding in part.findings],
        fences=fences.to_json() if fences else [],
        without=left_out(session),
    )
    return {"run": result, "matrix": matrix, "undrillable": undrillable(session)}


def _summary(name: str, found: dict[str, Any]) -> str:
    if name == "lint":
        result: LintResult = found["lint"]
        return f"{len(result.findings)} finding(s)"
    if name == "fences":
        report: FenceReport = found["fences"]
        return f"{len(report.results)} pool(s), {report.verdict}"
    if "nothing_to_drill" in found:
        return "there is no layer"
    matrix = found["matrix"]
    accepted = sum(cell.accepted for cell in matrix.cells)
    return f"{len(matrix.cells)} cell(s), {accepted} accepted, {len(matrix.failures())} not good enough"


def _show(gate: Gate, out: Terminal, options: dict[str, Any]) -> None:
    from killcheck.commands.matrix import show
    from killcheck.reports import fences_terminal, findings_terminal

    color = False if options["no_color"] else None
    if gate.lint is not None:
        findings_terminal.show(gate.lint, color=color, verbose=options["verbose"])
        say()
    if gate.preflight is not None and gate.preflight.findings:
        findings_terminal.show(gate.preflight, color=color)
        say()
    if gate.fences is not None:
        fences_terminal.show(gate.fences, color=color)
        say()
    if gate.matrix is not None and gate.run is not None:
        show(gate.matrix, gate.shared, out)
        if gate.certificate is None:
            out.summary_of_record(gate.run)
    for line in _of_certificate(gate.certificate):
        say(f"killcheck: {line}")
    for layer in gate.undrillable:
        say(f"killcheck: {layer} cannot be drilled here: nothing is proven of it", err=True)
    said, _, step = (gate.nothing_to_drill or "").partition(f"\n{NEXT}")
    if said:
        say(f"killcheck: {said}")
    for one in gate.assumptions:
        say(f"killcheck: assumed until {one['until']}: {one['object']}: {one['because']}")
    parts = ", ".join(f"{name} {word}" for name, word in gate.to_json()["parts"].items())
    left_out = f"; left out: {', '.join(gate.skipped)}" if gate.skipped else ""
    assumed = f"; {len(gate.assumptions)} assumption(s)" if gate.assumptions else ""
    say(f"\ngate: {gate.verdict} ({parts}{left_out}{assumed})")
    if step:
        say(f"{NEXT}{step}")
    elif gate.matrix is not None and gate.certificate is None and (told := after_matrix(gate.matrix)):
        say(told)


def _of_certificate(said: dict[str, Any] | None) -> list[str]:
    """What stands for the drills, and what that rests on."""
    if said is None:
        return []
    drilled = f"drilled {said['started'][:16].replace('T', ' ')} UTC on {said['cluster']}"
    first = f"{said['certificate']}: {drilled}, signed with {said['key_id']}: nothing was drilled now"
    return [first, *(f"rests on: {line}" for line in said["assumptions"])]
