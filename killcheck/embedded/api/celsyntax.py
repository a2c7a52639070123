"""What Kubernetes writes in CEL and ``celpy`` cannot read, in words that it can: optional values, functions of a
namespace (``sets.contains``), ``map`` with a condition.

Source: k8s.io/apiserver/pkg/cel/environment/base.go (which libraries an API server has), cel-go's optional types.
"""

from __future__ import annotations

import re
from typing import Any

from killcheck.text import lazy_re

__all__ = ["KNOWN", "in_words", "parted", "readable"]

#: Whether there is an old value: stands for ``oldSelf.hasValue()`` of a rule with ``optionalOldSelf``.
KNOWN = "oldSelf_known"
_LITERAL = lazy_re.compile(r"""\"(?:\\.|[^"\\])*\"|'(?:\\.|[^'\\])*'""")
_HELD = lazy_re.compile(r"\x00(\d+)\x00")
_NAMESPACED = lazy_re.compile(r"(?<![\w.])(sets|math)\.(\w+)\(")
_CHAIN = lazy_re.compile(
    r"(?<![\w.\])])([A-Za-z_]\w*(?:\.\w+)*)((?:\.\?\w+)(?:\.\??\w+(?!\w*\())*)\.(orValue|hasValue|value)\("
)
_OLD = lazy_re.compile(r"(?<![\w.])oldSelf\.(orValue|hasValue|value)\(")


def in_words(error: Exception) -> str:
    """The first thing that an error of ``celpy`` says, on one line; what is missing in cel-go's words."""
    said = str(error.args[0]).splitlines()[0] if error.args and str(error.args[0]) else str(error)
    said = said.partition(" (in activation")[0]  # which shows all that there is
    if said == "modulus or divide by zero":
        return "division by zero" if "division" in str(error.args[2:]) else "modulus by zero"
    if said.endswith("does not support field selection"):
        return "no such overload"
    member = re.fullmatch(r"no such member in mapping: '(.*)'", said)
    key = error.args[2] if said == "no such key" and len(error.args) > 2 else None  # of a map that was asked by [...]
    named = member[1] if member else str(key[0]) if key else ""
    return f"no such key: {named}" if named else said


def readable(text: str, *, optional_old: bool = False) -> str:
    """The same expression for ``celpy``; what it has no words for stays as it is, and is not read then.

    ``optional_old``: ``oldSelf`` is an optional value.
    """
    held: list[str] = []

    def hold(match: re.Match[str]) -> str:
        held.append(match[0])
        return f"\x00{len(held) - 1}\x00"

    text = _LITERAL.sub(hold, text)
    text = _NAMESPACED.sub(r"\1_\2(", text)
    while (found := _CHAIN.search(text)) is not None:
        known, path = _known(found[1], found[2], optional_old)
        text = _replaced(text, found, known, path)
    while optional_old and (found := _OLD.search(text)) is not None:
        text = _replaced(text, found, KNOWN, "oldSelf")
    return _HELD.sub(lambda match: held[int(match[1])], text)


def _known(base: str, steps: str, optional_old: bool) -> tuple[str, str]:
    """(what must be so for there to be a value, the value)."""
    conditions = [KNOWN] if optional_old and base.partition(".")[0] == "oldSelf" else []
    path = base
    for step in re.findall(r"\w+", steps):
        path = f"{path}.{step}"
        conditions.append(f"has({path})")
    return f"({' && '.join(conditions)})", path


def _replaced(text: str, found: re.Match[str], known: str, path: str) -> str:
    end, depth = found.end(), 1
    while end < len(text) and depth:
        depth += {"(": 1, ")": -1}.get(text[end], 0)
        end += 1
    argument = text[found.end() : end - 1]
    method = found.groups()[-1]
    put = {"hasValue": known, "value": path}.get(method, f"({known} ? {path} : ({argument}))")
    return text[: found.start()] + put + text[end:]


def parted(tree: Any) -> Any:
    """A syntax tree in which ``l.map(x, condition, value)`` is ``l.filter(x, condition).map(x, value)``."""
    from lark import Token, Tree

    for node in tree.find_pred(lambda node: node.data == "member_dot_arg"):
        member, name, *rest = node.children
        arguments = rest[0] if rest else None
        if name == "map" and arguments is not None and len(arguments.children) == 3:
            variable, condition, value = arguments.children
            kept = Tree(
                "member_dot_arg",
                [member, Token("IDENT", "filter"), Tree("exprlist", [variable, condition], arguments.meta)],
                node.meta,
            )
            node.children = [
                Tree("member", [kept], node.meta),
                name,
                Tree("exprlist", [variable, value], arguments.meta),
            ]
    return tree
