"""The shape of a Python program: what it imports, sets and counts, wherever that stands. Nothing is walked."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence

from killcheck.executor.python_values import dotted

__all__ = ["MUTATORS", "bare", "constants", "gives_up", "imports", "stepped", "stored"]

#: Methods that change what they are called of.
MUTATORS = frozenset(
    {"append", "add", "extend", "update", "insert", "appendleft", "setdefault", "pop", "remove", "discard"}
)


def imports(tree: ast.Module) -> Iterator[tuple[str, str]]:
    """(name, what it stands for) of everything that is imported."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for one in node.names:
                yield one.asname or one.name.partition(".")[0], one.name if one.asname else one.name.partition(".")[0]
        elif isinstance(node, ast.ImportFrom):
            for one in node.names:
                yield one.asname or one.name, f"{node.module}.{one.name}"


def bare(node: ast.expr) -> ast.expr:
    """What is called, of a call."""
    return node.func if isinstance(node, ast.Call) else node


def constants(pattern: ast.pattern) -> list[str]:
    """The constants of a pattern."""
    return [str(one.value) for one in ast.walk(pattern) if isinstance(one, ast.Constant)]


def stored(node: ast.AST) -> Iterator[str]:
    """Names that are set, or changed by a method of theirs, anywhere below."""
    for one in ast.walk(node):
        if isinstance(one, ast.Name | ast.Attribute) and isinstance(one.ctx, ast.Store):
            yield dotted(one)
        elif isinstance(one, ast.Subscript) and isinstance(one.ctx, ast.Store):
            yield dotted(one.value)
        elif isinstance(one, ast.Call) and isinstance(one.func, ast.Attribute) and one.func.attr in MUTATORS:
            yield dotted(one.func.value)


def stepped(body: Sequence[ast.stmt]) -> Iterator[str]:
    """Names that are counted on: ``n += 1``, ``n = n + 1``."""
    for statement in body:
        for one in ast.walk(statement):
            if isinstance(one, ast.AugAssign):
                yield dotted(one.target)
            elif isinstance(one, ast.Assign):
                made = {dotted(part) for part in ast.walk(one.value)}
                yield from (dotted(target) for target in one.targets if dotted(target) in made)


def gives_up(node: ast.While, stepped: set[str]) -> bool:
    """Whether a loop is left once what it counts has come far enough, whatever else there is."""
    for one in ast.walk(node):
        if not isinstance(one, ast.If) or not any(isinstance(part, ast.Break) for part in ast.walk(one)):
            continue
        asks = list(ast.walk(one.test))
        if not any(isinstance(part, ast.Call) for part in asks) and stepped & set(map(dotted, asks)):
            return True
    return False
