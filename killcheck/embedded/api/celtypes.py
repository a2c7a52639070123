"""The types of CEL expressions, as far as they are certain: what cel-go's checker refuses of them, and where.

A type is what cel-go calls it (``int``, ``list(string)``, ``kubernetes.UserInfo``); empty: not known here, which every
rule takes. Sources: k8s.io/apiserver/pkg/admission/plugin/cel/compile.go for the objects, cel-go's standard library for
operators; the words are answers of kube-apiserver v1.36.2.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

__all__ = ["OBJECTS", "TypeProblem", "type_of"]

_GVK = {"group": "string", "version": "string", "kind": "string"}
#: The fields of each object type.
OBJECTS: dict[str, dict[str, str]] = {
    "kubernetes.GroupVersionKind": _GVK,
    "kubernetes.GroupVersionResource": {"group": "string", "version": "string", "resource": "string"},
    "kubernetes.UserInfo": {
        "username": "string",
        "uid": "string",
        "groups": "list(string)",
        "extra": "map(string, list(string))",
    },
    "kubernetes.AdmissionRequest": {
        "kind": "kubernetes.GroupVersionKind",
        "resource": "kubernetes.GroupVersionResource",
        "subResource": "string",
        "requestKind": "kubernetes.GroupVersionKind",
        "requestResource": "kubernetes.GroupVersionResource",
        "requestSubResource": "string",
        "name": "string",
        "namespace": "string",
        "operation": "string",
        "userInfo": "kubernetes.UserInfo",
        "dryRun": "bool",
        "options": "dyn",
    },
    "kubernetes.Namespace": {
        "metadata": "kubernetes.NamespaceMetadata",
        "spec": "kubernetes.NamespaceSpec",
        "status": "kubernetes.NamespaceStatus",
    },
    "kubernetes.NamespaceMetadata": {
        "name": "string",
        "generateName": "string",
        "namespace": "string",
        "labels": "map(string, string)",
        "annotations": "map(string, string)",
        "UID": "string",
        "creationTimestamp": "timestamp",
        "deletionGracePeriodSeconds": "int",
        "deletionTimestamp": "timestamp",
        "generation": "int",
        "resourceVersion": "string",
        "finalizers": "list(string)",
    },
    "kubernetes.NamespaceSpec": {"finalizers": "list(string)"},
    "kubernetes.NamespaceStatus": {"conditions": "", "phase": "string"},
    "device": {"driver": "string", "attributes": "", "capacity": "", "allowMultipleAllocations": "bool"},
}
_NAMES = {
    "request": "kubernetes.AdmissionRequest",
    "namespaceObject": "kubernetes.Namespace",
    "object": "dyn",
    "oldObject": "dyn",
    "params": "dyn",
}
_LITERALS = {
    "STRING_LIT": "string",
    "MLSTRING_LIT": "string",
    "INT_LIT": "int",
    "FLOAT_LIT": "double",
    "UINT_LIT": "uint",
    "NULL_LIT": "null",
    "BOOL_LIT": "bool",
    "BYTES_LIT": "bytes",
}
#: Functions of an API server's CEL environment; those with a result that is always the same say it.
_RESULTS = {
    "size": "int",
    "has": "bool",
    "string": "string",
    "int": "int",
    "double": "double",
    "uint": "uint",
    "bool": "bool",
    "bytes": "bytes",
    "timestamp": "timestamp",
    "duration": "duration",
    "startsWith": "bool",
    "endsWith": "bool",
    "contains": "bool",
    "matches": "bool",
    "all": "bool",
    "exists": "bool",
    "exists_one": "bool",
    "existsOne": "bool",
    "lowerAscii": "string",
    "upperAscii": "string",
    "trim": "string",
    "replace": "string",
    "substring": "string",
    "join": "string",
    "split": "list(string)",
    "indexOf": "int",
    "lastIndexOf": "int",
    "isQuantity": "bool",
    "isURL": "bool",
    "isIP": "bool",
    "isCIDR": "bool",
    "isGreaterThan": "bool",
    "isLessThan": "bool",
    "allowed": "bool",
    "hasValue": "bool",
    **dict.fromkeys("find getScheme getHost getHostname getPort getEscapedPath".split(), "string"),
    **dict.fromkeys(
        "getFullYear getMonth getDate getDayOfMonth getDayOfWeek getDayOfYear getHours getMinutes getSeconds "
        "getMilliseconds".split(),
        "int",
    ),
}
_FUNCTIONS = frozenset(_RESULTS) | frozenset(
    "type dyn map filter format charAt reverse isSorted sum min max isInteger asInteger asApproximateFloat "
    "compareTo add sub sign quantity find findAll url getScheme getHost getHostname getPort getEscapedPath "
    "getQuery ip family isUnspecified isLoopback isLinkLocalMulticast isLinkLocalUnicast isGlobalUnicast "
    "isCanonical cidr containsIP containsCIDR prefixLength masked semver isSemver major minor patch group "
    "resource subresource namespace name check serviceAccount path reason errored error labelSelector "
    "fieldSelector orValue or value optMap optFlatMap of ofNonZeroValue none unwrap unwrapOpt getFullYear "
    "getMonth getDate getDayOfMonth getDayOfWeek getDayOfYear getHours getMinutes getSeconds getMilliseconds "
    "validate namedFormat named equivalent intersects greatest least abs ceil floor round trunc isInf isNaN "
    "isFinite bitOr bitAnd bitXor bitNot bitShiftLeft bitShiftRight escapeKey transformList transformMap "
    "transformMapEntry encode decode quote first last sort sortBy slice flatten range distinct toMap dns1123Label "
    "dns1123Subdomain dns1035Label qualifiedName dns1123LabelPrefix dns1123SubdomainPrefix dns1035LabelPrefix "
    "labelValue uri uuid byte date datetime sets_contains sets_equivalent sets_intersects lists_range".split()
)
_NUMBERS = ("int", "uint", "double")
#: What ``+`` joins beside numbers; of others it is certain that it does not.
_JOINED = (*_NUMBERS, "string", "bytes")
_SIMPLE = frozenset({*_JOINED, "bool", "null"})
_TIMES = frozenset({"timestamp", "duration"})
_CERTAIN = _SIMPLE | _TIMES
_SUMS = {
    ("_-_", "timestamp", "timestamp"): "duration",
    ("_-_", "timestamp", "duration"): "timestamp",
    ("_+_", "timestamp", "duration"): "timestamp",
    ("_+_", "duration", "timestamp"): "timestamp",
    ("_+_", "duration", "duration"): "duration",
    ("_-_", "duration", "duration"): "duration",
}
_NEVER_NULL = _SIMPLE - {"null"}
_ORDERED = _CERTAIN - {"null"}
_STRING = ("string",)
_OPTIONAL = "optional_type("
#: The types that functions want in each place, by themselves and as methods; of what is not here it is not certain.
_CALLS = {
    "size": (("string", "bytes", "list(", "map("),),
    **dict.fromkeys(("quantity", "isQuantity", "url", "isURL", "ip", "isIP", "cidr", "isCIDR"), (_STRING,)),
    "matches": (_STRING, _STRING),
    "bool": (("bool", "string"),),
    "int": (("int", "uint", "double", "string", "timestamp", "duration"),),
    "double": (("int", "uint", "double", "string"),),
}
#: Methods that are no functions by themselves.
_ONLY_METHODS = frozenset({"startsWith", "endsWith", "contains"})
_METHODS = {
    "size": (("string", "bytes", "list(", "map("),),
    **dict.fromkeys(("startsWith", "endsWith", "contains", "matches"), (_STRING, _STRING)),
    **dict.fromkeys(("lowerAscii", "upperAscii", "trim"), (_STRING,)),
    "sum": (("list(int)", "list(uint)", "list(double)", "list(duration)"),),
    "isSorted": (tuple(f"list({one})" for one in sorted(_ORDERED)),),
}
_OPERATORS = {
    "addition_add": "_+_",
    "addition_sub": "_-_",
    "multiplication_mul": "_*_",
    "multiplication_div": "_/_",
    "multiplication_mod": "_%_",
    "relation_eq": "_==_",
    "relation_ne": "_!=_",
    "relation_lt": "_<_",
    "relation_le": "_<=_",
    "relation_gt": "_>_",
    "relation_ge": "_>=_",
}


class TypeProblem(NamedTuple):
    """What is wrong, and where: how many characters come before it."""

    at: int
    why: str


def type_of(
    tree: Any, text: str, own: Mapping[str, str], objects: Mapping[str, Mapping[str, str]] = OBJECTS
) -> tuple[str, list[TypeProblem]]:
    """The type of an expression's tree, and where it is certain that it has none.

    ``own``: names that it is given beside Kubernetes', with their types; ``objects``: the fields of each object type.
    """
    checker = _Checker(text, own, objects, [])
    return checker.of(tree), checker.problems


class _Checker:
    def __init__(
        self,
        text: str,
        own: Mapping[str, str],
        objects: Mapping[str, Mapping[str, str]],
        problems: list[TypeProblem],
    ) -> None:
        self.text, self.own, self.objects, self.problems = text, own, objects, problems

    def of(self, tree: Any) -> str:
        if not hasattr(tree, "data"):
            return ""
        rule = _RULES.get(tree.data)
        if rule is not None:
            return rule(self, tree)
        types = [self.of(child) for child in tree.children]
        if len(tree.children) == 1:
            return types[0]
        if tree.data in ("conditionalor", "conditionaland"):
            return self._logic(tree, types)
        return self._binary(tree, types) if tree.data in ("addition", "multiplication", "relation") else ""

    def _refuse(self, at: int, why: str) -> str:
        """The type of what has none: every rule takes it."""
        self.problems.append(TypeProblem(at, why))
        return ""

    def _no_overload(self, at: int, name: str, applied: str) -> str:
        return self._refuse(at, f"found no matching overload for '{name}' applied to '{applied}'")

    def _certain(self, kind: str) -> bool:
        """Whether a type is known in all its parts."""
        if kind.startswith(("list(", "map(", _OPTIONAL)):
            return self._certain(_held(kind))
        return kind in _CERTAIN or kind in self.objects

    # -- operators -----------------------------------------------------------------------------------------
    def _logic(self, tree: Any, types: list[str]) -> str:
        for child, got in zip(tree.children, types, strict=True):
            if got != "bool" and self._certain(got):
                self._refuse(_at(child), f"expected type 'bool' but found '{got}'")
        return "bool"

    def _binary(self, tree: Any, types: list[str]) -> str:
        """``a + b``: the operator's own node holds the left side."""
        operator, right = tree.children
        left = types[0]
        symbol = _OPERATORS.get(operator.data, "")
        if operator.data == "relation_in":
            return self._in(right, left, types[1])
        if not symbol:
            return "bool" if tree.data == "relation" else ""
        if self._certain(left) and self._certain(types[1]) and not _fits(symbol, left, types[1]):
            self._no_overload(self._between(right, symbol.strip("_")), symbol, f"({left}, {types[1]})")
        if tree.data == "relation":
            return "bool"
        if {left, types[1]} & _TIMES:
            return _SUMS.get((symbol, left, types[1]), "")
        return left if left == types[1] and (left in _JOINED or left.startswith("list(")) else ""

    def _in(self, right: Any, left: str, holder: str) -> str:
        known = holder.startswith(("list(", "map("))
        wanted = "string" if holder.startswith("map(") else _held(holder) if known else ""
        if self._certain(left) and self._certain(holder) and (not known or left != wanted):
            self._no_overload(self._between(right, " in ") + 1, "@in", f"({left}, {holder})")
        return "bool"

    def _between(self, right: Any, operator: str) -> int:
        """Where the operator is that stands before its right side."""
        return self.text.rfind(operator, 0, right.meta.column - 1)

    def _unary(self, tree: Any) -> str:
        got = self.of(tree.children[-1])
        if len(tree.children) == 1:
            return got
        symbol = "!_" if tree.children[0].data == "unary_not" else "-_"
        if self._certain(got) and got not in (("bool",) if symbol == "!_" else ("int", "double", "duration")):
            self._no_overload(tree.meta.column - 1, symbol, f"({got})")
        return "bool" if symbol == "!_" else got if got in _NUMBERS else ""

    def _expr(self, tree: Any) -> str:
        """``a ? b : c``, or what it consists of."""
        types = [self.of(child) for child in tree.children]
        if len(types) == 1:
            return types[0]
        condition, yes, no = types
        unlike = yes != no and self._certain(yes) and self._certain(no) and "null" not in (yes, no)
        if (condition in _SIMPLE and condition != "bool") or unlike:
            at = self._between(tree.children[1], "?")
            return self._no_overload(at, "_?_:_", f"({condition or 'bool'}, {yes}, {no})")
        return yes if yes == no else ""

    # -- what stands for itself ----------------------------------------------------------------------------
    def _literal(self, tree: Any) -> str:
        return _LITERALS.get(tree.children[0].type, "")

    def _ident(self, tree: Any) -> str:
        name = str(tree.children[0])
        return self.own.get(name, "") if name in self.own else _NAMES.get(name, "")

    def _list_lit(self, tree: Any) -> str:
        children = [child for one in tree.children for child in getattr(one, "children", ())]
        types = [self.of(child) for child in children]
        for child, got in zip(children, types, strict=True):
            if got != types[0] and got in _SIMPLE and types[0] in _SIMPLE:
                return self._refuse(_at(child), f"expected type '{types[0]}' but found '{got}'")
        return f"list({types[0]})" if len(set(types)) == 1 and types[0] else ""

    # -- fields and calls ----------------------------------------------------------------------------------
    def _member_dot(self, tree: Any) -> str:
        return self._field(self.of(tree.children[0]), str(tree.children[1]), tree.children[1].column - 2)

    def _field(self, before: str, name: str, at: int) -> str:
        if before == "dyn" or before.startswith("map("):
            return _held(before)
        if before.startswith(_OPTIONAL):
            inner = self._field(_held(before), name, at)
            return inner and f"{_OPTIONAL}{inner})"
        fields = self.objects.get(before)
        if fields is None:
            certain = self._certain(before) and before != "null"
            return self._refuse(at, f"type '{before}' does not support field selection") if certain else ""
        return fields[name] if name in fields else self._refuse(at, f"undefined field '{name}'")

    def _member_index(self, tree: Any) -> str:
        before, index = self.of(tree.children[0]), self.of(tree.children[1])
        wanted = "int" if before.startswith("list(") else "string" if before.startswith("map(") else ""
        bare = self._certain(before) and not wanted and not before.startswith(_OPTIONAL)
        if bare or (wanted and index in _SIMPLE and index != wanted and self._certain(before)):
            if not self._certain(index):
                return ""
            at = self.text.rfind("[", 0, tree.children[1].meta.column - 1)
            return self._no_overload(at, "_[_]", f"({before}, {index})")
        return _held(before) if wanted or before == "dyn" else ""

    def _member_dot_arg(self, tree: Any) -> str:
        of = self.of(tree.children[0])
        arguments = [child for one in tree.children[2:] for child in one.children]
        name = tree.children[1]
        if str(name) in _BINDING:
            return self._bound(tree, of, arguments)
        got = self._called(name, arguments, of)
        if str(name) == "matches" and arguments and not _is_pattern(self.text, arguments[0]):
            return self._refuse(_at(arguments[0]), "invalid matches argument")
        return got

    def _bound(self, tree: Any, of: str, arguments: list[Any]) -> str:
        """A macro, in which a name, or two, stand for what a list or a map holds."""
        name = str(tree.children[1])
        if name in _OVER and self._certain(of) and not of.startswith(("list(", "map(")):
            words = f"expression of type '{of}' cannot be range of a comprehension (must be list, map, or dynamic)"
            self._refuse(_at(tree.children[0]), words)
            of = ""
        if arguments and not _name(arguments[0]):
            return self._refuse(_at(arguments[0]), "argument must be a simple name")
        two = name in _PAIRS or (name in _QUANTIFIERS and len(arguments) == 3)
        types = self._inside(of, arguments, two)
        if name in ("all", "exists") and types and types[0] != "bool" and self._certain(types[0]):
            self._refuse(_at(arguments[-1]), f"expected type 'bool' but found '{types[0]}'")
        if name == "map" and types and types[-1]:
            return f"list({types[-1]})"
        return of if name in ("filter", "sortBy") else _RESULTS.get(name, "")

    def _inside(self, of: str, arguments: list[Any], two: bool) -> list[str]:
        """The types of a macro's arguments, of which the first, or the first two, are names."""
        holds = of != "dyn" and bool(_held(of))
        keys = ("int" if of.startswith("list(") else "string") if holds else of
        each = [keys, _held(of)] if two else [keys if of.startswith("map(") else _held(of)]
        names = dict(zip((_name(one) for one in arguments), each, strict=False))
        inner = _Checker(self.text, {**self.own, **names}, self.objects, self.problems)
        return [inner.of(argument) for argument in arguments[len(each) :]]

    def _ident_arg(self, tree: Any) -> str:
        name, arguments = tree.children[0], [child for one in tree.children[1:] for child in one.children]
        if str(name) == "has" and arguments:
            return self._has(name, arguments[0])
        return self._called(name, arguments, None)

    def _has(self, name: Any, argument: Any) -> str:
        """A macro, too: the field is asked for where the macro's bracket opens."""
        asked = _alone(argument)
        if asked.data != "member_dot":
            at = self.text.find("[", asked.meta.column - 1) if asked.data == "member_index" else _at(argument)
            return self._refuse(at, "invalid argument to has() macro")
        self._field(self.of(asked.children[0]), str(asked.children[1]), name.column - 1 + len(name))
        return "bool"

    def _called(self, name: Any, arguments: list[Any], of: str | None) -> str:
        """A function; ``of``: the type of what it is a method of, None: of nothing."""
        called, at = str(name), name.column - 1 + len(name)
        types = [self.of(argument) for argument in arguments]
        if called not in _FUNCTIONS:
            return self._refuse(at, f"undeclared reference to '{called}' (in container '')")
        if called == "dyn":
            return "dyn"
        given = types if of is None else [of, *types]
        wanted = (_CALLS if of is None else _METHODS).get(called)
        wrong = of is None and called in _ONLY_METHODS
        if (wanted or wrong) and all(map(self._certain, given)) and (wrong or not _taken(wanted or (), given)):
            shown = ", ".join(types)
            return self._no_overload(at, called, f"({shown})" if of is None else f"{of}.({shown})")
        if of and called in (("value", "orValue") if of.startswith(_OPTIONAL) else ("min", "max", "sum")):
            return _held(of)
        return _RESULTS.get(called, "")


def _held(kind: str) -> str:
    """What a list, a map or an optional value holds, and what any value may."""
    for form in ("list(", "map(string, ", _OPTIONAL):
        if kind.startswith(form):
            return kind[len(form) : -1]
    return "dyn" if kind == "dyn" else ""


def _taken(wanted: tuple[tuple[str, ...], ...], given: list[str]) -> bool:
    """Whether each argument is of a type that stands in its place; a type that ends in a bracket: any such."""
    return len(wanted) == len(given) and all(
        any(got == one or (one.endswith("(") and got.startswith(one)) for one in types)
        for types, got in zip(wanted, given, strict=True)
    )


def _alone(tree: Any) -> Any:
    """The first node on the way down that is more than what it holds."""
    while len(getattr(tree, "children", ())) == 1 and hasattr(tree.children[0], "children"):
        tree = tree.children[0]
    return tree


def _at(tree: Any) -> int:
    """Where the checker sees an expression: a field at its dot, a call at its bracket."""
    node = _alone(tree)
    if node.data == "member_dot":
        return int(node.children[1].column) - 2
    if node.data == "member_dot_arg":
        return int(node.children[1].column) - 1 + len(node.children[1])
    return int(tree.meta.column) - 1


#: What each node of celpy's grammar is asked by; of all others, what they consist of.
_RULES: dict[str, Callable[[_Checker, Any], str]] = {
    "unary": _Checker._unary,
    "expr": _Checker._expr,
    "literal": _Checker._literal,
    "ident": _Checker._ident,
    "list_lit": _Checker._list_lit,
    "member_dot": _Checker._member_dot,
    "member_index": _Checker._member_index,
    "member_dot_arg": _Checker._member_dot_arg,
    "ident_arg": _Checker._ident_arg,
}


def _name(tree: Any) -> str:
    """The name that an expression consists of; empty: it is more than that."""
    while hasattr(tree, "children"):
        if len(tree.children) != 1:
            return ""
        tree = tree.children[0]
    return str(tree) if getattr(tree, "type", "") == "IDENT" else ""


def _is_pattern(text: str, argument: Any) -> bool:
    """Whether a literal is a regular expression; of what is none it is not known."""
    said = text[argument.meta.column - 1 : argument.meta.end_column - 1]
    if len(said) < 2 or said[0] not in "'\"" or said[0] != said[-1] or "\\" in said:
        return True
    try:
        re.compile(said[1:-1])
    except re.error:
        return False
    return True


_QUANTIFIERS = frozenset({"all", "exists", "exists_one", "existsOne"})
#: Macros that always name two: an index or a key, and a value.
_PAIRS = frozenset({"transformList", "transformMap", "transformMapEntry"})
#: Macros that go through a list or a map.
_OVER = _QUANTIFIERS | _PAIRS | {"map", "filter"}
_BINDING = _OVER | {"optMap", "optFlatMap", "sortBy"}


def _fits(symbol: str, left: str, right: str) -> bool:
    if symbol in ("_==_", "_!=_"):
        return left == right or (
            "null" in (left, right) and not {left, right} & _NEVER_NULL and "(" not in left + right
        )
    if symbol in ("_<_", "_<=_", "_>_", "_>=_"):  # numbers of every sort are compared with each other
        return (left == right and left in _ORDERED) or (left in _NUMBERS and right in _NUMBERS)
    if {left, right} & _TIMES:
        return (symbol, left, right) in _SUMS
    if symbol == "_+_":
        return left == right and (left in _JOINED or left.startswith("list("))
    numbers = ("int", "uint") if symbol == "_%_" else _NUMBERS
    return left == right and left in numbers
