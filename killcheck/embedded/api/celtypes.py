"""The types of CEL expressions, as far as they are certain: what cel-go's checker refuses of them, and where.

A type is what cel-go calls it (``int``, ``list(string)``, ``kubernetes.UserInfo``); empty: not known here, which every
rule takes. Sources: k8s.io/apiserver/pkg/admission/plugin/cel/compile.go for the objects, cel-go's standard library for
operators; the words are answers of kube-apiserver v1.36.2.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

__all__ = ["TypeProblem", "type_of"]

_GVK = {"group": "string", "version": "string", "kind": "string"}
#: The fields of each object type.
_FIELDS: dict[str, dict[str, str]] = {
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
    "labelValue uri uuid byte date datetime sets_contains sets_equivalent sets_intersects math_greatest "
    "math_least math_abs math_sign math_ceil math_floor math_round math_trunc math_isInf math_isNaN math_isFinite "
    "math_bitOr math_bitAnd math_bitXor math_bitNot math_bitShiftLeft math_bitShiftRight lists_range".split()
)
_NUMBERS = ("int", "uint", "double")
#: What ``+`` joins beside numbers; of others it is certain that it does not.
_JOINED = (*_NUMBERS, "string", "bytes")
_SIMPLE = frozenset({*_JOINED, "bool", "null"})
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


class TypeProblem(Exception):
    """What is wrong, and at which column (from 1)."""

    def __init__(self, column: int, why: str) -> None:
        super().__init__(why)
        self.column, self.why = column, why


def type_of(tree: Any, text: str, own: Mapping[str, str]) -> str:
    """The type of an expression's tree; ``own``: names that it is given beside Kubernetes', with their types.

    Raises TypeProblem where it is certain that there is none.
    """
    return _Checker(text, own).of(tree)


class _Checker:
    def __init__(self, text: str, own: Mapping[str, str]) -> None:
        self.text, self.own = text, own

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

    # -- operators -----------------------------------------------------------------------------------------
    def _logic(self, tree: Any, types: list[str]) -> str:
        for child, got in zip(tree.children, types, strict=True):
            if got in _SIMPLE and got != "bool":
                raise TypeProblem(child.meta.column, f"expected type 'bool' but found '{got}'")
        return "bool"

    def _binary(self, tree: Any, types: list[str]) -> str:
        """``a + b``: the operator's own node holds the left side."""
        operator, right = tree.children
        left = types[0]
        symbol = _OPERATORS.get(operator.data, "")
        if not symbol:
            return "bool" if tree.data == "relation" else ""
        if left in _SIMPLE and types[1] in _SIMPLE and not _fits(symbol, left, types[1]):
            words = f"found no matching overload for '{symbol}' applied to '({left}, {types[1]})'"
            raise TypeProblem(self._between(right, symbol.strip("_")), words)
        if tree.data == "relation":
            return "bool"
        return left if left == types[1] and left in _JOINED else ""

    def _between(self, right: Any, operator: str) -> int:
        """The column of the operator that stands before its right side."""
        return self.text.rfind(operator, 0, right.meta.column - 1) + 1

    def _unary(self, tree: Any) -> str:
        got = self.of(tree.children[-1])
        if len(tree.children) == 1:
            return got
        symbol = "!_" if tree.children[0].data == "unary_not" else "-_"
        if got in _SIMPLE and got not in (("bool",) if symbol == "!_" else ("int", "double")):
            raise TypeProblem(tree.meta.column, f"found no matching overload for '{symbol}' applied to '({got})'")
        return "bool" if symbol == "!_" else got if got in _NUMBERS else ""

    def _expr(self, tree: Any) -> str:
        """``a ? b : c``, or what it consists of."""
        types = [self.of(child) for child in tree.children]
        if len(types) == 1:
            return types[0]
        condition, yes, no = types
        if (condition in _SIMPLE and condition != "bool") or (yes != no and yes in _SIMPLE and no in _SIMPLE):
            words = f"found no matching overload for '_?_:_' applied to '({condition or 'bool'}, {yes}, {no})'"
            raise TypeProblem(self._between(tree.children[1], "?"), words)
        return yes if yes == no else ""

    # -- what stands for itself ----------------------------------------------------------------------------
    def _literal(self, tree: Any) -> str:
        return _LITERALS.get(tree.children[0].type, "")

    def _ident(self, tree: Any) -> str:
        name = str(tree.children[0])
        return self.own.get(name, "") if name in self.own else _NAMES.get(name, "")

    def _list_lit(self, tree: Any) -> str:
        found = {self.of(child) for one in tree.children for child in getattr(one, "children", ())}
        return f"list({found.pop()})" if len(found) == 1 and found <= _SIMPLE else ""

    # -- fields and calls ----------------------------------------------------------------------------------
    def _member_dot(self, tree: Any) -> str:
        before, name = self.of(tree.children[0]), str(tree.children[1])
        if before == "dyn":
            return "dyn"
        fields = _FIELDS.get(before)
        if fields is not None and name not in fields:
            raise TypeProblem(tree.children[1].column - 1, f"undefined field '{name}'")
        return (fields or {}).get(name, "")

    def _member_index(self, tree: Any) -> str:
        before = self.of(tree.children[0])
        self.of(tree.children[1])
        if before == "dyn":
            return "dyn"
        return "string" if before in ("list(string)", "map(string, string)") else ""

    def _member_dot_arg(self, tree: Any) -> str:
        of = self.of(tree.children[0])
        arguments = [child for one in tree.children[2:] for child in one.children]
        name = tree.children[1]
        if str(name) in _BINDING:
            return self._bound(name, of, arguments)
        got = self._called(name, arguments)
        if str(name) == "matches" and arguments and not _is_pattern(self.text, arguments[0]):
            raise TypeProblem(arguments[0].meta.column, "invalid matches argument")
        return got

    def _bound(self, name: Any, of: str, arguments: list[Any]) -> str:
        """A macro, in which a name stands for what a list, or a map's keys, hold."""
        bound = _ident(arguments[0]) if arguments else ""
        each = "dyn" if of == "dyn" else of[5:-1] if of.startswith("list(") else ""
        inner = _Checker(self.text, {**self.own, bound: each})
        types = [inner.of(argument) for argument in arguments[1:]]
        if str(name) == "map" and types and types[-1] in _SIMPLE:
            return f"list({types[-1]})"
        return of if str(name) == "filter" else _RESULTS.get(str(name), "")

    def _ident_arg(self, tree: Any) -> str:
        name, arguments = tree.children[0], [child for one in tree.children[1:] for child in one.children]
        if str(name) == "has" and arguments and _ident(arguments[0]):
            raise TypeProblem(arguments[0].meta.column, "invalid argument to has() macro")
        return self._called(name, arguments)

    def _called(self, name: Any, arguments: list[Any]) -> str:
        if str(name) not in _FUNCTIONS:
            raise TypeProblem(name.column + len(str(name)), f"undeclared reference to '{name}' (in container '')")
        for argument in arguments:
            self.of(argument)
        return _RESULTS.get(str(name), "")


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


def _ident(tree: Any) -> str:
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


_BINDING = frozenset(
    "all exists exists_one existsOne map filter optMap optFlatMap transformList transformMap sortBy".split()
)


def _fits(symbol: str, left: str, right: str) -> bool:
    if symbol in ("_==_", "_!=_"):
        return left == right
    if symbol in ("_<_", "_<=_", "_>_", "_>=_"):  # numbers of every sort are compared with each other
        return left == right != "null" or (left in _NUMBERS and right in _NUMBERS)
    if symbol == "_+_":
        return left == right and left in _JOINED
    numbers = ("int", "uint") if symbol == "_%_" else _NUMBERS
    return left == right and left in numbers
