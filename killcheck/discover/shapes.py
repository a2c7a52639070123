"""Manifests whose values have shapes that their types have not: told with file and line, wherever they cannot be read.

What reads manifests takes them as the API server would hand them out. Where one is written so that no API server would
take it (a mapping for a list, a word for a number), it is that which is said, and not what stumbled over it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from killcheck.kube.manifests import Loaded, ManifestError
from killcheck.kube.objects import Obj, ref_of
from killcheck.text.problems import Problem

if TYPE_CHECKING:
    from killcheck.embedded.api.refusals import Refusal

__all__ = ["misshapen", "read_as_typed"]

#: How Python says that a value is not what a reader took it for.
_STUMBLES = (AttributeError, TypeError, ValueError, KeyError, IndexError)


@contextmanager
def read_as_typed(of: Callable[[], Loaded | None]) -> Iterator[None]:
    """Read what was loaded. Raises ManifestError in place of a stumble that a manifest is to blame for."""
    try:
        yield
    except _STUMBLES as error:
        loaded = of()
        problems = (misshapen(loaded) or _refused(loaded)) if loaded is not None else []
        if problems:
            raise ManifestError(problems) from error
        raise


def misshapen(loaded: Loaded) -> list[Problem]:
    """Every value that is of another type than its field: of built-in types, and of custom ones that we know."""
    from killcheck.embedded.api.kinds import Registry, from_crd
    from killcheck.embedded.api.refusals import unreadable
    from killcheck.embedded.models.definitions import crds

    kinds = Registry()
    for crd in crds():
        for kind in from_crd(crd):
            kinds.add(kind)
    return _problems(loaded, lambda obj: unreadable(kinds, obj))


def _refused(loaded: Loaded) -> list[Problem]:
    """Whatever else an API server would refuse."""
    from killcheck.clock import wall_now
    from killcheck.embedded.api.kinds import Registry
    from killcheck.embedded.api.refusals import refusals

    kinds, now = Registry(), wall_now()
    return _problems(loaded, lambda obj: refusals(kinds, obj, now))


def _problems(loaded: Loaded, refused: Callable[[Obj], list[Refusal]]) -> list[Problem]:
    return [
        Problem(
            manifest.file,
            manifest.line_of(one.path),
            "",
            f"{ref_of(manifest.obj)}: no API server takes this: {one.message}",
        )
        for manifest in loaded.manifests
        for one in refused(manifest.obj)
    ]
