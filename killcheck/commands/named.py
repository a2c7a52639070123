"""What a command works on: SPEC, ``--example`` or what lies here; and the first line of every output, which says so."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from killcheck.commands import completing
from killcheck.commands.saying import say

if TYPE_CHECKING:
    from killcheck.run.session import Session

__all__ = [
    "beside",
    "example",
    "first_line",
    "headline",
    "kubernetes_version",
    "layers",
    "session",
    "spec",
    "under",
    "unsealed",
]

_F = TypeVar("_F", bound=Callable[..., Any])

#: SPEC as every command takes it.
spec = click.argument("spec", required=False, type=click.Path(path_type=Path))


#: ``--example NAME``: the only way in which a shipped kill path is drilled or judged.
example = click.option(
    "--example",
    default="",
    metavar="NAME",
    shell_complete=completing.examples,
    help="A kill path that comes with killcheck, by name (dead-man, two-switches, ...), instead of one of your own.",
)

#: ``--unsealed``: the only way in which a record of another machine is believed.
unsealed = click.option(
    "--unsealed",
    is_flag=True,
    help="Believe records that neither this machine nor one with its KILLCHECK_KEY sealed: you know who wrote them.",
)


#: ``--kubernetes-version``: which Kubernetes the embedded cluster is.
kubernetes_version = click.option(
    "--kubernetes-version",
    default="",
    metavar="VERSION",
    help="Which Kubernetes the embedded cluster is: 1.33 to 1.37, or a patch release of these (default: as the spec "
    "says, else 1.36). A real cluster has its own.",
)


def layers(told: str) -> Callable[[_F], _F]:
    """``--layer NAME``, as often as wanted; ``told``: what it does here."""
    return click.option(
        "--layer", "layer_names", shell_complete=completing.layers, multiple=True, metavar="NAME", help=told
    )


def under(told: str) -> Callable[[_F], _F]:
    """``--under FAULT``, as often as wanted; ``told``: what it does here."""
    return click.option(
        "--under", "fault_names", shell_complete=completing.faults, multiple=True, metavar="FAULT", help=told
    )


def session(options: dict[str, Any], *, on: str | None = None) -> Session:
    """The session that a command's options name; see :func:`killcheck.run.chosen.chosen`. Raises SessionError."""
    from killcheck.run.chosen import chosen

    return chosen(
        spec=options["spec"],
        on=on or options.get("on") or "embedded",
        manifests=options.get("manifests") or (),
        example=options["example"],
        exec_mode=options.get("exec_mode"),
        kubeconfig=options.get("kubeconfig"),
        allow_commands=bool(options.get("allow_commands")),
        kubernetes_version=options.get("kubernetes_version") or "",
        **{name: options[name] for name in ("exclude", "values", "sets", "strict", "verbose") if name in options},
    )


def headline(named: Session, *, aside: bool) -> None:
    """Say on the first line what is judged, where, by which policy; ``aside``: on standard error, where a document or
    only verdicts go to standard output. Raises what reading the spec does."""
    from killcheck.run.chosen import headline as said

    first_line(said(named), aside=aside)


def first_line(text: str, *, aside: bool) -> None:
    """Say the first line of an output."""
    say(f"killcheck: {text}", err=aside, hang=4)


def beside(named: Session) -> Session:
    """The same, with the whole folder of a spec of the user's own as its manifests, where nothing else was named.

    Beside a kill path that has no part in Kubernetes there need not be any.
    """
    if named.spec and not (named.manifests or named.real or named.shipped_spec):
        if named.kill_path.in_kubernetes:
            named.manifests = tuple(named.folders)
        elif _has_manifests(named):
            named.manifests = (named.spec.parent,)
    return named


def _has_manifests(named: Session) -> bool:
    """Whether a Kubernetes object can be read beside the spec."""
    from killcheck.kube import manifests

    assert named.spec is not None
    try:
        loaded = manifests.load([named.spec.parent], exclude=named.exclude, schemas=False)
    except manifests.ManifestError:
        return False
    return any(obj.get("apiVersion") != "killcheck/v1" for obj in loaded.objects)
