"""Whether an expression compiles, asked when it is written; in the words of a real API server.

Only what is certain is refused: an expression that ends too early, a name that nothing declares, a field that a known
type does not have, a result that is plainly of another type. What else cel-go's checker finds is taken. Source: answers
of kube-apiserver v1.36.2; k8s.io/apiserver/pkg/admission/plugin/cel/compile.go for the names.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from typing import Any, NamedTuple

from killcheck.embedded.api import celsyntax
from killcheck.embedded.api.celtypes import OBJECTS, TypeProblem, type_of
from killcheck.text import lazy_re

__all__ = ["DEVICE", "Declared", "Types", "policy", "problem"]

#: Name -> its fields; None: any.
Declared = Mapping[str, frozenset[str] | None]


class Types(NamedTuple):
    """What is known of the names that an expression sees, and the fields of each object type (see ``celtypes``)."""

    names: Mapping[str, str] = {}
    objects: Mapping[str, Mapping[str, str]] = {}


#: What the expressions of a device's selectors see.
DEVICE: Declared = {"device": frozenset({"driver", "attributes", "capacity", "allowMultipleAllocations"})}
#: Names of types, and of libraries: never undeclared.
_KNOWN = frozenset(
    "int uint double bool string bytes list map type null_type dyn google optional sets base64 strings lists "
    "format ip cidr regex kubernetes Object JSONPatch".split()
)
_OPERAND = (
    "{'[', '{', '(', '.', '-', '!', 'true', 'false', 'null', NUM_FLOAT, NUM_INT, NUM_UINT, STRING, BYTES, IDENTIFIER}"
)
_QUOTED = lazy_re.compile(r"""\"(?:\\.|[^"\\])*\"|'(?:\\.|[^'\\])*'""")
_UNFINISHED = lazy_re.compile(r"(?:&&|\|\||[=!<>]=|[-+*/%<>!?:,(\[])$")


def policy(params: bool, variables: Iterable[str] | None = None, *, authorizer: bool = True) -> Declared:
    """What expressions of an admission policy see; ``variables``: the names of those above it, None: it has none."""
    found: dict[str, frozenset[str] | None] = dict.fromkeys(("object", "oldObject", "namespaceObject", "request"))
    found |= dict.fromkeys(["authorizer"] * authorizer + ["params"] * params)
    return found if variables is None else found | {"variables": frozenset(variables)}


def problem(
    text: str,
    declared: Declared,
    wanted: str | tuple[str, ...] = "bool",
    otherwise: str = "must evaluate to {} but got {}",
    types: Types | None = None,
) -> str | None:
    """What is wrong with an expression that is to be of type ``wanted`` (empty: any); None: nothing certain.

    Of several types, one.
    """
    early = _ends_early(text)
    if early:
        return _shown(text, [TypeProblem(len(text) - (not text), f"Syntax error: {early}")])
    try:
        return _in_tree(text, declared, wanted, otherwise, types or Types())
    except RecursionError:  # longer or deeper than can be followed here
        return None


def _in_tree(text: str, declared: Declared, wanted: str | tuple[str, ...], otherwise: str, types: Types) -> str | None:
    tree = _parsed(text)
    if tree is None:
        return None
    found = list(_undeclared(tree, text, declared))
    own = {name: "" for name, fields in declared.items() if fields is not None}
    own |= {"device": "device"} if "device" in declared else {}
    got, problems = type_of(tree, text, {**own, **types.names}, {**OBJECTS, **types.objects})
    if found or problems:
        return _shown(text, found + problems)
    if isinstance(wanted, tuple):
        return None if got in ("", *wanted) else otherwise.format(_one_of(wanted), got)
    return otherwise.format(wanted, got) if wanted and got not in ("", wanted) else None


def _undeclared(tree: Any, text: str, declared: Declared) -> Iterator[TypeProblem]:
    for ident, field in _references(tree):
        name = str(ident)
        if name not in declared and name not in _KNOWN:
            yield TypeProblem(ident.column - 1, f"undeclared reference to '{name}' (in container '')")
        fields = declared.get(name)
        if fields is not None and field and field not in fields:
            yield TypeProblem(text.find(f".{field}", text.find(name)), f"undefined field '{field}'")


def _one_of(types: tuple[str, ...]) -> str:
    return f"one of [{' '.join('null_type' if name == 'null' else name for name in types)}]"


def _shown(text: str, problems: list[TypeProblem]) -> str:
    """In the order in which they stand; what is told twice, once."""
    said = [_told(text, one) for one in sorted(dict.fromkeys(problems), key=lambda one: one.at)]
    return "compilation failed: " + "\n".join(said)


def _told(text: str, problem: TypeProblem) -> str:
    lines = text[: problem.at].split("\n")
    line, before = len(lines), len(lines[-1])
    shown = f"\n | {text.split(chr(10))[line - 1]}\n | {'.' * before}^" if text else ""
    return f"ERROR: <input>:{line}:{before + 1}: {problem.why}{shown}"


def _ends_early(text: str) -> str | None:
    """What an expression lacks at its end."""
    bare = _QUOTED.sub("''", text).rstrip()
    if bare.endswith("."):
        return "no viable alternative at input '.'"
    if not bare or _UNFINISHED.search(bare):
        return f"mismatched input '<EOF>' expecting {_OPERAND}"
    if bare.count("(") == bare.count(")") + 1 and bare.count("[") == bare.count("]"):
        return "missing ')' at '<EOF>'"
    if re.search(r"(?<![.\[{,])\?(?!\w)", bare) and ":" not in bare:
        return "mismatched input '<EOF>' expecting ':'"
    return None


@lru_cache(maxsize=256)
def _parsed(text: str) -> Any:
    """The expression as a tree; None where nobody here can read it."""
    try:
        from celpy import Environment
        from celpy.celparser import CELParseError
    except ImportError:
        return None
    if "\n" in text and "//" in text:  # a comment would go on
        return None
    try:
        return Environment().compile(celsyntax.readable(text.replace("\n", " ")))
    except CELParseError:
        return None


def _references(tree: Any) -> Iterator[tuple[Any, str]]:
    """The names that an expression begins with, and the field that is read of each; without those that it declares."""
    own = {
        str(name)
        for call in tree.find_data("member_dot_arg")
        for one in list(call.children[2].children if len(call.children) > 2 else ())[:2]
        if (name := _plain(one)) is not None
    }
    fields = {
        id(dot.children[0].children[0].children[0]): str(dot.children[1])
        for dot in tree.find_data("member_dot")
        if dot.children[0].children[0].data == "primary"
    }
    for ident in tree.find_data("ident"):
        if str(ident.children[0]) not in own:
            yield ident.children[0], fields.get(id(ident), "")


def _plain(tree: Any) -> Any:
    """The name that an expression consists of; None: it is more than that."""
    while hasattr(tree, "children"):
        if len(tree.children) != 1:
            return None
        tree = tree.children[0]
    return tree if getattr(tree, "type", "") == "IDENT" else None
