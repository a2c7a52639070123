"""What stands between the start of a Python program and the calls by which it turns something off.

The program is walked once, in order, every branch taken, its own functions where they are called. What may *not* live
here: which calls and fields are known (:mod:`killcheck.executor.python_vocabulary`), verdicts.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from killcheck.executor import python_vocabulary as vocabulary
from killcheck.executor.python_expressions import Expressions
from killcheck.executor.python_shape import bare, constants, gives_up, stepped
from killcheck.executor.python_values import dotted
from killcheck.executor.resting import KNOWN, Ground, Unreadable, Value, compared_with, joined, known, slept_s
from killcheck.text.values import replace

__all__ = ["walk"]

_TURNS = 12


def walk(
    ground: Ground, text: str, arguments: Sequence[Value], environment: Mapping[str, Value], stdin: Value
) -> tuple[Value, Value]:
    """Walk a program; what its exit code rests on, and what it prints. Raises Unreadable."""
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise Unreadable(f"a Python program that cannot be read: {error}") from error
    kept = ground.ended, ground.returned, ground.raised, ground.skipped
    try:
        program = Program(ground, tree, arguments, environment, stdin)
        program.statements(tree.body)
    except RecursionError as error:
        raise Unreadable("a Python program that is nested too deep") from error
    ends = ground.ended | ground.raised
    ground.ended, ground.returned, ground.raised, ground.skipped = kept
    return ends, program.out


class Program(Expressions):
    """The walk through one program."""

    def statements(self, body: Sequence[ast.stmt]) -> None:
        """Walk statements in their order."""
        for statement in body:
            self.ground.step()
            _STATEMENTS.get(type(statement), Program._other)(self, statement)

    def under(self, why: Value, body: Sequence[ast.stmt], *, always: bool = False) -> None:
        """Statements that are run where ``why`` lets them; ``always``: it does."""
        self.ground.control.append(why)
        self.branches += not always
        self.statements(body)
        self.branches -= not always
        self.ground.control.pop()

    def _other(self, node: ast.stmt) -> None:
        if isinstance(node, ast.Import | ast.ImportFrom | ast.Pass | ast.Global | ast.Nonlocal):
            return
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.expr):
                self.value(child)

    def _functiondef(self, node: ast.FunctionDef) -> None:
        if any(dotted(one).rpartition(".")[2] not in vocabulary.DECORATORS for one in map(bare, node.decorator_list)):
            raise Unreadable(f"a function with a decorator: {node.name}")

    def _classdef(self, node: ast.ClassDef) -> None:
        for statement in node.body:
            if isinstance(statement, ast.Assign | ast.AnnAssign):
                self.statements([statement])

    def _expr(self, node: ast.Expr) -> None:
        self.value(node.value)

    def _assign(self, node: ast.Assign) -> None:
        value = self.value(node.value)
        items = self.listed(node.value)
        for target in node.targets:
            self.bind(target, value, items)

    def _annassign(self, node: ast.AnnAssign) -> None:
        if node.value is not None:
            self.bind(node.target, self.value(node.value), self.listed(node.value))

    def _augassign(self, node: ast.AugAssign) -> None:
        before = self.value(node.target)
        self.bind(node.target, replace(before | self.value(node.value), text=None), None)

    def _delete(self, _node: ast.Delete) -> None:
        return

    def _if(self, node: ast.If) -> None:
        why = self.condition(node.test)
        self.under(why, node.body)
        self.under(why, node.orelse)

    def _match(self, node: ast.Match) -> None:
        why = self.value(node.subject)
        for case in node.cases:
            guard = self.condition(case.guard) if case.guard is not None else Value()
            self.under(compared_with(why, constants(case.pattern), "match") | guard, case.body)

    def _assert(self, node: ast.Assert) -> None:
        self.ground.raised |= self.ground.here() | self.condition(node.test)

    def _raise(self, node: ast.Raise) -> None:
        if node.exc is not None:
            self.value(node.exc)
        self.ground.raised |= self.ground.here()

    def _return(self, node: ast.Return) -> None:
        value = self.value(node.value) if node.value is not None else known("None")
        if self.returns:
            self.returns[-1].append(value | self.ground.here() if self.branches else value)
        self.ground.returned |= self.ground.here().rests

    def _break(self, _node: ast.Break) -> None:
        if self.breaks:
            self.breaks[-1].append(self.ground.here(self.inside_of[-1]).rests)
        self.ground.skipped |= self.ground.here().rests

    def _continue(self, _node: ast.Continue) -> None:
        self.ground.skipped |= self.ground.here().rests

    def _with(self, node: ast.With | ast.AsyncWith) -> None:
        quiet = False
        before = self.ground.raised
        for item in node.items:
            value = self.value(item.context_expr)
            quiet = quiet or "suppress" in dotted(bare(item.context_expr))
            if item.optional_vars is not None:
                self.bind(item.optional_vars, value, None)
        self.statements(node.body)
        if quiet:
            self.ground.raised = before

    def _try(self, node: ast.Try) -> None:
        before = self.ground.raised
        self.statements(node.body)
        cause = self.ground.raised
        if node.handlers:
            self.ground.raised = before
        for handler in node.handlers:
            if handler.name:
                self.names[handler.name] = cause.rests
            self.under(cause.rests, handler.body)
        self.under(cause.rests if node.handlers else Value(), node.orelse)
        self.statements(node.finalbody)

    def _for(self, node: ast.For | ast.AsyncFor) -> None:
        items = self.listed(node.iter)
        each = self.value(node.iter)
        turns = items[:_TURNS] if items else [replace(each, text=None)] * 2
        why = replace(each.exists, own=False)
        skipped = self.ground.skipped
        breaks: list[Value] = []
        for value in turns:
            self.bind(node.target, value, None)
            self.ground.skipped = skipped | joined(breaks)
            self.enter(breaks)
            self.under(why, node.body)
            self.leave()
        self.ground.skipped = skipped
        self.under(joined(breaks), node.orelse)

    def enter(self, breaks: list[Value]) -> None:
        """A loop's body begins, of which ``breaks`` are the ways out."""
        self.breaks.append(breaks)
        self.inside_of.append(len(self.ground.control) + 1)

    def leave(self) -> None:
        """It ends."""
        self.breaks.pop()
        self.inside_of.pop()

    def _while(self, node: ast.While) -> None:
        endless = isinstance(node.test, ast.Constant)
        counts = {one.id for one in ast.walk(node.test) if isinstance(one, ast.Name)} & set(stepped(node.body))
        if endless and self.world.loops:
            slept = [
                one.args for one in ast.walk(node) if isinstance(one, ast.Call) and dotted(one.func).endswith("sleep")
            ]
            self.ground.round_s = max((slept_s([ast.unparse(args[0])]) for args in slept if args), default=0.0)
            self._carry(node)
        why = self.condition(node.test)
        skipped = self.ground.skipped
        breaks: list[Value] = []
        for _ in range(2 if endless and self.world.loops else 1):
            self.ground.skipped = skipped | joined(breaks)
            self.enter(breaks)
            self.under(why, node.body, always=endless)
            self.leave()
        self.ground.skipped = skipped
        parts = node.test.values if isinstance(node.test, ast.BoolOp) else [node.test]
        ends = [self.condition(part) for part in parts]
        moments = any("s" in one.clock and not (one.unknown or one.listed or one.raw) for one in ends)
        bounded = not endless and bool(counts or moments)
        bounded = bounded or gives_up(node, set(stepped(node.body)))
        if not bounded:
            self.ground.end(joined(breaks) if endless else why)
        self.statements(node.orelse)

    def _carry(self, node: ast.While) -> None:
        """What a round leaves to the next."""

        def play(carried: Mapping[str, Value] | None) -> None:
            for name, value in (carried or {}).items():
                kept = self.ground.kept if name.startswith("api ") else self.names
                kept[name] = kept.get(name, KNOWN).rests | value
                self.lists.pop(name, None)
            self.enter([])
            self.under(self.condition(node.test), node.body, always=True)
            self.leave()

        self.ground.rounds(play)
        self.names = {name: replace(value, carried=frozenset()) for name, value in self.names.items()}
        for name, source in self.ground.counted.items():
            kept = self.ground.kept if name.startswith("api ") else self.names
            kept[name] = kept.get(name, KNOWN).rests.doubted(source)


#: How each statement is walked; all others by their parts.
_STATEMENTS: dict[type[ast.AST], Callable[[Program, Any], None]] = {
    ast.FunctionDef: Program._functiondef,
    ast.ClassDef: Program._classdef,
    ast.Expr: Program._expr,
    ast.Assign: Program._assign,
    ast.AnnAssign: Program._annassign,
    ast.AugAssign: Program._augassign,
    ast.Delete: Program._delete,
    ast.If: Program._if,
    ast.Match: Program._match,
    ast.Assert: Program._assert,
    ast.Raise: Program._raise,
    ast.Return: Program._return,
    ast.Break: Program._break,
    ast.Continue: Program._continue,
    ast.With: Program._with,
    ast.Try: Program._try,
    ast.For: Program._for,
    ast.While: Program._while,
    ast.AsyncFunctionDef: Program._functiondef,
    ast.AsyncWith: Program._with,
    ast.TryStar: Program._try,
    ast.AsyncFor: Program._for,
}
