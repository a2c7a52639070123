"""Who owned the fields of an object before a change of ours (``metadata.managedFields``), and that they own them again.

Whoever writes a field owns it from then on. Were that left so, the next server-side apply of the field's own manager
would meet a conflict with killcheck, and what it gives up would stay. An API server takes managedFields as they are
sent where nothing else is changed (apimachinery, util/managedfields/internal/fieldmanager.go, Update).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from killcheck.kube.objects import Obj, dig

__all__ = ["as_before", "owners_of"]

_Path = tuple[str, ...]
#: What tells one entry from another.
_KEY = ("manager", "operation", "apiVersion", "subresource")


def owners_of(obj: Obj) -> list[Obj] | None:
    """The entries that a change can disturb: all but those of the status; None: the object shows none."""
    entries = dig(obj, "metadata", "managedFields", default=[]) or []
    return [one for one in entries if one.get("subresource") != "status"] or None


def as_before(found: Obj, before: Sequence[Obj], ours: str) -> list[Obj] | None:
    """The entries that an object should have; None: it has them, or somebody else has written it meanwhile.

    Fields go back to whoever had them where killcheck (``ours``) holds them now, and nobody else has got any.
    """
    now = dig(found, "metadata", "managedFields", default=[]) or []
    status = [one for one in now if one.get("subresource") == "status"]
    written = [one for one in now if one not in status]
    others = {_key(one): _paths(one) for one in written if not _is_ours(one, ours)}
    held = {path for one in written if _is_ours(one, ours) for path in _paths(one)}
    was = {_key(one): _paths(one) for one in before}
    if any(not paths <= was.get(key, set()) for key, paths in others.items()):
        return None
    if any(paths - others.get(key, set()) - held for key, paths in was.items()):
        return None
    if {_key(one): _paths(one) for one in written} == was:
        return None
    return [*before, *status]


def _is_ours(entry: Obj, ours: str) -> bool:
    """Also a rival that a fault plays, which writes by a name of its own: ``killcheck-operator``."""
    manager = str(entry.get("manager", ""))
    return manager == ours or manager.startswith(f"{ours}-")


def _key(entry: Obj) -> _Path:
    return tuple(str(entry.get(name, "")) for name in _KEY)


def _paths(entry: Obj) -> set[_Path]:
    return set(_leaves(entry.get("fieldsV1") or {}))


def _leaves(fields: Any, path: _Path = ()) -> Iterator[_Path]:
    """The fields of an entry: ``f:NAME`` and list keys down to what holds nothing more.

    ``.`` is what a field holds itself of beside what is in it; of a field that holds nothing more it is left out.
    """
    if not isinstance(fields, dict) or (path and not fields):
        yield path
        return
    for key, below in fields.items():
        yield from _leaves(below, path if key == "." and path else (*path, key))
