"""Patches as pure functions of JSON-like data: JSON patch, merge patch, strategic merge patch, apply.

Sources: RFC 6902 and 7386; k8s.io/apimachinery/pkg/util/strategicpatch; sigs.k8s.io/structured-merge-diff. What is
returned never shares a changed part with what went in.
"""

from __future__ import annotations

from types import MappingProxyType
from typing import Any

from killcheck.embedded.api.fieldsets import Fields, item_element
from killcheck.embedded.api.mergekeys import ApplyLists, Path, merge_key, merges_primitives
from killcheck.kube.objects import Obj

__all__ = ["PatchFailed", "apply_merge", "go_map", "json_patch", "merge_patch", "remove_fields", "strategic_patch"]

DIRECTIVE = "$patch"
DELETE_PRIMITIVES = "$deleteFromPrimitiveList/"
ORDER = "$setElementOrder/"
RETAIN = "$retainKeys"


class PatchFailed(Exception):
    """The patch does not fit the object; the message is the API server's."""


# -- JSON patch ------------------------------------------------------------------------------------------------
def json_patch(obj: Obj, operations: list[Obj]) -> Any:
    """RFC 6902 as the API server's library does it: replacing a missing member of an object adds it.

    Raises PatchFailed.
    """
    import jsonpatch
    import jsonpointer

    try:
        return _lenient(jsonpatch)(operations).apply(obj)
    except (jsonpatch.JsonPatchException, jsonpointer.JsonPointerException, TypeError, KeyError) as error:
        raise PatchFailed(str(error)) from error


_patch_class: list[Any] = []


def _lenient(jsonpatch: Any) -> Any:
    if _patch_class:
        return _patch_class[0]

    class Replace(jsonpatch.ReplaceOperation):  # type: ignore[misc]
        """Replace that may also add, in objects."""

        def apply(self, obj: Any) -> Any:
            parent, part = self.pointer.to_last(obj)
            if part is not None and isinstance(parent, dict) and part not in parent:
                parent[part] = self.operation["value"]
                return obj
            return super().apply(obj)

    class Lenient(jsonpatch.JsonPatch):  # type: ignore[misc]
        """evanphx/json-patch's reading of RFC 6902."""

        operations = MappingProxyType(dict(jsonpatch.JsonPatch.operations) | {"replace": Replace})

    _patch_class.append(Lenient)
    return Lenient


# -- merge patch -----------------------------------------------------------------------------------------------
def merge_patch(target: Any, patch: Any) -> Any:
    """RFC 7386: null removes, objects merge, everything else replaces."""
    if not isinstance(patch, dict):
        return patch
    result = dict(target) if isinstance(target, dict) else {}
    for key, value in patch.items():
        if value is None:
            result.pop(key, None)
        else:
            result[key] = merge_patch(result.get(key), value)
    return result


# -- strategic merge patch -------------------------------------------------------------------------------------
def strategic_patch(target: Any, patch: Obj, path: Path = ()) -> Obj:
    """Merge a patch by the merge keys of the built-in types. Raises PatchFailed."""
    directive = patch.get(DIRECTIVE)
    if directive == "replace":
        return {key: value for key, value in patch.items() if key != DIRECTIVE}
    if directive == "delete":
        return {}
    if directive not in (None, "merge"):
        raise PatchFailed(f"Unknown patch type found: {directive}")
    result: Obj = dict(target) if isinstance(target, dict) else {}
    retained = patch.get(RETAIN)
    if isinstance(retained, list):
        result = {key: value for key, value in result.items() if key in retained}
    for key, value in patch.items():
        if key in (DIRECTIVE, RETAIN) or key.startswith(ORDER):
            continue
        if key.startswith(DELETE_PRIMITIVES):
            field = key.removeprefix(DELETE_PRIMITIVES)
            if isinstance(result.get(field), list):
                result[field] = [entry for entry in result[field] if entry not in value]
            continue
        _merge_member(result, key, value, (*path, key))
    for key, order in patch.items():
        if key.startswith(ORDER):
            field = key.removeprefix(ORDER)
            if isinstance(result.get(field), list):
                result[field] = _ordered(result[field], order, merge_key((*path, field)))
    return result


def _merge_member(result: Obj, key: str, value: Any, path: Path) -> None:
    if value is None:
        result.pop(key, None)
    elif isinstance(value, dict):
        if value.get(DIRECTIVE) == "delete":
            result.pop(key, None)
        else:
            result[key] = strategic_patch(result.get(key), value, path)
    elif isinstance(value, list):
        before = result.get(key)
        result[key] = _merge_list(before if isinstance(before, list) else [], value, path)
    else:
        result[key] = value


def _merge_list(target: list[Any], patch: list[Any], path: Path) -> list[Any]:
    if merges_primitives(path):
        return target + [entry for entry in patch if entry not in target]
    key = merge_key(path)
    if key is None or not all(isinstance(entry, dict) for entry in patch):
        return [_without_directives(entry) for entry in patch]
    if any(entry.get(DIRECTIVE) == "replace" and len(entry) == 1 for entry in patch):
        return [entry for entry in patch if DIRECTIVE not in entry]
    result = list(target)
    for entry in patch:
        if key not in entry:
            raise PatchFailed(f"map: {go_map(entry)} does not contain declared merge key: {key}")
        at = next((i for i, item in enumerate(result) if isinstance(item, dict) and item.get(key) == entry[key]), None)
        directive = entry.get(DIRECTIVE)
        if directive == "delete":
            if at is not None:
                del result[at]
        elif at is None:
            result.append(strategic_patch({}, entry, path))
        else:
            result[at] = strategic_patch(result[at], entry, path)
    return result


def _without_directives(value: Any) -> Any:
    if isinstance(value, dict):
        return {k: _without_directives(v) for k, v in value.items() if k != DIRECTIVE and not k.startswith(ORDER)}
    return value


def _ordered(items: list[Any], order: Any, key: str | None) -> list[Any]:
    """Items in the order given; those that it does not name keep their places behind their predecessors."""
    wanted = [entry.get(key) if key and isinstance(entry, dict) else entry for entry in order or []]

    def identity(item: Any) -> Any:
        return item.get(key) if key and isinstance(item, dict) else item

    named = sorted((item for item in items if identity(item) in wanted), key=lambda item: wanted.index(identity(item)))
    result: list[Any] = []
    for item in items:
        if identity(item) in wanted:
            result.append(named.pop(0))
        else:
            result.append(item)
    return result


def go_map(value: Obj) -> str:
    """A map as Go's ``%v`` prints it."""
    return "map[" + " ".join(f"{k}:{_go_value(v)}" for k, v in sorted(value.items())) + "]"


def _go_value(value: Any) -> str:
    if isinstance(value, dict):
        return go_map(value)
    if isinstance(value, list):
        return "[" + " ".join(_go_value(entry) for entry in value) + "]"
    return "<nil>" if value is None else str(value).lower() if isinstance(value, bool) else str(value)


# -- server-side apply -----------------------------------------------------------------------------------------
def apply_merge(live: Any, config: Any, lists: ApplyLists, path: Path = ()) -> Any:
    """What is there, with an applied configuration on top: associative lists by their keys, atomic ones whole."""
    if isinstance(config, dict) and isinstance(live, dict) and not (path and lists.is_atomic(path)):
        result = dict(live)
        for key, value in config.items():
            result[key] = apply_merge(live.get(key), value, lists, (*path, key))
        return result
    if isinstance(config, list) and isinstance(live, list) and path:
        keys = lists.keys(path)
        if keys is not None:
            return _apply_items(live, config, lists, path, keys)
    return config


def _apply_items(
    live: list[Any], config: list[Any], lists: ApplyLists, path: Path, keys: tuple[str, ...],
) -> list[Any]:
    """Applied items first where they are new in front of others: the applied order, then what only the live has."""
    before = {item_element(item, keys): item for item in live}
    wanted = {item_element(item, keys): item for item in config}
    result = []
    for element, item in before.items():
        if element not in wanted:
            result.append(item)
        else:
            result.append(_apply_item(item, wanted[element], lists, path))
    result += [item for element, item in wanted.items() if element not in before]
    return result


def _apply_item(live: Any, config: Any, lists: ApplyLists, path: Path) -> Any:
    if not isinstance(live, dict) or not isinstance(config, dict):
        return config
    result = dict(live)
    for key, value in config.items():
        result[key] = apply_merge(live.get(key), value, lists, (*path, key))
    return result


def remove_fields(obj: Any, fields: Fields, lists: ApplyLists, path: Path = ()) -> Any:
    """Take fields out of an object (copying what changes); list items go when their own element is in the set."""
    if isinstance(obj, list):
        return _remove_items(obj, fields, lists, path)
    if not isinstance(obj, dict):
        return obj
    result = dict(obj)
    for element, tree in fields.items():
        name = element[2:]
        if not element.startswith("f:") or name not in result:
            continue
        if not tree:
            del result[name]
            continue
        rest = remove_fields(result[name], tree, lists, (*path, name))
        if "." in tree and not rest:
            del result[name]
        else:
            result[name] = rest
    return result


def _remove_items(items: list[Any], fields: Fields, lists: ApplyLists, path: Path) -> list[Any]:
    keys = lists.keys(path) or ()
    result = []
    for item in items:
        tree = fields.get(item_element(item, keys))
        if tree is None:
            result.append(item)
        elif tree and "." not in tree:
            result.append(remove_fields(item, tree, lists, path))
    return result


