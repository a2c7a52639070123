"""The objects that mutations write in CEL (``Object.spec{...}``, ``JSONPatch{...}``), for ``celpy``, as maps.

Source: k8s.io/apiserver/pkg/cel/mutation (which types there are, and that their names are the paths of fields).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from killcheck.text import lazy_re

__all__ = ["TYPE", "plain", "readable", "type_errors", "type_of"]

#: The member of a map that says as which type it was written.
TYPE = "@type"
_TOKEN = lazy_re.compile(
    r"""(?P<text>[rR]?(?:\"(?:\\.|[^"\\])*\"|'(?:\\.|[^'\\])*'))"""
    r"|(?P<note>//[^\n]*)|(?P<object>(?<![\w.])(?:Object(?:\.\w+)*|JSONPatch)\s*\{)|(?P<open>[\[({])|(?P<close>[\])}])"
    r"|(?P<field>(?<![\w.])[A-Za-z_]\w*(?=\s*:))|(?P<comma>,)|(?P<rest>\w+|\s+|.)",
    re.DOTALL,
)


def readable(text: str) -> str:
    """The expression with typed objects as maps from field names; functions of ``jsonpatch`` with plain names."""
    text = re.sub(r"(?<![\w.])jsonpatch\.escapeKey\(", "jsonpatch_escapeKey(", text)
    put, inside = [], [""]
    field_next = False
    for token in _TOKEN.finditer(text):
        what, piece = token.lastgroup, token[0]
        if what == "object":
            put += [f'{{"{TYPE}": "{piece.rstrip("{ ").strip()}"', ", "]
            inside.append("object")
            field_next = True
            continue
        if what == "open":
            inside.append(piece)
        elif what == "close":
            was = inside.pop() if len(inside) > 1 else ""
            if was == "object":
                _without_last_comma(put)
        elif what == "field" and field_next:
            piece = f'"{piece}"'
        field_next = (what == "comma" and inside[-1] == "object") or (
            field_next and (piece.isspace() or what == "note")
        )
        put.append(piece)
    return "".join(put)


def _without_last_comma(put: list[str]) -> None:
    """An object may end with a comma, and one without fields has only its type."""
    for i in range(len(put) - 1, -1, -1):
        if put[i].strip() == ",":
            del put[i]
            return
        if not put[i].isspace() and not put[i].startswith("//"):
            return


def type_of(value: Any) -> str:
    """As which type a map was written, or the maps of a list were; "Object" where none says."""
    if isinstance(value, list):
        return next((type_of(one) for one in value if isinstance(one, dict | list)), "Object")
    return str(value[TYPE]) if isinstance(value, dict) and TYPE in value else "Object"


def plain(value: Any) -> Any:
    """A value of ``celpy`` as JSON has it, types left out."""
    if isinstance(value, dict):
        return {str(key): plain(one) for key, one in value.items() if key != TYPE}
    if isinstance(value, list):
        return [plain(one) for one in value]
    kind = type(value).__name__
    if value is None or kind == "BoolType":
        return None if value is None else bool(value)
    if kind in ("IntType", "UintType"):
        return int(value)
    return float(value) if kind == "DoubleType" else str(value)


def type_errors(value: Any, path: str = "Object") -> Iterator[str]:
    """Where an object was written as another type than that of the field it is in."""
    if isinstance(value, dict):
        written = value[TYPE] if TYPE in value else None  # noqa: SIM401 - celpy's maps have a get() of their own
        if written is not None and written != path:
            yield (
                f'unexpected type name "{written}", expected "{path}", which matches field name path from root '
                "Object type"
            )
        for key, one in value.items():
            yield from type_errors(one, path if written is None else f"{path}.{key}")
    elif isinstance(value, list):
        for one in value:
            yield from type_errors(one, path)
