"""Manifests whose values have shapes that their types have not: told with file and line, wherever they cannot be read.

What reads manifests takes them as the API server would hand them out. Where one is written so that no API server would
take it (a mapping for a list, a word for a number), it is that which is said, and not what stumbled over it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import cache
from typing import TYPE_CHECKING

from killcheck.kube import blame
from killcheck.kube.custom_holders import mention
from killcheck.kube.manifest_text import placeholder, unrendered
from killcheck.kube.manifests import STUMBLES, Loaded, Manifest, ManifestError
from killcheck.kube.objects import Obj, dig, ref_of
from killcheck.kube.passed_over import Cause, Skipped, kind_of, names_accelerators
from killcheck.kube.workloads import devices_of
from killcheck.text.problems import Problem
from killcheck.text.values import replace
from killcheck.text.yamlfile import Path, format_path

if TYPE_CHECKING:
    from killcheck.embedded import Refusal, Registry

__all__ = ["misshapen", "read_as_typed", "sound"]


@contextmanager
def read_as_typed(of: Callable[[], Loaded | None]) -> Iterator[None]:
    """Read what was loaded. Raises ManifestError in place of a stumble that a manifest is to blame for."""
    try:
        yield
    except STUMBLES as error:
        loaded = of()
        problems = (misshapen(loaded) or _blamed(error, loaded) or _refused(loaded)) if loaded is not None else []
        if problems:
            raise ManifestError(problems) from error
        raise


def sound(loaded: Loaded) -> Loaded:
    """The same without the objects that no API server would take for their values' types: they are passed over.

    A variant of such an object takes its place. Where nothing would be left, everything stays: it is an error then.
    """
    refused = _unreadable(loaded)
    if not refused or len(refused) == len(loaded.manifests):
        return loaded
    kept = [manifest for manifest in loaded.manifests if id(manifest) not in refused]
    skipped = [
        Skipped(
            problem.file,
            problem.line,
            problem.message,
            cause,
            names_accelerators(str(manifest.obj)),
            of=kind_of(manifest.obj),
        )
        for manifest, problems in refused.values()
        for cause, problem in problems[:1]
    ]
    return replace(loaded, manifests=tuple(kept), skipped=(*loaded.skipped, *skipped))


def misshapen(loaded: Loaded) -> list[Problem]:
    """Every value that is of another type than its field: of built-in types, and of custom ones that we know."""
    return [problem for _, problems in _unreadable(loaded).values() for _, problem in problems]


def _unreadable(loaded: Loaded) -> dict[int, tuple[Manifest, list[tuple[Cause, Problem]]]]:
    """What is misshapen of each manifest, by the manifest's identity in memory."""
    from killcheck.embedded import unreadable

    kinds = _kinds()
    found = ((manifest, _told(manifest, unreadable(kinds, manifest.obj))) for manifest in loaded.manifests)
    return {
        id(manifest): (manifest, problems)
        for manifest, said in found
        if (problems := said or ([] if _is_builtin(kinds, manifest.obj) else _by_reading(kinds, manifest)))
    }


def _is_builtin(kinds: Registry, obj: Obj) -> bool:
    """Whether an object is of a type whose schema leaves nothing open."""
    group, _, version = str(obj.get("apiVersion", "")).rpartition("/")
    kind = kinds.by_kind(group, str(obj.get("kind")), version)
    return kind is not None and kind.crd is None


#: Fields that are numbers in every type that has them, which text with a template's mark in it waits to become.
_NUMBERS = frozenset({"replicas", "minReplicas", "maxReplicas", "parallelism", "completions", "slotsPerWorker"})


def _by_reading(kinds: Registry, manifest: Manifest) -> list[tuple[Cause, Problem]]:
    """What is wrong with an object of a custom type by what is read of it: of known types, and of what holds GPUs."""
    group, _, version = str(manifest.obj.get("apiVersion", "")).rpartition("/")
    if kinds.by_kind(group, str(manifest.obj.get("kind")), version) or mention(manifest.obj):
        unfilled = next(_unfilled(manifest.obj.get("spec"), ("spec",)), None)
        if unfilled is not None:
            path, value = unfilled
            where = f"{ref_of(manifest.obj)}, {format_path(path)}"
            why = f"{where}: {unrendered(placeholder(value, path), value, manifest.file)}"
            return [(Cause.TEMPLATE, Problem(manifest.file, manifest.line_of(path), "", why))]
    return _stumbled_over(manifest)


def _unfilled(node: object, path: Path) -> Iterator[tuple[Path, str]]:
    """Numbers below a node that somebody is to fill in yet; the values of a chart are of any type."""
    for key, value in node.items() if isinstance(node, dict) else enumerate(node) if isinstance(node, list) else ():
        if isinstance(value, str) and key in _NUMBERS and placeholder(value):
            yield (*path, key), value
        elif key not in ("values", "valuesObject", "valuesInline", "parameters"):
            yield from _unfilled(value, (*path, key))


def _stumbled_over(manifest: Manifest) -> list[tuple[Cause, Problem]]:
    """An object of a type that nobody here knows, whose values are such that it cannot be read even alone."""
    from killcheck.discover.finding import DiscoveryError, from_objects

    try:
        if devices_of(manifest.obj, wanted=True):
            with suppress(DiscoveryError):
                from_objects([manifest.obj], complete=False)
        else:
            mention(manifest.obj)
    except STUMBLES:
        return [(Cause.REFUSED, Problem(manifest.file, manifest.line, "", blame.told(manifest.obj)))]
    return []


def _blamed(error: BaseException, loaded: Loaded) -> list[Problem]:
    """The manifest that was in hand when something stumbled."""
    obj = blame.blamed(error, [manifest.obj for manifest in loaded.manifests])
    return [
        Problem(manifest.file, manifest.line, "", blame.told(manifest.obj))
        for manifest in loaded.manifests
        if manifest.obj is obj
    ]


@cache
def _kinds() -> Registry:
    """The built-in types, and the custom ones that we know."""
    from killcheck.embedded import Registry, crds, from_crd

    kinds = Registry()
    for crd in crds():
        for kind in from_crd(crd):
            kinds.add(kind)
    return kinds


def _refused(loaded: Loaded) -> list[Problem]:
    """Whatever else an API server would refuse."""
    from killcheck.clock import wall_now
    from killcheck.embedded import Registry, refusals

    kinds, now = Registry(), wall_now()
    found = (_told(manifest, refusals(kinds, manifest.obj, now)) for manifest in loaded.manifests)
    return [problem for told in found for _, problem in told]


def _told(manifest: Manifest, refused: list[Refusal]) -> list[tuple[Cause, Problem]]:
    """What is refused; a value that somebody is to fill in makes a template of it, and no mistake."""
    said = ((manifest.line_of(one.path), *_why(manifest, one)) for one in refused)
    return [(cause, Problem(manifest.file, line, "", why)) for line, cause, why in said]


def _why(manifest: Manifest, refused: Refusal) -> tuple[Cause, str]:
    value = dig(manifest.obj, *refused.path)
    engine = placeholder(value, refused.path)
    if engine:
        where = f"{ref_of(manifest.obj)}, {format_path(refused.path)}"
        return Cause.TEMPLATE, f"{where}: {unrendered(engine, value, manifest.file)}"
    return Cause.REFUSED, f"{ref_of(manifest.obj)}: no API server takes this: {refused.message}"
