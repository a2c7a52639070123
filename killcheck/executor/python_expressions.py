"""What the expressions of a Python program rest on: names, parts, conditions, calls of its own functions.

What may *not* live here: statements, and which calls of others are known.
"""

from __future__ import annotations

import ast
from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from killcheck.executor import python_vocabulary as vocabulary
from killcheck.executor.python_shape import bare, imports, stored
from killcheck.executor.python_values import dotted
from killcheck.executor.resting import (
    KNOWN,
    Ground,
    Kind,
    Source,
    Unreadable,
    Value,
    compared_with,
    counted_off,
    joined,
    known,
    sided,
    unknown,
)
from killcheck.executor.shell_script import UNKNOWN
from killcheck.text.values import replace

__all__ = ["Expressions"]

_MOST_DEPTH = 12


class Expressions:
    """The names of one program. ``names``: what is known of them, ``NAME.attribute`` of objects' own among them."""

    def __init__(
        self,
        ground: Ground,
        tree: ast.Module,
        arguments: Sequence[Value],
        environment: Mapping[str, Value],
        stdin: Value,
    ) -> None:
        self.ground = ground
        self.world = ground.world
        self.arguments, self.environment, self.stdin = list(arguments), dict(environment), stdin
        self.names: dict[str, Value] = {}
        self.lists: dict[str, list[Value]] = {}
        self.local: list[dict[str, Value]] = []
        self.imported = dict(imports(tree))
        self.functions = {
            node.name: node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        }
        self.overloads: dict[str, list[ast.FunctionDef | ast.AsyncFunctionDef]] = {}
        for function in ast.walk(tree):
            if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef):
                self.overloads.setdefault(function.name, []).append(function)
        self.properties = {
            name
            for name, functions in self.overloads.items()
            if any(dotted(bare(one)).endswith("property") for each in functions for one in each.decorator_list)
        }
        self.classes = {node.name: node for node in ast.walk(tree) if isinstance(node, ast.ClassDef)}
        self.returns: list[list[Value]] = []
        self.breaks: list[list[Value]] = []
        self.inside_of: list[int] = []
        self.branches = 0
        self.calling: list[str] = []
        self.out = Value()

    @abstractmethod
    def statements(self, body: Sequence[ast.stmt]) -> None:
        """Walk statements in their order."""

    def bind(self, target: ast.expr, value: Value, items: list[Value] | None) -> None:
        """An assignment."""
        if isinstance(target, ast.Tuple | ast.List):
            each = items if items and len(items) == len(target.elts) else [replace(value, text=None)] * len(target.elts)
            for one, part in zip(target.elts, each, strict=True):
                self.bind(one, part, None)
            return
        if isinstance(target, ast.Starred):
            return self.bind(target.value, replace(value, text=None), None)
        if isinstance(target, ast.Subscript):  # a part of something
            value |= self.value(target.slice) | self.value(target.value)
            return (
                self.bind(target.value, replace(value, text=None), None)
                if not isinstance(target.value, ast.Call)
                else None
            )
        name = dotted(target)
        if not name:
            return None
        self.ground.note(name, value)
        control = self.ground.here() if self.branches else Value()
        if control.unknown or control.listed or control.raw:
            value, items = value | control, None
        before = self.names.get(name)
        if self.branches and before is not None and before != value:
            value, items = replace(before | value, text=value.text, table=value.table), None
        self.names[name] = value
        if items is not None:
            self.lists[name] = items
        else:
            self.lists.pop(name, None)
        return None

    def listed(self, node: ast.expr) -> list[Value] | None:
        """The elements of a list that is written out; None: they are not known one by one."""
        if isinstance(node, ast.List | ast.Tuple | ast.Set) and not any(isinstance(e, ast.Starred) for e in node.elts):
            return [self.value(one) for one in node.elts]
        if isinstance(node, ast.Dict) and all(node.keys):
            return [self.value(one) for one in node.keys if one is not None]
        if isinstance(node, ast.Name):
            return self.lists.get(node.id)
        if (
            isinstance(node, ast.Call)
            and isinstance(node.func, ast.Name)
            and node.func.id in ("list", "tuple", "sorted")
        ):
            return self.listed(node.args[0]) if node.args else None
        return None

    def condition(self, node: ast.expr) -> Value:
        """What a condition rests on: of objects alone it asks whether there are any."""
        if isinstance(node, ast.BoolOp):
            values = [self.condition(node.values[0])]
            for one in node.values[1:]:
                self.ground.control.append(joined(values))
                values.append(self.condition(one))
                self.ground.control.pop()
            return joined(values)
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
            return self.condition(node.operand)
        if isinstance(node, ast.NamedExpr | ast.Name | ast.Attribute | ast.Subscript | ast.Call):
            return self.value(node).exists
        return self.value(node).rests

    def value(self, node: ast.expr | None) -> Value:
        """What an expression rests on."""
        if node is None:
            return KNOWN
        self.ground.step()
        found: Value = _EXPRESSIONS.get(type(node), Expressions._of_parts)(self, node)
        return found

    def _of_parts(self, node: ast.expr) -> Value:
        parts = [self.value(child) for child in ast.iter_child_nodes(node) if isinstance(child, ast.expr)]
        return replace(joined(parts), text=None)

    def _of_constant(self, node: ast.Constant) -> Value:
        return known(node.value if isinstance(node.value, str) else str(node.value))

    def _of_await(self, node: ast.Await) -> Value:
        return self.value(node.value)

    def _of_starred(self, node: ast.Starred) -> Value:
        return self.value(node.value)

    def _of_formattedvalue(self, node: ast.FormattedValue) -> Value:
        return self.value(node.value)

    def _of_joinedstr(self, node: ast.JoinedStr) -> Value:
        return vocabulary.concatenated([one.settled if one.raw else one for one in map(self.value, node.values)])

    def _of_name(self, node: ast.Name) -> Value:
        found = self.names.get(node.id)
        if found is not None:
            return found
        return vocabulary.of_module(self.imported[node.id]) if node.id in self.imported else KNOWN.rests

    def _of_namedexpr(self, node: ast.NamedExpr) -> Value:
        value = self.value(node.value)
        self.bind(node.target, value, None)
        return value

    def _of_lambda(self, _node: ast.Lambda) -> Value:
        return Value()  # it is looked at where it is called

    def _of_ifexp(self, node: ast.IfExp) -> Value:
        why = self.condition(node.test)
        return (why.settled | self._where(why, node.body) | self._where(why, node.orelse)).rests

    def _where(self, why: Value, node: ast.expr) -> Value:
        """An expression that is reckoned where ``why`` lets it."""
        self.ground.control.append(why)
        found = self.value(node)
        self.ground.control.pop()
        return found

    def _of_boolop(self, node: ast.BoolOp) -> Value:
        values = [self.value(node.values[0])]
        for one in node.values[1:]:
            values.append(self._where(joined(values).exists, one))
        text = next((one.text for one in values if one.text), None) if isinstance(node.op, ast.Or) else None
        return replace(joined(values), text=text if values[0].text is not None else None)

    def _of_binop(self, node: ast.BinOp) -> Value:
        left, right = self.value(node.left), self.value(node.right)
        if isinstance(node.op, ast.Add):
            return vocabulary.concatenated([left, right])
        if isinstance(node.op, ast.Mod):
            return (
                replace(counted_off(left | right, right.text or "", "%"), text=None)
                if left.clock
                else (vocabulary.formatted(left, right))
            )
        if isinstance(node.op, ast.Div) and left.text is not None and "/" in left.text:
            return vocabulary.concatenated([left, known("/"), right])
        if isinstance(node.op, ast.BitAnd | ast.BitXor) and left.clock:
            return (left | right).doubted(Source(Kind.CHANCE, "the digits of a moment", "&"))
        return replace(left | right, text=None)

    def _of_compare(self, node: ast.Compare) -> Value:
        sides = [node.left, *node.comparators]
        values = [self.value(side) for side in sides]
        presence = all(
            isinstance(op, ast.Is | ast.IsNot)
            or (isinstance(op, ast.In | ast.NotIn) and vocabulary.is_written(values[0].text or ""))
            for op in node.ops
        )
        value = joined(one.exists if presence else one for one in values)
        how = {ast.GtE: ">=", ast.Lt: "<"}.get(type(node.ops[0]), "")
        others = [UNKNOWN if one.text is None else sided(how, one.text) for one in values if not one.own]
        if isinstance(node.ops[0], ast.Eq):
            value = self.ground.at_a_minute(value, "==")
        return replace(compared_with(value, others, ast.unparse(node)[:40]), text=None)

    def _comprehended(self, node: Any) -> Value:
        why = Value()
        for part in node.generators:
            each = self.value(part.iter)
            self.bind(part.target, replace(each, text=None), None)
            why |= joined(self.condition(one) for one in part.ifs)
        self.ground.control.append(why)
        parts = [node.key, node.value] if isinstance(node, ast.DictComp) else [node.elt]
        found = joined(map(self.value, parts))
        self.ground.control.pop()
        return replace(found | why, text=None)

    def _of_yield(self, node: ast.Yield) -> Value:
        value = self.value(node.value)
        if self.returns:
            self.returns[-1].append(value | self.ground.here())
        return value

    def _of_yieldfrom(self, node: ast.YieldFrom) -> Value:
        return self._of_yield(ast.Yield(node.value))

    def _of_attribute(self, node: ast.Attribute) -> Value:
        name = dotted(node)
        if name in self.names:
            return self.names[name]
        full = self.resolved(node)
        if full == "sys.stdin":
            return self.stdin
        if full in vocabulary.KNOWN_ATTRIBUTES:
            return known(None) if full != "sys.argv" else joined(self.arguments)
        if node.attr in self.properties:
            return joined(self.call(one, [], {}) for one in self.overloads[node.attr])
        first = name.partition(".")[0]
        if first in self.imported and first not in self.names:
            return vocabulary.of_module(full)
        return vocabulary.part(self.value(node.value), node.attr)

    def _of_subscript(self, node: ast.Subscript) -> Value:
        full = self.resolved(node.value)
        key = self.value(node.slice)
        if full == "os.environ":
            return self.variable(key.text or UNKNOWN)
        if full == "sys.argv":
            at = int(key.text) if key.text and key.text.isdigit() else -1
            return self.arguments[at - 1] if 0 < at <= len(self.arguments) else joined(self.arguments)
        if isinstance(node.slice, ast.Slice):
            return vocabulary.sliced(self.value(node.value), node.slice)
        items = self.listed(node.value) if isinstance(node.value, ast.Name) else None
        if items and key.text and key.text.isdigit() and int(key.text) < len(items):
            return items[int(key.text)]
        return vocabulary.part(self.value(node.value), key.text if key.text is not None else UNKNOWN) | key.rests

    def variable(self, name: str, default: Value = KNOWN) -> Value:
        """A variable of the environment."""
        if name in self.environment:
            return self.environment[name]
        if name in self.world.passing or name == "HOSTNAME":
            return unknown(Kind.POD, f"${name}, which is another one in each pod", name)
        if name in self.world.environment:
            return known(self.world.environment[name])
        return default

    def resolved(self, node: ast.AST) -> str:
        """A dotted name with what was imported under its first word."""
        name = dotted(node)
        first, dot, rest = name.partition(".")
        return f"{self.imported.get(first, first)}{dot}{rest}" if name else ""

    def _of_call(self, node: ast.Call) -> Value:
        full = self.resolved(node.func)
        given = [self.value(one) for one in node.args]
        named = {one.arg: self.value(one.value) for one in node.keywords if one.arg}
        rests = joined([*given, *named.values(), *(self.value(one.value) for one in node.keywords if not one.arg)])
        if isinstance(node.func, ast.Attribute) and isinstance(node.func.value, ast.Call):
            self.value(node.func.value)  # an object is made first
        if isinstance(node.func, ast.Lambda):
            return self.call_lambda(node.func, given)
        own = self.functions.get(full.rpartition(".")[2])
        if own is not None and (isinstance(node.func, ast.Name) or self._is_own(node.func)):
            return (
                joined(self.call(one, given, named) for one in self.overloads[own.name])
                if (len(self.overloads[own.name]) > 1)
                else self.call(own, given, named)
            )
        if full in self.classes:
            made = next(
                (f for f in self.classes[full].body if isinstance(f, ast.FunctionDef) and f.name == "__init__"), None
            )
            if made is not None:
                self.call(made, given, named)
            own_ways = [
                one for one in self.classes[full].body if isinstance(one, ast.FunctionDef) and one.name[:2] == "__"
            ]
            ways = [self.call(one, [], {}) for one in own_ways if one is not made]  # whatever asks it
            return joined([rests, *ways]).rests
        for argument in (*node.args, *(one.value for one in node.keywords)):  # a callback, a thread's target
            callback = self.functions.get(dotted(argument).rpartition(".")[2])
            if callback is not None and dotted(argument) not in self.names:
                others = replace(rests, text=None)
                rests |= self.call(callback, [others] * len(callback.args.args), {})
            elif isinstance(argument, ast.Lambda):
                rests |= self.call_lambda(argument, [replace(rests, text=None)] * len(argument.args.args))
        owner = self.value(node.func.value) if isinstance(node.func, ast.Attribute) else Value()
        return vocabulary.called(self, vocabulary.Call(node, full, owner, given, named, rests))

    def text(self, value: Value) -> Value:
        """``exec`` and ``eval`` of a text. Raises Unreadable for one that is only known when it runs."""
        try:
            body = ast.parse(value.text or "?").body
        except (SyntaxError, ValueError) as error:
            raise Unreadable("a text that is only known when it runs") from error
        self.statements(body)
        return joined(self.value(one.value) for one in body if isinstance(one, ast.Expr))

    def call_lambda(self, function: ast.Lambda, given: Sequence[Value]) -> Value:
        """A lambda that is called with what it is handed."""
        names = [one.arg for one in function.args.args]
        outer = {name: self.names.get(name) for name in names}
        self.names |= dict(zip(names, given, strict=False))
        found = self.value(function.body)
        for name, value in outer.items():
            if value is None:
                self.names.pop(name, None)
            else:
                self.names[name] = value
        return found

    def _is_own(self, func: ast.expr) -> bool:
        """Whether a method is one of the program's own classes."""
        return isinstance(func, ast.Attribute) and any(
            isinstance(one, ast.FunctionDef | ast.AsyncFunctionDef) and one.name == func.attr
            for kind in self.classes.values()
            for one in kind.body
        )

    def call(
        self, function: ast.FunctionDef | ast.AsyncFunctionDef, given: Sequence[Value], named: Mapping[str, Value]
    ) -> Value:
        """One of the program's own functions, walked with what it is handed."""
        if function.name in self.calling or len(self.calling) >= _MOST_DEPTH:
            if function.name in self.calling:
                return joined([*given, *named.values()])
            raise Unreadable("functions that call each other without an end")
        parameters = [one.arg for one in (*function.args.posonlyargs, *function.args.args)]
        if parameters[:1] in (["self"], ["cls"]):
            parameters = parameters[1:]
        defaults = function.args.defaults
        handed: dict[str, Value] = dict.fromkeys(parameters, KNOWN.rests)
        handed |= {
            n: self.value(d) for n, d in zip(parameters[len(parameters) - len(defaults) :], defaults, strict=False)
        }
        handed |= {
            one.arg: self.value(default)
            for one, default in zip(function.args.kwonlyargs, function.args.kw_defaults, strict=True)
            if default is not None
        }
        handed |= dict(zip(parameters, given, strict=False)) | dict(named)
        if function.args.vararg is not None:
            handed[function.args.vararg.arg] = joined(given[len(parameters) :]).rests
        if function.args.kwarg is not None:
            handed[function.args.kwarg.arg] = joined(named.values()).rests
        local = {name for name in stored(function) if "." not in name} | set(handed)
        local -= {name for one in ast.walk(function) if isinstance(one, ast.Global) for name in one.names}
        outer = {name: self.names.get(name) for name in local}
        lists = {name: self.lists.pop(name, None) for name in local}
        for name in local:
            self.names.pop(name, None)
        self.names |= handed
        self.calling.append(function.name)
        self.returns.append([])
        returned = self.ground.returned
        self.statements(function.body)
        self.ground.returned = returned
        found = self.returns.pop()
        self.calling.pop()
        for name in local:
            self.names.pop(name, None)
            self.lists.pop(name, None)
        self.names |= {name: value for name, value in outer.items() if value is not None}
        self.lists |= {name: value for name, value in lists.items() if value is not None}
        return found[0] if len(found) == 1 else joined(found)


#: How each expression is reckoned; all others by their parts.
_EXPRESSIONS: dict[type[ast.AST], Callable[[Expressions, Any], Value]] = {
    ast.Constant: Expressions._of_constant,
    ast.Await: Expressions._of_await,
    ast.Starred: Expressions._of_starred,
    ast.FormattedValue: Expressions._of_formattedvalue,
    ast.JoinedStr: Expressions._of_joinedstr,
    ast.Name: Expressions._of_name,
    ast.NamedExpr: Expressions._of_namedexpr,
    ast.Lambda: Expressions._of_lambda,
    ast.IfExp: Expressions._of_ifexp,
    ast.BoolOp: Expressions._of_boolop,
    ast.BinOp: Expressions._of_binop,
    ast.Compare: Expressions._of_compare,
    ast.Yield: Expressions._of_yield,
    ast.YieldFrom: Expressions._of_yieldfrom,
    ast.Attribute: Expressions._of_attribute,
    ast.Subscript: Expressions._of_subscript,
    ast.Call: Expressions._of_call,
    ast.ListComp: Expressions._comprehended,
    ast.SetComp: Expressions._comprehended,
    ast.GeneratorExp: Expressions._comprehended,
    ast.DictComp: Expressions._comprehended,
}
