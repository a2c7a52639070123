"""How a Python program ends with exit code 0 although what it asked for was refused."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from killcheck.executor.false_green import FalseGreen
from killcheck.executor.python_values import dotted

__all__ = ["checks_status", "swallowed"]

_EVERYTHING = frozenset({"Exception", "BaseException", "ApiException", "HTTPError", "URLError", "RequestException"})
_EXITS = frozenset({"exit", "_exit", "abort", "SystemExit"})
#: Methods that put something into a list, a set or a mapping.
_COLLECTS = frozenset({"append", "add", "extend", "update", "setdefault", "insert"})


def checks_status(text: str) -> bool:
    """Whether anything depends on it: to print a status is not to check it."""
    asks = r"\b(if|assert|while|elif|exit|not|and|or|else)\b[^\n]*(status_code|\.ok\b|\.is_success|\.is_error)"
    return "raise_for_status" in text or bool(re.search(asks, text))


def swallowed(tree: ast.Module) -> list[FalseGreen]:
    """Handlers that catch everything and go on, and of which nothing is left at the end."""
    used = _decisive_names(tree)
    return [
        FalseGreen(f"line {node.lineno}: every exception is caught and the script goes on to exit 0")
        for node in ast.walk(tree)
        if isinstance(node, ast.ExceptHandler)
        and _catches_all(node)
        and not _leaves(node)
        and not used & set(_remembered(node))
    ]


def _catches_all(handler: ast.ExceptHandler) -> bool:
    names = {n.id for n in ast.walk(handler.type) if isinstance(n, ast.Name)} if handler.type else {"BaseException"}
    names |= {n.attr for n in ast.walk(handler.type) if isinstance(n, ast.Attribute)} if handler.type else set()
    return bool(names & _EVERYTHING)


def _leaves(node: ast.AST) -> bool:
    """Whether it raises again, exits with something that is not zero, or returns a code or False to say so."""
    for part in ast.walk(node):
        if isinstance(part, ast.Raise):
            return True
        if isinstance(part, ast.Call) and dotted(part.func).rpartition(".")[2] in _EXITS:
            return not (part.args and isinstance(part.args[0], ast.Constant) and part.args[0].value in (0, None))
        if isinstance(part, ast.Return) and isinstance(part.value, ast.Constant | ast.UnaryOp):
            value = part.value.value if isinstance(part.value, ast.Constant) else 1
            return value is False or (isinstance(value, int) and not isinstance(value, bool) and value != 0)
    return False


def _remembered(handler: ast.ExceptHandler) -> Iterator[str]:
    """The names in which a handler notes that something failed."""
    for node in ast.walk(handler):
        if isinstance(node, ast.Assign | ast.AugAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            yield from (name.id for target in targets for name in ast.walk(target) if isinstance(name, ast.Name))
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in _COLLECTS:
            yield dotted(node.func.value)


def _decisive_names(tree: ast.Module) -> set[str]:
    """Names on which it depends how the program ends."""
    found: set[str] = set()
    for node in ast.walk(tree):
        deciding: ast.AST | None = None
        if (isinstance(node, ast.If) and any(_leaves(statement) for statement in node.body)) or isinstance(
            node, ast.Assert
        ):
            deciding = node.test
        elif isinstance(node, ast.Return) and not isinstance(node.value, ast.Constant):
            deciding = node.value
        elif isinstance(node, ast.Call) and dotted(node.func).rpartition(".")[2] in _EXITS:
            deciding = node
        if deciding is not None:
            found |= {name.id for name in ast.walk(deciding) if isinstance(name, ast.Name)}
    return found
