"""The functions that Kubernetes adds to CEL, for ``celpy``: strings, regular expressions, lists, quantities.

Source: k8s.io/apiserver/pkg/cel/library (lists.go, regex.go, quantity.go, jsonpatch.go) and cel-go's ext/strings.go.
They are called with ``celpy``'s types, which are Python's own.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from fractions import Fraction
from itertools import pairwise
from typing import Any

from killcheck.embedded.api import celnetwork
from killcheck.kube.quantities import QuantityError, parse

__all__ = ["FUNCTIONS"]

_NO_QUANTITY = "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"


def _text(value: str) -> Any:
    from celpy import celtypes

    return celtypes.StringType(value)


def _number(value: int) -> Any:
    from celpy import celtypes

    return celtypes.IntType(value)


def _truth(value: bool) -> Any:
    from celpy import celtypes

    return celtypes.BoolType(value)


def _list(values: list[Any]) -> Any:
    from celpy import celtypes

    return celtypes.ListType(values)


# -- strings ---------------------------------------------------------------------------------------------------
def _find(text: str, pattern: str) -> Any:
    found = re.search(str(pattern), str(text))
    return _text(found[0] if found else "")


def _find_all(text: str, pattern: str, most: int = -1) -> Any:
    found = [_text(match[0]) for match in re.finditer(str(pattern), str(text))]
    return _list(found if most < 0 else found[:most])


def _split(text: str, by: str, most: int = -1) -> Any:
    if most == 0:
        return _list([])
    if not by:
        parts = list(str(text))
    else:
        parts = str(text).split(str(by)) if most < 0 else str(text).split(str(by), int(most) - 1)
    return _list([_text(part) for part in parts])


def _index_of(holder: Any, wanted: Any, start: int = 0) -> Any:
    if isinstance(holder, str):
        return _number(str(holder).find(str(wanted), int(start)))
    return _number(next((i for i, item in enumerate(holder) if item == wanted), -1))


def _last_index_of(holder: Any, wanted: Any) -> Any:
    if isinstance(holder, str):
        return _number(str(holder).rfind(str(wanted)))
    return _number(next((i for i in reversed(range(len(holder))) if holder[i] == wanted), -1))


def _substring(text: str, start: int, end: int | None = None) -> Any:
    last = len(text) if end is None else int(end)
    if not 0 <= start <= last <= len(text):
        raise ValueError(f"index out of range: {start}")
    return _text(str(text)[int(start) : last])


def _replace(text: str, old: str, new: str, most: int = -1) -> Any:
    return _text(str(text).replace(str(old), str(new), int(most)))


def _format(text: str, values: Any) -> Any:
    """cel-go's ``format``: %s %d %f %e %x %X %o %b, as Go prints them (which takes no other conversions)."""
    left = list(values)

    def shown(match: re.Match[str]) -> str:
        """One verb, printed; it uses up the next of the values."""
        kind = match[0][-1]
        if kind == "%":
            return "%"
        value = left.pop(0)
        if kind == "s":
            return str(value).lower() if isinstance(value, bool) else str(value)
        if kind == "b":
            return f"{int(value):b}"
        return str(match[0] % (float(value) if kind in "fe" else int(value)))

    return _text(re.sub(r"%(?:\.\d+)?[sdfexXob%]", shown, str(text)))


# -- lists -----------------------------------------------------------------------------------------------------
def _sorted(items: Any) -> Any:
    return _truth(all(a <= b for a, b in pairwise(items)))


def _spread(values: Any) -> Any:
    return values[0] if len(values) == 1 and isinstance(values[0], list) else values


def _sum(items: Any) -> Any:
    total = items[0] if items else _number(0)
    for item in items[1:]:
        total = total + item
    return total


# -- quantities ------------------------------------------------------------------------------------------------
class Quantity:
    """An exact amount, as ``quantity('1Gi')`` makes it."""

    def __init__(self, amount: Fraction) -> None:
        self.amount = amount

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Quantity) and self.amount == other.amount

    def __hash__(self) -> int:
        return hash(self.amount)


def _quantity(text: str) -> Any:
    """An error is a value, too: what does not depend on it goes on (``x == '' || quantity(x)...``)."""
    try:
        return Quantity(parse(str(text)))
    except QuantityError:
        from celpy.evaluation import CELEvalError

        return CELEvalError(_NO_QUANTITY)


def _is_quantity(text: str) -> Any:
    try:
        parse(str(text))
    except QuantityError:
        return _truth(False)
    return _truth(True)


def _amount(value: Any) -> Fraction:
    return value.amount if isinstance(value, Quantity) else Fraction(int(value))


def _compare(a: Quantity, b: Quantity) -> Any:
    return _number((a.amount > b.amount) - (a.amount < b.amount))


def _passing_errors(function: Callable[..., Any]) -> Callable[..., Any]:
    def call(*arguments: Any) -> Any:
        return next((each for each in arguments if isinstance(each, Exception)), None) or function(*arguments)

    return call


_METHODS: dict[str, Callable[..., Any]] = {
    "string": lambda value: _text(str(value).lower() if type(value).__name__ == "BoolType" else value),
    "find": _find,
    "findAll": _find_all,
    "split": _split,
    "indexOf": _index_of,
    "lastIndexOf": _last_index_of,
    "substring": _substring,
    "replace": _replace,
    "lowerAscii": lambda text: _text(text.lower()),
    "upperAscii": lambda text: _text(text.upper()),
    "trim": lambda text: _text(text.strip()),
    "charAt": lambda text, at: _text(str(text)[int(at) : int(at) + 1]),
    "join": lambda items, by="": _text(str(by).join(str(item) for item in items)),
    "isSorted": _sorted,
    "sum": _sum,
    "min": min,
    "max": max,
    "quantity": _quantity,
    "isQuantity": _is_quantity,
    "isLessThan": lambda a, b: _truth(a.amount < b.amount),
    "isGreaterThan": lambda a, b: _truth(a.amount > b.amount),
    "compareTo": _compare,
    "add": lambda a, b: Quantity(a.amount + _amount(b)),
    "sub": lambda a, b: Quantity(a.amount - _amount(b)),
    "sign": lambda a: _number((a.amount > 0) - (a.amount < 0)),
    "isInteger": lambda a: _truth(a.amount.denominator == 1),
    "asInteger": lambda a: _number(int(a.amount)),
    "format": _format,
    "sets_contains": lambda all_, some: _truth(all(each in all_ for each in some)),
    "sets_equivalent": lambda a, b: _truth(all(each in b for each in a) and all(each in a for each in b)),
    "sets_intersects": lambda a, b: _truth(any(each in b for each in a)),
    "math_greatest": lambda *values: max(_spread(values)),
    "math_least": lambda *values: min(_spread(values)),
    "jsonpatch_escapeKey": lambda key: _text(key.replace("~", "~0").replace("/", "~1")),
    "math_abs": abs,
    "math_sign": lambda value: _number((value > 0) - (value < 0)),
}


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and type(value).__name__ != "BoolType"


def _equal(left: Any, right: Any) -> bool:
    """As cel-go compares at run time: numbers by their value, and what is of another type is another value."""
    if isinstance(left, list) and isinstance(right, list):
        return len(left) == len(right) and all(map(_equal, left, right))
    if isinstance(left, dict) and isinstance(right, dict):
        return left.keys() == right.keys() and all(_equal(left[key], right[key]) for key in left)
    if _is_number(left) and _is_number(right):
        whole = isinstance(left, int) and isinstance(right, int)
        return int(left) == int(right) if whole else float(left) == float(right)
    try:
        return bool(left == right)
    except TypeError:
        return False


def _among(one: Any, many: Any) -> Any:
    return _truth(any(_equal(one, each) for each in many))


def _logical(name: str) -> Callable[[Any, Any], Any]:
    """Of two errors the first, as cel-go has it: ``celpy`` makes one of both, twice as long with each that follows."""

    def asked(left: Any, right: Any) -> Any:
        from celpy import celtypes

        if isinstance(left, Exception) and isinstance(right, Exception):
            return left
        return getattr(celtypes, name)(left, right)

    return asked


FUNCTIONS: Mapping[str, Callable[..., Any]] = (
    {name: _passing_errors(each) for name, each in _METHODS.items()}
    | celnetwork.FUNCTIONS
    | {"_&&_": _logical("logical_and"), "_||_": _logical("logical_or")}
    | {
        "_==_": _passing_errors(lambda left, right: _truth(_equal(left, right))),
        "_!=_": _passing_errors(lambda left, right: _truth(not _equal(left, right))),
        "_in_": _passing_errors(_among),
    }
)
