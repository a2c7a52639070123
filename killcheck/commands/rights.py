"""``killcheck rights``: what killcheck's own account must be allowed, for the drills that it is told to do."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from killcheck.commands import named
from killcheck.commands.errors import guarded
from killcheck.commands.saying import say

__all__ = ["command"]


@click.command("rights", context_settings={"help_option_names": ["-h", "--help"]})
@named.spec
@named.example
@click.option("--on", default="embedded", metavar="CONTEXT", help="A cluster to plan on; it is only read.")
@click.option(
    "--manifests",
    multiple=True,
    type=click.Path(path_type=Path, exists=True),
    metavar="PATH",
    help="YAML of the kill path (default: the folder of SPEC; repeatable).",
)
@named.layers("As for killcheck drill (repeatable).")
@named.under("As for killcheck drill (repeatable).")
@click.option("--matrix", is_flag=True, help="As for killcheck drill.")
@click.option(
    "--format",
    "form",
    type=click.Choice(["rbac", "values"]),
    default="rbac",
    show_default=True,
    help="Manifests for kubectl apply, or values for the Helm chart.",
)
@click.option(
    "--account",
    default="killcheck/killcheck",
    show_default=True,
    metavar="NAMESPACE/NAME",
    help="The ServiceAccount that killcheck runs as.",
)
@click.option("--kubeconfig", type=click.Path(path_type=Path), help="A kubeconfig file.")
@guarded
def command(**options: Any) -> None:
    """Print the RBAC rules that the given drills take on a real cluster, and no more.

    The rules are those of the drills' own plan. Nothing is written to any cluster.

    \b
    Examples:
      killcheck rights killcheck.yaml | kubectl apply -f -
      killcheck rights killcheck.yaml --under suspended --under quota-exhausted
      killcheck rights killcheck.yaml --matrix --format values > values.yaml
    """
    from killcheck.commands.drill import drills_for
    from killcheck.run.rights import Account, rights_for

    namespace, slash, name = options["account"].partition("/")
    if not (namespace and slash and name):
        raise click.UsageError(f"--account takes NAMESPACE/NAME, not {options['account']!r}")
    session = named.beside(named.session(options))
    named.headline(session, aside=True)
    planned = drills_for(session, {**options, "horizon": None, "night": None})
    found = rights_for(session, planned)
    for said in found.impossible:
        say(f"killcheck: left out, {said}", err=True)
    if options["form"] == "values":
        if "in-cluster" not in session.kill_path.consent.contexts:
            say(
                "killcheck: the spec's consent.contexts does not name in-cluster, where the chart drills: every drill "
                "there is refused until it does",
                err=True,
            )
        click.echo(found.values(_arguments(options)), nl=False)
    else:
        click.echo(found.manifests(Account(namespace, name)), nl=False)


def _arguments(options: dict[str, Any]) -> list[str]:
    """The words of ``killcheck drill`` that these options stand for."""
    found = ["--matrix"] if options["matrix"] else []
    for option, key in (("--layer", "layer_names"), ("--under", "fault_names")):
        found += [f"{option}={word}" for word in options[key]]
    return found
