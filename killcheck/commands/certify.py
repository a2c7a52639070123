"""``killcheck certify``."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from killcheck.commands.errors import guarded
from killcheck.commands.files import FILE, STDOUT, write
from killcheck.commands.named import unsealed
from killcheck.commands.saying import say

__all__ = ["NAME", "command"]

#: What a certificate is called beside its record.
NAME = "certificate.intoto.json"


@click.command("certify", context_settings={"help_option_names": ["-h", "--help"]})
@click.argument("record", required=False, type=click.Path(path_type=Path, exists=True), metavar="[RUN]")
@click.option(
    "--key",
    required=True,
    metavar="FILE|awskms:KEY",
    help="What signs: a private key in PEM (KILLCHECK_KEY_PASSWORD unlocks it), or a key that AWS KMS keeps.",
)
@unsealed
@click.option("--output", "-o", type=FILE, help=f"Where to write it (default: {NAME} beside the record).")
@guarded
def command(record: Path | None, key: str, output: Path | None, *, unsealed: bool) -> None:
    """Sign what a run proved: an in-toto statement with what was drilled and what came of it.

    RUN is a run record or its folder (default: the newest of killcheck runs). A run that was exposed or inconclusive
    can be certified too: its certificate says so, and nothing takes it for a proof. Needs 'killcheck[proof]'.

    A record is believed that this machine sealed when its run ended, or another with the same KILLCHECK_KEY. A run that
    was killed has no seal.

    Exit code: as the run's verdict has it (0: proven or accepted); 3 also where the record does not say enough to
    certify anything, or is not sealed; 2 where it was changed.

    \b
    Examples:
      killcheck certify --key signing.pem
      killcheck certify --key awskms:alias/killcheck -o proof.intoto.json
    """
    from killcheck.clock import wall_now
    from killcheck.proof.signing import signed, signer_of
    from killcheck.proof.statement import statement
    from killcheck.run.kept import record_of
    from killcheck.safety.journal import state_dir
    from killcheck.verdict import DrillResult, overall

    file = record_of(record, state_dir())
    made = statement(file, wall_now(), anyway=unsealed)
    target = output or file.with_name(NAME)
    write(target, signed(made, signer_of(key)))
    said = made["predicate"]
    if not said["record"]["sealed"]:
        say(f"killcheck: {said['assumptions'][0]}", err=True)
    word = "proven" if said["proven"] else said["verdict"]
    drilled = said["times"]["started"][:16].replace("T", " ")
    say(f"{target}: {word}: {said['killPath']} on {said['cluster']}, drilled {drilled} UTC", err=target == STDOUT)
    sys.exit(overall([DrillResult.from_json(one) for one in said["drills"]])[1])
