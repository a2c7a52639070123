"""What a shell completes: layers of the spec, faults, contexts, examples; what cannot be read offers nothing.

What may *not* live here: anything that is written, sent or run.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import wraps
from pathlib import Path
from typing import Any

import click
from click.shell_completion import CompletionItem

__all__ = ["contexts", "examples", "faults", "layers", "places"]

_Completer = Callable[[click.Context, click.Parameter, str], list[CompletionItem]]


def _quietly(function: Callable[[click.Context, str], Iterable[tuple[str, str]]]) -> _Completer:
    """As click wants it; a spec or a kubeconfig that cannot be read is told by the command, not while one types."""

    @wraps(function)
    def complete(context: click.Context, _parameter: click.Parameter, so_far: str) -> list[CompletionItem]:
        """What begins as one has typed."""
        from killcheck.commands.errors import expected

        try:
            return [
                CompletionItem(name, help=said) for name, said in function(context, so_far) if name.startswith(so_far)
            ]
        except expected():
            return []

    return complete


@_quietly
def examples(_context: click.Context, _so_far: str) -> Iterable[tuple[str, str]]:
    """Kill paths that come with killcheck."""
    from killcheck import fixtures

    return [(name, "") for name in fixtures.names()]


@_quietly
def layers(context: click.Context, _so_far: str) -> Iterable[tuple[str, str]]:
    """The layers of the spec that the command line names, or that lies here."""
    from killcheck.run.chosen import chosen

    said: dict[str, Any] = context.params
    # Where a word is still missing click has not told the arguments apart: the first of them is SPEC.
    spec = said.get("spec") or next((Path(word) for word in context.args), None)
    session = chosen(spec=spec, manifests=said.get("manifests") or (), example=said.get("example") or "")
    return [(layer.name, str(layer.type)) for layer in session.kill_path.layers]


@_quietly
def faults(_context: click.Context, so_far: str) -> Iterable[tuple[str, str]]:
    """Faults; after ``A+`` those that may join it."""
    from killcheck.faults import every

    before = "".join(so_far.rpartition("+")[:2])
    return [(before + kind.name, kind.simulates) for kind in every()]


@_quietly
def contexts(context: click.Context, _so_far: str) -> Iterable[tuple[str, str]]:
    """Contexts of the kubeconfig."""
    from killcheck.kube import kubeconfig

    return [(name, "") for name in kubeconfig.contexts(context.params.get("kubeconfig"))]


def places(context: click.Context, parameter: click.Parameter, so_far: str) -> list[CompletionItem]:
    """Where a drill can run: the embedded cluster, kind, Docker, envtest, and every context."""
    own = [CompletionItem(name) for name in ("embedded", "kind", "docker", "envtest") if name.startswith(so_far)]
    return own + contexts(context, parameter, so_far)
