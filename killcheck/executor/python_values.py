"""The values of Python expressions as far as reading tells them: texts, sequences, mappings of constants.

UNKNOWN stands in a text for what only running would tell.
"""

from __future__ import annotations

import ast
import copy
import re
from collections.abc import Mapping, Sequence
from posixpath import join, normpath

from killcheck.executor.shell_script import UNKNOWN
from killcheck.text.numbers import whole

__all__ = ["Scope", "Value", "dotted"]

Value = str | tuple["Value", ...] | dict[str, "Value"]

#: Functions that hand on the sequence they are given.
_SAME = frozenset({"list", "tuple", "set", "sorted", "reversed", "frozenset", "iter"})
_STRIPPED = frozenset({"strip", "rstrip", "lstrip", "encode", "decode"})
_MAX_DEPTH = 5
#: Of what a name holds: one that is made of ten of itself, ten times over, would fill this machine.
_MAX_TEXT = 200_000
_MAX_ITEMS = 1_000


def dotted(node: ast.AST) -> str:
    """``a.b.c`` of a dotted name; what cannot be named is left out."""
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute):
        return f"{dotted(node.value)}.{node.attr}"
    return ""


class Scope:
    """Names and what is known of them. ``functions``: the program's own; ``arguments``: its ``sys.argv``."""

    def __init__(
        self,
        environment: Mapping[str, str],
        arguments: Sequence[str],
        files: Mapping[str, str],
        functions: Mapping[str, ast.FunctionDef],
    ) -> None:
        self.environment = environment
        self.arguments = arguments
        self.files = files
        self.functions = functions
        self.names: dict[str, Value] = {}
        self.bodies: dict[str, str] = {}
        self._depth = 0

    def text(self, node: ast.expr | None) -> str:
        """The text of an expression; UNKNOWN where it has none that is known."""
        found = self.value(node)
        return found if isinstance(found, str) else UNKNOWN

    def value(self, node: ast.expr | None) -> Value:
        """What an expression is, as far as it is known."""
        if isinstance(node, ast.Constant):
            return node.value if isinstance(node.value, str) else str(node.value)
        if isinstance(node, ast.JoinedStr):
            return "".join(self.text(part) for part in node.values)
        if isinstance(node, ast.FormattedValue):
            return self.text(node.value)
        if isinstance(node, ast.Name):
            return self.names.get(node.id, UNKNOWN)
        if isinstance(node, ast.List | ast.Tuple | ast.Set):
            return tuple(value for item in node.elts for value in self._elements(item))
        if isinstance(node, ast.Dict):
            return {self.text(key): self.value(item) for key, item in zip(node.keys, node.values, strict=True)}
        if isinstance(node, ast.BinOp):
            return self._combined(node)
        if isinstance(node, ast.Subscript):
            return self._subscript(node)
        if isinstance(node, ast.Call):
            return self._called(node)
        if isinstance(node, ast.IfExp):
            holds = self._holds(node.test)
            return UNKNOWN if holds is None else self.value(node.body if holds else node.orelse)
        return UNKNOWN

    def _elements(self, item: ast.expr) -> tuple[Value, ...]:
        """What an element of a list adds to it: with a star, another list."""
        if not isinstance(item, ast.Starred):
            return (self.value(item),)
        return self.items(item.value) or (UNKNOWN,)

    def _holds(self, test: ast.expr) -> bool | None:
        """Whether a condition that is a value alone is true; None: only running would tell."""
        value = self.value(test)
        if isinstance(value, str):
            return None if UNKNOWN in value else value not in ("", "None", "False", "0")
        return bool(value)

    def items(self, node: ast.expr) -> tuple[Value, ...]:
        """What a loop over an expression goes through; empty: unknown."""
        found = self.value(node)
        if isinstance(found, dict):
            return tuple(found)
        return found if isinstance(found, tuple) else ()

    def bind(self, target: ast.expr, value: Value) -> None:
        """An assignment: a name, or names that a sequence is unpacked to."""
        if isinstance(target, ast.Name):
            kept = isinstance(value, dict) or len(value) <= (_MAX_TEXT if isinstance(value, str) else _MAX_ITEMS)
            self.names[target.id] = value if kept else UNKNOWN
        elif isinstance(target, ast.Tuple | ast.List):
            known = value if isinstance(value, tuple) and len(value) == len(target.elts) else ()
            for i, name in enumerate(target.elts):
                self.bind(name, known[i] if known else UNKNOWN)

    def written(self, node: ast.expr) -> str:
        """An expression as source, with the names replaced whose text is known: a request's body, near enough."""
        return ast.unparse(_Known(self.names).visit(copy.deepcopy(node)))

    def parameters(self, function: ast.FunctionDef, call: ast.Call | None) -> dict[str, Value]:
        """The parameters of the program's own function in a call of it (None: of which nothing is known)."""
        named = [arg.arg for arg in (*function.args.posonlyargs, *function.args.args)]
        found: dict[str, Value] = dict.fromkeys([*named, *(a.arg for a in function.args.kwonlyargs)], UNKNOWN)
        defaults = function.args.defaults
        found |= {name: self.value(d) for name, d in zip(named[len(named) - len(defaults) :], defaults, strict=True)}
        if call is not None:
            bound = isinstance(call.func, ast.Attribute) and named[:1] == ["self"]
            found |= dict(zip(named[bound:], map(self.value, call.args), strict=False))
            found |= {k.arg: self.value(k.value) for k in call.keywords if k.arg}
        return found

    # -- expressions -----------------------------------------------------------------------------------------
    def _combined(self, node: ast.BinOp) -> Value:
        if isinstance(node.op, ast.Add):
            left, right = self.value(node.left), self.value(node.right)
            if isinstance(left, tuple) and isinstance(right, tuple):
                return left + right
            return self.text(node.left) + self.text(node.right)
        if isinstance(node.op, ast.Div):  # pathlib
            return join(self.text(node.left), self.text(node.right))
        if isinstance(node.op, ast.Mod):
            parts = node.right.elts if isinstance(node.right, ast.Tuple) else [node.right]
            values = iter([self.text(part) for part in parts])
            return re.sub(r"%[sd]", lambda _: next(values, UNKNOWN), self.text(node.left))
        return UNKNOWN

    def _subscript(self, node: ast.Subscript) -> Value:
        name = dotted(node.value)
        if name in ("os.environ", "environ"):
            return self.environment.get(self.text(node.slice), UNKNOWN)
        found: Value = tuple(self.arguments) if name in ("sys.argv", "argv") else self.value(node.value)
        if isinstance(found, dict):
            return found.get(self.text(node.slice), UNKNOWN)
        if not isinstance(found, tuple) or not found:
            return UNKNOWN
        if isinstance(node.slice, ast.Slice):
            start = node.slice.lower.value if isinstance(node.slice.lower, ast.Constant) else 0
            return found[start:] if isinstance(start, int) else UNKNOWN
        index = whole(self.text(node.slice))
        return found[index] if index is not None and index < len(found) else UNKNOWN

    def _called(self, node: ast.Call) -> Value:
        name = dotted(node.func)
        last = node.func.attr if isinstance(node.func, ast.Attribute) else name
        if name in ("os.getenv", "os.environ.get", "environ.get", "getenv") and node.args:
            default = self.text(node.args[1]) if len(node.args) > 1 else UNKNOWN
            return self.environment.get(self.text(node.args[0]), default)
        if last in ("open", "Path", "str", "PurePosixPath") and node.args:
            return self.text(node.args[0])
        if last in _SAME and node.args and isinstance(node.func, ast.Name):
            return self.value(node.args[0])
        if isinstance(node.func, ast.Attribute):
            return self._method(node.func, last, node)
        return self._returned(node)

    def _method(self, func: ast.Attribute, last: str, node: ast.Call) -> Value:
        if last == "format":
            values = iter([self.text(arg) for arg in node.args])
            keyed = {k.arg: self.text(k.value) for k in node.keywords if k.arg}
            return re.sub(r"\{(\w*)\}", lambda m: keyed.get(m[1], next(values, UNKNOWN)), self.text(func.value))
        if last in _STRIPPED:
            return self.text(func.value).strip()
        if last in ("read", "read_text", "readline"):
            return self.files.get(normpath(self.text(func.value)), UNKNOWN)
        if last == "join" and node.args:
            return self._joined(func, node)
        if last == "splitlines":
            text = self.text(func.value)
            return UNKNOWN if UNKNOWN in text else tuple(text.splitlines())
        if last == "split":
            text = self.text(func.value)
            separator = self.text(node.args[0]) if node.args else None
            return UNKNOWN if UNKNOWN in text or separator == "" else tuple(text.split(separator))
        if last == "items":
            found = self.value(func.value)
            return tuple((key, value) for key, value in found.items()) if isinstance(found, dict) else UNKNOWN
        return self._returned(node)

    def _joined(self, func: ast.Attribute, node: ast.Call) -> Value:
        """``"/".join(parts)``, and the joins of paths and of URLs."""
        owner = dotted(func.value)
        if owner in ("os.path", "posixpath", "path"):
            return join(*map(self.text, node.args))
        parts = self.value(node.args[0])
        if not isinstance(parts, tuple):
            return UNKNOWN
        return self.text(func.value).join(part if isinstance(part, str) else UNKNOWN for part in parts)

    def _returned(self, node: ast.Call) -> Value:
        """What the program's own function returns, where that is one expression."""
        function = self.functions.get(dotted(node.func).removeprefix("self."))
        returns = [n for n in ast.walk(function) if isinstance(n, ast.Return)] if function else []
        if function is None or len(returns) != 1 or self._depth >= _MAX_DEPTH:
            return UNKNOWN
        before, self._depth = dict(self.names), self._depth + 1
        self.names |= self.parameters(function, node)
        for statement in function.body:
            if isinstance(statement, ast.Assign):
                for target in statement.targets:
                    self.bind(target, self.value(statement.value))
        found = self.value(returns[0].value)
        self.names, self._depth = before, self._depth - 1
        return found


class _Known(ast.NodeTransformer):
    """Names replaced by the texts that they stand for."""

    def __init__(self, names: Mapping[str, Value]) -> None:
        self.names = names

    def visit_Name(self, node: ast.Name) -> ast.expr:
        """Put the constant in where a name is known to hold one."""
        found = self.names.get(node.id)
        if not isinstance(found, str) or UNKNOWN in found or "\n" in found:
            return node
        return ast.Constant(found)

    def visit_JoinedStr(self, node: ast.JoinedStr) -> ast.expr:
        """Leave format strings as they are."""
        return node  # unparse takes no constants where a format string has names
