"""Targets and switches that several folders give, each in its own way: objects of several clusters, or of one twice.

One of each is drilled, and it may be that of one folder with the switch of another. What a folder has that the drilled
one has not, or has otherwise, was not seen.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import PurePath

from killcheck.capabilities.inventory import Inventory
from killcheck.entries import Entry, Status
from killcheck.kube.manifests import Loaded, Manifest
from killcheck.kube.objects import Obj, name_of, ref_of
from killcheck.ledger.stakes import Stakes, home_of

__all__ = ["entries"]

_Key = tuple[str, str, str]
_SETTLES = "drill each folder by itself (--manifests {} ...), or say under assume: which of them is deployed"


def entries(inventory: Inventory, stakes: Stakes) -> Iterator[Entry]:
    """An open one for each object at stake of which another folder has a variant, unless it has all of them alike."""
    if inventory.loaded is None or inventory.live:
        return
    wanted = {(held.kind, held.namespace, held.name) for held in stakes.targets}
    wanted |= {(ref.kind, ref.namespace, ref.name) for ref in stakes.switches}
    yield from _shared(inventory.loaded, wanted)
    drilled = {_key(one): one for one in inventory.loaded.manifests if _key(one) in wanted}
    roots = [os.path.normpath(one) for one in inventory.loaded.named]
    others = [
        one
        for one in inventory.loaded.variants
        if _key(one) in drilled and _root_of(one, roots) == _root_of(drilled[_key(one)], roots)
    ]
    told: set[_Key] = set()
    for one in others:
        here, there = _sides(drilled[_key(one)].file, one.file)
        if here == there or _key(one) in told or _alike([*drilled.values(), *others], here, there):
            continue
        told.add(_key(one))
        because = (
            f"{here} and {there} both have it, and not all that turns it off alike, as two clusters do: "
            f"{drilled[_key(one)].place} was drilled, and {one.place} was not"
        )
        yield Entry(ref_of(one.obj), Status.NOT_MODELLED, because, _SETTLES.format(there))


def _shared(loaded: Loaded, wanted: set[_Key]) -> Iterator[Entry]:
    """What several overlays deploy: all that they have besides was drilled together, as nobody deploys it."""
    for one in loaded.manifests if loaded.sharing else ():
        folders = loaded.sharing.get(os.path.normpath(one.file)) or loaded.sharing.get(one.file)
        if folders and _key(one) in wanted:
            because = f"{' and '.join(folders[:2])} both deploy it, with what else each has: they were drilled as one"
            yield Entry(ref_of(one.obj), Status.NOT_MODELLED, because, _SETTLES.format(folders[0]))


def _key(manifest: Manifest) -> _Key:
    return str(manifest.obj.get("kind")), home_of(manifest.obj), name_of(manifest.obj)


def _root_of(manifest: Manifest, roots: list[str]) -> str:
    """Which of the paths that were named it was found below; of two that were named one is laid over the other."""
    return next((root for root in roots if _is_in(manifest, root)), "")


def _sides(drilled: str, other: str) -> tuple[str, str]:
    """The two folders, right below the one that two files share, in which they lie; the same twice: one folder."""
    one, two = PurePath(os.path.normpath(drilled)).parent, PurePath(os.path.normpath(other)).parent
    shared = os.path.commonpath([one, two]) if one.is_absolute() is two.is_absolute() else ""
    return _below(one, shared), _below(two, shared)


def _below(folder: PurePath, shared: str) -> str:
    rest = folder.parts[len(PurePath(shared).parts) :]
    return str(PurePath(shared, *rest[:1]))


def _alike(given: list[Manifest], here: str, there: str) -> bool:
    """Whether two folders have the same objects at stake, word for word."""
    return _in_alone(given, here, there) == _in_alone(given, there, here)


def _in_alone(given: list[Manifest], folder: str, but: str) -> dict[_Key, Obj]:
    """What lies in a folder, apart from another one in it."""
    apart = PurePath(but).is_relative_to(folder)
    return {_key(one): one.obj for one in given if _is_in(one, folder) and not (apart and _is_in(one, but))}


def _is_in(manifest: Manifest, folder: str) -> bool:
    return PurePath(os.path.normpath(manifest.file)).is_relative_to(folder)
