"""``--preflight``: the layers' own images tried on a Docker Engine before anything is changed."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click

from killcheck.commands.saying import say

if TYPE_CHECKING:
    from killcheck.lint.asking import LintResult
    from killcheck.run.session import Session

__all__ = ["preflight", "tell", "tried"]


def preflight(session: Session, layers: Sequence[str], options: dict[str, Any]) -> list[dict[str, Any]]:
    """Run the images of these layers once; answers what could not be proven, as the JSON document has it.

    Exits with 1, the finding said, where one does not start. Raises KubeError where no engine answers.
    """
    from killcheck.reports import findings_terminal
    from killcheck.verdict import EXIT_CODES

    layers = list(dict.fromkeys(layers))
    result, without, host = tried(session, layers)
    found = [finding.to_json() for finding in result.findings]
    if result.at_or_above("error"):
        if options["as_json"]:
            click.echo(
                json.dumps(
                    {
                        "schema": "killcheck.result/v1",
                        "command": "drill",
                        "verdict": "inconclusive",
                        "exit_code": EXIT_CODES["exposed"],
                        "drills": [],
                        "findings": found,
                        "fences": [],
                        "not_drilled": layers,
                        "record": None,
                    },
                    indent=2,
                )
            )
        else:
            findings_terminal.show(result, color=False if options["no_color"] else None)
        say("killcheck: preflight: an executor cannot start, so nothing was drilled or changed", err=True)
        sys.exit(EXIT_CODES["exposed"])
    tell(result, without, host, quiet=options["quiet"] or len(without) == len(layers))
    return found


def tried(session: Session, layers: Sequence[str]) -> tuple[LintResult, list[str], str]:
    """Run the images of these layers once: what was found, the layers that have none of their own, and on which engine.

    Raises KubeError where no engine answers.
    """
    from killcheck.engine.connection import PREFIX, Engine, host_of, is_docker
    from killcheck.run import reading

    engine = Engine(host_of(session.on if is_docker(session.on) else PREFIX))
    try:
        result, without = reading.preflight(session, layers, engine)
    finally:
        engine.api.close()
    return result, without, engine.host


def tell(result: LintResult, without: Sequence[str], host: str, *, quiet: bool) -> None:
    """A line for each thing that is not proven; ``quiet``: none where all of it is."""
    for finding in result.findings:
        say(f"killcheck: preflight: {finding.object}: {finding.message}", err=True)
    for name in without:
        say(f"killcheck: preflight: {name} has no image of its own to try", err=True)
    if not quiet and not result.findings:
        say(f"killcheck: preflight: the executors' commands start ({host})", err=True)
