"""Fields that a release does not have, and fields that it drops because their gate is off.

Which those are is in :mod:`killcheck.kube.releases`. An object is followed only where its type can lead to one of
them: a type that has none costs nothing.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import Any

from killcheck.embedded.api import schemas
from killcheck.kube.objects import Obj
from killcheck.kube.releases import FIELDS, GATED, Release

__all__ = ["drop_disabled", "drop_unknown"]

#: Field -> what lies below it: another such map; None: the field itself goes.
Tree = dict[str, Any]


def drop_disabled(schema: str, obj: Obj, release: Release) -> None:
    """Take out what the release's gates do not let through, in place."""
    tree = _tree(schema, _disabled(release.minor))
    if tree:
        for _ in _pruned(tree, obj, ""):
            pass


def drop_unknown(schema: str, obj: Obj, release: Release) -> list[str]:
    """Take out what the release's types do not have, in place; the paths of what was there."""
    tree = _tree(schema, _unknown(release.minor))
    return list(_pruned(tree, obj, "")) if tree else []


@cache
def _disabled(minor: int) -> frozenset[tuple[str, str]]:
    release = Release(minor, "")
    return frozenset(field for field, gate in GATED.items() if not release.on(gate))


@cache
def _unknown(minor: int) -> frozenset[tuple[str, str]]:
    return frozenset(field for field, since in FIELDS.items() if since > minor)


def _tree(schema: str, fields: frozenset[tuple[str, str]]) -> Tree:
    """How ``fields`` are reached from a type; empty where they are not. Made once, and shared by all that hold it."""
    known = _TREES.get((schema, fields))
    if known is not None:
        return known  # of a type that holds itself: what is there so far
    tree = _TREES[schema, fields] = {}
    for name, spec in schemas.fields(schema).items():
        if (schema, name) in fields:
            tree[name] = None
        elif spec.base in schemas.load() and (below := _tree(spec.base, fields)):
            tree[name] = below
    return tree


_TREES: dict[tuple[str, frozenset[tuple[str, str]]], Tree] = {}


def _pruned(tree: Tree, value: Any, path: str) -> Iterator[str]:
    """Take out what ``tree`` leads to, and yield where it was."""
    if isinstance(value, list):
        for index, item in enumerate(value):
            yield from _pruned(tree, item, f"{path}[{index}]")
    elif isinstance(value, dict):
        for name, below in tree.items():
            if name not in value:
                continue
            at = f"{path}.{name}" if path else name
            if below is None:
                del value[name]
                yield at
            else:
                yield from _pruned(below, value[name], at)
                if name == "lifecycle" and not value[name]:  # a structure that holds nothing any more goes with it
                    del value[name]
