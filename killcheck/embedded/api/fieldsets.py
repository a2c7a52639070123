"""Sets of fields in the form of ``FieldsV1``, and what can be done with them.

A set is a tree of path elements: ``f:NAME`` a field, ``k:{...}`` an item by its keys, ``v:...`` a value in a set. A
branch is itself in the set where it is empty or has a ``.``.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from killcheck.embedded.api import schemas
from killcheck.embedded.api.mergekeys import KEY_DEFAULTS, LIST_DEFAULTS, ApplyLists
from killcheck.kube.objects import Obj
from killcheck.text.jsontext import from_text

__all__ = [
    "BUILT_IN",
    "Fields",
    "applied_fields",
    "changed",
    "emptied",
    "fields_of",
    "intersect",
    "item_element",
    "merged",
    "paths",
    "readable",
    "show_path",
    "subtract",
    "with_members",
]

Fields = dict[str, Any]
#: How the lists of built-in types merge.
BUILT_IN = ApplyLists(None)
#: Metadata that nobody manages.
_SYSTEM = frozenset(
    {
        "name",
        "namespace",
        "uid",
        "creationTimestamp",
        "generation",
        "resourceVersion",
        "managedFields",
        "selfLink",
        "deletionTimestamp",
        "deletionGracePeriodSeconds",
    }
)


def fields_of(obj: Obj | None, lists: ApplyLists = BUILT_IN) -> Fields:
    """Every field that an object sets."""
    return changed(None, obj or {}, lists)


def applied_fields(config: Obj, lists: ApplyLists = BUILT_IN) -> Fields:
    """Every field that an applied configuration owns: what it names, but no map and no list as such.

    A list that is merged by its items and has none is nothing (typed/tofieldset.go).
    """
    return _named(fields_of(_without_empty(config, (), lists), lists))


def _without_empty(value: Any, path: tuple[str, ...], lists: ApplyLists) -> Any:
    if not isinstance(value, dict) or (path and lists.is_atomic(path)):
        return value
    found = {}
    for name, inner in value.items():
        left = _without_empty(inner, (*path, name), lists)
        if (left or not inner) and not (inner == [] and lists.keys((*path, name)) is not None):
            found[name] = left
    return found


def _named(fields: Fields, *, item: bool = False) -> Fields:
    return {
        element: _named(tree, item=element.startswith("k:"))
        for element, tree in fields.items()
        if element != "." or item
    }


def with_members(fields: Fields) -> Fields:
    """The same, in which whatever has fields below it counts as a field itself."""
    return {element: {".": {}} | with_members(tree) if tree else tree for element, tree in fields.items()}


def changed(old: Obj | None, new: Obj, lists: ApplyLists = BUILT_IN) -> Fields:
    """The fields that ``new`` sets and ``old`` sets otherwise or not at all.

    What holds fields is one itself where it was not there before (so structures that Go always writes never are).
    """
    found: Fields = {}
    for name, value in new.items():
        if name in ("apiVersion", "kind"):
            continue
        before = old.get(name) if old is not None else None
        if name == "metadata":
            value = {k: v for k, v in (value or {}).items() if k not in _SYSTEM}
            before = before or {}
            inner = _members(before, value, (name,), lists)
            if inner:
                found["f:metadata"] = inner
            continue
        tree = _diff(before, value, (name,), lists, old is not None and name in old)
        if tree is not None:
            found[f"f:{name}"] = tree
    return found


def _diff(old: Any, new: Any, path: tuple[str, ...], lists: ApplyLists, existed: bool) -> Fields | None:
    """The tree of what differs at ``path``; None: nothing."""
    if existed and old == new:
        return None
    if isinstance(new, dict) and new and not lists.is_atomic(path):
        tree = _members(old if isinstance(old, dict) else {}, new, path, lists)
        if not existed:
            tree = {".": {}} | tree
        return tree or None
    if not new and old and isinstance(new, dict) and isinstance(old, dict) and not lists.is_atomic(path):
        return None  # members went, and none came
    if isinstance(new, list):
        keys = lists.keys(path)
        if keys is not None and not new and existed and old:
            return None
        if keys is not None and new:
            return _items(old if isinstance(old, list) else [], new, path, lists, keys=keys, existed=existed)
    return {}


def _members(old: Obj, new: Obj, path: tuple[str, ...], lists: ApplyLists) -> Fields:
    found: Fields = {}
    for name, value in new.items():
        tree = _diff(old.get(name), value, (*path, name), lists, name in old)
        if tree is not None:
            found[f"f:{name}"] = tree
    return found


def _items(
    old: list[Any],
    new: list[Any],
    path: tuple[str, ...],
    lists: ApplyLists,
    *,
    keys: tuple[str, ...],
    existed: bool,
) -> Fields | None:
    found: Fields = {} if existed else {".": {}}
    before = {item_element(item, keys, path): item for item in old}
    for item in new:
        element = item_element(item, keys, path)
        if element.startswith("v:") or not isinstance(item, dict) or lists.items_are_atomic(path):
            if element not in before:
                found[element] = {}
            continue
        known = element in before
        if known and before[element] == item:
            continue
        tree = _members(before[element] if known else {}, item, path, lists)
        if tree or not known:
            found[element] = tree if known else {".": {}} | tree
    return found or None


def item_element(item: Any, keys: tuple[str, ...], path: tuple[str, ...]) -> str:
    """The path element of an item: ``k:{"name":"x"}``, or ``v:"x"`` in a set."""
    if not keys or not isinstance(item, dict):
        return "v:" + json.dumps(item, separators=(",", ":"))
    defaults = LIST_DEFAULTS.get(path[-1], KEY_DEFAULTS)
    given = {key: item.get(key, defaults.get(key)) for key in sorted(keys)}
    present = {key: value for key, value in given.items() if value is not None or key in item}
    return "k:" + json.dumps(present, separators=(",", ":"))


def _is_member(tree: Fields) -> bool:
    return not tree or "." in tree


def merged(left: Fields, right: Fields) -> Fields:
    """What is in either."""
    if not right:
        return left
    if not left:
        return right
    out = dict(left)
    for element, tree in right.items():
        have = out.get(element)
        if have is None:
            out[element] = tree
        elif element != ".":
            both = merged(have, tree)
            if both and (_is_member(have) or _is_member(tree)) and "." not in both:
                both = {".": {}} | both
            out[element] = both
    return out


def subtract(left: Fields, right: Fields) -> Fields:
    """What is in ``left`` and not in ``right``."""
    if not left or not right:
        return left
    out: Fields = {}
    for element, tree in left.items():
        other = right.get(element)
        if other is None:
            out[element] = tree
            continue
        if element == ".":
            continue
        member = _is_member(tree) and not _is_member(other)
        rest = subtract({k: v for k, v in tree.items() if k != "."}, other)
        if member:
            out[element] = ({".": {}} | rest) if rest else {}
        elif rest:
            out[element] = rest
    return out


def intersect(left: Fields, right: Fields) -> Fields:
    """What is in both."""
    out: Fields = {}
    for element, tree in left.items():
        other = right.get(element)
        if other is None:
            continue
        if element == ".":
            out[element] = {}
            continue
        both = intersect({k: v for k, v in tree.items() if k != "."}, {k: v for k, v in other.items() if k != "."})
        if _is_member(tree) and _is_member(other):
            out[element] = ({".": {}} | both) if both else {}
        elif both:
            out[element] = both
    return out


def paths(fields: Fields, prefix: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """Every member, as a tuple of path elements: those of a level before those below (fieldpath/set.go)."""
    elements = sorted((element for element in fields if element != "."), key=_order)
    yield from ((*prefix, element) for element in elements if _is_member(fields[element]))
    for element in elements:
        yield from paths(fields[element], (*prefix, element))


def _order(element: str) -> tuple[str, str, list[Any]]:
    """Fields by name, then items by their keys, then values; numbers before texts (fieldpath/element.go)."""
    sort, text = element[:2], element[2:]
    if sort != "k:":
        return sort, text, []
    return sort, "", [(name, *_ranked(value)) for name, value in sorted(json.loads(text).items())]


def _ranked(value: Any) -> tuple[int, float, str]:
    if isinstance(value, int | float):
        return 0, value, ""
    return (1, 0.0, value) if isinstance(value, str) else (2, 0.0, json.dumps(value))


def readable(fields: Any) -> bool:
    """Whether what a client wrote is a set of fields (fieldpath/serialize-pe.go)."""
    return isinstance(fields, dict) and all(_is_element(name) and readable(tree) for name, tree in fields.items())


def _is_element(name: str) -> bool:
    sort, text = name[:2], name[2:]
    if sort not in ("k:", "v:"):
        return name == "." or sort in ("f:", "i:")
    try:
        return sort == "v:" or isinstance(from_text(text), dict)
    except ValueError:
        return False


def emptied(body: Any, lists: ApplyLists, schema: str = "", path: tuple[str, ...] = ()) -> Fields:
    """The lists and objects owned as a whole in which a body, or a patch, of a type has an empty list.

    Nothing is stored of it, yet it is not equal to none: whoever writes it manages the whole
    (structured-merge-diff value/listreflect.go compares by reflect.DeepEqual).
    """
    found: Fields = {}
    known = schemas.load().get(schema)
    for name, value in body.items():
        if known is not None and name not in known:  # dropped when it is read, as is what a patch says of itself
            continue
        here = (*path, name)
        keys = lists.keys(here) if isinstance(value, list) else None
        if keys is None and (isinstance(value, list) or (isinstance(value, dict) and lists.is_atomic(here))):
            below: Fields | None = {} if _has_empty(value, listed=False) else None
        elif isinstance(value, dict):
            below = emptied(value, lists, schemas.structure(schema, name), here) or None
        elif isinstance(value, list) and keys:
            of = schemas.structure(schema, name)
            inner = {item_element(i, keys, here): emptied(i, lists, of, here) for i in value if isinstance(i, dict)}
            below = {element: tree for element, tree in inner.items() if tree} or None
        else:
            below = None
        if below is not None:
            found[f"f:{name}"] = below
    return found


def _has_empty(value: Any, *, listed: bool) -> bool:
    if isinstance(value, dict):
        return any(_has_empty(inner, listed=listed) for inner in value.values())
    return isinstance(value, list) and (any(_has_empty(i, listed=True) for i in value) if value else listed)


def show_path(path: tuple[str, ...]) -> str:
    """``.spec.containers[name="c"].image``, as conflicts are told."""
    shown = ""
    for element in path:
        sort, text = element[:2], element[2:]
        if sort == "f:":
            shown += f".{text}"
        elif sort == "k:":
            keys = json.loads(text)
            shown += "[" + ",".join(f"{key}={json.dumps(value)}" for key, value in keys.items()) + "]"
        else:
            shown += f"[={text}]"
    return shown
