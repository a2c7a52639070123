"""How a Python program ends with exit code 0 although what it asked for was refused."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Sequence

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
    """Handlers that catch everything, after which the program goes on to its end, and of which nothing is left then."""
    used = _decisive_names(tree)
    return [
        FalseGreen(f"line {node.lineno}: every exception is caught and the script goes on to exit 0")
        for scope in ast.walk(tree)
        if isinstance(scope, ast.Module | ast.FunctionDef | ast.AsyncFunctionDef)
        for node in _own(scope)
        if isinstance(node, ast.ExceptHandler)
        and _catches_all(node)
        and _ways(scope.body, node) & {_ON, _END}
        and not used & set(_remembered(scope, node))
    ]


#: Where control goes after some statements: on, out of the loop, to its next turn, to a good end, to a failure.
_ON, _BREAK, _CONTINUE, _END, _FAILURE = "on", "break", "continue", "end", "failure"


def _own(scope: ast.AST) -> Iterator[ast.AST]:
    """What stands in a scope, without the functions in it."""
    for node in ast.iter_child_nodes(scope):
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            yield node
            yield from _own(node)


def _holds(node: ast.AST, handler: ast.ExceptHandler | None) -> bool:
    return handler is not None and any(part is handler for part in ast.walk(node))


def _ways(statements: Sequence[ast.stmt], handler: ast.ExceptHandler | None) -> set[str]:
    """Where control may go: from the statement on in which ``handler`` catches what is raised at every attempt; without
    one, from the first on."""
    first = next((i for i, statement in enumerate(statements) if _holds(statement, handler)), 0)
    found = {_ON}
    for i, statement in enumerate(statements[first:]):
        if _ON not in found:
            break
        found = (found - {_ON}) | _way(statement, None if i else handler)
    return found


def _way(node: ast.stmt, handler: ast.ExceptHandler | None) -> set[str]:
    if isinstance(node, ast.For | ast.AsyncFor | ast.While):
        return _around(node, handler)
    if isinstance(node, ast.If):
        branches = [branch for branch in (node.body, node.orelse) if any(_holds(one, handler) for one in branch)]
        return set().union(*(_ways(branch, handler) for branch in branches or (node.body, node.orelse)))
    if isinstance(node, ast.With | ast.AsyncWith):
        return _ways(node.body, handler)
    if isinstance(node, ast.Try):
        return _tried(node, handler)
    if isinstance(node, ast.Break | ast.Continue):
        return {_BREAK if isinstance(node, ast.Break) else _CONTINUE}
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        return {_ON}
    if _leaves(node):
        return {_FAILURE}
    return {_END} if isinstance(node, ast.Return) or _exits(node) else {_ON}


def _exits(node: ast.AST) -> bool:
    calls = (part for part in ast.walk(node) if isinstance(part, ast.Call))
    return any(dotted(call.func).rpartition(".")[2] in _EXITS for call in calls)


def _around(node: ast.For | ast.AsyncFor | ast.While, handler: ast.ExceptHandler | None) -> set[str]:
    """A loop; its ``else`` comes when it was not broken off. ``while True`` has no other end."""
    body = _ways(node.body, handler)
    found = body & {_END, _FAILURE} | ({_ON} if _BREAK in body else set())
    endless = isinstance(node, ast.While) and isinstance(node.test, ast.Constant) and bool(node.test.value)
    over = handler is None or bool(body & {_ON, _CONTINUE})
    return found | (_ways(node.orelse, None) if over and not endless else set())


def _tried(node: ast.Try, handler: ast.ExceptHandler | None) -> set[str]:
    if handler in node.handlers:
        found = _ways(handler.body, None) if handler else set()
    elif any(_holds(one, handler) for one in node.body):
        found = _ways(node.body, handler)
    else:
        found = set().union(*(_ways(part, None) for part in (node.body, *(one.body for one in node.handlers))))
    last = _ways(node.finalbody, None)
    return (found | last) - {_ON} if _ON not in last else found | (last - {_ON})


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


def _remembered(
    scope: ast.Module | ast.FunctionDef | ast.AsyncFunctionDef, handler: ast.ExceptHandler
) -> Iterator[str]:
    """The names that tell later whether something failed: set in the handler, or beside it where nothing did."""
    for node in ast.walk(next(statement for statement in scope.body if _holds(statement, handler))):
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
