"""``killcheck verify``."""

from __future__ import annotations

import hashlib
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from killcheck.commands.errors import guarded
from killcheck.commands.files import FILE, one_on_stdout, write
from killcheck.commands.reading_options import reading_options
from killcheck.commands.saying import say
from killcheck.text.files import bytes_of

if TYPE_CHECKING:
    from killcheck.proof.certificate import Certificate

__all__ = ["checked", "command", "days"]

_FILE = click.Path(path_type=Path, exists=True, dir_okay=False)


@click.command("verify", context_settings={"help_option_names": ["-h", "--help"]})
@click.argument("certificate", type=_FILE, metavar="CERTIFICATE")
@click.option("--key", required=True, type=_FILE, metavar="PUB", help="The public key of who may sign, in PEM.")
@click.option("--max-age", metavar="DAYS", help="Refuse one whose drills began this many days ago, or earlier.")
@click.option(
    "--spec",
    type=click.Path(path_type=Path, exists=True),
    metavar="SPEC",
    help="Refuse one of another killcheck.yaml than this.",
)
@click.option(
    "--manifests",
    multiple=True,
    type=click.Path(path_type=Path, exists=True),
    metavar="PATH",
    help="Refuse one of other manifests than these (default with --spec: those beside it; repeatable).",
)
@click.option("--record", type=_FILE, metavar="RUN.jsonl", help="Refuse one of another run record than this.")
@click.option(
    "--configmap", type=FILE, help="Where it is proven: write what admission policies read (see docs/proof.md)."
)
@click.option("--json", "as_json", is_flag=True, help="One JSON document on standard output, nothing else.")
@reading_options
@guarded
def command(certificate: Path, **options: Any) -> None:
    """Check a certificate, without any network: who signed it, what it is of, how old it is, what it says.

    Exit code 0: the signature is good and it says proven (or accepted); 1: it says exposed; 3: it says inconclusive, or
    it is refused, and why in one sentence; 5: it says dirty.

    \b
    Examples:
      killcheck verify proof.intoto.json --key signing.pub
      killcheck verify proof.intoto.json --key signing.pub --max-age 30
    """
    quiet = one_on_stdout(options, ("configmap",), document=options["as_json"])
    if options["configmap"] and not options["max_age"]:
        raise click.UsageError("--configmap says until when it counts: give --max-age too")
    found = checked(certificate, options["key"], options["max_age"])
    _same_record(found, options["record"])
    compared = _compared(found, options)
    if options["configmap"]:
        _permit(found, options)
    if options["as_json"]:
        document = {"schema": "killcheck.verify/v1", "exit_code": found.exit_code, **found.to_json()}
        click.echo(json.dumps({**document, "compared": compared}, indent=2))
    elif not quiet:
        _show(found, compared)
    sys.exit(found.exit_code)


def checked(file: Path, key: Path, max_age: str | None) -> Certificate:
    """A certificate whose signature and dates are good. Raises Refused, ProofError, UsageError."""
    from killcheck.clock import wall_now
    from killcheck.proof.certificate import check_dates, read

    limit_s = None if max_age is None else days(max_age)
    found = read(file, key)
    check_dates(found, wall_now(), limit_s)
    return found


def days(text: str) -> float:
    """Seconds of so many days (``30``, ``30d``), or of any duration. Raises UsageError."""
    from killcheck.text.durations import parse_duration

    try:
        found = parse_duration(f"{text}d" if text.isascii() and text.isdigit() else text)
    except ValueError as error:
        raise click.UsageError(f"--max-age: expected a number of days: {error}") from None
    if not found:
        raise click.UsageError("--max-age: expected more than no time at all")
    return found


def _same_record(found: Certificate, record: Path | None) -> None:
    """Raises Refused."""
    from killcheck.proof.errors import Refused

    if record is not None and hashlib.sha256(bytes_of(record)).hexdigest() != found.record:
        raise Refused(f"{found.file}: refused: {record} is not the run record that it was made from")


def _compared(found: Certificate, options: dict[str, Any]) -> bool:
    """Whether what was drilled was compared with something in hand. Raises Refused where it differs."""
    from killcheck.proof.certificate import check_subjects
    from killcheck.run.chosen import chosen
    from killcheck.run.subjects import of_session

    if not (options["spec"] or options["manifests"]):
        return False
    reading = {name: options[name] for name in ("exclude", "values", "sets", "strict", "verbose")}
    on = found.cluster if found.real else "embedded"
    session = chosen(spec=options["spec"], manifests=options["manifests"], on=on, **reading)
    if found.real and options["manifests"]:
        session.on = "embedded"
    check_subjects(found, of_session(session))
    return True


def _permit(found: Certificate, options: dict[str, Any]) -> None:
    """Raises Refused where nothing is proven."""
    from killcheck.proof.errors import Refused
    from killcheck.proof.permit import permit

    if found.word not in ("proven", "accepted"):
        raise Refused(f"{found.file}: refused: it says {found.word}: no policy is told that this is proven")
    write(options["configmap"], permit(found, days(options["max_age"])))


def _show(found: Certificate, compared: bool) -> None:
    from killcheck.reports.figures import span

    say(f"{found.word}: {found.kill_path} on {found.cluster}, drilled {found.started:%Y-%m-%d %H:%M} UTC")
    for one in found.drills:
        under = " + ".join(one.faults) or one.title or "undisturbed"
        zero = f", zero after {span(one.seconds_to_zero)}" if one.seconds_to_zero is not None else ""
        say(f"  {one.layer}, {under}: {(one.accepted and 'accepted') or one.verdict}{zero}", hang=4)
    say(f"  signed with {found.key_id}, by killcheck {found.version}, run {found.run}")
    said = found.subjects
    parts = ["the spec"] * bool(said.spec) + [f"{len(said.objects)} object(s)"] * bool(said.objects)
    parts += [f"{len(said.pinned)} image(s) by digest"] * bool(said.pinned)
    same = "the same as in hand" if compared else "not compared with anything: give --spec or --manifests"
    say(f"  of {', '.join(parts)}: {same}", hang=4)
    for line in found.assumptions:
        say(f"  rests on: {line}", hang=4)
