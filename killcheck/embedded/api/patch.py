"""Patches as pure functions of JSON-like data: JSON patch, merge patch, strategic merge patch, apply.

Sources: RFC 6902 and 7386; k8s.io/apimachinery/pkg/util/strategicpatch; sigs.k8s.io/structured-merge-diff. What is
returned never shares a changed part with what went in.
"""

from __future__ import annotations

from types import MappingProxyType
from typing import Any

from killcheck.embedded.api.fieldsets import Fields, item_element
from killcheck.embedded.api.mergekeys import ApplyLists, Path, merge_key, merges_primitives, replaces
from killcheck.embedded.api.schemas import structure
from killcheck.kube.objects import Obj

__all__ = [
    "PatchFailed",
    "apply_merge",
    "go_map",
    "go_value",
    "json_patch",
    "merge_patch",
    "opened",
    "remove_fields",
    "spent",
    "strategic_patch",
]

DIRECTIVE = "$patch"
DELETE_PRIMITIVES = "$deleteFromPrimitiveList/"
ORDER = "$setElementOrder/"
RETAIN = "$retainKeys"


class PatchFailed(Exception):
    """The patch does not fit the object; the message is the API server's, and ``code`` its HTTP status."""

    def __init__(self, message: str, *, code: int = 400, test: bool = False) -> None:
        super().__init__(message)
        self.code = code
        #: Whether a JSON patch's own test said no.
        self.test = test


# -- JSON patch ------------------------------------------------------------------------------------------------
def json_patch(obj: Obj, operations: list[Obj]) -> Any:
    """RFC 6902 as the API server's library does it: replacing a missing member of an object adds it, no value is null.

    Raises PatchFailed.
    """
    import jsonpatch
    import jsonpointer

    for operation in operations:
        if operation.get("op") in _BELOW and "" in (operation.get("path"), operation.get("from")):
            raise PatchFailed("the whole document is in no other")
    operations = [
        {"value": None} | operation if operation.get("op") in _VALUED else operation for operation in operations
    ]
    try:
        return _lenient(jsonpatch)(operations).apply(obj)
    except jsonpatch.JsonPatchTestFailed as error:
        raise PatchFailed(str(error), test=True) from error
    except (jsonpatch.JsonPatchException, jsonpointer.JsonPointerException, TypeError, KeyError) as error:
        raise PatchFailed(str(error)) from error


#: What is done to a member of something, and so never to the whole.
_BELOW = frozenset({"add", "remove", "move", "copy"})
_VALUED = frozenset({"add", "replace", "test"})
_patch_class: list[Any] = []


def _lenient(jsonpatch: Any) -> Any:
    if _patch_class:
        return _patch_class[0]

    class Replace(jsonpatch.ReplaceOperation):  # type: ignore[misc]
        """Replace that may also add, in objects."""

        def apply(self, obj: Any) -> Any:
            parent, part = self.pointer.to_last(obj)
            if part is not None and isinstance(parent, dict):
                parent[part] = self.operation.get("value")
                return obj
            return super().apply(obj)

    class Copy(jsonpatch.CopyOperation):  # type: ignore[misc]
        """Copy that finds a null where an object has no such member."""

        def apply(self, obj: Any) -> Any:
            parent, part = self.pointer_cls(self.operation["from"]).to_last(obj)
            if part is None or not isinstance(parent, dict) or part in parent:
                return super().apply(obj)
            added = {"op": "add", "path": self.location, "value": None}
            return jsonpatch.AddOperation(added, pointer_cls=self.pointer_cls).apply(obj)

    class Test(jsonpatch.TestOperation):  # type: ignore[misc]
        """Test to which a null is as good as no such member."""

        def apply(self, obj: Any) -> Any:
            parent, part = self.pointer.to_last(obj)
            if part is not None and isinstance(parent, dict) and parent.get(part) is None:
                if self.operation.get("value") is None:
                    return obj
                raise jsonpatch.JsonPatchTestFailed(f"testing value {self.location} failed")
            return super().apply(obj)

    class Lenient(jsonpatch.JsonPatch):  # type: ignore[misc]
        """evanphx/json-patch's reading of RFC 6902."""

        operations = MappingProxyType(
            dict(jsonpatch.JsonPatch.operations) | {"replace": Replace, "copy": Copy, "test": Test}
        )

    _patch_class.append(Lenient)
    return Lenient


def opened(operations: list[Obj]) -> Obj:
    """What the operations went into, as a tree of names: Go writes the members of these sorted."""
    found: Obj = {}
    for operation in operations:
        for place in ("path", "from"):
            below = found
            for part in str(operation.get(place, "")).split("/")[1:-1]:
                below = below.setdefault(part.replace("~1", "/").replace("~0", "~"), {})
    return found


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
_BAD_ORDER = "invalid patch format of setElementOrder list"
_BAD_RETAIN = "invalid patch format of retainKeys"
_BAD_PRIMITIVES = "invalid patch format of primitive list"


def strategic_patch(target: Any, patch: Obj, schema: str) -> Obj:
    """Merge a patch by the merge keys of the type ``schema``, as ``V1Pod``; "": there are none. Raises PatchFailed."""
    directive = patch.get(DIRECTIVE)
    if directive == "replace":
        return {key: value for key, value in patch.items() if key != DIRECTIVE}
    if directive == "delete":
        return {}
    if DIRECTIVE in patch:
        raise PatchFailed(f"unknown patch type: {go_value(directive)} in map: {go_map(patch)}", code=500)
    result: Obj = dict(target) if isinstance(target, dict) else {}
    if RETAIN in patch:
        result = _retained(result, patch)
    ordered = {key.removeprefix(ORDER): key for key in patch if key.startswith(ORDER)}
    for field, key in ordered.items():
        _merge_ordered(result, field, patch.get(field), patch[key], schema)
    for key, value in patch.items():
        if key == RETAIN or key in ordered or key.startswith(ORDER):
            continue
        if key.startswith(DELETE_PRIMITIVES):
            field = key.removeprefix(DELETE_PRIMITIVES)
            if not isinstance(value, list):
                raise PatchFailed(_BAD_PRIMITIVES)
            if isinstance(result.get(field), list):
                result[field] = [entry for entry in result[field] if entry not in value]
            continue
        _merge_member(result, key, value, schema)
    return result


def spent(target: Any, patch: Any) -> Any:
    """A strategic patch as it is left when it was merged: what met nothing of its kind has lost its nulls.

    Source: ``mergeMap`` and ``discardNullValuesFromPatch`` of apimachinery's strategicpatch, which change it in place.
    """
    if not isinstance(patch, dict) or not isinstance(target, dict):
        return patch
    found: Obj = {}
    for key, value in patch.items():
        before = target.get(key)
        if isinstance(value, dict) and not isinstance(before, dict):
            found[key] = _without_nulls(value)
        else:
            found[key] = spent(before, value)
    return found


def _without_nulls(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _without_nulls(member) for key, member in value.items() if member is not None}
    return value


def _retained(target: Obj, patch: Obj) -> Obj:
    keys = patch[RETAIN]
    if not isinstance(keys, list):
        raise PatchFailed(_BAD_RETAIN)
    for key, value in patch.items():
        free = value is None or key == RETAIN or key.startswith((ORDER, DELETE_PRIMITIVES))
        if not free and key not in keys:
            raise PatchFailed(_BAD_RETAIN)
    return {key: value for key, value in target.items() if key in keys}


def _merge_ordered(result: Obj, field: str, value: Any, order: Any, schema: str) -> None:
    """A list whose order the patch gives."""
    before, key = result.get(field), merge_key(schema, field)
    if not isinstance(order, list):
        raise PatchFailed(_BAD_ORDER)
    if not isinstance(value, list | None):
        raise PatchFailed(f"expected a []interface {{}}, but received a {_go_type(value)}", code=500)
    _check_order(value, order, key)
    if value is None and not isinstance(before, list):
        return
    if not isinstance(before, list):
        merged, before = _without_directives(value)[0], []
    else:
        merged = before if value is None else _merge_list(before, value, schema, field)
    result[field] = _in_order(merged, order, before, key)


def _check_order(value: list[Any] | None, order: list[Any], key: str | None) -> None:
    """What a patch sets in a list must come in the order that it gives (``validatePatchWithSetOrderList``)."""
    names = [entry.get(key) if key and isinstance(entry, dict) else entry for entry in order]
    left = list(names)
    for entry in value or ():
        if isinstance(entry, dict) and entry.get(DIRECTIVE) == "delete":
            continue
        if key and isinstance(entry, dict) and key not in entry and DIRECTIVE not in entry:
            raise PatchFailed(_no_key(entry, key), code=500)
        name = entry.get(key) if key and isinstance(entry, dict) else entry
        if name not in left:
            listed = f"{go_value(value)}\n doesn't match $setElementOrder list:\n{go_value(order)}\n"
            raise PatchFailed(f"The order in patch list:\n{listed}", code=500)
        del left[: left.index(name) + 1]


def _merge_member(result: Obj, key: str, value: Any, schema: str) -> None:
    if value is None:
        result.pop(key, None)
        return
    before = result.get(key)
    if isinstance(value, dict) and replaces(schema, key):
        result[key] = value
    elif isinstance(value, dict) and isinstance(before, dict):
        result[key] = strategic_patch(before, value, structure(schema, key))
    elif isinstance(value, list) and isinstance(before, list):
        result[key] = _merge_list(before, value, schema, key)
    else:
        clean, kept = _without_directives(value)
        if kept:
            result[key] = clean
        else:
            result.pop(key, None)


def _merge_list(target: list[Any], patch: list[Any], schema: str, field: str) -> list[Any]:
    if merges_primitives(schema, field):
        both = target + [entry for entry in patch if entry not in target]
        return _in_order(both, patch, target, None)
    key = merge_key(schema, field)
    if key is None:
        return patch
    _check_items(target, patch)
    entries = [entry for entry in patch if DIRECTIVE not in entry]
    target, replaced = _directed(target, patch, key)
    if replaced:
        return _in_order(entries, [], entries, key)
    result = list(target)
    for entry in entries:
        if key not in entry:
            raise PatchFailed(_no_key(entry, key), code=500)
        at = next((i for i, item in enumerate(result) if item.get(key) == entry[key]), None)
        if at is None:
            result.append(entry)
        else:
            result[at] = strategic_patch(result[at], entry, structure(schema, field))
    return _in_order(result, entries, target, key)


def _check_items(target: list[Any], patch: list[Any]) -> None:
    for entry in (*target, *patch):
        if isinstance(entry, list):
            raise PatchFailed("lists of lists are not supported", code=422)
        if not isinstance(entry, dict):
            raise PatchFailed(f"expected a map[string]interface {{}}, but received a {_go_type(entry)}", code=500)


def _directed(target: list[Any], patch: list[Any], key: str) -> tuple[list[Any], bool]:
    """The list as the patch's directives leave it, and whether they replace it whole."""
    replaced = False
    for entry in patch:
        directive = entry.get(DIRECTIVE)
        if directive == "delete":
            if key not in entry:
                raise PatchFailed(_no_key(entry, key), code=500)
            target = [item for item in target if item.get(key) != entry[key]]
        elif directive == "replace":
            replaced = True
        elif directive == "merge":
            raise PatchFailed("merging lists cannot yet be specified in the patch", code=500)
        elif DIRECTIVE in entry:
            raise PatchFailed(f"unknown patch type: {go_value(directive)} in map: {go_map(entry)}", code=500)
    return target, replaced


def _no_key(entry: Obj, key: str) -> str:
    return f"map: {go_map(entry)} does not contain declared merge key: {key}"


def _in_order(merged: list[Any], wanted: list[Any], before: list[Any], key: str | None) -> list[Any]:
    """What the patch names in the patch's order; the rest where it was, unless both were there and it came later.

    So what is new comes first (``normalizeElementOrder``).
    """

    def identity(item: Any) -> Any:
        if key is None or not isinstance(item, dict):
            return item
        if key not in item:
            raise PatchFailed(_no_key(item, key), code=500)
        return item[key]

    order, old = [identity(item) for item in wanted], [identity(item) for item in before]
    mine = sorted((item for item in merged if identity(item) in order), key=lambda item: order.index(identity(item)))
    rest = [item for item in merged if identity(item) not in order]
    result: list[Any] = []
    while mine and rest:
        left, right = identity(rest[0]), identity(mine[0])
        first = left in old and right in old and old.index(left) < old.index(right)
        result.append(rest.pop(0) if first else mine.pop(0))
    return result + mine + rest


def _without_directives(value: Any) -> tuple[Any, bool]:
    """What is new, without its directives; False where it is nothing but one."""
    if isinstance(value, dict):
        if DIRECTIVE in value:
            return None, False
        members = {k: _without_directives(v) for k, v in value.items() if v is not None}
        return {k: v for k, (v, kept) in members.items() if kept}, True
    if isinstance(value, list):
        return [clean for clean, kept in map(_without_directives, value) if kept], True
    return value, True


def _go_type(value: Any) -> str:
    if isinstance(value, dict):
        return "map[string]interface {}"
    return {str: "string", bool: "bool", int: "int64", float: "float64"}.get(type(value), "nil")


def go_map(value: Obj) -> str:
    """A map as Go's ``%v`` prints it."""
    return "map[" + " ".join(f"{k}:{go_value(v)}" for k, v in sorted(value.items())) + "]"


def go_value(value: Any) -> str:
    """A value as Go's ``%v`` prints it."""
    if isinstance(value, dict):
        return go_map(value)
    if isinstance(value, list):
        return "[" + " ".join(go_value(entry) for entry in value) + "]"
    if isinstance(value, float) and value.is_integer() and abs(value) < 1e21:
        return str(int(value))
    return "<nil>" if value is None else str(value).lower() if isinstance(value, bool) else str(value)


# -- server-side apply -----------------------------------------------------------------------------------------
def apply_merge(live: Any, config: Any, lists: ApplyLists, path: Path = ()) -> Any:
    """What is there, with an applied configuration on top: associative lists by their keys, atomic ones whole."""
    if config is None and live and isinstance(live, dict | list) and path and not _is_whole(live, lists, path):
        return live  # nothing is put into it, and nothing is taken from it; what is empty counts as a single value
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


def _is_whole(live: Any, lists: ApplyLists, path: Path) -> bool:
    return lists.is_atomic(path) if isinstance(live, dict) else lists.keys(path) is None


def _apply_items(
    live: list[Any],
    config: list[Any],
    lists: ApplyLists,
    path: Path,
    keys: tuple[str, ...],
) -> list[Any]:
    """Applied items first where they are new in front of others: the applied order, then what only the live has."""
    before = {item_element(item, keys, path): item for item in live}
    wanted = {item_element(item, keys, path): item for item in config}
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
        kept = not lists.is_map((*path, name)) if isinstance(rest, dict) else name == "containers"
        if not rest and not kept:
            del result[name]
        else:
            result[name] = rest
    return result


def _remove_items(items: list[Any], fields: Fields, lists: ApplyLists, path: Path) -> list[Any]:
    keys = lists.keys(path) or ()
    result = []
    for item in items:
        tree = fields.get(item_element(item, keys, path))
        if tree is None:
            result.append(item)
        elif tree and "." not in tree:
            result.append(remove_fields(item, tree, lists, path))
    return result
